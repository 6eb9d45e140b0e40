/** The processes that share the store, as `GET /v1/fleet` lists them. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { captureScopes, dispatchScope } from "../../domain/Shard.ts"
import { formatTime } from "../../domain/Watermark.ts"
import { relayReader } from "../../store/EventLog.ts"
import { type FleetProcess, Processes } from "../../store/Processes.ts"
import { Api } from "../contract/Api.ts"
import type { FleetView, ProcessView } from "../contract/FleetApi.ts"
import { versionsOf } from "../matters/Matters.ts"

const processView = (self: string) => (process: FleetProcess): ProcessView => ({
  id: process.id,
  current: process.id === self,
  version: process.version,
  host: process.host,
  pid: process.pid,
  address: process.address,
  started_at: formatTime(process.startedAt),
  last_heartbeat_at: formatTime(process.seenAt),
  silence_seconds: process.silence / 1000,
  state: process.state,
  clock_offset_seconds: process.clockOffset === null ? null : process.clockOffset / 1000,
  shards: captureScopes.filter((scope) => process.scopes.includes(scope)).length,
  publishes: process.scopes.includes(relayReader),
  dispatches: process.scopes.includes(dispatchScope),
  problems: process.problems
})

/** `self`: the id of this process. */
export const viewOf = (self: string, processes: ReadonlyArray<FleetProcess>): FleetView => {
  const items = processes.map(processView(self))
  return { items, next: null, versions: versionsOf(processes) }
}

export const layer = HttpApiBuilder.group(
  Api,
  "fleet",
  (handlers) =>
    handlers.handle("list", () =>
      Effect.gen(function*() {
        const { list, self } = yield* Processes
        return viewOf(self, yield* list)
      }))
)
