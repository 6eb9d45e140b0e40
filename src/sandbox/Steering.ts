/**
 * Single acts upon the world that a test asks for: hides how each is checked and carried out.
 */
import * as Schema from "effect/Schema"
import type { Chance } from "./Chance.ts"
import { belongs, happen, lifeKinds, renamed } from "./Lives.ts"
import { bear, just } from "./Population.ts"
import { isWorldModel, type Records, type Row, type WorldModel } from "./Records.ts"
import { ownProperties } from "./Rendering.ts"

const target = { integration: Schema.String, model: Schema.String, id: Schema.String }
const fields = Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
/** Path → id of the record to link there; null unlinks. */
const links = Schema.optionalKey(Schema.Record(Schema.String, Schema.NullOr(Schema.String)))
const act = <const Op extends string, const F extends Schema.Struct.Fields>(op: Op, fields: F) =>
  Schema.Struct({ op: Schema.Literal(op), ...fields })

/** The body of `POST /_sandbox/mutations`. */
export const Steering = Schema.Union([
  act("create", { integration: Schema.String, model: Schema.String, fields, links }),
  act("update", { ...target, fields, links }),
  /** Without `name`: some other name. */
  act("rename", { ...target, name: Schema.optionalKey(Schema.String) }),
  /** Only `remote_updated_at` moves. */
  act("touch", target),
  act("attach", { ...target, path: Schema.String, entry: Schema.String }),
  act("detach", { ...target, path: Schema.String, entry: Schema.String }),
  /** `flag: false`: it vanishes from every list and is never shown as deleted. */
  act("delete", { ...target, flag: Schema.optionalKey(Schema.Boolean) }),
  act("restore", target),
  /** Lets one mutation of the world's own kinds happen, to whatever record. */
  act("live", { integration: Schema.String, kind: Schema.Literals(lifeKinds) })
])
export type Steering = typeof Steering.Type
export type SteeringKind = `steered_${Exclude<Steering["op"], "live">}`
type Links = Readonly<Record<string, string | null>>

/** Which model stands at a path, for all paths whose model does not follow from the name. */
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

/** The record it was done to, or why it cannot be done. */
export const steer = (
  records: Records,
  act: Steering,
  at: number,
  chance: Chance,
  has: (model: WorldModel) => boolean
): Row | string => {
  if (act.op === "live") {
    if (!belongs(act.kind, has)) return `"${act.kind}" cannot happen in ${act.integration}`
    return happen(act.kind, records, at, chance) ?? `there is no record "${act.kind}" could happen to`
  }
  if (!isWorldModel(act.model)) return `there is no model "${act.model}"`
  if (!has(act.model)) return `${act.integration} has no ${act.model}`
  if (act.op === "create") {
    const one = resolve(records, act.links ?? {})
    if (typeof one === "string") return one
    return bear(records, act.model, just(at), chance, { one, fields: act.fields ?? {} })
  }
  const row = records.find(act.model, act.id)
  if (row === undefined) return `there is no ${act.model} "${act.id}"`
  if (row.vanishedAt !== null && act.op !== "restore") return `${act.model} "${act.id}" is gone`
  switch (act.op) {
    case "update": {
      const one = resolve(records, act.links ?? {})
      if (typeof one === "string") return one
      const unknown = Object.keys(act.fields ?? {}).filter((name) => !ownProperties(row).includes(name))
      const unlinked = Object.keys(one).filter((path) => !(path in row.one))
      if (unknown.length + unlinked.length > 0) return `${act.model} has no own ${[...unknown, ...unlinked].join(", ")}`
      return records.change(row, at, act.fields, one)
    }
    case "rename":
      return rename(records, row, at, chance, act.name)
    case "touch":
      return records.stir(row, at)
    case "attach":
    case "detach": {
      const model = linkedModels[act.path]
      const entry = model && records.find(model, act.entry)
      if (!(act.path in row.many) || !entry) return `${act.model} has no "${act.path}" with "${act.entry}"`
      if (act.op === "attach" && row.many[act.path]?.includes(entry)) {
        return `"${act.entry}" is in "${act.path}" already`
      }
      if (act.op === "attach") return records.attach(row, act.path, entry, at)
      return records.detach(row, act.path, entry, at) ? row : `"${act.entry}" is not in "${act.path}"`
    }
    case "delete":
      if (row.deletedAt !== null) return `${act.model} "${act.id}" is deleted already`
      return act.flag === false ? records.vanish(row, at) : records.flag(row, at)
    case "restore":
      if (row.deletedAt === null && row.vanishedAt === null) return `${act.model} "${act.id}" is not deleted`
      return records.restore(row, at)
  }
}

const rename = (records: Records, row: Row, at: number, chance: Chance, name: string | undefined): Row | string => {
  const field = ["name", "title", "last_name"].find((field) => field in row.fields)
  if (field === undefined) return `${row.model} has no name`
  return records.change(row, at, { [field]: name ?? renamed(String(row.fields[field]), chance) })
}

const resolve = (records: Records, links: Links): Record<string, Row | null> | string => {
  const one: Record<string, Row | null> = {}
  for (const [path, id] of Object.entries(links)) {
    const model = linkedModels[path]
    const row = model && id !== null ? records.find(model, id) : null
    if (model === undefined || row === undefined) return `there is no "${path}" with id "${id}"`
    one[path] = row
  }
  return one
}
