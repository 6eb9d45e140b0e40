/**
 * Single mutations of the world that a test requests: validates and applies them.
 */
import * as Schema from "effect/Schema"
import { activityKinds, isActivityPossible, performActivity, withNewSuffix } from "./Activity.ts"
import { momentOf } from "./RecordDraft.ts"
import { createRecord } from "./RecordFactories.ts"
import { isWorldModel, type Records, type Row, type WorldModel } from "./Records.ts"
import { ownProperties } from "./Rendering.ts"
import type { SeededRandom } from "./SeededRandom.ts"

const target = { integration: Schema.String, model: Schema.String, id: Schema.String }
const fields = Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
/** Ids of the records to link, by path; null removes the link. */
const links = Schema.optionalKey(Schema.Record(Schema.String, Schema.NullOr(Schema.String)))
const mutation = <const Op extends string, const F extends Schema.Struct.Fields>(op: Op, fields: F) =>
  Schema.Struct({ op: Schema.Literal(op), ...fields })

/** The body of `POST /_sandbox/mutations`. */
export const MutationRequest = Schema.Union([
  mutation("create", { integration: Schema.String, model: Schema.String, fields, links }),
  mutation("update", { ...target, fields, links }),
  /** Without `name`: any other name. */
  mutation("rename", { ...target, name: Schema.optionalKey(Schema.String) }),
  /** Only `remote_updated_at` moves. */
  mutation("touch", target),
  mutation("attach", { ...target, path: Schema.String, entry: Schema.String }),
  mutation("detach", { ...target, path: Schema.String, entry: Schema.String }),
  /** `flag: false`: the record vanishes from every list and is never shown as deleted. */
  mutation("delete", { ...target, flag: Schema.optionalKey(Schema.Boolean) }),
  mutation("restore", target),
  /** Performs one of the world's own activities, on any suitable record. */
  mutation("simulate", { integration: Schema.String, kind: Schema.Literals(activityKinds) })
])
export type MutationRequest = typeof MutationRequest.Type
export type RequestedMutationKind = `requested_${Exclude<MutationRequest["op"], "simulate">}`
type Links = Readonly<Record<string, string | null>>

/** The model of the records at each path, for every path whose model does not follow from its name. */
const linkedModels: Readonly<Record<string, WorldModel>> = {
  candidate: "ats.candidate",
  tags: "ats.tag",
  current_stage: "ats.stage",
  job: "ats.job",
  interview: "ats.interview",
  interviews: "ats.interview",
  offers: "ats.offer",
  application: "ats.application",
  author: "ats.user",
  employee: "hris.employee",
  reviewee: "hris.employee",
  reviewer: "hris.employee",
  pay_run: "hris.pay_run",
  line_items: "hris.line_item",
  salary_type: "hris.salary_type",
  legal_entity: "hris.legal_entity",
  legal_entities: "hris.legal_entity",
  review_cycle: "hris.performance_review_cycle",
  locations: "hris.location",
  groups: "hris.group",
  skill: "hris.skill",
  skills: "hris.expectation",
  proficiency_scale: "hris.proficiency_scale",
  parent: "hris.staffing_entity",
  category: "hris.document_category"
}

/** The changed record, or the reason why the mutation is not possible. */
export const mutate = (
  records: Records,
  request: MutationRequest,
  at: number,
  random: SeededRandom,
  has: (model: WorldModel) => boolean
): Row | string => {
  if (request.op === "simulate") {
    if (!isActivityPossible(request.kind, has)) return `"${request.kind}" cannot happen in ${request.integration}`
    return performActivity(request.kind, records, at, random) ?? `no record is suitable for "${request.kind}"`
  }
  if (!isWorldModel(request.model)) return `there is no model "${request.model}"`
  if (!has(request.model)) return `${request.integration} has no ${request.model}`
  if (request.op === "create") {
    const one = resolveLinks(records, request.links ?? {})
    if (typeof one === "string") return one
    return createRecord(records, request.model, momentOf(at), random, { one, fields: request.fields ?? {} })
  }
  const row = records.find(request.model, request.id)
  if (row === undefined) return `there is no ${request.model} "${request.id}"`
  if (row.hardDeletedAt !== null && request.op !== "restore") return `${request.model} "${request.id}" is hard-deleted`
  switch (request.op) {
    case "update": {
      const one = resolveLinks(records, request.links ?? {})
      if (typeof one === "string") return one
      const unknown = Object.keys(request.fields ?? {}).filter((name) => !ownProperties(row).includes(name))
      const unlinked = Object.keys(one).filter((path) => !(path in row.one))
      if (unknown.length + unlinked.length > 0) {
        return `${request.model} has no own property ${[...unknown, ...unlinked].join(", ")}`
      }
      return records.change(row, at, request.fields, one)
    }
    case "rename":
      return rename(records, row, at, random, request.name)
    case "touch":
      return records.touchRemote(row, at)
    case "attach":
    case "detach": {
      const model = linkedModels[request.path]
      const entry = model && records.find(model, request.entry)
      if (!(request.path in row.many) || !entry) {
        return `${request.model} has no "${request.path}" with "${request.entry}"`
      }
      if (request.op === "attach" && row.many[request.path]?.includes(entry)) {
        return `"${request.entry}" is in "${request.path}" already`
      }
      if (request.op === "attach") return records.attach(row, request.path, entry, at)
      return records.detach(row, request.path, entry, at) ? row : `"${request.entry}" is not in "${request.path}"`
    }
    case "delete":
      if (row.deletedAt !== null) return `${request.model} "${request.id}" is deleted already`
      return request.flag === false ? records.hardDelete(row, at) : records.softDelete(row, at)
    case "restore":
      if (row.deletedAt === null && row.hardDeletedAt === null) return `${request.model} "${request.id}" is not deleted`
      return records.restore(row, at)
  }
}

const rename = (
  records: Records,
  row: Row,
  at: number,
  random: SeededRandom,
  name: string | undefined
): Row | string => {
  const field = ["name", "title", "last_name"].find((field) => field in row.fields)
  if (field === undefined) return `${row.model} has no name`
  return records.change(row, at, { [field]: name ?? withNewSuffix(String(row.fields[field]), random) })
}

const resolveLinks = (records: Records, links: Links): Record<string, Row | null> | string => {
  const one: Record<string, Row | null> = {}
  for (const [path, id] of Object.entries(links)) {
    const model = linkedModels[path]
    const row = model && id !== null ? records.find(model, id) : null
    if (model === undefined || row === undefined) return `no record with id "${id}" can be linked at "${path}"`
    one[path] = row
  }
  return one
}
