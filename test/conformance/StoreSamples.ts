/** Minimal sample values that distinguish records, versions and contents, and a store with two streams to test with. */
import { it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { LockTimeoutError, SqlError } from "effect/sql/SqlError"
import { initialState } from "../../src/capture/StreamLifecycle.ts"
import type { Kind, NewEvent } from "../../src/domain/ChangeEvent.ts"
import type { StreamKey } from "../../src/domain/Model.ts"
import { type Head, type Pending, queryFor, type RecordWrite } from "../../src/store/Records.ts"
import type { IntegrationState, Owner, StreamState } from "../../src/store/State.ts"
import { Store, StoreError, type StreamTx, Unavailable } from "../../src/store/Store.ts"

export const tags: StreamKey = { integration: "greenhouse:acme", model: "ats.tag" }
/** The store knows no models, so one of them is not built in. */
export const employees: StreamKey = { integration: "workday:acme", model: "hris.employee" }

export const stateOf = (key: StreamKey, details: Partial<StreamState> = {}): StreamState => ({
  ...initialState(
    { ...key, account: "default", interval: Duration.minutes(1), sweepInterval: Duration.hours(1) },
    Duration.minutes(5)
  ),
  ...details
})

export const integrationOf = (id: string, details: Partial<IntegrationState> = {}): IntegrationState => ({
  id,
  account: "default",
  models: "auto",
  interval: 60_000,
  sweepInterval: 3_600_000,
  backfill: "publish",
  declared: false,
  generation: 1,
  state: "active",
  ...details
})

export const headOf = (id: string, details: Partial<Head> = {}): Head => ({
  id,
  version: 0,
  live: true,
  position: null,
  textHash: `text of ${id}`,
  canonicalHash: `canonical of ${id}`,
  fingerprint: "1",
  changedAt: null,
  lastSeenRunId: 1,
  ...details
})

export const eventOf = (id: string, version: number, kind: Kind, details: Partial<NewEvent> = {}): NewEvent => ({
  eventId: `${id}-${version}`,
  id,
  remoteId: `remote ${id}`,
  generation: 1,
  version,
  kind,
  origin: "poll",
  after: kind === "deleted" ? null : JSON.stringify({ id, version }),
  changes: kind === "updated" ? '[{"path":"/version"}]' : "[]",
  transitions: "[]",
  reason: kind === "deleted" ? "flagged" : null,
  restored: false,
  changedAt: "2026-01-01T00:00:00.000Z",
  detectedAt: 1_767_225_600_000,
  cause: null,
  ...details
})

/** The next change of a record with this head. */
export const changeOf = (before: Head, kind: Kind, details: Partial<NewEvent> = {}): RecordWrite => {
  const version = before.version + 1
  return {
    head: { ...before, version, live: kind !== "deleted" },
    events: [eventOf(before.id, version, kind, details)],
    wasLive: before.live && before.version > 0
  }
}

export const pendingOf = (id: string, details: Partial<Pending> = {}): Pending => ({
  id,
  status: "staged",
  runId: 1,
  origin: "poll",
  content: JSON.stringify({ id }),
  deleted: false,
  reason: null,
  textHash: `text of ${id}`,
  canonicalHash: `canonical of ${id}`,
  remoteId: null,
  changedAt: null,
  detectedAt: 1_767_225_600_000,
  confirmations: 0,
  confirmedAt: null,
  redaction: null,
  hold: null,
  ...details
})

/** Content of the log rows of the stream at these positions; null if it was erased, or the row is a delete. */
export const contentsAt = (tx: StreamTx, positions: ReadonlyArray<number>) =>
  Effect.map(
    tx.logContents(Number.MAX_SAFE_INTEGER, 10_000),
    (rows) =>
      new Map(
        rows.filter(({ position }) => positions.includes(position)).map(({ after, position }) => [position, after])
      )
  )

export const headsOf = (tx: StreamTx, ids: ReadonlyArray<string>) =>
  Effect.map(tx.read(queryFor(ids, null)), ({ heads }) => heads)

/** A store with two streams and their owner, and the operations on the first stream that most tests need. */
export const beginWith = Effect.fnUntraced(function*(first: StreamKey, second: StreamKey) {
  const store = yield* Store
  yield* store.ensureStreams([stateOf(first), stateOf(second)])
  const owner = yield* store.takeOwnership("capture")
  const inFirst = <A, E>(body: (tx: StreamTx) => Effect.Effect<A, E>) => store.transact(owner, first, body)
  const write = (records: ReadonlyArray<RecordWrite>, key: StreamKey = first) =>
    store.transact(owner, key, (tx) => tx.write(records))
  const head = (id: string) => Effect.map(inFirst((tx) => headsOf(tx, [id])), (heads) => heads.get(id) ?? headOf(id))
  /** Appends the next change of a record, based on its stored head. */
  const change = (id: string, kind: "created" | "updated" | "deleted") =>
    Effect.flatMap(head(id), (before) => write([changeOf(before, kind)]))
  return { store, owner, inFirst, write, head, change }
})
export const begin = Effect.map(beginWith(tags, employees), ({ inFirst, ...rig }) => ({ ...rig, inTags: inFirst }))

/** Queries the whole log, if it is small. */
export const all = { after: 0, limit: 1000 }
export const ids = (count: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, index) => `r${String(index).padStart(5, "0")}`)
/** The first change of a record. */
export const created = (id: string): RecordWrite => changeOf(headOf(id), "created")

/** The reason of the `StoreError` that an exit failed with, if it did. */
export const reasonOf = <A>(exit: Exit.Exit<A, unknown>): string => {
  if (Exit.isSuccess(exit)) return "success"
  const reason = exit.cause.reasons[0]
  return reason?._tag === "Fail" && reason.error instanceof StoreError ? reason.error.reason._tag : "other"
}

/** The error that a body receives for a deadlock or a lock timeout of the database. */
export const conflict = new StoreError({
  reason: new Unavailable({
    operation: "test",
    cause: new SqlError({ reason: new LockTimeoutError({ cause: "deadlock" }) })
  })
})

/** A body fails with this error on purpose. */
export class Stop extends Error {}

/** Starts a transaction that appends a record and then runs `rest`; returns its fiber once the record is appended, before the commit. */
export const midway = Effect.fnUntraced(function*<E>(
  store: Store["Service"],
  owner: Owner,
  key: StreamKey,
  id: string,
  rest: Effect.Effect<unknown, E>
) {
  const appended = yield* Deferred.make<void>()
  const fiber = yield* Effect.forkChild(
    store.transact(
      owner,
      key,
      (tx) => tx.write([created(id)]).pipe(Effect.andThen(Deferred.succeed(appended, undefined)), Effect.andThen(rest))
    )
  )
  yield* Deferred.await(appended)
  return fiber
})

/** Tests with a store each: the body of a test gets the result of `rig`. */
export const testsIn = <A, R>(
  layer: Layer.Layer<R, unknown>,
  rig: Effect.Effect<A, unknown, NoInfer<R> | Scope.Scope>,
  define: typeof it.effect = it.effect
) =>
(
  title: string,
  body: (rig: A) => Generator<Effect.Effect<unknown, unknown, NoInfer<R> | Scope.Scope>, void, never>
) => define(title, () => Effect.flatMap(rig, (made) => Effect.gen(() => body(made))).pipe(Effect.provide(layer)))
