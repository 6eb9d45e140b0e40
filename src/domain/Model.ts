/**
 * The model registry: one entry per kind of record, with everything that capture needs to know about it, as data.
 * CONTRIBUTING.md describes how to add a model.
 *
 * Gotchas
 * - Ids are unique within a model, not across models, so every key contains integration, model and id.
 */
import { type IncrementalModel, incrementalModels, lists, type Propagation } from "../api/Lists.ts"
import { reads } from "../api/Reads.ts"

/** Every model that Rollcall knows. All are read from the API except `ats.candidate`, which is derived. */
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

/** Models that a stream reads: the incremental lists, and the one list that the API only returns as a whole. */
export type StreamModel = IncrementalModel | "assessment.package"

/** Models without a list of their own; their records are embedded in the records of another model. */
export type DerivedModel = Exclude<Model, StreamModel>

/** A business step, such as `hired`, that is recognized by a change of one property. */
export interface TransitionRule {
  readonly name: string
  /** Property names that lead to the value. */
  readonly path: ReadonlyArray<string>
  /**
   * A list: the value becomes one of the listed values and was none of them before. `set`: the property gets a different value, even if
   * it had none before. `moves`: like `set`, but the first value of the property is not a transition.
   */
  readonly when: ReadonlyArray<string> | "set" | "moves"
}

/** A kind of record that other records embed. Within an integration, equal kind and id mean the same record. */
export interface NestedKind {
  readonly kind: string
  /** The properties that every embedded copy of this kind has. */
  readonly shared: ReadonlyArray<string>
}

/** A path at which a record embeds another record's content. */
export interface NestedReference extends NestedKind {
  /** Property names. If a property is an array, the path continues in each member. */
  readonly path: ReadonlyArray<string>
}

/** The structure of a model's records, whether the model is read or derived. */
export interface RecordEntry {
  readonly model: Model
  readonly nested: ReadonlyArray<NestedReference>
  /** Names of arrays without ids whose order has no meaning; their members are compared by content. */
  readonly unordered: ReadonlyArray<string>
  readonly transitions: ReadonlyArray<TransitionRule>
}

export interface ModelEntry extends RecordEntry {
  readonly model: StreamModel
  /** True if the list has no filters, pages or timestamps, so that every run is a sweep. */
  readonly sweepOnly?: true
  readonly path: string
  readonly propagation: Readonly<Record<string, Propagation>>
  /** The kind under which other records embed records of this model; null if they do not. */
  readonly self: NestedKind | null
}

// Kinds of embedded records. Only some of them are models: employees, for example, are only read as parts of other records.
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

const contactLists = ["phone_numbers", "email_addresses", "social_media"]

/** Transition rules by model. */
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

/**
 * The order of the properties is part of the processing fingerprint (`Processing.ts`). A different order would make every stored
 * fingerprint outdated.
 */
const plain = { self: null, nested: [], unordered: [], transitions: [] } satisfies Partial<ModelEntry>

const details: Record<IncrementalModel, Partial<ModelEntry>> = {
  "ats.application": {
    nested: [
      at("candidate", candidate),
      at("candidate.tags", tag),
      at("current_stage", stage),
      at("job", job),
      at("interviews", interview),
      at("offers", offer)
    ],
    unordered: contactLists,
    transitions: transitions["ats.application"]
  },
  "ats.scorecard": { nested: [at("author", user)] },
  "ats.offer": {
    self: offer,
    nested: [at("application.candidate", candidate), at("application.job", job)],
    unordered: ["email_addresses"],
    transitions: transitions["ats.offer"]
  },
  "ats.tag": { self: tag },
  "hris.payslip": { nested: [at("employee", employee), at("pay_run", payRun)] },
  "hris.performance_review": {
    nested: [at("reviewee", employee), at("reviewer", employee), at("review_cycle", reviewCycle)],
    transitions: transitions["hris.performance_review"]
  },
  "hris.performance_review_cycle": { self: reviewCycle },
  "hris.staffing_entity": {
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
  "hris.legal_entity": { self: legalEntity },
  "hris.skill": { self: skill, nested: [at("proficiency_scale", proficiencyScale)] },
  "hris.absence_type": {}
}

/** Entries of the models that are read from the API. */
export const registry: Readonly<Record<StreamModel, ModelEntry>> = {
  ...Object.fromEntries(
    incrementalModels.map((model): [IncrementalModel, ModelEntry] => {
      const { path, propagation } = lists[model]
      return [model, { model, path, propagation, ...plain, ...details[model] }]
    })
  ) as Record<IncrementalModel, ModelEntry>,
  "assessment.package": {
    model: "assessment.package",
    sweepOnly: true,
    path: reads.assessmentPackages.path,
    propagation: {},
    ...plain
  }
}
export const streamModels = Object.keys(registry) as ReadonlyArray<StreamModel>

/** A derived model: each of its records is the value of `property` in a record of model `from`. */
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
    unordered: contactLists,
    transitions: []
  }
}
const derivedModels = Object.values(derivedRegistry)
export const isStreamModel = (model: Model): model is StreamModel => Object.hasOwn(registry, model)
export const isDerived = (model: Model): model is DerivedModel => Object.hasOwn(derivedRegistry, model)

export const entryOf = (model: Model): RecordEntry => isDerived(model) ? derivedRegistry[model] : registry[model]

/** The names of all transitions. */
export const transitionNames: ReadonlyArray<string> = [
  ...new Set(modelNames.flatMap((model) => entryOf(model).transitions.map(({ name }) => name)))
]

/** These models and the models derived from them. */
export const withDerived = (models: ReadonlyArray<StreamModel>): ReadonlyArray<Model> => [
  ...models,
  ...derivedModels.filter(({ from }) => models.includes(from)).map(({ model }) => model)
]

/** The model among `models` that is derived from `source`, if there is one. */
export const derivedFrom = (source: Model, models: ReadonlyArray<Model>): DerivedModel | undefined =>
  derivedModels.find(({ from, model }) => from === source && models.includes(model))?.model

/** One model of one integration. */
export interface StreamKey {
  readonly integration: string
  readonly model: Model
}
/** A stream's name in logs, metrics and progress keys, such as `greenhouse:acme/ats.application`. */
export const streamName = (key: StreamKey): string => `${key.integration}/${key.model}`
