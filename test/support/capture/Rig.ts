/** One stream over a scripted list, a real store in memory and virtual time. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import { TestClock } from "effect/testing"
import type { WriteBody, WriteName, WriteParams } from "../../../src/api/Writes.ts"
import { releaseApprovedHolds } from "../../../src/capture/guard/ApprovedHolds.ts"
import { reconfirmAbsent } from "../../../src/capture/read/Absence.ts"
import { poll } from "../../../src/capture/read/Poll.ts"
import { sweep } from "../../../src/capture/read/Sweep.ts"
import type { Ownership, Stream } from "../../../src/capture/Stream.ts"
import { initialState, type StreamSettings } from "../../../src/capture/StreamLifecycle.ts"
import type { ReadModel } from "../../../src/domain/BuiltInModels.ts"
import { type Author, expectationsOf } from "../../../src/domain/Expectation.ts"
import * as Guard from "../../../src/domain/Guard.ts"
import type { Model } from "../../../src/domain/Model.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import type { Source } from "../../../src/source/Source.ts"
import type { ReleaseMode } from "../../../src/store/Records.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import * as ExpectationTable from "../../../src/store/sql/stream/ExpectationTable.ts"
import type * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import type { Owner } from "../../../src/store/State.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemoryStore from "../store/MemoryStore.ts"
import * as Scripted from "./ScriptedApi.ts"

/** All streams are owned by this owner. */
export const owning = (owner: Owner): Ownership => ({ ownerOf: () => owner, owns: () => true })

export const confirmInterval = Duration.minutes(10)

export const start = Date.parse("2026-03-01T12:00:00Z")

/** Approves the hold like an operator, and releases it like the stream's owner. */
const approving = (stream: Stream) =>
  Effect.fnUntraced(function*(hold: number, release: Partial<ReleaseMode> = {}) {
    const store = yield* Store
    const now = yield* Clock.currentTimeMillis
    yield* store.decide(hold, { state: "approving", release: { origin: null, silent: false, ...release } }, now)
    yield* releaseApprovedHolds(stream)
  })

