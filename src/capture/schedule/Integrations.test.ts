import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { pendingOf } from "../../../test/conformance/StoreSamples.ts"
import { acme, startProcess } from "../../../test/support/capture/Capturing.ts"
import {
  allEvents,
  entries,
  erased,
  other,
  reasonOf,
  scenario,
  stateOf,
  streamOf
} from "../../../test/support/capture/Integrating.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { defineList, withLists } from "../../domain/DefinedList.ts"
import type { Hold } from "../../store/Records.ts"
import { Store, StoreError, Unavailable } from "../../store/Store.ts"
import * as StoreAdoption from "../rewrite/StoreAdoption.ts"
import type { IntegrationSettings } from "./Integrations.ts"

const holding: Omit<Hold, "id"> = {
  kind: "deletes",
  state: "open",
  reason: "all records deleted",
  paths: [],
  openedAt: start,
  decidedAt: null,
  released: 0,
  release: null,
  published: null
}

/** Model, id and version of each event, with its title. */
const eventsOf = (model: string) =>
  Effect.map(
    entries,
    (all) =>
      all.filter((entry) => entry.model === model).map(({ after, id, generation, version }) =>
        `${id} ${generation}.${version} ${after === null ? null : JSON.parse(after).title}`
      )
  )

describe("Integrations with candidates", () => {
  const hiring: IntegrationSettings = { ...acme, models: ["ats.application", "ats.candidate"] }
  const applying: IntegrationSettings = { ...acme, models: ["ats.application"] }
  const put = (api: Scripted.ScriptedApi, id: string, title: string, at: number) =>
    api.put(at, { id, candidate: { id: "c", title, changed_at: new Date(at).toISOString() } })

  it.effect("are backfilled when the model is added, not derived while it is removed, and brought up to date when it is added again", () =>
    scenario(function*(api) {
      put(api, "a", "1", start)
      const without = yield* startProcess({ declared: [applying] })
      yield* without.stop
      assert.deepStrictEqual(yield* eventsOf("ats.candidate"), [])
      const first = yield* startProcess({ declared: [hiring] })
      yield* first.stop
      assert.deepStrictEqual(yield* eventsOf("ats.candidate"), ["c 1.1 1"])
      const off = yield* startProcess({ declared: [applying] })
      put(api, "a", "2", start + 60_000)
      yield* TestClock.adjust("3 minutes")
      yield* off.stop
      assert.deepStrictEqual(yield* eventsOf("ats.candidate"), ["c 1.1 1"])
      const again = yield* startProcess({ declared: [hiring] })
      yield* again.stop
      assert.deepStrictEqual(yield* eventsOf("ats.candidate"), ["c 1.1 1", "c 1.2 2"])
    }))

  it.effect("are erased with their integration, and start at version 1 in its next generation (X19)", () =>
    scenario(function*(api) {
      put(api, "a", "1", start)
      const { add, remove } = yield* startProcess()
      yield* add(hiring)
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(yield* eventsOf("ats.candidate"), ["c 1.1 1"])
      yield* remove(hiring.id, "erase")
      yield* erased(hiring.id)
      assert.deepStrictEqual(yield* entries, [])
      yield* add(hiring)
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(yield* eventsOf("ats.candidate"), ["c 2.1 1"])
    }))

  it.effect("are published again in the later generation by an adoption (X11)", () =>
    scenario(function*(api) {
      put(api, "a", "1", start)
      const first = yield* startProcess({ declared: [hiring] })
      yield* first.stop
      const plan = yield* StoreAdoption.plan(0)
      yield* StoreAdoption.adopt(plan, () => null)
      assert.deepStrictEqual(yield* eventsOf("ats.candidate"), [`c ${plan.to}.1 1`])
    }))
})

