/**
 * Converts between rows of the tables and values of the port: column names and encodings.
 *
 * Gotchas
 * - Booleans are stored as 0 and 1 in both databases.
 */
import * as Effect from "effect/Effect"
import type { DeleteReason, Kind, LogEntry, NewEvent, Origin } from "../../domain/ChangeEvent.ts"
import type { Model, StreamKey } from "../../domain/Model.ts"
import type {
  Head,
  Hold,
  HoldState,
  IntegrationState,
  Pending,
  PendingStatus,
  Quarantined,
  StreamState
} from "../State.ts"
import { Incompatible, type ListedHold, StoreError } from "../Store.ts"
import { type Content, contentSum, rowSum, type Summed } from "./Checksum.ts"

export type Integer = number | bigint

const integerOrNull = (value: Integer | null): number | null => value === null ? null : Number(value)

/** Rows per statement: 250 rows of the widest table stay far below each database's limit of bound values. */
export const rowsPerStatement = 250

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const unreadable = (subject: string): StoreError =>
  new StoreError({ reason: new Incompatible({ message: `the stored state of ${subject} is unreadable` }) })

// ---- integrations -------------------------------------------------------------------------------------------------

export interface IntegrationRow {
  readonly id: string
  readonly state: string
}

const isIntegration = (id: string, value: unknown): value is IntegrationState =>
  typeof value === "object" && value !== null &&
  "id" in value && value.id === id &&
  "generation" in value && typeof value.generation === "number" &&
  "state" in value && typeof value.state === "string"

/** Fails with `Incompatible` if the stored text is not the state of that integration. */
export const toIntegration = (row: IntegrationRow): Effect.Effect<IntegrationState, StoreError> => {
  const value = parse(row.state)
  return isIntegration(row.id, value) ? Effect.succeed(value) : Effect.fail(unreadable(`integration ${row.id}`))
}

export const fromIntegration = (integration: IntegrationState) => ({
  id: integration.id,
  state: JSON.stringify(integration)
})

// ---- streams ------------------------------------------------------------------------------------------------------

export interface StreamRow {
  readonly key: Integer
  readonly integration: string
  readonly model: Model
  readonly state: string
}

const phases: ReadonlyArray<unknown> = ["starting", "backfilling", "live"]

const isStateOf = (key: StreamKey, value: unknown): value is StreamState =>
  typeof value === "object" && value !== null &&
  "integration" in value && value.integration === key.integration &&
  "model" in value && value.model === key.model &&
  "generation" in value && typeof value.generation === "number" &&
  "lastRunId" in value && typeof value.lastRunId === "number" &&
  "phase" in value && phases.includes(value.phase)

/** Fails with `Incompatible` if the stored text is not the state of that stream. */
export const toState = (row: StreamRow): Effect.Effect<StreamState, StoreError> => {
  const value = parse(row.state)
  return isStateOf(row, value)
    ? Effect.succeed(value)
    : Effect.fail(unreadable(`${row.integration}/${row.model}`))
}

export const fromState = (state: StreamState) => ({
  integration: state.integration,
  model: state.model,
  state: JSON.stringify(state)
})

// ---- heads --------------------------------------------------------------------------------------------------------

export interface HeadRow {
  readonly id: string
  readonly version: Integer
  readonly live: Integer
  readonly position: Integer | null
  readonly text_hash: string
  readonly canonical_hash: string
  readonly fingerprint: string
  readonly changed_at: Integer | null
  readonly last_run_id: Integer
}

export const toHead = (row: HeadRow): Head => ({
  id: row.id,
  version: Number(row.version),
  live: Number(row.live) === 1,
  position: integerOrNull(row.position),
  textHash: row.text_hash,
  canonicalHash: row.canonical_hash,
  fingerprint: row.fingerprint,
  changedAt: integerOrNull(row.changed_at),
  lastSeenRunId: Number(row.last_run_id)
})

export const fromHead = (stream: number, head: Head) => ({
  stream,
  id: head.id,
  version: head.version,
  live: head.live ? 1 : 0,
  position: head.position,
  text_hash: head.textHash,
  canonical_hash: head.canonicalHash,
  fingerprint: head.fingerprint,
  changed_at: head.changedAt,
  last_run_id: head.lastSeenRunId
})

// ---- pending ------------------------------------------------------------------------------------------------------

export interface PendingRow {
  readonly id: string
  readonly status: PendingStatus
  readonly run_id: Integer
  readonly origin: Origin
  readonly deleted: Integer
  readonly reason: DeleteReason | null
  readonly text_hash: string
  readonly canonical_hash: string
  readonly remote_id: string | null
  readonly changed_at: string | null
  readonly detected_at: Integer
  readonly confirms: Integer
  readonly confirmed_at: Integer | null
  readonly hold: Integer | null
}

