/** The entries of the built-in models. CONTRIBUTING.md describes how to add a model. */
import * as Context from "effect/Context"
import { type IncrementalModel, incrementalModels, lists } from "../api/Lists.ts"
import { modelSchemas } from "../api/ModelSchemas.ts"
import { reads } from "../api/Reads.ts"
import {
  type DerivedEntry,
  type ListEntry,
  listEntry,
  makeModels,
  type Models,
  type NestedKind,
  type NestedReference,
  type TransitionRule
} from "./Model.ts"

/** The built-in models. All are read from the API except `ats.candidate`, which is derived. */
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
export type BuiltInModel = (typeof modelNames)[number]
/** The built-in models that are lists of the API. */
export type ReadModel = Exclude<BuiltInModel, "ats.candidate">

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
} as const satisfies Partial<Record<BuiltInModel, ReadonlyArray<TransitionRule>>>

/** The names of a model's transitions. */
export type TransitionName<M extends BuiltInModel> = M extends keyof typeof transitions
  ? (typeof transitions)[M][number]["name"]
  : never

const details: Record<IncrementalModel, Partial<ListEntry>> = {
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
  "ats.scorecard": { catalogNames: ["application_scorecards", "interview_scorecards"], nested: [at("author", user)] },
  "ats.offer": {
    catalogNames: ["application_offers"],
    self: offer,
    nested: [at("application.candidate", candidate), at("application.job", job)],
    unordered: ["email_addresses"],
    transitions: transitions["ats.offer"]
  },
  "ats.tag": { catalogNames: ["candidate_tags"], self: tag },
  "hris.payslip": { nested: [at("employee", employee), at("pay_run", payRun)] },
  "hris.performance_review": {
    nested: [at("reviewee", employee), at("reviewer", employee), at("review_cycle", reviewCycle)],
    transitions: transitions["hris.performance_review"]
  },
  "hris.performance_review_cycle": { catalogNames: ["review_cycles"], self: reviewCycle },
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

const packages = listEntry({
  model: "assessment.package",
  sweepOnly: true,
  unpaged: true,
  path: reads.assessmentPackages.path,
  schema: modelSchemas["assessment.package"],
  catalogNames: ["assessment_packages"]
})

export const candidates: DerivedEntry = {
  model: "ats.candidate",
  from: "ats.application",
  property: "candidate",
  nested: [at("tags", tag)],
  unordered: contactLists,
  transitions: [],
  schema: modelSchemas["ats.candidate"]
}

const entries = new Map<string, ListEntry | DerivedEntry>([
  ...incrementalModels.map((model) =>
    listEntry({ model, ...lists[model], ...details[model], schema: modelSchemas[model] })
  ),
  packages,
  candidates
].map((entry) => [entry.model, entry]))

export const builtInModels: Models = makeModels(modelNames.map((model) => entries.get(model)!))

export const readModels: ReadonlyArray<ReadModel> = modelNames.filter((model) => model !== "ats.candidate")

/** The models of this process: the built-in ones, and the lists that its configuration defines. */
export const CurrentModels = Context.Reference<Models>("rollcall/domain/CurrentModels", {
  defaultValue: () => builtInModels
})
