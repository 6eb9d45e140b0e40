/** The contract of the operating API for plugins: their state, their switches, and replays. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Schema from "effect/Schema"
import { DryRunDelivery, failureFields, PluginView } from "../../delivery/admin/PluginAdmin.ts"
import { Conflict, NotFound, ReplayMalformed } from "./Problem.ts"
import { ShowsRecords } from "./ReadAudit.ts"
import { IdRanges, Model, words } from "./Schemas.ts"

export const PluginList = Schema.Struct({
  items: Schema.Array(PluginView),
  next: Schema.Null,
  /** `stopped`: no plugin may write to the API; deliveries that need to write wait. */
  writes: Schema.Literals(["on", "stopped"]),
  delivering: Schema.Struct({
    state: Schema.Literals(["standby", "starting", "running", "waiting", "stopped"]),
    reason: Schema.NullOr(Schema.String)
  })
}).annotate({ identifier: "PluginPage" })
export type PluginList = typeof PluginList.Type

export const UnconfirmedList = Schema.Struct({
  items: Schema.Array(Schema.Struct({
    integration: Schema.String,
    model: Model,
    /** The record in which the effect should appear, or a candidate or job for all of its records. */
    record: Schema.String,
    write: Schema.String,
    plugin: Schema.String,
    delivery: Schema.String,
    depth: Schema.Int,
    reported_at: Schema.String
  })),
  next: Schema.Null
}).annotate({ identifier: "UnconfirmedWritePage" })
export type UnconfirmedList = typeof UnconfirmedList.Type

