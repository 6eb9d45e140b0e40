/** The part of the operating API's contract that is about plugins: their state and switches, and replays. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { failureReasons } from "../../store/Deliveries.ts"
import { Conflict, NotFound, ReplayMalformed, StoreUnavailable } from "../Problem.ts"
import { Instant, Model } from "../Schemas.ts"

const HandlerView = Schema.Struct({
  handler: Schema.String,
  /** null of one that the configuration no longer has. */
  trigger: Schema.NullOr(Schema.Struct({ kind: Schema.Literals(["event", "batch", "tick"]), of: Schema.String })),
  /** Up to here of the log its deliveries are made; null before its first. */
  position: Schema.NullOr(Schema.String),
  lag_events: Schema.Number,
  running: Schema.Number,
  /** For their next try, their turn, or for what is dead before them. */
  waiting: Schema.Number,
  due: Schema.Number,
  dead: Schema.Number,
  /** When the oldest of those was made that are not dead. */
  oldest_at: Instant,
  /** So many records failed one after another that it is only probed until one succeeds. */
  circuit_open: Schema.NullOr(Schema.Struct({ until: Schema.String, failures: Schema.Number }))
})

export const PluginView = Schema.Struct({
  plugin: Schema.String,
  configured: Schema.Boolean,
  on: Schema.Boolean,
  handlers: Schema.Array(HandlerView),
  integrations: Schema.Array(Schema.Struct({
    integration: Schema.String,
    /**
     * `unconfigured`: its deliveries wait until it is configured. `removed`: the integration is not configured any more,
     * its deliveries wait until it is added again.
     */
    state: Schema.Literals(["on", "off", "unconfigured", "removed"]),
    reason: Schema.NullOr(Schema.String)
  }))
}).annotate({
  examples: [{
    plugin: "welcome-new-hire",
    configured: true,
    on: true,
    handlers: [{
      handler: "ats.application.hired",
      trigger: { kind: "event", of: "ats.application.hired" },
      position: "k3v9-1-10482",
      lag_events: 0,
      running: 1,
      waiting: 3,
      due: 0,
      dead: 1,
      oldest_at: "2026-03-01T12:00:00.000Z",
      circuit_open: null
    }],
    integrations: [
      { integration: "greenhouse:acme", state: "on", reason: null },
      { integration: "lever:acme", state: "off", reason: "by an operator" }
    ]
  }]
})
export type PluginView = typeof PluginView.Type

export const PluginList = Schema.Struct({
  items: Schema.Array(PluginView),
  next: Schema.Null,
  /** `stopped`: no plugin writes to the API; what wants to waits. */
  writes: Schema.Literals(["on", "stopped"]),
  delivering: Schema.Struct({
    state: Schema.Literals(["starting", "running", "waiting", "stopped"]),
    reason: Schema.NullOr(Schema.String)
  })
})
export type PluginList = typeof PluginList.Type

export const UnconfirmedList = Schema.Struct({
  items: Schema.Array(Schema.Struct({
    integration: Schema.String,
    model: Model,
    /** Where it was looked for: a record, or all of a candidate or a job. */
    record: Schema.String,
    write: Schema.String,
    plugin: Schema.String,
    delivery: Schema.String,
    depth: Schema.Number,
    reported_at: Schema.String
  })),
  next: Schema.Null
})
export type UnconfirmedList = typeof UnconfirmedList.Type

const ReplayRequest = Schema.Struct({
  handler: Schema.String,
  from: Schema.optionalKey(
    Schema.String.annotate({ description: "Position of the first event, or a time; without it the oldest kept" })
  ),
  to: Schema.optionalKey(
    Schema.String.annotate({ description: "Position of the last event, or a time before which it is; without it now" })
  ),
  integration: Schema.optionalKey(Schema.String),
  dryRun: Schema.optionalKey(Schema.Boolean.annotate({ description: "Write nothing; say what would be written" })),
  fresh: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "With a journal of its own: what was done once is done again" })
  ),
  limit: Schema.optionalKey(
    Schema.Finite.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: 1000 })).annotate({
      description: "Of a dry run: at most so many deliveries; 100 without it"
    })
  )
}).annotate({
  examples: [{
    handler: "ats.application.hired",
    from: "2026-03-01T00:00:00Z",
    integration: "greenhouse:acme",
    dryRun: true
  }]
})

