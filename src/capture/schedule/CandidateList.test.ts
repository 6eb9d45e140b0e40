/** `ats.candidate` as a list of the API, before and after it is derived from applications. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { pendingOf } from "../../../test/conformance/StoreSamples.ts"
import { acme, settings as captureOptions, startProcess } from "../../../test/support/capture/Capturing.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { builtInModels, CurrentModels } from "../../domain/BuiltInModels.ts"
import type { LogEntry } from "../../domain/ChangeEvent.ts"
import { defineList, withLists } from "../../domain/DefinedList.ts"
import type { Models } from "../../domain/Model.ts"
import * as Processing from "../../domain/Processing.ts"
import { completeTo } from "../../domain/Watermark.ts"
import type { Source } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"
import { newRun } from "../StreamLifecycle.ts"
import { Capture, layer as captureLayer } from "./Capture.ts"

const withList = withLists([defineList("ats.candidate", { path: "/ats/candidates" })])
const candidates = { integration: acme.id, model: "ats.candidate" } as const
const hiring = { ...acme, models: ["ats.application", "ats.candidate"] } as const

interface World {
  readonly applications: Scripted.ScriptedApi
  readonly listed: Scripted.ScriptedApi
}

const minutes = (count: number): number => start + count * 60_000
/** A candidate that was changed `at` minutes after the start. */
const candidate = (id: string, title: string, at = 0) => ({
  id,
  remote_id: `r-${id}`,
  title,
  email_addresses: [{ email: "a@b.c" }, { email: "d@e.f" }],
  tags: [],
  remote_created_at: "2020-01-01T00:00:00.000Z",
  remote_deleted_at: null,
  changed_at: new Date(minutes(at)).toISOString()
})
type Candidate = ReturnType<typeof candidate>

const apply = ({ applications }: World, id: string, who: Candidate, at = 0) =>
  applications.put(minutes(at), { id, candidate: who })
const list = ({ listed }: World, who: Candidate, at = 0) => listed.put(minutes(at), who)

const scenario = (test: (world: World) => Effect.fn.Return<void, unknown, Store | Source | Scope.Scope>) => {
  const world = { applications: Scripted.make(), listed: Scripted.make() }
  const api = Scripted.layerOf({ "ats.application": world.applications, "ats.candidate": world.listed })
  return TestClock.setTime(start).pipe(
    Effect.andThen(Effect.gen(() => test(world))),
    Effect.scoped,
    Effect.provide(Layer.merge(api, MemoryStore.layer())),
    Effect.provideService(References.MinimumLogLevel, "None")
  )
}

/** A process that reads applications, and candidates as `models` says, for this many minutes. */
const run = Effect.fnUntraced(function*(models: Models, lasts: number) {
  const { stop } = yield* startProcess({
    declared: [hiring],
    processing: (model) => Processing.defaultProcessing(model, models)
  }).pipe(Effect.provideService(CurrentModels, models))
  yield* TestClock.adjust(`${lasts} minutes`)
  yield* stop
}, (effect, models) => Effect.provideService(effect, CurrentModels, models))

const events = Effect.map(
  Effect.flatMap(Store, (store) => store.readLog({ after: 0, limit: 1000 })),
  (all) => all.filter(({ model }) => model === "ats.candidate")
)
const titleOf = ({ after, reason }: LogEntry) => after === null ? reason : JSON.parse(after).title
/** Id, version, kind, and title or reason of each event of a candidate. */
const published = Effect.map(events, (all) => all.map((one) => `${one.id} ${one.version} ${one.kind} ${titleOf(one)}`))
const state = Effect.flatMap(Store, (store) => Effect.map(store.stream(candidates), (found) => found!))