const ReplayRequest = Schema.Struct({
  handler: Schema.String,
  from: Schema.optionalKey(
    Schema.String.annotate({
      description: "Position of the first event, or a time (default: the oldest retained event)"
    })
  ),
  to: Schema.optionalKey(
    Schema.String.annotate({
      description: "Position of the last event, or the time before which events are replayed (default: now)"
    })
  ),
  integration: Schema.optionalKey(Schema.String),
  dryRun: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "Write nothing, and return the writes that would be sent" })
  ),
  fresh: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "Use a new journal, so that steps that are already done are done again" })
  ),
  limit: Schema.optionalKey(
    Schema.Finite.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: 1000 })).annotate({
      description: "Dry runs only: maximum number of deliveries to try (default: 100)"
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

export const ReplayView = Schema.Struct({
  dry_run: Schema.Boolean,
  plugin: Schema.String,
  handler: Schema.String,
  /** Number of deliveries that were made or, in a dry run, would be made. */
  deliveries: Schema.Int,
  ranges: IdRanges.annotate({
    description: "Ids of the deliveries that were made; `POST /v1/deadletters/progress` shows how far they are"
  }),
  from: Schema.String,
  to: Schema.String,
  /** Dry runs only. */
  results: Schema.Array(Schema.Struct({ ...DryRunDelivery.fields, position: Schema.String })),
  /** Number of deliveries that a dry run left out because of its limit. */
  omitted: Schema.Int
}).annotate({
  identifier: "Replay",
  examples: [{
    dry_run: true,
    plugin: "stage-tags",
    handler: "ats.application.stage_changed",
    deliveries: 1,
    ranges: [],
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

const { message, reason, refusal } = failureFields

export const AttemptsView = Schema.Struct({
  as_of: Schema.String.annotate({ description: "RFC 3339, UTC" }),
  step_seconds: Schema.Int.annotate({ description: "Time that one step counts" }),
  handlers: Schema.Array(Schema.Struct({
    handler: Schema.String,
    steps: Schema.Array(Schema.Struct({
      at: Schema.String.annotate({ description: "Start of the step" }),
      attempts: Schema.Int,
      failed: Schema.Int,
      settled: Schema.Int.annotate({ description: "Deliveries that ended with success" })
    })).annotate({ description: "The steps in which attempts ended, oldest first" }),
    last_failure: Schema.NullOr(
      Schema.Struct({ at: Schema.String, integration: Schema.String, reason, message, refusal })
    ).annotate({ description: "Of these steps, even if the delivery was tried again since; null if no attempt failed" })
  }))
}).annotate({ identifier: "PluginAttempts" })
export type AttemptsView = typeof AttemptsView.Type

const plugin = { plugin: Schema.String }
const switchEndpoint = { params: plugin, query: { integration: Schema.optionalKey(Schema.String) } } as const

export const plugins = HttpApiGroup.make("plugins").add(
  HttpApiEndpoint.get("list", "/v1/plugins", { success: PluginList }).annotateMerge(words(
    "listPlugins",
    "List the plugins",
    "Lists every plugin: its handlers with their position, waiting deliveries and dead letters, and the " +
      "integrations in which it is on."
  )),
  HttpApiEndpoint.get("show", "/v1/plugins/:plugin", {
    params: plugin,
    success: PluginView,
    error: NotFound
  }).annotateMerge(words(
    "getPlugin",
    "Get a plugin",
    "Returns a plugin: its handlers with their position, waiting deliveries and dead letters, and its switches."
  )),
  HttpApiEndpoint.get("attempts", "/v1/plugins/:plugin/attempts", {
    params: plugin,
    success: AttemptsView,
    error: NotFound
  }).annotateMerge(words(
    "getPluginAttempts",
    "Count the attempts of a plugin in the last day",
    "How many attempts of each handler ended and how many of them failed, in steps of ten minutes, with the last failure. An attempt is " +
      "counted within ten seconds; a process that is killed loses the counts of its last ten seconds."
  )),
  HttpApiEndpoint.post("on", "/v1/plugins/:plugin/on", {
    ...switchEndpoint,
    success: PluginView,
    error: [NotFound, Conflict]
  }).annotateMerge(words(
    "switchPluginOn",
    "Switch a plugin on",
    "Switches the plugin on everywhere or in one integration. It continues with the events that it has not seen."
  )),
  HttpApiEndpoint.post("off", "/v1/plugins/:plugin/off", {
    ...switchEndpoint,
    success: PluginView,
    error: [NotFound, Conflict]
  }).annotateMerge(words(
    "switchPluginOff",
    "Switch a plugin off",
    "Switches the plugin off everywhere or in one integration. Running deliveries are finished; all others wait in " +
      "order, and none is lost."
  )),
  HttpApiEndpoint.post("try", "/v1/plugins/:plugin/try", {
    params: plugin,
    query: { handler: Schema.String },
    success: PluginView,
    error: [NotFound, Conflict]
  }).annotateMerge(words(
    "tryHandler",
    "Try a handler with an open circuit now",
    "Tries one delivery at once, instead of at the end of the pause. If it succeeds, the circuit closes and the others follow. 409 if " +
      "the circuit is not open."
  )),
  HttpApiEndpoint.post("stop", "/v1/plugins/writes/stop", { success: PluginList, error: NotFound })
    .annotateMerge(words(
      "stopWrites",
      "Stop the writes of all plugins",
      "Stops the writes of all plugins to the API. Deliveries that need to write wait; requests of handlers to " +
        "other servers continue."
    )),
  HttpApiEndpoint.get("unconfirmed", "/v1/plugins/writes/unconfirmed", {
    success: UnconfirmedList
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "listUnconfirmedWrites",
    "List writes whose effect was never seen",
    "Lists the newest hundred writes of the last week whose effect should appear in a model that Rollcall reads, " +
      "but was not found by two complete sweeps."
  )),
  HttpApiEndpoint.post("resume", "/v1/plugins/writes/resume", {
    success: PluginList,
    error: NotFound
  }).annotateMerge(words(
    "resumeWrites",
    "Allow the writes of plugins again",
    "Ends the stop of all writes: deliveries that waited for it continue."
  )),
  HttpApiEndpoint.post("replay", "/v1/plugins/:plugin/replay", {
    params: plugin,
    payload: ReplayRequest,
    success: ReplayView,
    error: [ReplayMalformed, NotFound, Conflict]
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "replayEvents",
    "Deliver a range of events again",
    "Delivers a range of the event log to one handler again, behind waiting deliveries of the same records. Unless " +
      "`fresh` is true, the journal of the first delivery is used, so completed steps are not repeated. With " +
      "`dryRun` the handler runs at once without writing, and the response lists the writes that it would have sent."
  ))
)
