/**
 * The doctor's checks of the processes that share a PostgreSQL database: which processes are running, their versions, clocks and
 * connections.
 */
import * as Duration from "effect/Duration"
import { mattersOf } from "../../http/matters/Matters.ts"
import type { FleetInspection, FleetProcess } from "../../store/Processes.ts"
import { type CheckResult, ok, problem, warning } from "./CheckResult.ts"

const skew = { warnAbove: Duration.seconds(5), failAbove: Duration.seconds(30) }
const syncHint = "Synchronize the clock of that machine (NTP)"

const nameOf = ({ host, id }: Pick<FleetProcess, "host" | "id">): string => `process ${id.slice(0, 8)} on ${host}`
const countOf = (processes: number): string =>
  processes === 1 ? "1 process is running" : `${processes} processes are running`

/** A process that stopped normally is not listed, so a silent process needs attention only while it owns a part of the work. */
const silentHint = "If no other process is running, start one; if that process is frozen, let it continue or stop it"

/** Their versions, those that are silent, and what the others report. */
const checkProcesses = (processes: ReadonlyArray<FleetProcess>): ReadonlyArray<CheckResult> => {
  const alive = processes.filter(({ state }) => state === "alive")
  const matters = mattersOf({ processes })
  const versions = matters.find(({ cause }) => cause === "versions")
  return [
    alive.length === 0
      ? ok("fleet", "no process is running")
      : versions?.cause === "versions"
      ? warning(
        "fleet",
        `${countOf(alive.length)}, of different versions: ${versions.versions.join(", ")}`,
        "Finish the upgrade: `rollcall fleet` shows the version of each process"
      )
      : ok("fleet", `${countOf(alive.length)}, of version ${alive[0]?.version}`),
    ...matters.flatMap((matter) => {
      if (matter.cause === "problem") {
        const message = `${nameOf(matter.process)} reports a problem (${matter.name}): ${matter.reason}`
        return [
          warning("fleet", message, "Correct this in that process: `rollcall fleet` shows when its problem is over")
        ]
      }
      if (matter.cause !== "silent") return []
      const { length: parts } = processes.find((one) => one === matter.process)?.scopes ?? []
      const silence = Duration.format(Duration.millis(Math.round(matter.process.silence / 1000) * 1000))
      const message = `${nameOf(matter.process)} owns ${parts} parts of the work and has not reported for ${silence}`
      return parts === 0 ? [] : [warning("fleet", message, silentHint)]
    })
  ]
}

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
    ...checkProcesses(fleet.processes),
    checkClockAgainstDatabase("clock of this machine", fleet.clockOffset),
    ...alive.flatMap((process) =>
      process.clockOffset === null
        ? []
        : [checkClockAgainstDatabase(`clock of ${nameOf(process)}`, process.clockOffset)]
    ),
    checkConnections(fleet.connections, Math.max(1, alive.length))
  ]
}