export const toPendingRow = (row: PendingRow): Omit<Pending, "content"> => ({
  id: row.id,
  status: row.status,
  runId: Number(row.run_id),
  origin: row.origin,
  deleted: Number(row.deleted) === 1,
  reason: row.reason,
  textHash: row.text_hash,
  canonicalHash: row.canonical_hash,
  remoteId: row.remote_id,
  changedAt: row.changed_at,
  detectedAt: Number(row.detected_at),
  confirms: Number(row.confirms),
  confirmedAt: integerOrNull(row.confirmed_at),
  hold: integerOrNull(row.hold)
})

export const toPending = (row: PendingRow & { readonly content: string | null }): Pending => ({
  ...toPendingRow(row),
  content: row.content
})

export const fromPending = (stream: number, pending: Pending) => ({
  stream,
  id: pending.id,
  status: pending.status,
  run_id: pending.runId,
  origin: pending.origin,
  deleted: pending.deleted ? 1 : 0,
  reason: pending.reason,
  text_hash: pending.textHash,
  canonical_hash: pending.canonicalHash,
  remote_id: pending.remoteId,
  changed_at: pending.changedAt,
  detected_at: pending.detectedAt,
  confirms: pending.confirms,
  confirmed_at: pending.confirmedAt,
  hold: pending.hold,
  content: pending.content
})

export const fromQuarantined = (stream: number, row: Quarantined) => ({
  stream,
  hash: row.hash,
  reason: row.reason,
  occurrences: 1,
  first_at: row.at,
  last_at: row.at,
  content: row.content
})

// ---- holds --------------------------------------------------------------------------------------------------------

export interface HoldRow {
  readonly id: Integer
  readonly kind: Hold["kind"]
  readonly state: HoldState
  readonly reason: string
  readonly paths: string
  readonly opened_at: Integer
  readonly decided_at: Integer | null
  readonly released: Integer
  readonly release: string | null
}

/** This program wrote the JSON in `paths` and `release`, so it is parsed unchecked. */
export const toHold = (row: HoldRow): Hold => ({
  id: Number(row.id),
  kind: row.kind,
  state: row.state,
  reason: row.reason,
  paths: JSON.parse(row.paths),
  openedAt: Number(row.opened_at),
  decidedAt: integerOrNull(row.decided_at),
  released: Number(row.released),
  release: row.release === null ? null : JSON.parse(row.release)
})

export const toListedHold = (row: HoldRow & StreamKey & { readonly rows: Integer }): ListedHold => ({
  ...toHold(row),
  integration: row.integration,
  model: row.model,
  rows: Number(row.rows)
})

export const fromHold = (hold: Omit<Hold, "id">) => ({
  kind: hold.kind,
  state: hold.state,
  reason: hold.reason,
  paths: JSON.stringify(hold.paths),
  opened_at: hold.openedAt,
  decided_at: hold.decidedAt,
  released: hold.released,
  release: hold.release === null ? null : JSON.stringify(hold.release)
})

// ---- events -------------------------------------------------------------------------------------------------------

export interface EventRow extends Summed, Content {
  readonly position: Integer
  readonly chain: string
  readonly integration: string
  readonly model: Model
  readonly id: string
  readonly event_id: string
  readonly remote_id: string | null
  readonly generation: Integer
  readonly version: Integer
  readonly kind: Kind
  readonly origin: Origin
  readonly reason: DeleteReason | null
  readonly restored: Integer
  readonly changed_at: string | null
  readonly detected_at: Integer
  readonly cause: string | null
  readonly transitions: string
  readonly changes: string
  readonly content: string | null
  /** Content of the record's previous row. */
  readonly before: string | null
  readonly row_sum: Integer | null
  readonly before_sum: Integer | null
}

export const toLogEntry = (row: EventRow): LogEntry => ({
  position: Number(row.position),
  chain: row.chain,
  integration: row.integration,
  model: row.model,
  id: row.id,
  eventId: row.event_id,
  remoteId: row.remote_id,
  generation: Number(row.generation),
  version: Number(row.version),
  kind: row.kind,
  origin: row.origin,
  reason: row.reason,
  restored: Number(row.restored) === 1,
  changedAt: row.changed_at,
  detectedAt: Number(row.detected_at),
  cause: row.cause,
  transitions: row.transitions,
  changes: row.changes,
  after: row.content,
  before: row.kind === "created" ? null : row.before
})

export const fromEvent = (
  location: {
    readonly stream: number
    readonly position: number
    readonly previous: number | null
    readonly chain: string
  },
  event: NewEvent,
  { appendedAt, silent }: { readonly appendedAt: number; readonly silent: boolean }
) => {
  const row = {
    ...location,
    appended_at: appendedAt,
    id: event.id,
    event_id: event.eventId,
    remote_id: event.remoteId,
    generation: event.generation,
    version: event.version,
    kind: event.kind,
    origin: event.origin,
    reason: event.reason,
    restored: event.restored ? 1 : 0,
    changed_at: event.changedAt,
    detected_at: event.detectedAt,
    cause: event.cause,
    transitions: event.transitions,
    changes: event.changes,
    content: event.after,
    silent: silent ? 1 : 0
  }
  return { ...row, content_sum: contentSum(row.content), row_sum: rowSum(row) }
}
