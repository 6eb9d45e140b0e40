/**
 * What each of the twelve writes makes of the records that the API shows, and what it answers.
 *
 * Gotchas
 * - Employees, ratings, documents, links and files are in no list: they are seen as writes, not as records.
 */
import type { WriteName } from "../api/Writes.ts"
import { isArray, isObject, type JsonObject, type JsonValue } from "../domain/Canonical.ts"
import type { Model } from "../domain/Model.ts"

/** Records by integration, model and id. */
export type ApiRecords = Map<string, JsonObject>

export const recordKey = (integration: string, model: Model, id: string): string =>
  JSON.stringify([integration, model, id])

/** Records of a model. */
export const recordsOf = (shown: ApiRecords, integration: string, model: Model): ReadonlyArray<JsonObject> => {
  const prefix = `${JSON.stringify([integration, model]).slice(0, -1)},`
  return [...shown].flatMap(([at, content]) => at.startsWith(prefix) ? [content] : [])
}

interface AppliedWrite {
  readonly integration: string
  readonly write: WriteName
  /** In its path; empty where it has none. */
  readonly id: string
  readonly body: JsonObject
}

type Change = (record: JsonObject) => JsonObject

const members = (value: JsonValue | undefined): ReadonlyArray<JsonObject> =>
  isArray(value) ? value.filter(isObject) : []

const below = (value: JsonValue | undefined): JsonObject => isObject(value) ? value : {}

const change = (shown: ApiRecords, at: string, changed: Change): void => {
  const record = shown.get(at)
  if (record !== undefined) shown.set(at, changed(record))
}

/** A candidate is shown by its applications, and under its own name where a test gave it. */
const changeCandidate = (shown: ApiRecords, integration: string, id: string, changed: Change): void => {
  change(shown, recordKey(integration, "ats.candidate", id), changed)
  for (const application of recordsOf(shown, integration, "ats.application")) {
    if (application["candidate_id"] !== id) continue
    const candidate = changed({ id, ...below(application["candidate"]) })
    shown.set(recordKey(integration, "ats.application", String(application["id"])), { ...application, candidate })
  }
}

const applicationOf = (job: string, { candidate, stage_id = null }: JsonObject, id: string): JsonObject => {
  const { email_address = null, ...person } = below(candidate)
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

/** The write takes effect; `data` of the answer. `made`: the id of what it creates. */
export const applyWrite = (
  shown: ApiRecords,
  { body, id, integration, write }: AppliedWrite,
  made: string
): JsonValue => {
  switch (write) {
    case "createApplication": {
      const application = applicationOf(id, body, made)
      shown.set(recordKey(integration, "ats.application", made), application)
      return application
    }
    case "addTag":
    case "removeTag": {
      const name = String(below(body["tag"])["name"])
      changeCandidate(shown, integration, id, (candidate) => {
        const others = members(candidate["tags"]).filter((tag) => tag["name"] !== name)
        return { ...candidate, tags: write === "addTag" ? [...others, { id: `tag-${name}`, name }] : others }
      })
      return {}
    }
    case "updateInterview":
      change(shown, recordKey(integration, "ats.application", id), (application) => ({
        ...application,
        interviews: members(application["interviews"]).map((interview) =>
          interview["id"] === body["interview_id"] ? { ...interview, ...rescheduled(body) } : interview
        )
      }))
      return {}
    case "expectSkill": {
      const { expected_proficiency = null, skill_id = null } = body
      change(shown, recordKey(integration, "hris.staffing_entity", id), (entity) => ({
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
      for (const gone of recordsOf(shown, integration, "assessment.package")) shown.delete(at(gone))
      for (const one of members(body["packages"])) shown.set(at(one), one)
      return {}
    }
    case "createEmployee":
      return { id: made, remote_id: null }
    case "rateSkill": {
      const { employee_id = null, rating, skill_id = null } = body
      return { id: made, employee_id, skill_id, ...below(rating) }
    }
    case "deactivateCourse":
      return { id }
    case "addResultLink":
    case "addCandidateAttachment":
    case "uploadDocument":
      return {}
  }
}
