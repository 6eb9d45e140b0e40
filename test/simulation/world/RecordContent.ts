/** The content of records: what a new one has, what an edit changes, and what the API shows. */
import { hasScales, type SimulatedModel } from "./DefinedModels.ts"
import type { Links } from "./Links.ts"
import type { Json, JsonObject, Row, Table } from "./Table.ts"

/** The fields that the scope configuration can remove. */
export const hideable: Partial<Record<SimulatedModel, ReadonlyArray<string>>> = {
  "ats.application": ["rejection_reason_name", "remote_url", "custom_fields"],
  "ats.tag": ["name"],
  "hris.skill": ["name", "custom_fields"],
  "hris.ability": ["name", "custom_fields"],
  "ats.candidate": ["last_name"]
}

const iso = (time: number): string => new Date(time).toISOString()

export const newFields = (model: SimulatedModel, serial: number, value: number): JsonObject => {
  if (model === "ats.candidate") return { number: serial - 1 }
  if (model === "ats.tag") return { name: `tag ${Math.floor(value * 5)}`, color: `color ${serial % 4}` }
  if (hasScales(model)) {
    const skill = { name: `skill ${Math.floor(value * 5)}`, scale: serial % 3 }
    return model === "hris.ability" ? { ...skill, job: serial % 3 } : skill
  }
  return {
    outcome: value < 0.3 ? "HIRED" : "PENDING",
    stage: Math.floor(value * 4),
    candidate: serial % 7,
    job: serial % 3,
    interviews: []
  }
}

export const edit = (table: Table, row: Row, value: number): void => {
  const to = Math.floor(value * 4)
  if (table.model === "ats.application") row.fields["rejection_reason_name"] = to === 0 ? null : `reason ${to}`
  else row.fields["name"] = `name ${to}`
}

/** The record as the API shows it now. */
export const render = (table: Table, row: Row, links: Links, plugins: boolean): JsonObject => {
  const { candidate, email, interviews, job, number, scale, stage, ...own } = row.fields
  const rotate = <A>(list: ReadonlyArray<A>): ReadonlyArray<A> =>
    row.reorderings % 2 === 0 || list.length < 2 ? list : [...list.slice(1), list[0]!]
  /** Without the time: in a list, it may be a later one. */
  const person = (of: Json | undefined, name: string): JsonObject => ({
    first_name: name,
    last_name: "Doe",
    remote_deleted_at: null,
    email_addresses: rotate([
      { email_address: email ?? `${String(of)}@home.example`, type: "PRIVATE" },
      { email_address: `${String(of)}@work.example`, type: "WORK" }
    ])
  })
  const content: JsonObject = { ...own }
  if (table.model === "ats.application") {
    const { changedAt, name } = row.person!
    const position = links.get(links.jobs, table.integration, job)
    Object.assign(content, {
      rejection_reason_name: own["rejection_reason_name"] ?? null,
      remote_url: `https://ats.example/${row.serial}`,
      custom_fields: { changed_at: `custom ${row.serial}` },
      current_stage_id: `s${String(stage)}`,
      current_stage: { id: `s${String(stage)}`, name: `stage ${String(stage)}` },
      candidate: {
        id: `c${String(candidate)}`,
        ...person(candidate, name),
        changed_at: iso(changedAt),
        ...plugins ? { tags: links.tagsOf(table.integration, `c${String(candidate)}`) } : {}
      },
      job: { id: `j${String(job)}`, name: position.name },
      ...plugins ? { job_id: `j${String(job)}`, candidate_id: `c${String(candidate)}` } : {},
      interviews: rotate(interviews as ReadonlyArray<Json>)
    })
  } else if (hasScales(table.model)) {
    const { name } = links.get(links.scales, table.integration, scale)
    Object.assign(content, {
      custom_fields: { level: row.serial },
      proficiency_scale: {
        id: `p${String(scale)}`,
        type: "SINGLE_SELECT",
        ordered_options: [{ id: "o1", name }, { id: "o2", name: "best" }]
      },
      ...job === undefined ? {} : {
        owner: { id: `j${String(job)}`, name: links.get(links.jobs, table.integration, job).name },
        aliases: rotate([`alias ${row.serial}`, "alias"])
      }
    })
  }
  if (table.model === "ats.candidate") {
    Object.assign(content, person(number, links.get(links.candidates, table.integration, number).name))
  }
  if (table.hiddenField !== null) content[table.hiddenField] = null
  if (row.blank) { for (const key of Object.keys(content)) content[key] = null }
  const isCandidate = table.model === "ats.candidate"
  const isPlain = table.model === "ats.tag" || isCandidate
  const record: JsonObject = {
    id: row.id,
    // a candidate has the same properties in an application
    ...(isCandidate ? {} : { remote_id: `r${row.serial}` }),
    ...content,
    changed_at: row.stamp === undefined ? iso(row.changedAt) : row.stamp,
    remote_deleted_at: row.deletedAt === null ? null : iso(row.deletedAt),
    ...(isPlain || row.createdAt === null ? {} : { remote_created_at: iso(row.createdAt) }),
    ...(isPlain ? {} : { remote_updated_at: iso(row.updatedAt) }),
    ...(isCandidate ? {} : { remote_data: null })
  }
  return row.reorderings % 2 === 0 ? record : Object.fromEntries(Object.entries(record).reverse())
}
