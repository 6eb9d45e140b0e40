/** The part of the operating API's contract that is about plugins: their state and switches, replays, dead letters. */
import * as Duration from "effect/Duration"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { NotFound, NotNow, ReplayMalformed, StoreAway } from "./Problem.ts"
import { Instant, Length, Limit, Model, page, PositiveInt } from "./Shape.ts"

// ---- plugins ------------------------------------------------------------------------------------------------------

const HandlerView = Schema.Struct({
  handler: Schema.String,
  /** null of one that the configuration no longer has. */
  occasion: Schema.NullOr(Schema.Struct({ kind: Schema.Literals(["event", "batch", "tick"]), of: Schema.String })),
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
  resting: Schema.NullOr(Schema.Struct({ until: Schema.String, failures: Schema.Number }))
})

export const PluginView = Schema.Struct({
  plugin: Schema.String,
  configured: Schema.Boolean,
  on: Schema.Boolean,
  handlers: Schema.Array(HandlerView),
  integrations: Schema.Array(Schema.Struct({
    integration: Schema.String,
    /** `unconfigured`: its deliveries wait until it is configured. */
    state: Schema.Literals(["on", "off", "unconfigured"]),
    reason: Schema.NullOr(Schema.String)
  }))
}).annotate({
  examples: [{
    plugin: "welcome-new-hire",
    configured: true,
    on: true,
    handlers: [{
      handler: "ats.application.hired",
      occasion: { kind: "event", of: "ats.application.hired" },
      position: "k3v9-1-10482",
      lag_events: 0,
      running: 1,
      waiting: 3,
      due: 0,
      dead: 1,
      oldest_at: "2026-03-01T12:00:00.000Z",
      resting: null
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

const Stretch = Schema.Struct({
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

const failure = {
  reason: Schema.Literals(["Transient", "RateLimited", "Permanent", "TimedOut", "Defect", "LoopDetected"]),
  message: Schema.String,
  /** Of `Permanent`: what refused. */
  refusal: Schema.NullOr(Schema.String),
  faults: Schema.Array(Schema.Struct({ path: Schema.String, rule: Schema.String, message: Schema.String }))
}

const WouldAsk = Schema.Struct({
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
  rehearsed: Schema.Array(Schema.Struct({
    integration: Schema.String,
    position: Schema.String,
    /** `<model>/<id>` */
    records: Schema.Array(Schema.String),
    would: Schema.Array(WouldAsk),
    /** null: it would settle. */
    failure: Schema.NullOr(Schema.Struct(failure))
  })),
  /** Left out of a dry run, being too many. */
  left: Schema.Number
}).annotate({
  examples: [{
    dry_run: true,
    plugin: "stage-tags",
    handler: "ats.application.stage_changed",
    deliveries: 1,
    from: "k3v9-1-10400",
    to: "k3v9-1-10482",
    rehearsed: [{
      integration: "greenhouse:acme",
      position: "k3v9-1-10455",
      records: ["ats.application/8Xi6iZrwusZqJmDGXs49GBmJ"],
      would: [{
        what: "addTag",
        integration: "greenhouse:acme",
        params: { candidate_id: "26vafvWSRmbhNcxJYqjCzuJg" },
        body: { name: "Interview" }
      }],
      failure: null
    }],
    left: 0
  }]
})
export type ReplayView = typeof ReplayView.Type

const plugin = { plugin: Schema.String }
const switching = { params: plugin, query: { integration: Schema.optionalKey(Schema.String) } } as const

export const plugins = HttpApiGroup.make("plugins").add(
  HttpApiEndpoint.get("list", "/v1/plugins", { success: PluginList, error: StoreAway }).annotate(
    OpenApi.Description,
    "Every plugin with its handlers, how far each is, what waits and what is dead; and where it is on."
  ),
  HttpApiEndpoint.get("show", "/v1/plugins/:plugin", {
    params: plugin,
    success: PluginView,
    error: [NotFound, StoreAway]
  }),
  HttpApiEndpoint.post("on", "/v1/plugins/:plugin/on", {
    ...switching,
    success: PluginView,
    error: [NotFound, NotNow, StoreAway]
  }),
  HttpApiEndpoint.post("off", "/v1/plugins/:plugin/off", {
    ...switching,
    success: PluginView,
    error: [NotFound, NotNow, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Everywhere, or in one integration. What is under way is finished; everything else waits, in order, and nothing is lost."
  ),
  HttpApiEndpoint.post("stop", "/v1/plugins/writes/stop", { success: PluginList, error: [NotFound, StoreAway] })
    .annotate(
      OpenApi.Description,
      "The one switch that keeps all plugins from writing to the API. Deliveries that want to write wait; what handlers send " +
        "to others goes on."
    ),
  HttpApiEndpoint.get("unconfirmed", "/v1/plugins/writes/unconfirmed", { success: UnconfirmedList, error: StoreAway })
    .annotate(
      OpenApi.Description,
      "Writes of the last week that should show in a model that is read, and that two complete sweeps did not find: the newest hundred."
    ),
  HttpApiEndpoint.post("resume", "/v1/plugins/writes/resume", { success: PluginList, error: [NotFound, StoreAway] }),
  HttpApiEndpoint.post("replay", "/v1/plugins/:plugin/replay", {
    params: plugin,
    payload: Stretch,
    success: ReplayView,
    error: [ReplayMalformed, NotFound, NotNow, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Delivers a stretch of the log to one handler again, behind what waits for the same records. The journal is shared with " +
      "the first time unless `fresh`: what was done once stays done. With `dryRun` the handler runs at once, writes nothing, " +
      "and the answer says what it would have written."
  )
)

// ---- dead letters -------------------------------------------------------------------------------------------------

export const DeadLetterView = Schema.Struct({
  id: Schema.Number,
  plugin: Schema.String,
  handler: Schema.String,
  integration: Schema.String,
  /** null: a tick, or the record is erased. */
  event: Schema.NullOr(Schema.Struct({
    id: Schema.String,
    model: Model,
    record: Schema.String,
    version: Schema.Number,
    kind: Schema.Literals(["created", "updated", "deleted"])
  })),
  /** Of the event, or behind the tick. */
  position: Schema.String,
  /** Of a tick: when it was due. */
  scheduled_at: Instant,
  ...failure,
  attempts: Schema.Number,
  created_at: Schema.String,
  died_at: Schema.String,
  /** Deliveries of the same record that wait behind it. */
  parked: Schema.Number,
  /** It has a journal of its own. */
  fresh: Schema.Boolean
}).annotate({
  examples: [{
    id: 17,
    plugin: "welcome-new-hire",
    handler: "ats.application.hired",
    integration: "greenhouse:acme",
    event: {
      id: "9pHLsmL0vyOrBnsfPvjNPrg0KZ9nVDhGHHSTP5c1RmQ",
      model: "ats.application",
      record: "8Xi6iZrwusZqJmDGXs49GBmJ",
      version: 4,
      kind: "updated"
    },
    position: "k3v9-1-10482",
    scheduled_at: null,
    reason: "Permanent",
    message: "createEmployee: the form wants what the application does not have",
    refusal: "Invalid",
    faults: [{ path: "/body/properties/start_date", rule: "required", message: "is required" }],
    attempts: 1,
    created_at: "2026-03-01T12:00:00.000Z",
    died_at: "2026-03-01T12:00:02.000Z",
    parked: 1,
    fresh: false
  }]
})
export type DeadLetterView = typeof DeadLetterView.Type

export const StoryView = Schema.Struct({
  ...DeadLetterView.fields,
  attempted: Schema.Array(Schema.Struct({
    number: Schema.Number,
    started_at: Schema.String,
    failed_at: Schema.String,
    ...failure,
    /** What it asked the API, or anybody. */
    requests: Schema.Array(Schema.Struct({
      what: Schema.String,
      integration: Schema.NullOr(Schema.String),
      at: Schema.String,
      outcome: Schema.Literals(["done", "refused", "unknown"])
    }))
  })),
  /** What is not done again when this is sent again. */
  journal: Schema.Array(Schema.Struct({
    step: Schema.String,
    /** Name of the write, if it was one. */
    write: Schema.NullOr(Schema.String),
    /** False: begun, and nobody knows what became of it. */
    done: Schema.Boolean,
    begun_at: Schema.String
  }))
})
export type StoryView = typeof StoryView.Type

const Which = {
  plugin: Schema.optionalKey(Schema.String),
  handler: Schema.optionalKey(Schema.String),
  integration: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(failure.reason),
  since: Schema.optionalKey(Schema.DateTimeUtcFromString),
  until: Schema.optionalKey(Schema.DateTimeUtcFromString)
}

const Filter = {
  ...Which,
  ids: Schema.optionalKey(Schema.Array(Schema.Finite).annotate({ description: "Only these of them" }))
}

const Planned = {
  ...Filter,
  plan: Schema.String.annotate({ description: "`plan` as `POST /v1/deadletters/plan` gave it for the same filter" })
}

const share = { plugin: Schema.String, handler: Schema.String, reason: failure.reason, count: Schema.Number }

export const PlanView = Schema.Struct({
  plan: Schema.String.annotate({ description: "Stands for exactly these letters, as they died" }),
  count: Schema.Number,
  parked: Schema.Number,
  shares: Schema.Array(Schema.Struct(share))
}).annotate({
  examples: [{
    plan: "5c1f0a9e2b7d4e63",
    count: 12,
    parked: 4,
    shares: [{ plugin: "webhook", handler: "ats.application.hired", reason: "Transient", count: 12 }]
  }]
})
export type PlanView = typeof PlanView.Type

export const RedriveView = Schema.Struct({ count: Schema.Number, from: Schema.String, to: Schema.String })
export const DiscardView = Schema.Struct({ count: Schema.Number })

const Over = Length.check(
  Schema.makeFilter((text) =>
    Option.isSome(Duration.fromInput(text as Duration.Input)) || "write a number and a unit, such as 10 minutes"
  )
)

export const deadLetters = HttpApiGroup.make("deadletters").add(
  HttpApiEndpoint.get("list", "/v1/deadletters", {
    query: { ...Which, after: Schema.optionalKey(PositiveInt), limit: Schema.optionalKey(Limit) },
    success: page(DeadLetterView),
    error: StoreAway
  }).annotate(
    OpenApi.Description,
    "Deliveries that were given up, oldest first. `since` and `until` are about when they died."
  ),
  HttpApiEndpoint.get("show", "/v1/deadletters/:id", {
    params: { id: PositiveInt },
    success: StoryView,
    error: [NotFound, StoreAway]
  }).annotate(OpenApi.Description, "One with its whole story: each attempt, what it asked for, what is journaled."),
  HttpApiEndpoint.post("plan", "/v1/deadletters/plan", {
    payload: Schema.Struct(Filter),
    success: PlanView,
    error: [NotFound, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Counts what a filter means, and names exactly that. Changes nothing. 404 if one of `ids` is not there, or not of the filter."
  ),
  HttpApiEndpoint.post("redrive", "/v1/deadletters/redrive", {
    payload: Schema.Struct({
      ...Planned,
      over: Schema.optionalKey(Over),
      fresh: Schema.optionalKey(Schema.Boolean)
    }).annotate({ examples: [{ plugin: "webhook", plan: "5c1f0a9e2b7d4e63", over: "10 minutes" }] }),
    success: RedriveView,
    error: [NotNow, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Sends what was planned again, evenly `over` a time, a week at most, with what was journaled unless `fresh`. 409 if other letters match " +
      "by now. Cut short, the rest is dead as before: plan again."
  ),
  HttpApiEndpoint.post("discard", "/v1/deadletters/discard", {
    payload: Schema.Struct(Planned),
    success: DiscardView,
    error: [NotNow, StoreAway]
  }).annotate(OpenApi.Description, "Gives what was planned up for good; what waits behind it goes on.")
)
