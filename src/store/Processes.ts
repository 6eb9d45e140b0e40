/**
 * The processes that have the store open, and the scopes that each of them owns: on PostgreSQL a fleet, on SQLite one process.
 *
 * Gotchas
 * - All times are those of the database's clock, because the clocks of two processes may differ.
 * - A row shows that a process was seen, not that it may write: only the fence decides that   (I10).
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import { randomUUID } from "node:crypto"
import { EncryptionKeys } from "./sql/ContentCipher.ts"
import * as DatabaseTime from "./sql/DatabaseTime.ts"
import { Observed } from "./sql/Health.ts"
import { withRetry } from "./sql/SqlRetry.ts"

/** A part of a process that does not work. */
export interface ProcessProblem {
  /** `kafka`, `plugins` */
  readonly name: string
  readonly reason: string
}

/** The report of a process about itself. */
export interface ProcessReport {
  readonly version: string
  readonly host: string
  readonly pid: number
  /** URL of its operating API; null without one. */
  readonly address: string | null
  /** How far its clock is ahead of the database's, in ms; null if not measured yet. */
  readonly clockOffset: number | null
  readonly problems: ReadonlyArray<ProcessProblem>
}

/** `problems` are those of a process that is alive: what a silent one reported last may be over. */
export interface FleetProcess extends ProcessReport {
  readonly id: string
  readonly startedAt: number
  readonly seenAt: number
  /** Time since the last heartbeat, in ms. */
  readonly silence: number
  /**
   * `silent`: several heartbeats are missing (`timings` has the time), because the process was frozen, killed
   * or cut off from the database. The process that queries the list is always `alive`.
   */
  readonly state: "alive" | "silent"
  /** The ownership scopes whose latest owner is this process. */
  readonly scopes: ReadonlyArray<string>
}

/** The processes of a database, as an inspection finds them. */
export interface FleetInspection {
  readonly processes: ReadonlyArray<FleetProcess>
  /** How far the clock of this machine is ahead of the database's, in ms. */
  readonly clockOffset: number
  readonly connections: {
    /** How many the database allows to users without special rights. */
    readonly available: number
    /** How many a process may open. */
    readonly perProcess: number
  }
}

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
export const make = (sql: SqlClient, self: string, key: string | null) => {
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
    /** Id of this process. It is new each time that the store is opened. */
    self,
    /** Time between two reports of a process. */
    heartbeatInterval: timing.interval,
    /**
     * Reports that this process is running; the first report adds the process. Returns the time of the database. The
     * statements of the report run outside of a transaction, because a failover that loses them must not be reported as a loss of data.
     */
    report: Effect.fnUntraced(
      function*({ address, clockOffset, host, pid, problems, version }: ProcessReport) {
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
    /** Removes this process. */
    leave: sql`DELETE FROM processes WHERE id = ${self}`.pipe(
      Effect.asVoid,
      withRetry("leave"),
      Effect.provideService(Observed, false)
    ),
    /** The processes, in the order in which they started. */
    list: Effect.flatMap(time, (now) =>
      sql<Found>`
        SELECT p.id, p.version, p.host, p.pid, p.address, p.clock_offset AS "clockOffset", p.started_at AS "startedAt",
          p.problems, p.seen_at AS "seenAt", ${now} - p.seen_at AS silence, o.scope
        FROM processes p LEFT JOIN ownership o ON o.process = p.id
        ORDER BY p.started_at, p.id, o.scope`).pipe(Effect.map(toProcesses), withRetry("processes")),
    /** Removes processes without a heartbeat for a day. */
    prune: Effect.flatMap(
      time,
      // a time in the future is from before the clock was set back: the process of such a row would never be silent   (W4)
      (now) => sql`DELETE FROM processes WHERE abs(${now} - seen_at) > ${sql.literal(String(Duration.toMillis(kept)))}`
    ).pipe(Effect.asVoid, withRetry("pruneProcesses"))
  }
}

export class Processes extends Context.Service<Processes, ReturnType<typeof make>>()("rollcall/store/Processes") {
  /** The statements need the tables that opening the store creates. */
  static readonly layer: Layer.Layer<Processes, never, SqlClient> = Layer.effect(
    this,
    Effect.gen(function*() {
      const [current] = yield* EncryptionKeys
      return make(yield* SqlClient, randomUUID(), current?.id ?? null)
    })
  )
}