describe("ats.candidate as a list", () => {
  it.effect("continues the records that were derived before: an event only for what differs, and none from applications", () =>
    scenario(function*(world) {
      apply(world, "a", candidate("same", "1"))
      apply(world, "b", candidate("other", "1"))
      yield* run(builtInModels, 5)
      assert.deepStrictEqual(yield* published, ["same 1 created 1", "other 1 created 1"])

      list(world, { ...candidate("same", "1"), email_addresses: candidate("same", "1").email_addresses.toReversed() })
      list(world, candidate("other", "2", 1), 1)
      list(world, candidate("new", "1"))
      const lines: Array<unknown> = []
      const logger = Logger.make<unknown, void>(({ fiber }) =>
        void lines.push(fiber.getRef(References.CurrentLogAnnotations)["why"])
      )
      yield* run(withList, 5).pipe(
        Effect.provide(Logger.layer([logger])),
        Effect.provideService(References.MinimumLogLevel, "Info")
      )
      const changed = ["other 2 updated 2", "new 1 created 1"]
      assert.deepStrictEqual((yield* published).slice(2), changed)
      assert.strictEqual((yield* events).at(-1)?.origin, "backfill")
      assert.strictEqual((yield* state).phase, "live")
      assert.include(lines, "it was derived, and is a list now")

      apply(world, "a", candidate("same", "from the application", 11), 11)
      list(world, candidate("new", "2", 11), 11)
      yield* run(withList, 5)
      assert.deepStrictEqual((yield* published).slice(4), ["new 2 updated 2"])
    }))

  it.effect("finds the delete of a candidate that was derived by a late run of the applications", () =>
    scenario(function*(world) {
      for (const id of ["a", "b", "c"]) apply(world, id, candidate(`of ${id}`, "1"))
      yield* run(builtInModels, 120)
      apply(world, "a", candidate("of a", "2", 121), 121)
      yield* run(builtInModels, 5)
      for (const id of ["b", "c"]) list(world, candidate(`of ${id}`, "1"))
      const before = (yield* published).length
      yield* run(withList, 30)
      assert.deepStrictEqual((yield* published).slice(before), ["of a 3 deleted absent"])
    }))

  it.effect("finds the delete of a candidate, even if the process ended before it derived the candidates again", () =>
    scenario(function*(world) {
      for (const id of ["a", "b", "c"]) apply(world, id, candidate(`of ${id}`, "1"))
      yield* run(builtInModels, 120)
      apply(world, "a", candidate("of a", "2", 121), 121)
      yield* run(builtInModels, 5)
      // the stream is to be derived again, and nothing runs
      const { integration, ...settings } = { ...acme, integration: acme.id, model: "ats.application" } as const
      yield* Effect.flatMap(Capture, ({ assign }) =>
        assign(
          new Map([[integration, [{
            ...settings,
            integration,
            backfill: "fill",
            derivedProcessing: Processing.defaultProcessing("ats.candidate")
          }]]])
        )).pipe(Effect.provide(captureLayer(captureOptions)))
      assert.isNull((yield* state).backfilledAt)
      for (const id of ["b", "c"]) list(world, candidate(`of ${id}`, "1"))
      const before = (yield* published).length
      yield* run(withList, 30)
      assert.deepStrictEqual((yield* published).slice(before), ["of a 3 deleted absent"])
    }))

  it.effect("is never reported as less complete than the derived candidates were", () =>
    scenario(function*(world) {
      apply(world, "a", candidate("c", "1"))
      list(world, candidate("c", "1"))
      yield* run(builtInModels, 30)
      const store = yield* Store
      const source = yield* store.stream({ ...candidates, model: "ats.application" })
      const reported = completeTo(source!)!
      // the changes of the list become visible late
      const owner = yield* store.takeOwnership("capture")
      yield* store.transact(owner, candidates, (tx) => tx.saveState({ ...tx.state, overlap: 3_600_000 }))
      yield* run(withList, 5)
      assert.isAtLeast(completeTo(yield* state)!, reported)
    }))

  it.effect("is read from its first page, even if the derivation was not complete", () =>
    scenario(function*(world) {
      apply(world, "a", candidate("c", "1"))
      yield* run(builtInModels, 1)
      const store = yield* Store
      const owner = yield* store.takeOwnership("capture")
      yield* store.transact(owner, candidates, (tx) =>
        tx.saveState({
          ...tx.state,
          phase: "backfilling",
          backfilledAt: null,
          sweep: {
            ...newRun(tx.state, "sweep", { updatedAfter: null, startedAt: start, backfill: true }),
            cursor: "a"
          }
        }))
      list(world, candidate("c", "1"))
      yield* run(withList, 2)
      assert.isNull(world.listed.requests[0]?.cursor)
      assert.strictEqual((yield* state).phase, "live")
      assert.deepStrictEqual(yield* published, ["c 1 created 1"])
    }))

  it.effect("on a new store, is the only source of candidates", () =>
    scenario(function*(world) {
      apply(world, "a", candidate("c", "in the application"))
      apply(world, "b", candidate("d", "in the application"))
      list(world, candidate("c", "in the list"))
      yield* run(withList, 5)
      assert.deepStrictEqual(yield* published, ["c 1 created in the list"])
    }))

  it.effect("leaves the store with the applications of each candidate", () =>
    scenario(function*(world) {
      for (const id of ["a", "b"]) apply(world, id, candidate("c", "1"))
      yield* run(withList, 5)
      apply(world, "a", candidate("d", "1", 6), 6)
      world.applications.flag(minutes(6), "b")
      yield* run(withList, 5)
      const store = yield* Store
      const query = { changed: ["a", "b"], copies: [], limit: 10 }
      const { before } = yield* store.transact(
        yield* store.takeOwnership("capture"),
        { ...candidates, model: "ats.application" },
        (tx) => tx.sources(candidates.model, query)
      )
      assert.deepStrictEqual([...before].sort(), [["a", "d"], ["b", "c"]])
    }))

  it.effect("that is removed again is derived again, with no event for a candidate that did not change", () =>
    scenario(function*(world) {
      apply(world, "a", candidate("same", "1"))
      apply(world, "b", candidate("other", "2", 2))
      list(world, candidate("same", "1"))
      list(world, candidate("other", "1"))
      list(world, candidate("without application", "1"))
      yield* run(withList, 5)
      const before = yield* published
      assert.strictEqual(before.length, 3)

      const store = yield* Store
      const hold = yield* store.transact(yield* store.takeOwnership("capture"), candidates, (tx) =>
        Effect.tap(
          tx.openHold({
            kind: "deletes",
            state: "open",
            reason: "all records deleted",
            paths: [],
            openedAt: start,
            decidedAt: null,
            released: 0,
            release: null,
            published: null
          }),
          ({ id }) => tx.putPending([pendingOf("same", { status: "held", hold: id, deleted: true, reason: "flagged" })])
        ))
      const requests = world.listed.requests.length
      yield* run(builtInModels, 5)
      assert.deepStrictEqual((yield* published).slice(3), ["other 2 updated 2"])
      assert.strictEqual(world.listed.requests.length, requests)
      assert.deepStrictEqual(yield* store.pendingRows({ key: candidates, limit: 10 }), [])
      assert.strictEqual((yield* store.hold(hold.id))?.state, "canceled")

      apply(world, "a", candidate("same", "3", 11), 11)
      yield* run(builtInModels, 5)
      assert.deepStrictEqual((yield* published).slice(4), ["same 2 updated 3"])

      list(world, candidate("same", "3", 11), 11)
      list(world, candidate("other", "2", 2), 2)
      yield* run(withList, 5)
      assert.strictEqual((yield* published).length, 5)
    }))
})
