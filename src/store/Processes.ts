/**
 * The port to the processes that have the store open: on PostgreSQL a fleet, on SQLite one process.
 *
 * Gotchas
 * - All times are those of the database's clock, because the clocks of two processes may differ.
 * - A row shows that a process was seen, not that it may write: only the fence decides that   (I10).
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { StoreError } from "./Store.ts"

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
   * `silent`: several heartbeats are missing (`timings` in `sql/ProcessTable.ts` has the time), because the process was frozen, killed
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

type Operation<A> = Effect.Effect<A, StoreError>

export class Processes extends Context.Service<Processes, {
  /** Id of this process. It is new each time that the store is opened. */
  readonly self: string
  /** Time between two reports of a process. */
  readonly heartbeatInterval: Duration.Duration
  /**
   * Reports that this process is running; the first report adds the process. Returns the time of the database. The
   * statements of the report run outside of a transaction, because a failover that loses them must not be reported as a loss of data.
   */
  readonly report: (report: ProcessReport) => Operation<number>
  /** Removes this process. */
  readonly leave: Operation<void>
  /** The processes, in the order in which they started. */
  readonly list: Operation<ReadonlyArray<FleetProcess>>
  /** Removes processes without a heartbeat for a day. */
  readonly prune: Operation<void>
}>()("rollcall/store/Processes") {}
