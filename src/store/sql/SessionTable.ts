/** The `StoredSessions` port over any `SqlClient`. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import {
  absoluteLimit,
  idleLimit,
  maxSessions,
  type SessionSelection,
  type StoredSession,
  StoredSessions
} from "../StoredSessions.ts"
import * as AuditTable from "./AuditTable.ts"
import * as DatabaseTime from "./DatabaseTime.ts"
import { convertEach, withRetry } from "./SqlRetry.ts"

const make = (sql: SqlClient): StoredSessions["Service"] => {
  const audit = AuditTable.make(sql)
  const time = DatabaseTime.make(sql)
  const millis = (duration: Duration.Duration) => sql.literal(String(Duration.toMillis(duration)))
  const [idle, absolute] = [millis(idleLimit), millis(absoluteLimit)]

  const columns = (now: Fragment) =>
    sql`id, scope, seal, address, started_at AS "startedAt", last_request_at AS "lastRequestAt", expires_at AS "expiresAt",
      expires_at - ${now} AS "left"`
  const selected = ({ id, key, scope }: SessionSelection) =>
    sql.and([
      sql`1 = 1`,
      ...key === undefined ? [] : [sql`key = ${key}`],
      ...id === undefined ? [] : [sql`id = ${id}`],
      ...scope === undefined ? [] : [sql`scope = ${scope}`]
    ])

  return convertEach<StoredSessions["Service"]>(withRetry, {
    start: Effect.fnUntraced(function*({ address, id, key, scope, seal }) {
      const now = yield* time
      yield* sql`DELETE FROM sessions WHERE expires_at <= ${now}`
      yield* sql`
        INSERT INTO sessions (key, id, scope, seal, address, started_at, last_request_at, expires_at)
        VALUES (${key}, ${id}, ${scope}, ${seal}, ${address}, ${now}, ${now}, ${now} + ${idle})
        ON CONFLICT (key) DO NOTHING`
      yield* sql`
        DELETE FROM sessions WHERE scope = ${scope} AND key NOT IN (
          SELECT key FROM sessions WHERE scope = ${scope}
          ORDER BY CASE WHEN key = ${key} THEN 0 ELSE 1 END, last_request_at DESC
          LIMIT ${sql.literal(String(maxSessions))})`
    }),
    find: (key, isActivity) =>
      Effect.flatMap(time, (now) =>
        isActivity
          ? sql<StoredSession>`
            UPDATE sessions SET last_request_at = ${now}, expires_at =
              CASE WHEN ${now} + ${idle} < started_at + ${absolute} THEN ${now} + ${idle} ELSE started_at + ${absolute} END
            WHERE key = ${key} AND expires_at > ${now} RETURNING ${columns(now)}`
          : sql<StoredSession>`SELECT ${columns(now)} FROM sessions WHERE key = ${key} AND expires_at > ${now}`).pipe(
          Effect.map(([row]) => row ?? null)
        ),
    list: Effect.flatMap(time, (now) =>
      sql<StoredSession>`
        SELECT ${columns(now)} FROM sessions WHERE expires_at > ${now} ORDER BY last_request_at, started_at, id`),
    end: Effect.fnUntraced(function*(which, toAction) {
      const now = yield* time
      const rows = yield* sql<StoredSession>`DELETE FROM sessions WHERE ${selected(which)} RETURNING ${columns(now)}`
      const live = rows.filter(({ left }) => left > 0)
      const action = toAction(live)
      if (action !== null) yield* audit.record(action)
      return live
    }, sql.withTransaction)
  })
}

/** The statements need the tables that opening the store creates. */
export const layer: Layer.Layer<StoredSessions, never, SqlClient> = Layer.effect(
  StoredSessions,
  Effect.map(SqlClient, make)
)
