/**
 * The calls between the processes of a fleet: a call is an operator's command that one process receives and the process that owns the scope
 * executes. `fleet/Calls.ts` is the interface that commands use.
 *
 * Invariants
 * 1. A call is claimed at most once, and only by the process that owns its scope while the claim is committed   (I10)
 * 2. A call that was removed before it was claimed is never claimed
 *
 * Gotchas
 * - Payloads and replies may contain ids of persons. They are encrypted like other content, never appear in messages, and are removed soon.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import type { Actor } from "./Operators.ts"
import { Processes } from "./Processes.ts"
import * as ContentCipher from "./sql/ContentCipher.ts"
import * as DatabaseTime from "./sql/DatabaseTime.ts"
import * as Locks from "./sql/Locks.ts"
import { inBatches } from "./sql/Rows.ts"
import { convertEach, withRetry } from "./sql/SqlRetry.ts"
import type { Store } from "./Store.ts"

export interface NewCall {
  /** Unique, chosen by the caller. */
  readonly id: string
  /** The ownership scope whose owner must execute the call, such as `capture/12`. */
  readonly scope: string
  readonly method: string
  readonly payload: string
  readonly actor: Actor
  /** The call cannot be claimed after this time. */
  readonly patience: Duration.Duration
}

export interface ClaimedCall extends Pick<NewCall, "id" | "method" | "actor"> {
  /** Null if it is damaged. */
  readonly payload: string | null
}

/** A call as its caller sees it. */
export interface SeenCall {
  readonly id: string
  readonly state: "waiting" | "running" | "answered"
  /** Whether the process that claimed the call has owned the scope since. */
  readonly owned: boolean
  /** Grows while the process that claimed the call executes it. */
  readonly beats: number
  /** Null if there is no reply, or if it is damaged. */
  readonly reply: string | null
}

const kept = Duration.toMillis("1 minute")
/** Longer than most outages of the database, during which a process cannot report that it executes the call. */
const keptRunning = Duration.toMillis("10 minutes")

const payloadPlace = (id: string) => `calls/${id}/payload`
const replyPlace = (id: string) => `calls/${id}/reply`

