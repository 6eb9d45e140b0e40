/**
 * The doctor's checks of the processes that share a PostgreSQL database: which processes are running, their versions, clocks and
 * connections.
 */
import * as Duration from "effect/Duration"
import type { FleetInspection, FleetProcess } from "../../store/Processes.ts"
import { type CheckResult, ok, problem, warning } from "./CheckResult.ts"

const skew = { warnAbove: Duration.seconds(5), failAbove: Duration.seconds(30) }
const syncHint = "Synchronize the clock of that machine (NTP)"

const nameOf = ({ host, id }: FleetProcess): string => `process ${id.slice(0, 8)} on ${host}`
const countOf = (processes: number): string =>
  processes === 1 ? "1 process is running" : `${processes} processes are running`

const checkVersions = (alive: ReadonlyArray<FleetProcess>): CheckResult => {
  if (alive.length === 0) return ok("fleet", "no process is running")
  const versions = [...new Set(alive.map(({ version }) => version))]
  return versions.length === 1
    ? ok("fleet", `${countOf(alive.length)}, of version ${versions[0]}`)
    : warning(
      "fleet",
      `${countOf(alive.length)}, of different versions: ${versions.join(", ")}`,
      "Finish the upgrade: `rollcall fleet` shows the version of each process"
    )
}

/** A process that stopped normally is not listed, so a silent process needs attention only while it owns a part of the work. */
const checkSilent = (processes: ReadonlyArray<FleetProcess>): ReadonlyArray<CheckResult> =>
  processes.filter(({ scopes, state }) => state === "silent" && scopes.length > 0).map((process) =>
    warning(
      "fleet",
      `${nameOf(process)} owns ${process.scopes.length} parts of the work and has not reported for ${
        Duration.format(Duration.millis(Math.round(process.silence / 1000) * 1000))
      }`,
      "If no other process is running, start one; if that process is frozen, let it continue or stop it"
    )
  )

const checkProblems = (alive: ReadonlyArray<FleetProcess>): ReadonlyArray<CheckResult> =>
  alive.flatMap((process) =>
    process.problems.map(({ name, reason }) =>
      warning(
        "fleet",
        `${nameOf(process)} reports a problem (${name}): ${reason}`,
        "Correct this in that process: `rollcall fleet` shows when its problem is over"
      )
    )
  )

const checkClockAgainstDatabase = (check: string, offset: number): CheckResult => {
  const size = Duration.millis(Math.round(Math.abs(offset) / 1000) * 1000)
  if (!Duration.isGreaterThan(size, skew.warnAbove)) return ok(check, "agrees with the database's")
  const message = `is ${Duration.format(size)} ${offset > 0 ? "ahead of" : "behind"} the database's`
  return Duration.isGreaterThan(size, skew.failAbove) ?
    problem(
      check,
      message,
      `${syncHint}: the clocks of processes that share the work may differ by at most ${
        Duration.format(skew.failAbove)
      }`
    )
    : warning(check, message, `${syncHint}; no change is lost, but times in events are wrong`)
}

const checkConnections = (
  { available, perProcess }: FleetInspection["connections"],
  processes: number
): CheckResult => {
  const needed = perProcess * processes
  return needed <= available
    ? ok("connections", `the database allows ${available}; ${countOf(processes)} and may need ${needed}`)
    : warning(
      "connections",
      `the database allows ${available}, and ${
        processes === 1 ? "a process" : `${processes} processes`
      } may need ${needed}`,
      "Raise max_connections of PostgreSQL, or connect through a pooler"
    )
}

/** `fleet`: null if the database is not a store yet, or is SQLite. */
export const checkFleet = (fleet: FleetInspection | null): ReadonlyArray<CheckResult> => {
  if (fleet === null) return []
  const alive = fleet.processes.filter(({ state }) => state === "alive")
  return [
    checkVersions(alive),
    ...checkSilent(fleet.processes),
    ...checkProblems(alive),
    checkClockAgainstDatabase("clock of this machine", fleet.clockOffset),
    ...alive.flatMap((process) =>
      process.clockOffset === null
        ? []
        : [checkClockAgainstDatabase(`clock of ${nameOf(process)}`, process.clockOffset)]
    ),
    checkConnections(fleet.connections, Math.max(1, alive.length))
  ]
}