/** Why a delivery failed. */
export const failureFields = {
  reason: Schema.Literals(failureReasons),
  message: Schema.String,
  /** Of `Permanent`: what refused. */
  refusal: Schema.NullOr(Schema.String),
  faults: Schema.Array(Schema.Struct({ path: Schema.String, rule: Schema.String, message: Schema.String }))
}

const DryRunRequest = Schema.Struct({
  what: Schema.String,
  integration: Schema.NullOr(Schema.String),
  params: Schema.Record(Schema.String, Schema.Unknown),
  body: Schema.Unknown
})

export const ReplayView = Schema.Struct({
  dry_run: Schema.Boolean,
  plugin: Schema.String,
  handler: Schema.String,
  /** Made, or that would be. */
  deliveries: Schema.Number,
  from: Schema.String,
  to: Schema.String,
  /** Of a dry run. */
  results: Schema.Array(Schema.Struct({
    integration: Schema.String,
    position: Schema.String,
    /** `<model>/<id>` */
    records: Schema.Array(Schema.String),
    requests: Schema.Array(DryRunRequest),
    /** null: it would settle. */
    failure: Schema.NullOr(Schema.Struct(failureFields))
  })),
  /** Left out of a dry run, being too many. */
  omitted: Schema.Number
}).annotate({
  examples: [{
    dry_run: true,
    plugin: "stage-tags",
    handler: "ats.application.stage_changed",
    deliveries: 1,
    from: "k3v9-1-10400",
    to: "k3v9-1-10482",
    results: [{
      integration: "greenhouse:acme",
      position: "k3v9-1-10455",
      records: ["ats.application/8Xi6iZrwusZqJmDGXs49GBmJ"],
      requests: [{
        what: "addTag",
        integration: "greenhouse:acme",
        params: { candidate_id: "26vafvWSRmbhNcxJYqjCzuJg" },
        body: { name: "Interview" }
      }],
      failure: null
    }],
    omitted: 0
  }]
})
export type ReplayView = typeof ReplayView.Type

const plugin = { plugin: Schema.String }
const switchEndpoint = { params: plugin, query: { integration: Schema.optionalKey(Schema.String) } } as const

export const plugins = HttpApiGroup.make("plugins").add(
  HttpApiEndpoint.get("list", "/v1/plugins", { success: PluginList, error: StoreUnavailable }).annotate(
    OpenApi.Description,
    "Every plugin with its handlers, how far each is, what waits and what is dead; and where it is on."
  ),
  HttpApiEndpoint.get("show", "/v1/plugins/:plugin", {
    params: plugin,
    success: PluginView,
    error: [NotFound, StoreUnavailable]
  }),
  HttpApiEndpoint.post("on", "/v1/plugins/:plugin/on", {
    ...switchEndpoint,
    success: PluginView,
    error: [NotFound, Conflict, StoreUnavailable]
  }),
  HttpApiEndpoint.post("off", "/v1/plugins/:plugin/off", {
    ...switchEndpoint,
    success: PluginView,
    error: [NotFound, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Everywhere, or in one integration. What is under way is finished; everything else waits, in order, and nothing is lost."
  ),
  HttpApiEndpoint.post("stop", "/v1/plugins/writes/stop", { success: PluginList, error: [NotFound, StoreUnavailable] })
    .annotate(
      OpenApi.Description,
      "The one switch that keeps all plugins from writing to the API. Deliveries that want to write wait; what handlers send " +
        "to others goes on."
    ),
  HttpApiEndpoint.get("unconfirmed", "/v1/plugins/writes/unconfirmed", {
    success: UnconfirmedList,
    error: StoreUnavailable
  })
    .annotate(
      OpenApi.Description,
      "Writes of the last week that should show in a model that is read, and that two complete sweeps did not find: the newest hundred."
    ),
  HttpApiEndpoint.post("resume", "/v1/plugins/writes/resume", {
    success: PluginList,
    error: [NotFound, StoreUnavailable]
  }),
  HttpApiEndpoint.post("replay", "/v1/plugins/:plugin/replay", {
    params: plugin,
    payload: ReplayRequest,
    success: ReplayView,
    error: [ReplayMalformed, NotFound, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Delivers a stretch of the log to one handler again, behind what waits for the same records. The journal is shared with " +
      "the first time unless `fresh`: what was done once stays done. With `dryRun` the handler runs at once, writes nothing, " +
      "and the answer says what it would have written."
  )
)