const make = Effect.gen(function*() {
  const sql = yield* SqlClient
  const { self } = yield* Processes
  // a process that has just started may not have registered its key
  const cipher = ContentCipher.make(yield* ContentCipher.EncryptionKeys, () => Effect.succeed(true))
  const locks = Locks.make(sql)
  const time = DatabaseTime.make(sql)
  const open = (place: string, stored: string) =>
    Effect.map(cipher.openEach([stored], (text, open) => open(place, text)), ([text]) => text ?? null)
  const idsOf = Effect.map((rows: ReadonlyArray<{ readonly id: string }>) => rows.map(({ id }) => id))

  return convertEach(withRetry, {
    // in a transaction: a bare statement that arrives late, after its retry was removed, would add the call again
    submit: Effect.fnUntraced(function*({ actor: { actor, address }, id, method, patience, payload, scope }: NewCall) {
      const now = yield* time
      yield* sql`
        INSERT INTO calls (id, scope, method, payload, actor, address, requested_at, expires_at, changed_at, state, beats)
        VALUES (${id}, ${scope}, ${method}, ${cipher.seal(payloadPlace(id), payload)}, ${actor}, ${address}, ${now},
          ${now} + ${sql.literal(String(Duration.toMillis(patience)))}, ${now}, 'waiting', 0)`
    }, sql.withTransaction),
    /** The scopes among these that have calls to claim, found with one statement. */
    waiting: (scopes: ReadonlyArray<string>) =>
      Effect.flatMap(time, (now) =>
        sql<{ scope: string }>`
          SELECT DISTINCT scope FROM calls
          WHERE state = 'waiting' AND ${sql.in("scope", scopes)} AND expires_at > ${now}`).pipe(
          Effect.map((rows) => rows.map(({ scope }) => scope))
        ),
    /** Claims all waiting calls of a scope; none if another process owns the scope, or, with `MissingKey`, if this process lacks a key. */
    claim: Effect.fnUntraced(function*(scope: string) {
      // as in `Fencing`: a takeover waits until this transaction ends
      const [owned] = yield* sql<{ epoch: number }>`
        SELECT epoch FROM ownership WHERE scope = ${scope} AND process = ${self} ${locks.owned(scope)}`
      if (owned === undefined) return []
      const now = yield* time
      const rows = yield* sql<{ id: string; method: string; payload: string; actor: string; address: string | null }>`
        UPDATE calls SET state = 'running', epoch = ${owned.epoch}, changed_at = ${now}
        WHERE scope = ${scope} AND state = 'waiting' AND expires_at > ${now}
        RETURNING id, method, payload, actor, address`
      return yield* Effect.forEach(rows, ({ actor, address, id, method, payload }) =>
        Effect.map(
          open(payloadPlace(id), payload),
          (payload): ClaimedCall => ({ id, method, payload, actor: { actor, address } })
        ))
    }, sql.withTransaction),
    /** Reports that these calls are still being executed; returns those whose callers still wait. */
    beat: (ids: ReadonlyArray<string>) =>
      Effect.flatMap(time, (now) =>
        inBatches(ids, (some) =>
          sql<{ id: string }>`
            UPDATE calls SET beats = beats + 1, changed_at = ${now}
            WHERE ${sql.in("id", some)} AND state = 'running' RETURNING id`)).pipe(idsOf),
    /** Does nothing if the caller no longer waits. */
    answer: (id: string, reply: string) =>
      Effect.flatMap(time, (now) =>
        sql`
          UPDATE calls SET state = 'answered', reply = ${cipher.seal(replyPlace(id), reply)}, changed_at = ${now}
          WHERE id = ${id} AND state = 'running'`),
    /** Calls that were removed are left out. */
    look: (ids: ReadonlyArray<string>) =>
      inBatches(ids, (some) =>
        sql<Omit<SeenCall, "owned"> & { owned: number }>`
          SELECT c.id, c.state, c.beats, c.reply, CASE WHEN o.epoch = c.epoch THEN 1 ELSE 0 END AS owned
          FROM calls c LEFT JOIN ownership o ON o.scope = c.scope WHERE ${sql.in("c.id", some)}`).pipe(
          Effect.flatMap(Effect.forEach((row) =>
            Effect.map(
              row.reply === null ? Effect.succeed(null) : open(replyPlace(row.id), row.reply),
              (reply): SeenCall => ({ ...row, owned: row.owned === 1, reply })
            )
          ))
        ),
    /**
     * Removes the calls that are in this state, or all calls if no state is given; returns the removed calls. In a transaction: its outcome
     * is known although its response may be lost.
     */
    remove: (ids: ReadonlyArray<string>, state?: SeenCall["state"]) =>
      inBatches(ids, (some) => {
        const condition = state === undefined ? [] : [sql`state = ${state}`]
        return sql<{ id: string }>`DELETE FROM calls WHERE ${sql.and([sql.in("id", some), ...condition])} RETURNING id`
      }).pipe(idsOf, sql.withTransaction),
    /** Removes calls whose callers or owners have ended. */
    prune: Effect.flatMap(time, (now) =>
      sql`
        DELETE FROM calls WHERE changed_at < ${now}
          - CASE state WHEN 'running' THEN ${sql.literal(String(keptRunning))} ELSE ${sql.literal(String(kept))} END`)
      .pipe(Effect.asVoid)
  })
})

export class CallQueue extends Context.Service<CallQueue>()("rollcall/store/CallQueue", { make }) {
  /** Requires the store, because opening the store creates the table. */
  static readonly layer: Layer.Layer<CallQueue, never, SqlClient | Processes | Store> = Layer.effect(this, this.make)
}
