/**
 * The model registry: one entry per kind of record, with everything capture needs to know of it as data.
 * A new model is a new entry here and a schema in `api/`.
 *
 * Gotchas
 * - Ids are unique within a model, not across models: every key contains integration, model and id.
 */
import { type IncrementalModel, incrementalModels, lists, type Propagation } from "../api/Lists.ts"
import { reads } from "../api/Reads.ts"

/** Every model Rollcall knows by name; all but `ats.candidate`, which is derived, have a stream. */
export const modelNames = [
  "ats.application",
  "ats.scorecard",
  "ats.offer",
  "ats.tag",
  "ats.candidate",
  "hris.payslip",
  "hris.performance_review",
  "hris.performance_review_cycle",
  "hris.staffing_entity",
  "hris.legal_entity",
  "hris.skill",
  "hris.absence_type",
  "assessment.package"
] as const
export type Model = (typeof modelNames)[number]
export const isModel = (name: string): name is Model => (modelNames as ReadonlyArray<string>).includes(name)

/** What a stream reads: an incremental list, or the one list that is only ever shown whole. */
export type StreamModel = IncrementalModel | "assessment.package"

/** A named step that a change of one property means. */
export interface TransitionRule {
  readonly name: string
  /** Path of property names to the value that decides. */
  readonly path: ReadonlyArray<string>
  /**
   * A list: the value enters it, coming from outside it (or from nothing). `set`: it becomes a value, other than before.
   * `moves`: it goes from one value to another; appearing for the first time is no move.
   */
  readonly when: ReadonlyArray<string> | "set" | "moves"
}

/** A place where another record's content is repeated inside this one. */
export interface NestedReference {
  /** Path of property names; arrays are walked through. */
  readonly path: ReadonlyArray<string>
  /** What is repeated there: equal kind and id mean the same thing. */
  readonly kind: string
  /** The properties that every place showing this kind has. */
  readonly shared: ReadonlyArray<string>
}

export interface ModelEntry {
  readonly model: StreamModel
  /** The list has neither filters nor pages nor timestamps: every reading is a full one. */
  readonly full?: true
  readonly path: string
  readonly propagation: Readonly<Record<string, Propagation>>
  readonly nested: ReadonlyArray<NestedReference>
  /** Names of arrays without ids in which order means nothing: compared by content. */
  readonly unordered: ReadonlyArray<string>
  readonly transitions: ReadonlyArray<TransitionRule>
}

const person = ["first_name", "last_name"]
const named = ["name"]
const at = (path: string, kind: string, shared: ReadonlyArray<string>): NestedReference => ({
  path: path.split("."),
  kind,
  shared
})

const details: Record<IncrementalModel, Pick<ModelEntry, "nested" | "unordered" | "transitions">> = {
  "ats.application": {
    nested: [
      at("candidate", "candidate", person),
      at("candidate.tags", "tag", named),
      at("current_stage", "stage", named),
      at("job", "job", named),
      at("interviews", "interview", ["title"]),
      at("offers", "offer", ["status"])
    ],
    unordered: ["phone_numbers", "email_addresses", "social_media"],
    transitions: [
      { name: "hired", path: ["outcome"], when: ["HIRED"] },
      { name: "declined", path: ["outcome"], when: ["DECLINED"] },
      { name: "stage_changed", path: ["current_stage_id"], when: "moves" }
    ]
  },
  "ats.scorecard": {
    nested: [at("author", "user", person)],
    unordered: [],
    transitions: []
  },
  "ats.offer": {
    nested: [at("application.candidate", "candidate", person), at("application.job", "job", named)],
    unordered: ["email_addresses"],
    transitions: [
      { name: "offer_accepted", path: ["status"], when: ["ACCEPTED"] },
      { name: "offer_declined", path: ["status"], when: ["DECLINED"] },
      { name: "offer_sent", path: ["status"], when: ["SENT"] }
    ]
  },
  "ats.tag": { nested: [], unordered: [], transitions: [] },
  "hris.payslip": {
    nested: [at("employee", "employee", person), at("pay_run", "pay_run", ["start_date", "end_date"])],
    unordered: [],
    transitions: []
  },
  "hris.performance_review": {
    nested: [
      at("reviewee", "employee", person),
      at("reviewer", "employee", person),
      at("review_cycle", "review_cycle", named)
    ],
    unordered: [],
    transitions: [{ name: "rated", path: ["summary_rating", "value"], when: "set" }]
  },
  "hris.performance_review_cycle": { nested: [], unordered: [], transitions: [] },
  "hris.staffing_entity": {
    nested: [
      at("locations", "location", named),
      at("legal_entities", "legal_entity", named),
      at("groups", "group", named),
      at("skills.skill", "skill", named)
    ],
    unordered: ["employment_types"],
    transitions: [
      { name: "opened", path: ["status"], when: ["OPEN_LIMITED", "OPEN_UNLIMITED"] },
      { name: "filled", path: ["status"], when: ["FILLED"] },
      { name: "closed", path: ["status"], when: ["CLOSED"] },
      { name: "frozen", path: ["status"], when: ["FROZEN"] }
    ]
  },
  "hris.legal_entity": { nested: [], unordered: [], transitions: [] },
  "hris.skill": {
    nested: [at("proficiency_scale", "proficiency_scale", ["type"])],
    unordered: [],
    transitions: []
  },
  "hris.absence_type": { nested: [], unordered: [], transitions: [] }
}

const packages: ModelEntry = {
  model: "assessment.package",
  full: true,
  path: reads.assessmentPackages.path,
  propagation: {},
  nested: [],
  unordered: [],
  transitions: []
}

/** The models that have a stream. */
export const registry: Readonly<Record<StreamModel, ModelEntry>> = {
  ...Object.fromEntries(
    incrementalModels.map((model) => [
      model,
      { model, path: lists[model].path, propagation: lists[model].propagation, ...details[model] }
    ])
  ) as Record<IncrementalModel, ModelEntry>,
  "assessment.package": packages
}
export const streamModels = Object.keys(registry) as ReadonlyArray<StreamModel>

/** One model of one integration. */
export interface StreamKey {
  readonly integration: string
  readonly model: Model
}
/** `greenhouse:acme/ats.application`: the stream in logs, metrics and progress keys. */
export const streamName = (key: StreamKey): string => `${key.integration}/${key.model}`
