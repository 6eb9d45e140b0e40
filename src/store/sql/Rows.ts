/**
 * Converts between rows and values. A table is described once: the column of each property, and its encoding.
 *
 * Gotchas
 * - Booleans are stored as 0 and 1 in both databases.
 * - All integers in rows are JavaScript numbers: positions, times and hashes are safe integers.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import type { SqlClient } from "effect/sql/SqlClient"
import * as Statement from "effect/sql/Statement"
import type { LogEntry, NewEvent } from "../../domain/ChangeEvent.ts"
import type { StreamKey } from "../../domain/Model.ts"
import type { Head, Pending, QuarantinedRow } from "../Records.ts"
import type { StreamState } from "../State.ts"
import { incompatible, type StoreError } from "../StoreError.ts"

type Primitive = string | number | null

export type Row = Readonly<Record<string, unknown>>

interface Column<V> {
  readonly name: string
  readonly encode: (value: V) => Primitive
  readonly decode: (stored: Primitive) => V
}

/** A property that is stored as it is needs only the name of its column. */
export type Columns<A> = { readonly [P in keyof A]-?: [A[P]] extends [Primitive] ? string : Column<A[P]> }

export const flag = (name: string): Column<boolean> => ({
  name,
  encode: Number,
  decode: (stored) => stored === 1
})

/** This program wrote the JSON, so it is parsed unchecked; null stays null. */
export const json = <V>(name: string): Column<V> => ({
  name,
  encode: (value) => value === null ? null : JSON.stringify(value),
  decode: (stored) => stored === null ? null : JSON.parse(String(stored))
})

export const codec = <A extends object>(columns: Columns<A>) => {
  const all = Object.entries(columns as Readonly<Record<string, string | Column<unknown>>>).map(([property, column]) =>
    typeof column === "string"
      ? { property, name: column, encode: identity as Column<unknown>["encode"], decode: identity }
      : { property, ...column }
  )
  const list = (items: ReadonlyArray<string>) => Statement.fragment([Statement.literal(items.join(", "))])
  return {
    fromRow: (row: Row): A => {
      const value: Record<string, unknown> = {}
      for (const { decode, name, property } of all) value[property] = decode(row[name] as Primitive)
      return value as A
    },
    toRow: (value: A): Record<string, Primitive> => {
      const row: Record<string, Primitive> = {}
      for (const { encode, name, property } of all) row[name] = encode(value[property as keyof A] as Primitive)
      return row
    },
    /** For `insertColumns`. */
    toColumns: (values: ReadonlyArray<A>): Readonly<Record<string, ReadonlyArray<Primitive>>> =>
      Object.fromEntries(
        all.map(({ encode, name, property }) => [
          name,
          values.map((value) => encode(value[property as keyof A] as Primitive))
        ])
      ),
    /** For `SELECT`: `h.id, h.version, …`, or without the table if no other table has such columns. */
    columns: (table?: string) => list(all.map(({ name }) => table === undefined ? name : `${table}.${name}`)),
    /** For `ON CONFLICT DO UPDATE SET`: takes all columns except these from the new row. */
    replace: (...except: ReadonlyArray<string>) =>
      list(all.flatMap(({ name }) => except.includes(name) ? [] : [`${name} = excluded.${name}`]))
  }
}

// ---- batches ---------------------------------------------------------------------------------------------------------

/** Rows per statement: 250 rows of the widest table stay far below each database's limit of bound values. */
export const rowsPerStatement = 250