describe("Integrations", () => {
  it.effect("an added integration is read within a second, and after a restart", () =>
    scenario(function*(api) {
      const first = yield* startProcess()
      yield* first.add(acme)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* allEvents, ["greenhouse:acme a 1.1", "greenhouse:acme b 1.1"])
      yield* first.stop
      api.put(start + 2000, { id: "a", name: "2" })
      yield* startProcess()
      yield* TestClock.adjust("2 minutes")
      assert.deepStrictEqual((yield* allEvents).at(-1), "greenhouse:acme a 1.2")
    }))

  it.effect("an addition whose response is lost, and whose streams cannot be saved at once, is read when the store is back (X10)", () =>
    scenario(function*() {
      const store = yield* Store
      const away = new StoreError({ reason: new Unavailable({ operation: "saveIntegration", cause: null }) })
      let isAway = false
      const { add } = yield* Effect.provideService(startProcess(), Store, {
        ...store,
        saveIntegration: (...saved) =>
          store.saveIntegration(...saved).pipe(
            Effect.andThen(Effect.sync(() => isAway = true)),
            Effect.andThen(Effect.fail(away))
          ),
        ensureStreams: (streams) => Effect.suspend(() => isAway ? Effect.fail(away) : store.ensureStreams(streams))
      })
      yield* Effect.flip(add(acme))
      yield* TestClock.adjust("1 minute")
      isAway = false
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* reasonOf(add(acme)), "present")
      assert.deepStrictEqual(yield* allEvents, ["greenhouse:acme a 1.1", "greenhouse:acme b 1.1"])
    }))

  it.effect("a start saves only integrations whose settings changed", () =>
    scenario(function*() {
      const store = yield* Store
      const saved: Array<string> = []
      const start = Effect.fnUntraced(function*(models: IntegrationSettings["models"]) {
        saved.length = 0
        const declared = [acme, { ...acme, id: "greenhouse:other", models }]
        const { stop } = yield* Effect.provideService(startProcess({ declared }), Store, {
          ...store,
          saveIntegration: (owner, integration, action) => {
            saved.push(integration.id)
            return store.saveIntegration(owner, integration, action)
          }
        })
        yield* stop
        return [...saved]
      })
      assert.deepStrictEqual(yield* start(["ats.tag"]), [acme.id, "greenhouse:other"])
      assert.deepStrictEqual(yield* start(["ats.tag"]), [])
      assert.deepStrictEqual(yield* start(["ats.tag", "ats.offer"]), ["greenhouse:other"])
    }))

  it.effect("a start with ten integrations costs as many statements for their streams as one with two", () =>
    scenario(function*() {
      const store = yield* Store
      const statements = Effect.fnUntraced(function*(integrations: number) {
        let count = 0
        const counted = <A, E>(effect: Effect.Effect<A, E>) => Effect.andThen(Effect.sync(() => count++), effect)
        const declared = Array.from({ length: integrations }, (_, index) => ({ ...acme, id: `greenhouse:${index}` }))
        const { stop } = yield* Effect.provideService(startProcess({ declared }), Store, {
          ...store,
          streams: counted(store.streams),
          streamsOf: (integration) => counted(store.streamsOf(integration)),
          ensureStreams: (streams) => counted(store.ensureStreams(streams))
        })
        yield* stop
        return count
      })
      const forTwo = yield* statements(2)
      assert.strictEqual(yield* statements(10), forTwo)
    }))

  it.effect("a removed integration is no longer read, even if a request hangs, and other integrations are not affected", () =>
    scenario(function*(api) {
      const { add, remove } = yield* startProcess({ declared: [other] })
      yield* add(acme)
      yield* TestClock.adjust("5 minutes")
      api.intercept = (request, answer) => request.integration === acme.id ? Effect.never : answer
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual((yield* remove(acme.id, "keep")).state, "removed")
      const before = api.requests.length
      yield* TestClock.adjust("10 minutes")
      const requested = api.requests.slice(before).map((request) => request.integration)
      assert.isAtLeast(requested.length, 8)
      assert.deepStrictEqual(new Set(requested), new Set([other.id]))
      assert.isTrue((yield* streamOf(acme.id))?.retired)
    }))

  it.effect("an integration that was removed with its data kept continues where it stopped", () =>
    scenario(function*(api) {
      const { add, remove } = yield* startProcess()
      yield* add(acme)
      yield* TestClock.adjust("5 minutes")
      yield* remove(acme.id, "keep")
      yield* TestClock.adjust("1 hour")
      api.put(start + 30 * 60_000, { id: "a", name: "2" })
      const before = api.requests.length
      yield* add(acme)
      yield* TestClock.adjust("1 second")
      assert.isNotNull(api.requests[before]?.updatedAfter, "no second backfill")
      assert.deepStrictEqual((yield* allEvents).slice(2), ["greenhouse:acme a 1.2"])
    }))

  it.effect("an integration that is added again in another account continues no list of the earlier account (P5)", () =>
    scenario(function*(api) {
      api.pageSize = 1
      api.intercept = ({ account, cursor }, answer) => account === "default" && cursor !== null ? Effect.never : answer
      const { add, remove } = yield* startProcess()
      yield* add(acme)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(api.requests.at(-1)?.cursor, "1")
      yield* remove(acme.id, "keep")
      yield* add({ ...acme, account: "moved" })
      yield* TestClock.adjust("1 minute")
      const first = api.requests.find(({ account }) => account === "moved")
      assert.deepStrictEqual([first?.cursor, first?.updatedAfter], [null, null])
      const stream = yield* streamOf(acme.id)
      assert.deepStrictEqual([stream?.account, stream?.phase], ["moved", "live"])
    }))

  it.effect("an integration that is added again after more than 14 days is swept before it is polled (W11)", () =>
    scenario(function*(api) {
      const { add, remove } = yield* startProcess()
      yield* add(acme)
      yield* TestClock.adjust("5 minutes")
      yield* remove(acme.id, "keep")
      yield* TestClock.adjust("15 days")
      const before = api.requests.length
      yield* add(acme)
      yield* TestClock.adjust("1 second")
      assert.isNull(api.requests[before]?.updatedAfter)
      assert.strictEqual((yield* entries).length, 2)
    }))

  it.effect("a hold that is approved while its integration is removed is released once the integration is added again (X7)", () =>
    scenario(function*() {
      const store = yield* Store
      const { add, remove } = yield* startProcess()
      yield* add(acme)
      yield* TestClock.adjust("1 minute")
      yield* remove(acme.id, "keep")
      const key = { integration: acme.id, model: "ats.tag" } as const
      const hold = yield* store.transact(
        yield* store.takeOwnership("capture"),
        key,
        (tx) =>
          Effect.tap(
            tx.openHold(holding),
            ({ id }) => tx.putPending([pendingOf("a", { status: "held", hold: id, deleted: true, reason: "flagged" })])
          )
      )
      yield* store.decide(hold.id, { state: "approving", release: { origin: null, silent: false } }, start)
      yield* TestClock.adjust("1 minute")
      const again = yield* startProcess()
      assert.strictEqual((yield* entries).length, 2)
      yield* again.add(acme)
      yield* TestClock.adjust("1 second")
      const released = (yield* entries)[2]
      assert.deepStrictEqual([released?.id, released?.kind, released?.version], ["a", "deleted", 2])
    }))

  it.effect("an integration that is no longer declared is removed with its data kept, and can be added or declared again", () =>
    scenario(function*() {
      const first = yield* startProcess({ declared: [acme] })
      yield* first.stop
      const lines: Array<string> = []
      const logger = Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))
      const second = yield* startProcess().pipe(
        Effect.provide(Logger.layer([logger])),
        Effect.provideService(References.MinimumLogLevel, "Warn")
      )
      assert.deepStrictEqual(lines, ["Warn integration is no longer declared, so it is not read"])
      assert.deepInclude(yield* stateOf(acme.id), { state: "removed", declared: false })
      assert.isTrue((yield* streamOf(acme.id))?.retired)
      yield* second.add(acme)
      yield* second.stop
      yield* startProcess({ declared: [{ ...acme, interval: Duration.minutes(7) }] })
      assert.deepInclude(yield* stateOf(acme.id), {
        state: "active",
        declared: true,
        interval: 7 * 60_000,
        generation: 1
      })
      assert.isFalse((yield* streamOf(acme.id))?.retired)
    }))

  it.effect("a stream whose list another process of the fleet defines is left as it is, with a warning, and continues in a process that knows the list", () =>
    scenario(function*(api) {
      const known = withLists([defineList("hris.employee", { path: "/hris/employees" })])
      const knowing = Effect.provideService(CurrentModels, known)
      const people: IntegrationSettings = { ...acme, models: ["hris.employee", "ats.tag"] }
      const first = yield* knowing(startProcess())
      yield* first.add(people)
      yield* TestClock.adjust("2 seconds")
      const before = yield* allEvents
      assert.lengthOf(before, 4)
      yield* first.stop
      const lines: Array<string> = []
      const logger = Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))
      const second = yield* startProcess().pipe(
        Effect.provide(Logger.layer([logger])),
        Effect.provideService(References.MinimumLogLevel, "Warn")
      )
      assert.deepStrictEqual(lines, [
        "Warn stream is no longer read: the configuration of this process defines no such list"
      ])
      assert.strictEqual(yield* reasonOf(second.add({ ...people, id: other.id })), "undefined")
      assert.isUndefined(yield* stateOf(other.id))
      api.vanish("a")
      yield* TestClock.adjust("20 hours")
      assert.deepInclude(yield* stateOf(people.id), { state: "active", models: people.models })
      const meanwhile = yield* allEvents
      assert.deepStrictEqual(meanwhile, [...before, `${people.id} a 1.2`], "ats.tag is read")
      yield* second.stop
      yield* knowing(startProcess())
      yield* TestClock.adjust("20 hours")
      assert.deepStrictEqual(yield* allEvents, [...meanwhile, `${people.id} a 1.2`])
    }))

  it.effect("an impossible command is refused and changes nothing, and a removed integration can still be erased", () =>
    scenario(function*() {
      const store = yield* Store
      const { add, remove } = yield* startProcess({ declared: [other] })
      assert.strictEqual(yield* reasonOf(add(other)), "declared")
      assert.strictEqual(yield* reasonOf(remove(other.id, "erase")), "declared")
      assert.strictEqual(yield* reasonOf(remove(acme.id, "keep")), "unknown")
      assert.deepStrictEqual(yield* store.auditLog(10), [])
      yield* add(acme)
      assert.strictEqual(yield* reasonOf(add(acme)), "present")
      yield* remove(acme.id, "keep")
      yield* remove(acme.id, "erase")
      yield* erased(acme.id)
      assert.strictEqual(yield* reasonOf(remove(acme.id, "erase")), "unknown")
      assert.deepStrictEqual(
        (yield* store.auditLog(10)).map(({ command, detail, target }) => [command, target, detail]),
        [
          ["integrations.remove", acme.id, "data erase"],
          ["integrations.remove", acme.id, "data keep"],
          ["integrations.add", acme.id, "account default; models ats.tag; backfill publish; generation 1"]
        ]
      )
    }))

  it.effect("`auto` reads the models that the catalog offers when the integration is added and at the start", () =>
    scenario(function*() {
      const first = yield* startProcess()
      yield* first.add({ ...acme, models: "auto" })
      yield* TestClock.adjust("1 second")
      const store = yield* Store
      assert.isAbove((yield* store.streams).length, 5)
      yield* first.stop
      yield* startProcess()
      assert.isFalse((yield* store.streams).some((state) => state.retired))
    }))
})
