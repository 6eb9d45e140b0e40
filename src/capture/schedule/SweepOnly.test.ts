/** A defined list whose `updated_after` cannot be trusted: its stream is never polled. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { pendingOf } from "../../../test/conformance/StoreSamples.ts"
import { acme, startProcess } from "../../../test/support/capture/Capturing.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { defineList, withLists } from "../../domain/DefinedList.ts"
import * as Processing from "../../domain/Processing.ts"
import { completeTo } from "../../domain/Watermark.ts"
import { type Source, Transient } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"
import type { IntegrationsOptions } from "./Integrations.ts"

const models = withLists([defineList("ats.job", { path: "/ats/jobs", sweepOnly: true })])
const jobs = { integration: acme.id, model: "ats.job" } as const

const options: Partial<IntegrationsOptions> = {
  declared: [{ ...acme, models: ["ats.job"] }],
  processing: (model) => Processing.defaultProcessing(model, models)
}

/** The list has five pages, and a process reads it. */
const scenario = (
  test: (api: Scripted.ScriptedApi) => Effect.fn.Return<void, unknown, Store | Source | Scope.Scope>
) => {
  const api = Scripted.make()
  api.pageSize = 1
  return Effect.gen(function*() {
    yield* TestClock.setTime(start)
    for (const id of ["a", "b", "c", "d", "e"]) api.put(start - 60_000, { id, name: "1" })
    yield* startProcess(options)
    yield* test(api)
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.merge(Scripted.layer(api), MemoryStore.layer())),
    Effect.provideService(CurrentModels, models),
    Effect.provideService(References.MinimumLogLevel, "None")
  )
}

const state = Effect.flatMap(Store, (store) => Effect.map(store.stream(jobs), (found) => found!))
const published = Effect.map(
  Effect.flatMap(Store, (store) => store.readLog({ after: 0, limit: 1000 })),
  (all) => all.map(({ id, kind, version }) => `${id} ${version} ${kind}`)
)
/** How many times the list was read from its first page. */
const sweeps = ({ requests }: Scripted.ScriptedApi) =>
  requests.filter(({ cursor, ids }) => cursor === null && ids === null).length

describe("a list that is only swept", () => {
  it.effect("is read every ten intervals, without updated_after, and is live after its backfill", () =>
    scenario(function*(api) {
      assert.strictEqual((yield* state).phase, "live")
      assert.strictEqual(sweeps(api), 1)
      // a record may have moved in front of the cursor
      assert.isNull(completeTo(yield* state))
      yield* TestClock.adjust("60 minutes")
      assert.isTrue(api.requests.every(({ updatedAfter }) => updatedAfter === null))
      // 10 % jitter
      assert.include([6, 7], sweeps(api))
      assert.isAtLeast(completeTo(yield* state) ?? 0, start + 40 * 60_000 - 5 * 60_000)
    }))

  it.effect("publishes changes that updated_after does not return, and deletes that two requests by id confirm", () =>
    scenario(function*(api) {
      api.put(start, { id: "b", name: "2" }, { silent: true })
      api.vanish("c")
      yield* TestClock.adjust("15 minutes")
      assert.deepStrictEqual((yield* published).slice(5), ["b 2 updated"])
      yield* TestClock.adjust("15 minutes")
      assert.deepStrictEqual((yield* published).slice(6), ["c 2 deleted"])
      assert.isTrue(api.requests.some(({ ids }) => ids?.includes("c")))
    }))

  it.effect("keeps its watermark after a sweep that may have skipped records, and moves it with the next one", () =>
    scenario(function*(api) {
      const { watermark } = yield* state
      let changes = 0
      const changed_at = new Date(start + 60 * 60_000).toISOString()
      api.meanwhile = ({ cursor }) => {
        if (cursor === "2") api.put(start, { id: "e", name: String(++changes), changed_at })
      }
      yield* TestClock.adjust("12 minutes")
      assert.strictEqual(sweeps(api), 2)
      assert.strictEqual((yield* state).watermark, watermark)
      yield* TestClock.adjust("11 minutes")
      assert.isAbove((yield* state).watermark ?? 0, watermark ?? 0)
    }))

  it.effect("does not take a new record for late that a sweep skipped because the list shifted", () =>
    scenario(function*(api) {
      const { overlap } = yield* state
      yield* TestClock.adjust("5 minutes")
      api.put(start + 5 * 60_000, { id: "f", name: "1" })
      const changed_at = new Date(start + 60 * 60_000).toISOString()
      api.meanwhile = ({ cursor }) => {
        if (cursor !== "5") return
        api.meanwhile = () => {}
        api.vanish("a")
        api.put(start, { id: "a", name: "2", changed_at })
      }
      yield* TestClock.adjust("7 minutes")
      assert.deepStrictEqual((yield* published).slice(5), ["a 2 updated"])
      yield* TestClock.adjust("11 minutes")
      assert.deepStrictEqual((yield* published).slice(6), ["f 1 created"])
      assert.strictEqual((yield* state).overlap, overlap)
    }))

  it.effect("is still read every ten intervals while the requests by id fail, and publishes no delete", () =>
    scenario(function*(api) {
      api.vanish("c")
      api.intercept = ({ ids }, answer) =>
        ids === null ? answer : Scripted.refuse(new Transient({ code: null, message: "500" }))
      yield* TestClock.adjust("15 minutes")
      api.put(start + 15 * 60_000, { id: "b", name: "2" })
      yield* TestClock.adjust("25 minutes")
      assert.deepStrictEqual((yield* published).slice(5), ["b 2 updated"])
    }))

  it.effect("publishes what a poll had staged before the list became one that is only swept", () =>
    scenario(function*(api) {
      const store = yield* Store
      const row = pendingOf("c", { status: "staged", origin: "poll", runId: 1, deleted: true, reason: "flagged" })
      yield* store.transact(yield* store.takeOwnership("capture"), jobs, (tx) => tx.putPending([row]))
      yield* startProcess(options)
      api.vanish("c")
      yield* TestClock.adjust("25 minutes")
      assert.deepStrictEqual((yield* published).slice(5), ["c 2 deleted"])
    }))
})
