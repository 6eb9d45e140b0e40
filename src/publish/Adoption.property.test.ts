/**
 * Restores stores from older copies at random moments of random histories: a consumer that follows docs/events.md ends with
 * the API's current content, and no version or event id ever has two contents. The consumer shares no code with the relay.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { owning } from "../../test/support/capture/Rig.ts"
import * as Scripted from "../../test/support/capture/ScriptedApi.ts"
import * as MemorySink from "../../test/support/publish/MemorySink.ts"
import { start, whileTimePasses } from "../../test/support/publish/Relaying.ts"
import { runs } from "../../test/support/Runs.ts"
import { temporaryFolder } from "../../test/support/TemporaryFolder.ts"
import { poll } from "../capture/read/Poll.ts"
import { sweep } from "../capture/read/Sweep.ts"
import * as StoreAdoption from "../capture/rewrite/StoreAdoption.ts"
import type { Stream } from "../capture/Stream.ts"
import { initialState, type StreamSettings } from "../capture/StreamLifecycle.ts"
import * as Guard from "../domain/Guard.ts"
import * as Processing from "../domain/Processing.ts"
import type { Source } from "../source/Source.ts"
import * as Sqlite from "../store/sqlite/Sqlite.ts"
import { Store } from "../store/Store.ts"
import type { StreamProgress } from "./Sink.ts"

const id = Schema.Literals(["a", "b", "c", "d", "e"])
const Step = Schema.Union([
  Schema.TaggedStruct("put", { id, title: Schema.Literals(["x", "y", "z"]) }),
  Schema.TaggedStruct("flag", { id }),
  Schema.TaggedStruct("poll", {}),
  Schema.TaggedStruct("publish", {})
])
type Step = typeof Step.Type
const Steps = Schema.Array(Step)

const key = { integration: "greenhouse:acme", model: "ats.application" } as const
const settings: StreamSettings = {
  ...key,
  account: "default",
  interval: Duration.minutes(1),
  sweepInterval: Duration.hours(6)
}
const minOverlap = Duration.minutes(5)

/** Enough unchanged records that no wave of deletes triggers the guard. */
const steady = Array.from({ length: 20 }, (_, index) => `steady-${index}`)

/** A progress report; `after`: how many events had been published before it. */
interface ProgressReport extends StreamProgress {
  readonly after: number
}

/** The API, the store's directory and the broker. */
const makeScene = Effect.gen(function*() {
  const directory = yield* temporaryFolder
  const api = Scripted.make()
  const broker = new MemorySink.MemoryBroker()
  const reports: Array<ProgressReport> = []
  const store = Sqlite.layer({ file: join(directory, "rollcall.db") })

  /** Runs `body` with an open store, then closes the store. */
  const withStore = <A, E>(body: Effect.Effect<A, E, Store | Scope.Scope>) =>
    Effect.scoped(Effect.provide(body, Layer.fresh(store)))

  const read = (run: (stream: Stream) => Effect.Effect<unknown, unknown, Store | Source>) =>
    withStore(
      Effect.gen(function*() {
        const { takeOwnership, ensureStreams, identity } = yield* Store
        const owner = yield* takeOwnership("capture")
        yield* StoreAdoption.finish(owning(owner), identity.generation, () => null)
        yield* ensureStreams([{ ...initialState(settings, minOverlap), generation: identity.generation }])
        yield* run({
          key,
          settings,
          processing: Processing.defaultProcessing(key.model),
          derivedProcessing: null,
          minOverlap,
          confirmInterval: minOverlap,
          guard: Guard.defaultThresholds,
          owner
        })
      }).pipe(Effect.provide(Scripted.layer(api)))
    )

  /** Publishes the whole log; returns "stopped" if the relay stops. */
  const publish = withStore(Effect.gen(function*() {
    const relay = yield* start(broker, {
      sink: (sink) => ({
        publishProgress: (identity, streams) =>
          Effect.andThen(
            sink.publishProgress(identity, streams),
            Effect.sync(() => reports.push(...streams.map((stream) => ({ ...stream, after: broker.events.length }))))
          )
      })
    })
    const { newest } = yield* (yield* Store).logRange
    const { state } = yield* whileTimePasses(relay.awaitPosition(newest))
    yield* relay.end
    return state
  }))

  const now = Clock.currentTimeMillis
  const act = Effect.fnUntraced(function*(step: Step) {
    yield* TestClock.adjust("1 minute")
    switch (step._tag) {
      case "put":
        return api.put(yield* now, { id: step.id, title: step.title })
      case "flag":
        return api.rows.has(step.id) ? api.flag(yield* now, step.id) : undefined
      case "poll":
        return yield* read(poll)
      case "publish":
        return yield* publish
    }
  })
  const copy = (from: string, to: string) => Effect.sync(() => copyFileSync(join(directory, from), join(directory, to)))
  return {
    api,
    broker,
    reports,
    act,
    publish,
    poll: read(poll),
    backfill: read((stream) => sweep(stream, Effect.succeed(false))),
    backUp: copy("rollcall.db", "backup.db"),
    restore: copy("backup.db", "rollcall.db"),
    adopt: withStore(Effect.flatMap(StoreAdoption.plan(0), (plan) => StoreAdoption.adopt(plan, () => null)))
  }
})