/** Runs a statement for every 250 items; returns all their rows. */
export const inBatches = <A, B, E, R>(
  items: Iterable<A>,
  run: (batch: Arr.NonEmptyReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E, R>
): Effect.Effect<ReadonlyArray<B>, E, R> =>
  Effect.map(Effect.forEach(Arr.chunksOf(items, rowsPerStatement), run), Arr.flatten)

// ---- states -------------------------------------------------------------------------------------

/** Fails with `Incompatible` if the stored text is not the state of `subject`. */
export const parseState = <A>(
  subject: string,
  text: string,
  isState: (value: Partial<A>) => boolean
): Effect.Effect<A, StoreError> => {
  let value: unknown = null
  try {
    value = JSON.parse(text)
  } catch {
    // not JSON
  }
  return typeof value === "object" && value !== null && isState(value)
    ? Effect.succeed(value as A)
    : Effect.fail(incompatible(`the stored state of ${subject} is unreadable`))
}

/**
 * In a query on integrations: the account of an active integration; empty if the integration is not active. An index has the same text.
 */
export const activeAccount = (sql: SqlClient) => {
  const state = sql.onDialectOrElse({ pg: () => "state::jsonb", orElse: () => "state" })
  return sql.literal(`(CASE ${state} ->> 'state' WHEN 'active' THEN ${state} ->> 'account' ELSE '' END)`)
}

export interface StreamRow extends StreamKey {
  readonly key: number
  readonly state: string
}

const phases: ReadonlyArray<unknown> = ["starting", "backfilling", "live"]

export const toState = ({ integration, model, state }: StreamRow): Effect.Effect<StreamState, StoreError> =>
  parseState<StreamState>(
    `${integration}/${model}`,
    state,
    (value) =>
      value.integration === integration && value.model === model && typeof value.generation === "number" &&
      typeof value.lastRunId === "number" && phases.includes(value.phase)
  )

/** The states of many streams. Other fibers may run between the parts, because parsing thousands of states takes long. */
export const toStates = (rows: Iterable<StreamRow>): Effect.Effect<ReadonlyArray<StreamState>, StoreError> =>
  inBatches(rows, (some) => Effect.andThen(Effect.yieldNow, Effect.forEach(some, toState)))

// ---- records ------------------------------------------------------------------------------------------------------

export const heads = codec<Head>({
  id: "id",
  version: "version",
  live: flag("live"),
  position: "position",
  textHash: "text_hash",
  canonicalHash: "canonical_hash",
  fingerprint: "fingerprint",
  changedAt: "changed_at",
  lastSeenRunId: "last_run_id"
})

const pendingColumns: Columns<Omit<Pending, "content">> = {
  id: "id",
  status: "status",
  runId: "run_id",
  origin: "origin",
  deleted: flag("deleted"),
  reason: "reason",
  textHash: "text_hash",
  canonicalHash: "canonical_hash",
  remoteId: "remote_id",
  changedAt: "changed_at",
  detectedAt: "detected_at",
  confirmations: "confirms",
  confirmedAt: "confirmed_at",
  redaction: "redaction",
  hold: "hold"
}
export const pendings = codec<Pending>({ ...pendingColumns, content: "content" })
export const listedPendings = codec<StreamKey & Omit<Pending, "content">>({
  integration: "integration",
  model: "model",
  ...pendingColumns
})

export const quarantined = codec<QuarantinedRow>({
  hash: "hash",
  reason: "reason",
  content: "content",
  redaction: "redaction",
  occurrences: "occurrences",
  firstAt: "first_at",
  lastAt: "last_at"
})

// ---- events -------------------------------------------------------------------------------------------------------

const eventColumns: Columns<NewEvent> = {
  id: "id",
  eventId: "event_id",
  remoteId: "remote_id",
  generation: "generation",
  version: "version",
  kind: "kind",
  origin: "origin",
  reason: "reason",
  restored: flag("restored"),
  changedAt: "changed_at",
  detectedAt: "detected_at",
  cause: "cause",
  transitions: "transitions",
  changes: "changes",
  after: "content"
}
export const newEvents = codec<NewEvent>(eventColumns)
const entries = codec<LogEntry>({
  position: "position",
  chain: "chain",
  integration: "integration",
  model: "model",
  ...eventColumns,
  before: "before",
  traceparent: "traceparent"
})

/** `before` of the row is the content of the record's previous row, unless this row is `created`. */
export const toLogEntry = (row: Row): LogEntry => entries.fromRow(row)
