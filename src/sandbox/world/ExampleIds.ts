/**
 * Example ids for first requests, of records that belong together.
 *
 * Gotchas
 * - The interview belongs to the application, which belongs to the candidate, job and stage; the job and the
 *   staffing entity are open. If the world has no such set of records, any records are used.
 */
import { isLive, type Records, type Row, type WorldModel } from "./Records.ts"
import type { World } from "./World.ts"

const exampleModels = {
  application: "ats.application",
  candidate: "ats.candidate",
  job: "ats.job",
  stage: "ats.stage",
  employee: "hris.employee",
  staffing_entity: "hris.staffing_entity",
  skill: "hris.skill",
  course: "lms.course",
  interview: "ats.interview",
  document_category: "hris.document_category"
} as const satisfies Record<string, WorldModel>

export type ExampleIds = Readonly<Record<keyof typeof exampleModels, string>>

const isPresent = (row: Row | null | undefined): row is Row => row != null && isLive(row)

const isReady = (interview: Row): boolean => {
  const application = interview.one["application"]
  if (!isPresent(interview) || !isPresent(application) || application.fields["outcome"] !== "PENDING") return false
  const { candidate, current_stage, job } = application.one
  return isPresent(candidate) && isPresent(current_stage) && isPresent(job) && job.fields["status"] !== "CLOSED"
}

const isOpen = (row: Row): boolean => isPresent(row) && String(row.fields["status"]).startsWith("OPEN")

/** Example records that belong together, by model. */
const relatedRecords = (records: Records): Partial<Record<WorldModel, Row | null | undefined>> => {
  const interview = records.rows("ats.interview").find(isReady)
  const application = interview?.one["application"]
  return {
    "ats.interview": interview,
    "ats.application": application,
    "ats.candidate": application?.one["candidate"],
    "ats.stage": application?.one["current_stage"],
    "ats.job": application?.one["job"],
    "hris.staffing_entity": records.rows("hris.staffing_entity").find(isOpen)
  }
}

export const exampleIdsOf = (world: World): ExampleIds => {
  const example = (model: WorldModel): string => {
    const home = world.integrations.find(({ models }) => models.includes(model))
    if (home === undefined) return ""
    const { records } = world.writeContext(home.id)
    return (relatedRecords(records)[model] ?? records.rows(model).find(isLive))?.id ?? ""
  }
  return Object.fromEntries(Object.entries(exampleModels).map(([name, model]) => [name, example(model)])) as ExampleIds
}
