/** Forgetting a person while other mechanisms read or rewrite the same records. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import {
  ann,
  contentOf,
  entries,
  forgetNow,
  integration,
  later,
  scenario,
  startProcess
} from "../../../test/support/capture/ForgettingWorld.ts"
import type { LogEntry } from "../../domain/ChangeEvent.ts"
import * as Processing from "../../domain/Processing.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import { relayReader } from "../../store/EventLog.ts"
import { Store, StoreError, Unavailable } from "../../store/Store.ts"
import * as StoreAdoption from "../rewrite/StoreAdoption.ts"
import { Capture } from "../schedule/Capture.ts"
import { layer } from "./Forgetting.ts"

/** Requests that ann is forgotten, as a process does that ends right after the commit. */
const requestOnly = Effect.fnUntraced(function*(process: Effect.Success<typeof startProcess>) {
  const store = yield* Store
  const at = later(3)
  yield* store.requestForgetting(
    process.capture.ownerOf(integration),
    { ...ann, state: "erasing", requestedAt: at, doneAt: null, progress: null },
    { at, command: "forget", target: "", detail: "" }
  )
  yield* process.stop
})

describe("forgetting a person", () => {
  it.effect("publishes deletes without the content before them, however soon they are read", () =>
    scenario(function*() {
      const deliveries = yield* Deliveries
      const got: Array<LogEntry> = []
      const read = Effect.map(entries, (all) => void got.push(...all.filter(({ reason }) => reason === "forgotten")))
      const process = yield* Effect.provideService(startProcess, Deliveries, {
        ...deliveries,
        purgeForgotten: (...purge) => Effect.andThen(read, deliveries.purgeForgotten(...purge))
      })
      yield* forgetNow(process, ann)
      assert.deepStrictEqual([...new Set(got.map(({ id }) => id))].sort(), ["a-ann", "c-ann", "o-ann"])
      for (const { before, changes } of got) assert.deepStrictEqual([before, changes], [null, "[]"])
    }))

  it.effect("is complete only when no running handler has one of their events in memory", () =>
    scenario(function*() {
      const deliveries = yield* Deliveries
      let running = 1
      const process = yield* Effect.provideService(startProcess, Deliveries, {
        ...deliveries,
        purgeForgotten: (...purge) => Effect.map(deliveries.purgeForgotten(...purge), (count) => count + running)
      })
      const requested = yield* Effect.forkChild(forgetNow(process, ann))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* Fiber.join(requested)).state, "erasing")
      const store = yield* Store
      const states = Effect.map(store.forgotten, (all) => all.map(({ state }) => state))
      assert.deepStrictEqual(yield* states, ["erasing"])
      running = 0
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* states, ["forgotten"])
    }))

  it.effect("whose request was interrupted is not published again when the store is adopted", () =>
    scenario(function*(world) {
      yield* requestOnly(yield* startProcess)
      const store = yield* Store
      const plan = yield* StoreAdoption.plan(1)
      yield* StoreAdoption.adopt(plan, ({ model }) => Processing.defaultProcessing(model))
      const published = yield* entries
      assert.isFalse(published.some(({ after }) => after?.includes("ann@people")))
      assert.deepStrictEqual(published.map(({ id, kind, version }) => [id, kind, version]).sort(), [
        ["a-ann", "created", 1],
        ["a-bob", "created", 1],
        ["c-bob", "created", 1],
        ["o-ann", "created", 1],
        ["o-bob", "created", 1]
      ])
      const before = published.length
      const process = yield* startProcess
      for (const model of ["ats.application", "ats.offer"] as const) {
        yield* process.capture.sweep({ integration, model })
      }
      assert.deepStrictEqual((yield* store.forgotten).map(({ state }) => state), ["forgotten"])
      assert.strictEqual((yield* entries).length, before)
      assert.strictEqual(world.inFiles("ann@people"), 0)
    }))

  it.effect("that an adoption left out is published once it is allowed again (world 884553071)", () =>
    scenario(function*() {
      const first = yield* startProcess
      // later polls do not show the application again
      yield* TestClock.adjust("20 minutes")
      yield* requestOnly(first)
      yield* StoreAdoption.adopt(yield* StoreAdoption.plan(1), ({ model }) => Processing.defaultProcessing(model))
      const process = yield* startProcess
      yield* process.allow(ann)
      yield* process.capture.sweep({ integration, model: "ats.application" })
      assert.strictEqual((yield* contentOf("ats.application", "a-ann")).candidate?.first_name, "ann")
    }))

  it.effect("does not publish a record again that repeats the person and is to be forgotten too (I11)", () =>
    scenario(function*() {
      const store = yield* Store
      const process = yield* startProcess
      const application = { integration, model: "ats.application", id: "a-ann" } as const
      yield* store.requestForgetting(
        process.capture.ownerOf(integration),
        { ...application, state: "erasing", requestedAt: later(3), doneAt: null, progress: null },
        { at: later(3), command: "forget", target: "", detail: "" }
      )
      yield* forgetNow(process, ann)
      const own = (yield* entries).filter(({ id }) => id === "a-ann")
      assert.deepStrictEqual(own.map(({ kind, reason, version }) => [kind, reason, version]), [[
        "deleted",
        "forgotten",
        2
      ]])
    }))

  it.effect("begins even if the response to the committed request is lost (X10)", () =>
    scenario(function*() {
      const store = yield* Store
      const lost = new StoreError({ reason: new Unavailable({ operation: "requestForgetting", cause: null }) })
      const process = yield* Effect.provideService(startProcess, Store, {
        ...store,
        requestForgetting: (...request) => Effect.andThen(store.requestForgetting(...request), Effect.fail(lost))
      })
      yield* Effect.flip(forgetNow(process, ann))
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual((yield* store.forgotten).map(({ state }) => state), ["forgotten"])
    }))

  it.effect("is removed once if two operators confirm the plan at the same moment, so a person who is allowed again stays", () =>
    scenario(function*() {
      const store = yield* Store
      const isPlanned = yield* Latch.make()
      let requests = 0
      let removals = 0
      const process = yield* Effect.provideService(startProcess, Store, {
        ...store,
        requestForgetting: (...request) =>
          Effect.suspend(() => ++requests === 2 ? isPlanned.open : isPlanned.await).pipe(
            Effect.andThen(store.requestForgetting(...request))
          ),
        endForgetting: (...end) => Effect.andThen(Effect.sync(() => removals++), store.endForgetting(...end))
      })
      const { hash } = yield* process.plan(ann)
      const both = [process.forget(ann, hash), process.forget(ann, hash)]
      const states = Effect.map(Effect.all(both, { concurrency: 2 }), (all) => all.map(({ state }) => state))
      assert.deepStrictEqual(yield* states, ["forgotten", "forgotten"])
      assert.strictEqual(removals, 1)
    }))

  it.effect("leaves no absence of a record that is forgotten while a request by id is about to confirm the absence (I11)", () =>
    scenario(function*({ applications }) {
      const store = yield* Store
      const process = yield* startProcess
      applications.vanish("a-ann")
      applications.intercept = (request, answer) =>
        request.ids === null ? answer : Effect.delay(Effect.succeed(answer), "30 seconds")
      const sweep = yield* Effect.forkChild(process.capture.sweep({ integration, model: "ats.application" }))
      yield* TestClock.adjust("10 seconds")
      yield* forgetNow(process, { integration, model: "ats.application", id: "a-ann" })
      assert.isNotNull(applications.requests.at(-1)!.ids)
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(sweep)
      assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
    }))

  it.effect("has its deletes published before the erasure of its integration, which waited for Kafka meanwhile (X19)", () =>
    scenario(function*() {
      const store = yield* Store
      const first = yield* startProcess
      const owner = first.capture.ownerOf(integration)
      const stored = yield* store.integration(integration)
      yield* store.saveIntegration(owner, { ...stored!, state: "erasing", generation: 2 }, null)
      yield* store.noteReaders([relayReader])
      yield* first.stop
      const process = yield* startProcess
      const before = (yield* store.logRange).newest
      assert.strictEqual((yield* forgetNow(process, ann)).state, "forgotten")
      const relay = yield* store.takeOwnership("relay")
      yield* store.saveReaderPosition(relay, relayReader, before)
      yield* TestClock.adjust("1 minute")
      const deletes = (yield* entries).filter(({ reason }) => reason === "forgotten")
      assert.deepStrictEqual(deletes.map(({ id }) => id).sort(), ["a-ann", "c-ann", "o-ann"])
      yield* store.saveReaderPosition(relay, relayReader, (yield* store.logRange).newest)
      yield* TestClock.adjust("1 minute")
      assert.isFalse((yield* entries).some(({ generation }) => generation === 1))
    }))

  it.effect("ends if the integration is erased while the records are searched", () =>
    scenario(function*() {
      const store = yield* Store
      const first = yield* startProcess
      yield* requestOnly(first)
      const owner = yield* store.takeOwnership("capture")
      let erased = false
      const findRows: typeof store.findRows = Effect.fnUntraced(function*(...search) {
        const found = yield* store.findRows(...search)
        if (!erased) {
          for (const model of ["ats.application", "ats.candidate", "ats.offer"] as const) {
            yield* store.eraseStream(owner, { integration, model }, Number.MAX_SAFE_INTEGER)
          }
        }
        erased = true
        return found
      })
      const scope = yield* Effect.scope
      const runFor = (_: string, removal: Effect.Effect<void>) => Effect.asVoid(Effect.forkIn(removal, scope))
      const capture = { ...first.capture, runFor }
      yield* Layer.build(layer({ processing: Processing.defaultProcessing })).pipe(
        Effect.provideService(Store, { ...store, findRows }),
        Effect.provideService(Capture, capture)
      )
      const states = Effect.map(store.forgotten, (all) => all.map(({ state }) => state))
      const end = yield* Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), states), {
        until: ([state]) => state === "forgotten",
        times: 100
      })
      assert.isTrue(erased)
      assert.deepStrictEqual(end, ["forgotten"])
    }))
})
