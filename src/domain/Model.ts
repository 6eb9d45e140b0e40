/**
 * The model registry: one entry per kind of record, with everything capture needs to know of it as data.
 * A new model is a new entry here and a schema in `api/`.
 *
 * Gotchas
 * - Ids are unique within a model, not across models: every key contains integration, model and id.
 */
import { type IncrementalModel, incrementalModels, lists, type Propagation } from "../api/Lists.ts"
import { reads } from "../api/Reads.ts"

/** Every model Rollcall knows by name; all but `ats.candidate`, which is derived, are read. */
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

/** What is not read but found in the records of another model. */
export type DerivedModel = Exclude<Model, StreamModel>

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

/** What a record shows of another one: equal kind and id mean the same thing, wherever in an integration it is shown. */
export interface NestedKind {
  readonly kind: string
  /** The properties that every place showing this kind has. */
  readonly shared: ReadonlyArray<string>
}

/** A place where another record's content is repeated inside this one. */
export interface NestedReference extends NestedKind {
  /** Path of property names; arrays are walked through. */
  readonly path: ReadonlyArray<string>
}

/** What a record of a model is made of, wherever it comes from. */
export interface RecordEntry {
  readonly model: Model
  readonly nested: ReadonlyArray<NestedReference>
  /** Names of arrays without ids in which order means nothing: compared by content. */
  readonly unordered: ReadonlyArray<string>
  readonly transitions: ReadonlyArray<TransitionRule>
}

export interface ModelEntry extends RecordEntry {
  readonly model: StreamModel
  /** The list has neither filters nor pages nor timestamps: every reading is a full one. */
  readonly sweepOnly?: true
  readonly path: string
  readonly propagation: Readonly<Record<string, Propagation>>
  /** As what other records repeat a record of this model; null = none does. */
  readonly self: NestedKind | null
}

const kind = (name: string, ...shared: ReadonlyArray<string>): NestedKind => ({ kind: name, shared })

const candidate = kind("candidate", "first_name", "last_name", "email_addresses")
const tag = kind("tag", "name")
const stage = kind("stage", "name", "status", "index")
const job = kind("job", "name")
const interview = kind("interview", "title", "starting_at", "ending_at", "location", "canceled")
const offer = kind("offer", "status")
const user = kind("user", "first_name", "last_name", "email")
const employee = kind("employee", "first_name", "last_name", "display_full_name", "work_email", "remote_deleted_at")
const payRun = kind("pay_run", "start_date", "end_date", "legal_entity_id")
const reviewCycle = kind("review_cycle", "name", "review_period_start_date")
const location = kind("location", "name", "type")
const legalEntity = kind("legal_entity", "name")
const group = kind("group", "name", "type")
const skill = kind("skill", "name")
const proficiencyScale = kind("proficiency_scale", "type", "min", "max", "step", "ordered_options")

const at = (path: string, nested: NestedKind): NestedReference => ({ path: path.split("."), ...nested })

const waysToReach = ["phone_numbers", "email_addresses", "social_media"]

/** What a change of a record can mean, by its model; a model that is not here has no such names. */
const transitions = {
  "ats.application": [
    { name: "hired", path: ["outcome"], when: ["HIRED"] },
    { name: "declined", path: ["outcome"], when: ["DECLINED"] },
    { name: "stage_changed", path: ["current_stage_id"], when: "moves" }
  ],
  "ats.offer": [
    { name: "offer_accepted", path: ["status"], when: ["ACCEPTED"] },
    { name: "offer_declined", path: ["status"], when: ["DECLINED"] },
    { name: "offer_sent", path: ["status"], when: ["SENT"] }
  ],
  "hris.performance_review": [{ name: "rated", path: ["summary_rating", "value"], when: "set" }],
  "hris.staffing_entity": [
    { name: "opened", path: ["status"], when: ["OPEN_LIMITED", "OPEN_UNLIMITED"] },
    { name: "filled", path: ["status"], when: ["FILLED"] },
    { name: "closed", path: ["status"], when: ["CLOSED"] },
    { name: "frozen", path: ["status"], when: ["FROZEN"] }
  ]
} as const satisfies Partial<Record<Model, ReadonlyArray<TransitionRule>>>

