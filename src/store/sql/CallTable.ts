/** The `CallQueue` port over any `SqlClient`. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import { CallQueue, type SeenCall } from "../CallQueue.ts"
import { Processes } from "../Processes.ts"
import type { Store } from "../Store.ts"
import * as ContentCipher from "./ContentCipher.ts"
import * as DatabaseTime from "./DatabaseTime.ts"
import * as Locks from "./Locks.ts"
import { inBatches } from "./Rows.ts"
import { convertEach, withRetry } from "./SqlRetry.ts"

const kept = Duration.toMillis("1 minute")
/** Longer than most outages of the database, during which a process cannot report that it executes the call. */
const keptRunning = Duration.toMillis("10 minutes")

const payloadPlace = (id: string) => `calls/${id}/payload`
const replyPlace = (id: string) => `calls/${id}/reply`

interface Ids {
  readonly id: string
}

const make = Effect.gen(function*() {
  const sql = yield* SqlClient
  const { self } = yield* Processes
  // a process that has just started may not have registered its key
  const cipher = ContentCipher.make(yield* ContentCipher.EncryptionKeys, () => Effect.succeed(true))
  const locks = Locks.make(sql)
  const time = DatabaseTime.make(sql)
  const open = (place: string, stored: string) =>
    Effect.map(cipher.openEach([stored], (text, open) => open(place, text)), ([text]) => text ?? null)

  return CallQueue.of(convertEach<CallQueue["Service"]>(withRetry, {
    // in a transaction: a bare statement that arrives late, after its retry was removed, would add the call again
    submit: Effect.fnUntraced(function*({ actor: { actor, address }, id, method, patience, payload, scope }) {
      const now = yield* time
      yield* sql`
        INSERT INTO calls (id, scope, method, payload, actor, address, requested_at, expires_at, changed_at, state, beats)
        VALUES (${id}, ${scope}, ${method}, ${cipher.seal(payloadPlace(id), payload)}, ${actor}, ${address}, ${now},
          ${now} + ${sql.literal(String(Duration.toMillis(patience)))}, ${now}, 'waiting', 0)`
    }, sql.withTransaction),
    waiting: (scopes) =>
      Effect.flatMap(time, (now) =>
        sql<{ scope: string }>`
          SELECT DISTINCT scope FROM calls
          WHERE state = 'waiting' AND ${sql.in("scope", scopes)} AND expires_at > ${now}`).pipe(
          Effect.map((rows) => rows.map(({ scope }) => scope))
        ),
    claim: Effect.fnUntraced(function*(scope) {
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
          (payload) => ({ id, method, payload, actor: { actor, address } })
        ))
    }, sql.withTransaction),
    beat: (ids) =>
      Effect.flatMap(time, (now) =>
        inBatches(ids, (some) =>
          sql<Ids>`
            UPDATE calls SET beats = beats + 1, changed_at = ${now}
            WHERE ${sql.in("id", some)} AND state = 'running' RETURNING id`)).pipe(
          Effect.map((rows) => rows.map(({ id }) => id))
        ),
    answer: (id, reply) =>
      Effect.flatMap(time, (now) =>
        sql`
          UPDATE calls SET state = 'answered', reply = ${cipher.seal(replyPlace(id), reply)}, changed_at = ${now}
          WHERE id = ${id} AND state = 'running'`),
    look: (ids) =>
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
    // in a transaction: its outcome is known although its response may be lost
    remove: (ids, state) =>
      inBatches(ids, (some) => {
        const condition = state === undefined ? [] : [sql`state = ${state}`]
        return sql<Ids>`DELETE FROM calls WHERE ${sql.and([sql.in("id", some), ...condition])} RETURNING id`
      }).pipe(Effect.map((rows) => rows.map(({ id }) => id)), sql.withTransaction),
    prune: Effect.flatMap(time, (now) =>
      sql`
        DELETE FROM calls WHERE changed_at < ${now}
          - CASE state WHEN 'running' THEN ${sql.literal(String(keptRunning))} ELSE ${sql.literal(String(kept))} END`)
  }))
})

/** Requires the store, because opening the store creates the table. */
export const layer: Layer.Layer<CallQueue, never, SqlClient | Processes | Store> = Layer.effect(CallQueue, make)