const makeRig = Effect.fnUntraced(function*(
  api: Scripted.ScriptedApi,
  model: ReadModel,
  options: {
    readonly processing?: Processing.Processing
    readonly guard?: Guard.Thresholds
    readonly backfill?: "fill"
    readonly derivedProcessing?: Processing.Processing
  }
) {
  yield* TestClock.setTime(start)
  const store = yield* Store
  const sql = yield* SqlClient
  const expectations = ExpectationTable.make(sql)
  let writes = 0
  const settings: StreamSettings = {
    integration: "greenhouse:acme",
    model,
    account: "default",
    interval: Duration.minutes(1),
    sweepInterval: Duration.hours(6),
    backfill: options.backfill ?? "publish"
  }
  const { derivedProcessing = null } = options
  const rows = derivedProcessing === null ? [settings] : [settings, { ...settings, model: derivedProcessing.model }]
  yield* store.ensureStreams(rows.map((row) => initialState(row, Duration.minutes(5))))
  const stream: Stream = {
    key: { integration: settings.integration, model },
    settings,
    processing: options.processing ?? Processing.defaultProcessing(model),
    derivedProcessing,
    minOverlap: Duration.minutes(5),
    confirmInterval,
    guard: options.guard ?? Guard.defaultThresholds,
    owner: yield* store.takeOwnership("capture")
  }
  const events = store.readLog({ after: 0, limit: 10_000 })
  /** Puts a row that changes now; `silent`: on a path that `updated_after` does not react to. */
  const put = (row: Scripted.Row, options?: Parameters<Scripted.ScriptedApi["put"]>[2]) =>
    Effect.map(Clock.currentTimeMillis, (now) => api.put(now + api.skew, row, options))
  const sweepAll = Effect.asVoid(sweep(stream, Effect.succeed(false)))
  /** Puts these rows, and sweeps. */
  const fill = (...rows: ReadonlyArray<Scripted.Row>) =>
    Effect.andThen(Effect.forEach(rows, (row) => put(row)), sweepAll)
  return {
    api,
    stream,
    put,
    flag: (id: string) => Effect.map(Clock.currentTimeMillis, (now) => api.flag(now + api.skew, id)),
    poll: poll(stream),
    sweep: sweepAll,
    fill,
    /** Like `fill`, and waits for a minute. */
    backfill: (...rows: ReadonlyArray<Scripted.Row>) => Effect.andThen(fill(...rows), TestClock.adjust("1 minute")),
    /** Puts these rows, and polls. */
    change: (...rows: ReadonlyArray<Scripted.Row>) =>
      Effect.andThen(Effect.forEach(rows, (row) => put(row)), poll(stream)),
    confirm: reconfirmAbsent(stream),
    events,
    /** `created 1`, `updated 2` … of one record. */
    kinds: (id: string) =>
      Effect.map(
        events,
        (entries) => entries.filter((entry) => entry.id === id).map((entry) => `${entry.kind} ${entry.version}`)
      ),
    state: Effect.map(store.stream(stream.key), (state) => state!),
    /** Status of the pending rows by id. */
    pending: Effect.map(
      store.pendingRows({ key: stream.key, limit: 10_000 }),
      (rows) => Object.fromEntries(rows.map((row) => [row.id, row.status]))
    ),
    /** Number of confirmations of each absent record. */
    confirmations: Effect.map(
      store.pendingRows({ key: stream.key, limit: 1000 }),
      (rows) =>
        Object.fromEntries(
          rows.flatMap(({ confirmations, id, status }) => status === "absent" ? [[id, confirmations]] : [])
        )
    ),
    /** Undecided holds, newest first. */
    holds: store.holds({ limit: 100 }),
    approve: approving(stream),
    reject: (hold: number) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => store.decide(hold, { state: "rejected" }, now)),
    wait: (time: Duration.Input) => TestClock.adjust(time),
    /** Registers a plugin write; the test changes the rows itself. Then call `answered` or `refused`. */
    write: Effect.fnUntraced(function*<W extends WriteName>(
      name: W,
      params: WriteParams<W>,
      body: WriteBody<W>,
      author: Partial<Author> = {}
    ) {
      const write = `w${++writes}`
      const own = {
        write,
        name,
        integration: settings.integration,
        plugin: "tagger",
        delivery: "1",
        depth: 1,
        ...author
      }
      yield* sql.withTransaction(expectations.expect(own, expectationsOf(name, params, body)))
      return {
        answered: (created: Readonly<Partial<Record<Model, string>>> = {}) =>
          sql.withTransaction(expectations.tookEffect(write, created)),
        refused: sql.withTransaction(expectations.withdraw(write))
      }
    })
  }
})

export type Rig = Effect.Success<ReturnType<typeof makeRig>>

/** The same stream read with other processing, as after a change of configuration. */
export const rigWith = (rig: Rig, processing: Processing.Processing): Pick<Rig, "poll" | "sweep" | "approve"> => {
  const stream = { ...rig.stream, processing }
  return {
    poll: poll(stream),
    sweep: Effect.asVoid(sweep(stream, Effect.succeed(false))),
    approve: approving(stream)
  }
}

/** The body of a test: an effect, or a generator of its effects. */
export type Body<A, R> = Effect.fn.Return<A, unknown, R> | Effect.Effect<A, unknown, R>

export const run = <A, R>(body: Body<A, R>): Effect.Effect<A, unknown, R> =>
  Effect.gen(function*() {
    return yield* body
  })

/** Runs `test` on a new stream over an empty list. */
export const scenario = <A>(
  test: (rig: Rig) => Body<A, Store | Source | SqlClient>,
  options: {
    readonly model?: ReadModel
    readonly processing?: Processing.Processing
    readonly guard?: Guard.Thresholds
    readonly backfill?: "fill"
    /** If given, candidates are derived with this processing. */
    readonly derivedProcessing?: Processing.Processing
    /** The database of the store; by default a new one in memory. */
    readonly database?: ReturnType<typeof Sqlite.client>
  } = {}
): Effect.Effect<A, unknown> => {
  const api = Scripted.make()
  return Effect.flatMap(makeRig(api, options.model ?? "ats.application", options), (rig) => run(test(rig))).pipe(
    Effect.provide(
      Layer.merge(
        Scripted.layer(api),
        Layer.provideMerge(Ports.layer, options.database ?? MemoryStore.client())
      )
    )
  )
}