/**
 * A consumer as in docs/events.md: the newer (generation, version) wins, and progress of a later generation removes records
 * of earlier generations.
 */
const consume = (events: ReadonlyArray<MemorySink.MemoryEvent>, reports: ReadonlyArray<ProgressReport>) => {
  const records = new Map<
    string,
    { readonly generation: number; readonly version: number; readonly after: string | null }
  >()
  const removeOlder = ({ generation }: ProgressReport) => {
    for (const [key, record] of records) if (record.generation < generation) records.delete(key)
  }
  events.forEach(({ after, key, generation, version }, index) => {
    for (const report of reports) if (report.after === index) removeOlder(report)
    const known = records.get(key)
    const newer = known === undefined || generation > known.generation ||
      (generation === known.generation && version > known.version)
    if (newer) records.set(key, { generation, version, after })
  })
  for (const report of reports) if (report.after === events.length) removeOlder(report)
  return new Map([...records].flatMap(([key, { after }]) => after === null ? [] : [[key, JSON.parse(after).title]]))
}

/** I4: each event id and each (record, generation, version) has one content; the versions of a generation are 1, 2, 3 …. */
const assertIdentities = (events: ReadonlyArray<MemorySink.MemoryEvent>) => {
  const contents = new Map<string, string>()
  const versions = new Map<string, number>()
  for (const { after, eventId, key, kind, generation, version } of events) {
    const content = JSON.stringify([key, generation, version, kind, after])
    for (const name of [eventId, `${key} ${generation} ${version}`]) {
      assert.strictEqual(contents.get(name) ?? content, content)
      contents.set(name, content)
    }
    const before = versions.get(`${key} ${generation}`) ?? 0
    assert.isAtMost(version, before + 1, `${key} lacks a version`)
    versions.set(`${key} ${generation}`, Math.max(before, version))
  }
}

describe("a store restored from an older copy", () => {
  it.effect.prop(
    "stops the relay, and after `store adopt` every consumer ends with the API's current content (X11, X14, X18)",
    [Steps, Steps, Steps, Steps, Schema.Boolean],
    ([first, lost, unseen, last, twice]) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(Date.parse("2026-03-01T12:00:00Z"))
        const scene = yield* makeScene
        for (const id of ["a", "b", "c", ...steady]) scene.api.put(yield* Clock.currentTimeMillis, { id, title: "x" })
        yield* scene.backfill
        yield* scene.publish
        for (const step of first) yield* scene.act(step)
        yield* scene.backUp
        // Only the lost store knows this record: it is deleted before the restored store reads.
        scene.api.put(yield* Clock.currentTimeMillis, { id: "ghost", title: "x" })
        for (const step of lost) yield* scene.act(step)
        yield* scene.poll
        yield* scene.publish
        scene.api.vanish("ghost")

        for (let time = 0; time < (twice ? 2 : 1); time++) {
          yield* scene.restore
          // Nothing is published here, so the restored store's events get positions that the lost store has published.
          for (const step of unseen) yield* step._tag === "publish" ? Effect.void : scene.act(step)
          assert.strictEqual(yield* scene.publish, "stopped")
          yield* scene.adopt
          for (const step of last) yield* scene.act(step)
          yield* TestClock.adjust("1 minute")
        }
        yield* scene.poll
        assert.strictEqual(yield* scene.publish, "running")

        const truth = new Map(
          [...scene.api.rows.values()].flatMap(({ row }) =>
            row["remote_deleted_at"] === null
              ? [[`greenhouse:acme/ats.application/${row.id}`, row["title"]] as const]
              : []
          )
        )
        assertIdentities(scene.broker.events)
        assert.deepStrictEqual([...consume(scene.broker.events, scene.reports)].sort(), [...truth].sort())
        assert.deepStrictEqual([...scene.broker.state.keys()].sort(), [...truth.keys()].sort())
      }).pipe(Effect.scoped, Effect.provideService(References.MinimumLogLevel, "None")),
    { arbitrary: { runs: runs(8), size: 12 } }
  )
})
