/**
 * A record as the API shows it: properties that are stored, properties that are drawn from the record's salt, and
 * other records, embedded with their current content.
 *
 * Invariants
 * 1. Every property of the specification's "Resources and their fields" is present, in every record.
 *
 * Gotchas
 * - Deleted entries disappear from arrays. A deleted record in a single link (a candidate, a review cycle) is still embedded.
 */
import { type IncrementalModel } from "../../../api/Lists.ts"
import { type Fields, iso, type Row, type WorldModel } from "../Records.ts"
import * as SampleData from "../SampleData.ts"
import { idOf } from "../SeededRandom.ts"
import { peopleRenderers } from "./PeopleRendering.ts"
import { recruitingRenderers } from "./RecruitingRendering.ts"
import {
  changeFields,
  entries,
  idFields,
  nameFields,
  noCustomFields,
  type Rendered,
  renderGeneric
} from "./RenderedFields.ts"

const assessmentPackage = (row: Row): Rendered => ({ id: row.id, ...row.fields, updated_at: iso(row.changedAt) })

/** Providers are not records: they never change. */
const providers = SampleData.companies.slice(0, 5).map((name, i) => ({
  id: idOf(0, "", "lms.provider", i + 1),
  remote_id: `P${i + 1}`,
  name
}))

const course = (row: Row): Rendered => {
  const marks = {
    remote_created_at: iso(row.createdAt),
    ...changeFields(row),
    remote_data: null,
    ...noCustomFields
  }
  const provider = providers[row.salt % providers.length] as (typeof providers)[number]
  return {
    ...idFields(row),
    provider_id: provider.id,
    origin_id: `origin-${row.salt % 1000}`,
    ...marks,
    provider,
    revisions: [{
      id: idOf(row.salt, "", "lms.revision", row.serial),
      remote_id: `${row.remoteId}-1`,
      course_id: row.id,
      title: row.fields["name"] ?? null,
      description: "A short introduction.",
      remote_url: `https://lms.example/courses/${row.remoteId}`,
      status: row.fields["status"] ?? null,
      ...marks,
      skill_assignments: entries(row, "skills", (skill) => ({ skill: nameFields(skill) }))
    }]
  }
}

const renderers:
  & Record<IncrementalModel, (row: Row) => Rendered>
  & Partial<Record<WorldModel, (row: Row) => Rendered>> = {
    ...recruitingRenderers,
    ...peopleRenderers,
    "assessment.package": assessmentPackage,
    "lms.course": course
  }

/** The record as the API shows it; if the API never shows the model alone, only the record's properties. */
export const render = (row: Row): Rendered => (renderers[row.model] ?? renderGeneric)(row)

/** Own properties of this model that a test may set. */
export const ownProperties = (row: Row): ReadonlyArray<string> => {
  const linked = new Set<string>([...Object.keys(row.one), ...Object.keys(row.many)])
  const kept = new Set(["id", "remote_id", "changed_at", "remote_created_at", "remote_updated_at", "remote_deleted_at"])
  return Object.keys({ ...render(row), ...row.fields } satisfies Fields).filter((name) =>
    !kept.has(name) && !linked.has(name) && !linked.has(name.replace(/_id$/, ""))
  )
}
