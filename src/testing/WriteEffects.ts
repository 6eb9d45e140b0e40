/**
 * How each of the twelve writes changes the records that the simulated API returns, and the data of its response.
 *
 * Gotchas
 * - Employees, ratings, documents, links and files are in no list of the API: tests see them as writes, not as records.
 */
import type { WriteName } from "../api/Writes.ts"
import { isArray, isObject, type JsonObject, type JsonValue } from "../domain/Canonical.ts"
import type { Model } from "../domain/Model.ts"

/** Records by integration, model and id. */
export type ApiRecords = Map<string, JsonObject>

export const recordKey = (integration: string, model: Model, id: string): string =>
  JSON.stringify([integration, model, id])

/** The records of a model in an integration. */
export const recordsOf = (records: ApiRecords, integration: string, model: Model): ReadonlyArray<JsonObject> => {
  const prefix = `${JSON.stringify([integration, model]).slice(0, -1)},`
  return [...records].flatMap(([at, content]) => at.startsWith(prefix) ? [content] : [])
}

interface AppliedWrite {
  readonly integration: string
  readonly write: WriteName
  /** The id in its path; empty if it has none. */
  readonly id: string
  readonly body: JsonObject
}

type Change = (record: JsonObject) => JsonObject

const members = (value: JsonValue | undefined): ReadonlyArray<JsonObject> =>
  isArray(value) ? value.filter(isObject) : []

const asObject = (value: JsonValue | undefined): JsonObject => isObject(value) ? value : {}

const change = (records: ApiRecords, at: string, changed: Change): void => {
  const record = records.get(at)
  if (record !== undefined) records.set(at, changed(record))
}

/** Changes the candidate, and its copy in each of its applications. */
const changeCandidate = (records: ApiRecords, integration: string, id: string, changed: Change): void => {
  const at = recordKey(integration, "ats.candidate", id)
  records.set(at, changed(records.get(at) ?? { id }))
  for (const application of recordsOf(records, integration, "ats.application")) {
    if (application["candidate_id"] !== id) continue
    const candidate = changed({ id, ...asObject(application["candidate"]) })
    records.set(recordKey(integration, "ats.application", String(application["id"])), { ...application, candidate })
  }
}

const applicationOf = (job: string, { candidate, stage_id = null }: JsonObject, id: string): JsonObject => {
  const { email_address = null, ...person } = asObject(candidate)
  const candidate_id = `${id}-candidate`
  return {
    id,
    remote_id: null,
    outcome: "PENDING",
    job_id: job,
    candidate_id,
    current_stage_id: stage_id,
    candidate: { ...person, id: candidate_id, email_addresses: [{ email_address, type: null }] }
  }
}

const rescheduled = ({ end_time, location, start_time, title }: JsonObject): JsonObject => ({
  ...(title === undefined ? {} : { title }),
  ...(start_time === undefined ? {} : { starting_at: start_time }),
  ...(end_time === undefined ? {} : { ending_at: end_time }),
  ...(isObject(location) ? { location: { raw: location["address"] ?? null } } : {})
})

/** Makes the write take effect; returns `data` of its response. `made`: the id for a record that it creates. */
export const applyWrite = (
  records: ApiRecords,
  { body, id, integration, write }: AppliedWrite,
  made: string
): JsonValue => {
  switch (write) {
    case "createApplication": {
      const application = applicationOf(id, body, made)
      records.set(recordKey(integration, "ats.application", made), application)
      return application
    }
    case "addTag":
    case "removeTag": {
      const name = String(asObject(body["tag"])["name"])
      changeCandidate(records, integration, id, (candidate) => {
        const others = members(candidate["tags"]).filter((tag) => tag["name"] !== name)
        return { ...candidate, tags: write === "addTag" ? [...others, { id: `tag-${name}`, name }] : others }
      })
      return {}
    }
    case "updateInterview":
      change(records, recordKey(integration, "ats.application", id), (application) => ({
        ...application,
        interviews: members(application["interviews"]).map((interview) =>
          interview["id"] === body["interview_id"] ? { ...interview, ...rescheduled(body) } : interview
        )
      }))
      return {}
    case "expectSkill": {
      const { expected_proficiency = null, skill_id = null } = body
      change(records, recordKey(integration, "hris.staffing_entity", id), (entity) => ({
        ...entity,
        skills: [
          ...members(entity["skills"]).filter((skill) => skill["skill_id"] !== skill_id),
          { skill_id, expected_proficiency }
        ]
      }))
      return { id: made, staffing_entity_id: id, skill_id, expected_proficiency }
    }
    case "replacePackages": {
      const at = (record: JsonObject) => recordKey(integration, "assessment.package", String(record["id"]))
      for (const gone of recordsOf(records, integration, "assessment.package")) records.delete(at(gone))
      for (const one of members(body["packages"])) records.set(at(one), one)
      return {}
    }
    case "createEmployee":
      return { id: made, remote_id: null }
    case "rateSkill": {
      const { employee_id = null, rating, skill_id = null } = body
      return { id: made, employee_id, skill_id, ...asObject(rating) }
    }
    case "deactivateCourse":
      return { id }
    case "addResultLink":
    case "addCandidateAttachment":
    case "uploadDocument":
      return {}
  }
}
