/** The contract of the operating API for the processes that share the store. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Schema from "effect/Schema"
import { page, words } from "./Schemas.ts"

const ProcessView = Schema.Struct({
  id: Schema.String.annotate({ description: "Each start of a process has a new id" }),
  current: Schema.Boolean.annotate({ description: "Whether this process sent the response" }),
  version: Schema.String,
  host: Schema.String,
  pid: Schema.Int,
  address: Schema.NullOr(Schema.String).annotate({
    description: "Where its operating API listens; null if it has none, as during `start --once`"
  }),
  started_at: Schema.String,
  last_heartbeat_at: Schema.String,
  silence_seconds: Schema.Finite.annotate({ description: "Time since the last heartbeat" }),
  state: Schema.Literals(["alive", "silent"]).annotate({
    description: "`silent`: it sends no heartbeats, because it is frozen, was killed, or cannot reach the database"
  }),
  clock_offset_seconds: Schema.NullOr(Schema.Finite).annotate({
    description: "How far its clock is ahead of the database's; null until it is measured"
  }),
  shards: Schema.Int.annotate({
    description: "How many of the 64 shards it owns. The owner of a shard reads its streams and runs its deliveries"
  }),
  publishes: Schema.Boolean.annotate({ description: "Whether it publishes the event log to Kafka" }),
  dispatches: Schema.Boolean.annotate({
    description: "Whether it creates the deliveries of new events, for all shards"
  }),
  problems: Schema.Array(Schema.Struct({ name: Schema.String, reason: Schema.String })).annotate({
    description: "The parts of this process that do not work, such as its connection to Kafka; none if it is silent"
  })
}).annotate({ identifier: "Process" })
export type ProcessView = typeof ProcessView.Type

export const FleetView = Schema.Struct({
  ...page(ProcessView).fields,
  versions: Schema.Array(Schema.String).annotate({
    description: "The versions of the processes that are alive; more than one during an upgrade"
  })
}).annotate({ identifier: "ProcessPage" })
export type FleetView = typeof FleetView.Type

export const fleet = HttpApiGroup.make("fleet").add(
  HttpApiEndpoint.get("list", "/v1/fleet", { success: FleetView }).annotateMerge(words(
    "listProcesses",
    "List the processes",
    "Lists the processes that share the store, in the order in which they started. A process that stopped normally is not " +
      "listed; one that was killed is listed for a day. All times are those of the database's clock."
  ))
)
