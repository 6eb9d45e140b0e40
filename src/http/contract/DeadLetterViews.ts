/** A dead letter in the contract of the operating API: why it failed, its attempts and journal, and its unknown outcomes. */
import * as Schema from "effect/Schema"
import { failureFields } from "../../delivery/admin/PluginAdmin.ts"
import { Instant, Kind, Model } from "./Schemas.ts"

export const DeadLetterView = Schema.Struct({
  id: Schema.Int,
  plugin: Schema.String,
  handler: Schema.String,
  integration: Schema.String,
  /** Null for a tick, and if the record was erased. */
  event: Schema.NullOr(Schema.Struct({
    id: Schema.String,
    model: Model,
    record: Schema.String,
    version: Schema.Int,
    kind: Kind
  })),
  /** Position of the event; for a tick, the position after which it fired. */
  position: Schema.String,
  /** Ticks only: when the tick was due. */
  scheduled_at: Instant,
  ...failureFields,
  attempts: Schema.Int,
  created_at: Schema.String,
  died_at: Schema.String,
  /** Number of deliveries of the same record that wait behind the dead letter. */
  parked: Schema.Int,
  /** True if the dead letter was sent again with a new journal. */
  fresh: Schema.Boolean
}).annotate({
  identifier: "DeadLetter",
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
    message: "createEmployee: the form requires a field that the application does not have",
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

const GroupView = Schema.Struct({
  plugin: Schema.String,
  handler: Schema.String,
  cause: Schema.String.annotate({
    description: "Selects the dead letters with this cause, together with `plugin` and `handler`"
  }),
  ...failureFields,
  message: Schema.String.annotate({ description: "Of the newest dead letter" }),
  remedy: Schema.String,
  count: Schema.Int,
  parked: Schema.Int,
  integrations: Schema.Array(Schema.String),
  oldest_at: Schema.String,
  newest_at: Schema.String
}).annotate({ identifier: "DeadLetterGroup" })
export type GroupView = typeof GroupView.Type

export const DeadLetterGroups = Schema.Struct({
  items: Schema.Array(GroupView),
  complete: Schema.Boolean.annotate({
    description: "False if only the hundred causes with the most dead letters are listed"
  })
}).annotate({ identifier: "DeadLetterGroups" })
export type DeadLetterGroups = typeof DeadLetterGroups.Type

/** A write or step whose outcome is unknown, and how to resolve it. */
export const OutcomeView = Schema.Struct({
  outcome: Schema.String.annotate({
    description: "Identifies the outcome in its current state; pass it to `POST …/resolve`"
  }),
  /**
   * `unsent`: not sent, because an operator reported that an earlier write of this kind for this record, with different content,
   * happened. `running`: the attempt that sent it is still running. `answered`: an operator resolved it; the resolution can be corrected until a
   * handler has used it.
   */
  state: Schema.Literals(["unknown", "unsent", "running", "answered"]),
  step: Schema.String,
  /** Name of the write; null for a step that is not a write to the unified API. */
  write: Schema.NullOr(Schema.String),
  method: Schema.NullOr(Schema.String),
  /** Path of the request, with its ids; null for a step. */
  path: Schema.NullOr(Schema.String),
  integration: Schema.NullOr(Schema.String),
  sent_at: Instant,
  /** The delivery that sent the write or ran the step. It may be an earlier, settled delivery if the step is done once per record. */
  delivery: Schema.Int,
  /** The model whose records show the effect of the write; null if no model that Rollcall reads shows it. */
  visible_in: Schema.NullOr(Model),
  /** The first record in which Rollcall saw the effect. */
  seen: Schema.NullOr(Schema.Struct({ model: Model, record: Schema.String, at: Schema.String })),
  /** Where an operator can find out whether it happened, as text. */
  where_to_look: Schema.String,
  /** The command for each of the two resolutions. */
  commands: Schema.Struct({ happened: Schema.String, did_not_happen: Schema.String })
}).annotate({
  identifier: "Outcome",
  examples: [{
    outcome: "5c1f0a9e2b7d",
    state: "unknown",
    step: "employee/createEmployee:tA1y…:9kQz…",
    write: "createEmployee",
    method: "POST",
    path: "/hris/employees/form",
    integration: "workday:acme",
    sent_at: "2026-03-01T12:00:01.000Z",
    delivery: 17,
    visible_in: null,
    seen: null,
    where_to_look: "No model that Rollcall reads shows this write: look in the system that workday:acme connects.",
    commands: {
      happened: "rollcall deadletters resolve 17 --outcome 5c1f0a9e2b7d --happened --id <id>",
      did_not_happen: "rollcall deadletters resolve 17 --outcome 5c1f0a9e2b7d --did-not-happen"
    }
  }]
})
export type OutcomeView = typeof OutcomeView.Type

export const DeadLetterDetailView = Schema.Struct({
  ...DeadLetterView.fields,
  failed_attempts: Schema.Array(Schema.Struct({
    number: Schema.Int,
    started_at: Schema.String,
    failed_at: Schema.String,
    ...failureFields,
    /** Requests of the attempt, to the unified API or to any other server. */
    requests: Schema.Array(Schema.Struct({
      what: Schema.String,
      integration: Schema.NullOr(Schema.String),
      at: Schema.String,
      outcome: Schema.Literals(["done", "refused", "unknown"])
    }))
  })),
  /** The journaled steps. A step that is done is not repeated when the dead letter is sent again. */
  journal: Schema.Array(Schema.Struct({
    step: Schema.String,
    /** Name of the write; null for a step that is not a write. */
    write: Schema.NullOr(Schema.String),
    /** False if the step was started and its outcome is unknown. */
    done: Schema.Boolean,
    begun_at: Schema.String
  })),
  /** Unknown outcomes of writes and steps. The delivery continues once an operator has resolved all of them. */
  outcomes: Schema.Array(OutcomeView)
}).annotate({ identifier: "DeadLetterDetail" })
export type DeadLetterDetailView = typeof DeadLetterDetailView.Type
