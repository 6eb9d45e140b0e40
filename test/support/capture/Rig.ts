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
import type { LogEntry } from "../../../src/domain/ChangeEvent.ts"
import { type Author, expectationsOf } from "../../../src/domain/Expectation.ts"
import * as Guard from "../../../src/domain/Guard.ts"
import type { Model, StreamModel } from "../../../src/domain/Model.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import type { Source } from "../../../src/source/Source.ts"
import type { ListedHold, ReleaseMode } from "../../../src/store/Records.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import * as ExpectationTable from "../../../src/store/sql/stream/ExpectationTable.ts"
import type { Owner, StreamState } from "../../../src/store/State.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemoryStore from "../store/MemoryStore.ts"
import * as Scripted from "./ScriptedApi.ts"

/** All streams are owned by this owner. */
export const owning = (owner: Owner): Ownership => ({ ownerOf: () => owner, owns: () => true })

export const confirmInterval = Duration.minutes(10)

export interface Rig {
  readonly api: Scripted.ScriptedApi
  readonly stream: Stream
  /** Puts a row that changes now; `silent`: on a path that `updated_after` does not react to. */
  readonly put: (row: Scripted.Row, options?: Parameters<Scripted.ScriptedApi["put"]>[2]) => Effect.Effect<void>
  readonly flag: (id: string) => Effect.Effect<void>
  readonly poll: Effect.Effect<void, unknown, Store | Source>
  readonly sweep: Effect.Effect<void, unknown, Store | Source>
  readonly confirm: Effect.Effect<void, unknown, Store | Source>
  readonly events: Effect.Effect<ReadonlyArray<LogEntry>, unknown, Store>
  /** `created 1`, `updated 2` … of one record. */
  readonly kinds: (id: string) => Effect.Effect<ReadonlyArray<string>, unknown, Store>
  readonly state: Effect.Effect<StreamState, unknown, Store>
  /** Status of the pending rows by id. */
  readonly pending: Effect.Effect<Readonly<Record<string, string>>, unknown, Store>
  /** Number of confirmations of each absent record. */
  readonly confirmations: Effect.Effect<Readonly<Record<string, number>>, unknown, Store>
  /** Undecided holds, newest first. */
  readonly holds: Effect.Effect<ReadonlyArray<ListedHold>, unknown, Store>
  /** Approves the hold like an operator, and releases it like the stream's owner. */
  readonly approve: (hold: number, release?: Partial<ReleaseMode>) => Effect.Effect<void, unknown, Store>
  readonly reject: (hold: number) => Effect.Effect<void, unknown, Store>
  readonly wait: (time: Duration.Input) => Effect.Effect<void>
  /** Registers a plugin write; the test changes the rows itself. Then call `answered` or `refused`. */
  readonly write: <W extends WriteName>(
    name: W,
    params: WriteParams<W>,
    body: WriteBody<W>,
    author?: Partial<Author>
  ) => Effect.Effect<
    {
      readonly answered: (created?: Readonly<Partial<Record<Model, string>>>) => Effect.Effect<void, unknown>
      readonly refused: Effect.Effect<void, unknown>
    },
    unknown
  >
}

export const start = Date.parse("2026-03-01T12:00:00Z")

const approving = (stream: Stream): Rig["approve"] =>
  Effect.fnUntraced(function*(hold, release = {}) {
    const store = yield* Store
    const now = yield* Clock.currentTimeMillis
    yield* store.decide(hold, { state: "approving", release: { origin: null, silent: false, ...release } }, now)
    yield* releaseApprovedHolds(stream)
  })

const makeRig = Effect.fnUntraced(function*(
  api: Scripted.ScriptedApi,
  model: StreamModel,
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
  const rig: Rig = {
    api,
    stream,
    put: (row, options) => Effect.map(Clock.currentTimeMillis, (now) => api.put(now + api.skew, row, options)),
    flag: (id) => Effect.map(Clock.currentTimeMillis, (now) => api.flag(now + api.skew, id)),
    poll: poll(stream),
    sweep: Effect.asVoid(sweep(stream, Effect.succeed(false))),
    confirm: reconfirmAbsent(stream),
    events,
    kinds: (id) =>
      Effect.map(
        events,
        (entries) => entries.filter((entry) => entry.id === id).map((entry) => `${entry.kind} ${entry.version}`)
      ),
    state: Effect.map(store.stream(stream.key), (state) => state!),
    pending: Effect.map(
      store.pendingRows({ key: stream.key, limit: 10_000 }),
      (rows) => Object.fromEntries(rows.map((row) => [row.id, row.status]))
    ),
    confirmations: Effect.map(
      store.pendingRows({ key: stream.key, limit: 1000 }),
      (rows) =>
        Object.fromEntries(
          rows.flatMap(({ confirmations, id, status }) => status === "absent" ? [[id, confirmations]] : [])
        )
    ),
    holds: store.holds({ limit: 100 }),
    approve: approving(stream),
    reject: (hold) => Effect.flatMap(Clock.currentTimeMillis, (now) => store.decide(hold, { state: "rejected" }, now)),
    wait: (time) => TestClock.adjust(time),
    write: Effect.fnUntraced(function*(name, params, body, author = {}) {
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
        answered: (created = {}) => sql.withTransaction(expectations.tookEffect(write, created)),
        refused: sql.withTransaction(expectations.withdraw(write))
      }
    })
  }
  return rig
})

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
    readonly model?: StreamModel
    readonly processing?: Processing.Processing
    readonly guard?: Guard.Thresholds
    readonly backfill?: "fill"
    /** If given, candidates are derived with this processing. */
    readonly derivedProcessing?: Processing.Processing
  } = {}
): Effect.Effect<A, unknown> => {
  const api = Scripted.make()
  return Effect.flatMap(makeRig(api, options.model ?? "ats.application", options), (rig) => run(test(rig))).pipe(
    Effect.provide(
      Layer.merge(
        Scripted.layer(api),
        Layer.provideMerge(Ports.layer, MemoryStore.client())
      )
    )
  )
}
