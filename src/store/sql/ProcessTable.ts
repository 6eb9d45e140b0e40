/** The `Processes` port over any `SqlClient`: the processes that have the store open, and the scopes that each of them owns. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import { randomUUID } from "node:crypto"
import { type FleetProcess, Processes } from "../Processes.ts"
import { EncryptionKeys } from "./ContentCipher.ts"
import * as DatabaseTime from "./DatabaseTime.ts"
import { Observed } from "./Health.ts"
import { withRetry } from "./SqlRetry.ts"

/**
 * A process without a heartbeat for longer than `silent` is silent. SQLite has one process, so its heartbeat may be rare, and a process
 * that sent none since this one started has ended (`replaces`).
 */
const timings = {
  postgres: { interval: Duration.seconds(2), silent: Duration.seconds(10), replaces: false },
  sqlite: { interval: Duration.minutes(1), silent: Duration.minutes(5), replaces: true }
}
const kept = Duration.days(1)

type Found = Omit<FleetProcess, "state" | "scopes" | "problems"> & {
  readonly scope: string | null
  readonly problems: string
}

const timingOf = (sql: SqlClient) => sql.onDialectOrElse({ pg: () => timings.postgres, orElse: () => timings.sqlite })

/** The condition for rows of `processes` that are not silent. */
export const isAlive = (sql: SqlClient): Effect.Effect<Fragment> =>
  Effect.map(
    DatabaseTime.make(sql),
    (now) => sql`seen_at >= ${now} - ${sql.literal(String(Duration.toMillis(timingOf(sql).silent)))}`
  )

/** `self`: the id of this process. `key`: the id of the key with which it encrypts; null if it does not encrypt. */
export const make = (sql: SqlClient, self: string, key: string | null): Processes["Service"] => {
  const timing = timingOf(sql)
  const time = DatabaseTime.make(sql)

  const toProcesses = (rows: ReadonlyArray<Found>): ReadonlyArray<FleetProcess> => {
    const startedAt = timing.replaces ? rows.find(({ id }) => id === self)?.startedAt ?? 0 : 0
    return [...Map.groupBy(rows, ({ id }) => id).values()].map((own) => {
      const { scope: _, ...first } = own[0]!
      const silence = Math.max(0, first.silence)
      const isSilent = first.id !== self &&
        (silence > Duration.toMillis(timing.silent) || first.seenAt < startedAt)
      return {
        ...first,
        silence,
        problems: isSilent ? [] : JSON.parse(first.problems),
        state: isSilent ? "silent" : "alive",
        scopes: own.flatMap(({ scope }) => scope === null ? [] : [scope])
      }
    })
  }

  return {
    self,
    heartbeatInterval: timing.interval,
    report: Effect.fnUntraced(
      function*({ address, clockOffset, host, pid, problems, version }) {
        const listed = JSON.stringify(problems)
        const now = yield* time
        // the update comes first, because a late insert would add a process again that has already ended
        const updated = yield* sql<{ at: number }>`
          UPDATE processes SET seen_at = ${now}, address = ${address}, clock_offset = ${clockOffset},
            problems = ${listed}
          WHERE id = ${self} RETURNING seen_at AS at`
        const [row] = updated.length > 0 ? updated : yield* sql<{ at: number }>`
          INSERT INTO processes
            (id, version, host, pid, address, clock_offset, problems, encryption_key, started_at, seen_at)
          VALUES (${self}, ${version}, ${host}, ${pid}, ${address}, ${clockOffset}, ${listed}, ${key}, ${now}, ${now})
          ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at RETURNING seen_at AS at`
        return Number(row?.at)
      },
      withRetry("reportProcess"),
      // no operation waits for a heartbeat, so a failed one is not an outage of the store
      Effect.provideService(Observed, false)
    ),
    leave: sql`DELETE FROM processes WHERE id = ${self}`.pipe(
      Effect.asVoid,
      withRetry("leave"),
      Effect.provideService(Observed, false)
    ),
    list: Effect.flatMap(time, (now) =>
      sql<Found>`
        SELECT p.id, p.version, p.host, p.pid, p.address, p.clock_offset AS "clockOffset", p.started_at AS "startedAt",
          p.problems, p.seen_at AS "seenAt", ${now} - p.seen_at AS silence, o.scope
        FROM processes p LEFT JOIN ownership o ON o.process = p.id
        ORDER BY p.started_at, p.id, o.scope`).pipe(Effect.map(toProcesses), withRetry("processes")),
    prune: Effect.flatMap(
      time,
      // a time in the future is from before the clock was set back: the process of such a row would never be silent   (W4)
      (now) => sql`DELETE FROM processes WHERE abs(${now} - seen_at) > ${sql.literal(String(Duration.toMillis(kept)))}`
    ).pipe(Effect.asVoid, withRetry("pruneProcesses"))
  }
}

/** The statements need the tables that opening the store creates. */
export const layer: Layer.Layer<Processes, never, SqlClient> = Layer.effect(
  Processes,
  Effect.gen(function*() {
    const [current] = yield* EncryptionKeys
    return Processes.of(make(yield* SqlClient, randomUUID(), current?.id ?? null))
  })
)