/** The names of a model's transitions. */
export type TransitionName<M extends Model> = M extends keyof typeof transitions
  ? (typeof transitions)[M][number]["name"]
  : never

const details: Record<IncrementalModel, Pick<ModelEntry, "self" | "nested" | "unordered" | "transitions">> = {
  "ats.application": {
    self: null,
    nested: [
      at("candidate", candidate),
      at("candidate.tags", tag),
      at("current_stage", stage),
      at("job", job),
      at("interviews", interview),
      at("offers", offer)
    ],
    unordered: waysToReach,
    transitions: transitions["ats.application"]
  },
  "ats.scorecard": {
    self: null,
    nested: [at("author", user)],
    unordered: [],
    transitions: []
  },
  "ats.offer": {
    self: offer,
    nested: [at("application.candidate", candidate), at("application.job", job)],
    unordered: ["email_addresses"],
    transitions: transitions["ats.offer"]
  },
  "ats.tag": { self: tag, nested: [], unordered: [], transitions: [] },
  "hris.payslip": {
    self: null,
    nested: [at("employee", employee), at("pay_run", payRun)],
    unordered: [],
    transitions: []
  },
  "hris.performance_review": {
    self: null,
    nested: [at("reviewee", employee), at("reviewer", employee), at("review_cycle", reviewCycle)],
    unordered: [],
    transitions: transitions["hris.performance_review"]
  },
  "hris.performance_review_cycle": { self: reviewCycle, nested: [], unordered: [], transitions: [] },
  "hris.staffing_entity": {
    self: null,
    nested: [
      at("locations", location),
      at("legal_entities", legalEntity),
      at("groups", group),
      at("skills.skill", skill),
      at("skills.skill.proficiency_scale", proficiencyScale)
    ],
    unordered: ["employment_types"],
    transitions: transitions["hris.staffing_entity"]
  },
  "hris.legal_entity": { self: legalEntity, nested: [], unordered: [], transitions: [] },
  "hris.skill": { self: skill, nested: [at("proficiency_scale", proficiencyScale)], unordered: [], transitions: [] },
  "hris.absence_type": { self: null, nested: [], unordered: [], transitions: [] }
}

const packages: ModelEntry = {
  model: "assessment.package",
  sweepOnly: true,
  path: reads.assessmentPackages.path,
  propagation: {},
  self: null,
  nested: [],
  unordered: [],
  transitions: []
}

/** The models that are read. */
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

/** Where the records of a derived model are found: as one property of the records of another. */
export interface DerivedEntry extends RecordEntry {
  readonly model: DerivedModel
  readonly from: StreamModel
  readonly property: string
}

export const derivedRegistry: Readonly<Record<DerivedModel, DerivedEntry>> = {
  "ats.candidate": {
    model: "ats.candidate",
    from: "ats.application",
    property: "candidate",
    nested: [at("tags", tag)],
    unordered: waysToReach,
    transitions: []
  }
}
const derivedModels = Object.values(derivedRegistry)
export const isStreamModel = (model: Model): model is StreamModel => Object.hasOwn(registry, model)
export const isDerived = (model: Model): model is DerivedModel => Object.hasOwn(derivedRegistry, model)

export const entryOf = (model: Model): RecordEntry => isDerived(model) ? derivedRegistry[model] : registry[model]

/** These models, and what is derived of them. */
export const withDerived = (models: ReadonlyArray<StreamModel>): ReadonlyArray<Model> => [
  ...models,
  ...derivedModels.filter(({ from }) => models.includes(from)).map(({ model }) => model)
]

/** What of `models` is derived of one of them. */
export const derivedFrom = (source: Model, models: ReadonlyArray<Model>): DerivedModel | undefined =>
  derivedModels.find(({ from, model }) => from === source && models.includes(model))?.model

/** One model of one integration. */
export interface StreamKey {
  readonly integration: string
  readonly model: Model
}
/** `greenhouse:acme/ats.application`: the stream in logs, metrics and progress keys. */
export const streamName = (key: StreamKey): string => `${key.integration}/${key.model}`
