/**
 * The sessions of users and programs that signed in to the operating API. A session that one process starts is valid in all processes.
 *
 * Gotchas
 * - All times are those of the database's clock, because the clocks of two processes may differ.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import type { OperatorAction } from "./Operators.ts"
import * as AuditTable from "./sql/AuditTable.ts"
import * as DatabaseTime from "./sql/DatabaseTime.ts"
import { convertEach, withRetry } from "./sql/SqlRetry.ts"

/** A session ends after this time without activity. */
export const idleLimit = Duration.minutes(30)
/** A session ends at the latest this long after its start. */
export const absoluteLimit = Duration.hours(12)
/** Maximum number of sessions per scope. Each scope has its own limit, so that holders of the read token cannot sign out operators. */
export const maxSessions = 100

export interface StoredSession {
  /** Identifies the session for operators. It is not the secret. */
  readonly id: string
  /** `read` allows GET and HEAD only. */
  readonly scope: "read" | "operate"
  /** Shows with which token the session started, without revealing the token. */
  readonly seal: string
  /** Where the user signed in. */
  readonly address: string
  readonly startedAt: number
  readonly lastRequestAt: number
  readonly expiresAt: number
  /** Time until `expiresAt`, in ms. */
  readonly left: number
}

/** Selects sessions that have all of the given properties. */
export interface SessionSelection {
  readonly key?: string
  readonly id?: string
  readonly scope?: StoredSession["scope"]
}

const make = (sql: SqlClient) => {
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

  return convertEach(withRetry, {
    /**
     * Starts a session. `key`: the hash of its secret. If there are then more than `maxSessions` of the same scope, those with the oldest
     * last request end. The statements are not one transaction: a failover that loses a session must not be reported as a loss of data.
     */
    start: Effect.fnUntraced(function*(
      { address, id, key, scope, seal }: Pick<StoredSession, "id" | "scope" | "seal" | "address"> & {
        readonly key: string
      }
    ) {
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
    /** The live session with this key; null if there is none. `isActivity`: whether the idle time of the session starts again. */
    find: (key: string, isActivity: boolean) =>
      Effect.flatMap(time, (now) =>
        isActivity
          ? sql<StoredSession>`
            UPDATE sessions SET last_request_at = ${now}, expires_at =
              CASE WHEN ${now} + ${idle} < started_at + ${absolute} THEN ${now} + ${idle} ELSE started_at + ${absolute} END
            WHERE key = ${key} AND expires_at > ${now} RETURNING ${columns(now)}`
          : sql<StoredSession>`SELECT ${columns(now)} FROM sessions WHERE key = ${key} AND expires_at > ${now}`).pipe(
          Effect.map(([row]) => row ?? null)
        ),
    /** The live sessions, the one with the oldest request first. */
    list: Effect.flatMap(time, (now) =>
      sql<StoredSession>`
        SELECT ${columns(now)} FROM sessions WHERE expires_at > ${now} ORDER BY last_request_at, started_at, id`),
    /** Ends sessions, and adds the operator's action to the audit log unless it is null. Returns the sessions that were live. */
    end: Effect.fnUntraced(function*(
      which: SessionSelection,
      toAction: (ended: ReadonlyArray<StoredSession>) => OperatorAction | null
    ) {
      const now = yield* time
      const rows = yield* sql<StoredSession>`DELETE FROM sessions WHERE ${selected(which)} RETURNING ${columns(now)}`
      const live = rows.filter(({ left }) => left > 0)
      const action = toAction(live)
      if (action !== null) yield* audit.recordAction(action)
      return live
    }, sql.withTransaction)
  })
}

export class StoredSessions
  extends Context.Service<StoredSessions, ReturnType<typeof make>>()("rollcall/store/StoredSessions")
{
  /** The statements need the tables that opening the store creates. */
  static readonly layer: Layer.Layer<StoredSessions, never, SqlClient> = Layer.effect(this, Effect.map(SqlClient, make))
}
