/** `rollcall fleet`: the processes that share the store. */
import type { FleetView, ProcessView } from "../http/contract/FleetApi.ts"
import { oneLine } from "../telemetry/TerminalText.ts"
import { clientCommand } from "./client/ClientCommand.ts"
import { formatMinute, formatPlural, table } from "./terminal/Tables.ts"

const workOf = ({ dispatches, publishes, shards }: ProcessView): string =>
  [
    ...(shards > 0 ? [formatPlural(shards, "shard")] : []),
    ...(publishes ? ["publishes"] : []),
    ...(dispatches ? ["dispatches"] : [])
  ].join(", ") || "–"

const processTable = (processes: ReadonlyArray<ProcessView>): string =>
  table(processes, {
    PROCESS: ({ current, id }) => `${id.slice(0, 8)}${current ? " (answers)" : ""}`,
    STATE: ({ state }) => state,
    VERSION: ({ version }) => version,
    HOST: ({ host }) => host,
    PID: ({ pid }) => String(pid),
    ADDRESS: ({ address }) => address ?? "–",
    STARTED: ({ started_at }) => formatMinute(started_at),
    HEARTBEAT: ({ silence_seconds }) => `${Math.round(silence_seconds)} s ago`,
    WORK: workOf
  })

/** Exported for its test. */
export const fleetText = ({ items, versions }: FleetView): string => {
  const silent = items.filter(({ state }) => state === "silent")
  const stranded = silent.filter(({ dispatches, publishes, shards }) => shards > 0 || publishes || dispatches)
  return [
    items.length === 0 ? "no processes" : processTable(items),
    ...(versions.length > 1
      ? [`The processes run different versions: ${oneLine(versions.join(", "))}. Finish the upgrade.`]
      : []),
    ...items.flatMap(({ host, id, problems }) =>
      problems.map(({ name, reason }) => oneLine(`process ${id.slice(0, 8)} on ${host}, ${name}: ${reason}`))
    ),
    ...(silent.length === 0 ? [] : [
      `${
        formatPlural(silent.length, "process is", "processes are")
      } silent: frozen, killed, or cut off from the database.${
        stranded.length === 0 ? "" : " The other processes take over the work of a silent process."
      }`
    ])
  ].join("\n\n")
}

export const fleet = clientCommand("fleet", {
  description: "List the processes that share the store: version, host, last heartbeat, and the work of each",
  flags: {},
  request: (client) => client.fleet.list(),
  text: fleetText
})
