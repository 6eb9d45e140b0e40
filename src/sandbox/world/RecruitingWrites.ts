/**
 * The six writes to applicant tracking: what each requires and how it changes the records.
 *
 * Source: docs/contract.md, "Writes".
 *
 * Gotchas
 * - A tag on a candidate moves no `changed_at` and makes no application match `updated_after` (failure case N1).
 * - The e-mail address identifies a person, but an application for another job always creates a new candidate.
 */
import * as Result from "effect/Result"
import type { CreateApplication } from "../../api/Recruiting.ts"
import { type ApiError, apiError, invalidInput } from "./ApiError.ts"
import { isWebAddress, requireReadable, storeAttachment } from "./Attachments.ts"
import { type Fields, isLive, type Json, type Row } from "./Records.ts"
import { emailsOf } from "./Rendering.ts"
import { render } from "./Rendering.ts"
import { parseAnswers } from "./ScreeningQuestions.ts"
import { emptyResult, type WriteContext, type WriteHandler } from "./WriteContext.ts"

const requireNonEmpty = (field: string, text: string): Result.Result<string, ApiError> =>
  text.trim() === "" ? Result.fail(invalidInput(`${field} must not be empty.`)) : Result.succeed(text)

/** A time in the format of the API, from a client's text. */
const parseTime = (field: string, text: string): Result.Result<string, ApiError> => {
  const at = /^\d{4}-\d{2}-\d{2}T/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(at)
    ? Result.fail(invalidInput(`${field} must be a time such as 2026-03-01T12:00:00.000Z.`))
    : Result.succeed(new Date(at).toISOString())
}

const isEmailAddress = (text: string): boolean => /^[^@\s]+@[^@\s]+$/.test(text)

// ---- applications -------------------------------------------------------------------------------------------------

type Applicant = CreateApplication["candidate"]

/** The properties of these names; null if they are missing. */
const orNull = (from: object | null | undefined, ...names: ReadonlyArray<string>): Fields => {
  const given = (from ?? {}) as Fields
  return Object.fromEntries(names.map((name) => [name, given[name] ?? null]))
}

const locationOf = (parts: object | null | undefined, raw: string | null): Json => ({
  ...orNull(parts, "city", "country", "state", "street_1", "street_2", "zip_code"),
  raw
})

const candidateFields = (applicant: Applicant, source: string): Fields => {
  const { location } = applicant
  const line = [location?.street_1, location?.zip_code, location?.city, location?.state, location?.country].filter((
    part
  ) => part != null)
  return {
    ...orNull(applicant, "first_name", "last_name", "company", "title"),
    confidential: false,
    source,
    phone_numbers: [
      ...(applicant.phone_number == null ? [] : [{ phone_number: applicant.phone_number, type: "HOME" }]),
      ...(applicant.additional_phone_numbers ?? []).map((number) => orNull(number, "phone_number", "type"))
    ],
    email_addresses: [
      { email_address: applicant.email_address, type: "PRIVATE" },
      ...(applicant.additional_email_addresses ?? []).map((address) => orNull(address, "email_address", "type"))
    ],
    social_media: (applicant.social_links ?? []).map(({ url }) => ({ link: url, type: null, username: null })),
    location: locationOf(location, line.length > 0 ? line.join(" ") : null),
    custom_fields: {
      ...orNull(applicant, "gender", "salary_expectations"),
      availability_date: applicant.availability_date?.slice(0, "2026-03-01".length) ?? null
    }
  }
}

const hasApplied = (context: WriteContext, job: Row, email: string): boolean =>
  context.liveRows("ats.application").some(({ one: { candidate, job: applied } }) =>
    applied === job && candidate != null &&
    emailsOf(candidate).some((address) => address.toLowerCase() === email.toLowerCase())
  )

const createApplication: WriteHandler<"createApplication"> = (context, { job_id }, body) =>
  Result.gen(function*() {
    const job = yield* context.requireFromPath("ats.job", job_id)
    const applicant = body.candidate
    yield* requireNonEmpty("candidate.first_name", applicant.first_name)
    yield* requireNonEmpty("candidate.last_name", applicant.last_name)
    if (!isEmailAddress(applicant.email_address)) {
      return yield* Result.fail(invalidInput("candidate.email_address must be an e-mail address."))
    }
    const stage = body.stage_id == null
      ? context.liveRows("ats.stage")[0] ?? null
      : yield* context.requireFromBody("ats.stage", body.stage_id, "stage_id")
    if (job.fields["status"] === "CLOSED") {
      return yield* Result.fail(apiError("ATS.JOB_CLOSED", "The job is closed and takes no applications."))
    }
    if (hasApplied(context, job, applicant.email_address)) {
      const message = "A candidate with this e-mail address has applied for this job already."
      return yield* Result.fail(apiError("ATS.APPLICATION_ALREADY_EXISTS", message))
    }
    const answers = yield* parseAnswers(body.screening_question_answers ?? [])
    for (const [i, file] of (body.attachments ?? []).entries()) yield* requireReadable(`attachments/${i}`, file)
    const candidate = context.records.insert("ats.candidate", context.at, {
      fields: candidateFields(applicant, body.source?.name ?? "API"),
      many: { tags: [] }
    })
    const application = context.records.insert("ats.application", context.at, {
      fields: {
        outcome: "PENDING",
        rejection_reason_name: null,
        rejected_at: null,
        screening_question_answers: answers.rendered
      },
      one: { candidate, current_stage: stage, job },
      many: { interviews: [], offers: [] }
    })
    for (const file of body.attachments ?? []) {
      storeAttachment(context.records, candidate, application, file, context.at)
    }
    return { row: application, data: render(application), warnings: answers.warnings }
  })

// ---- links, interviews, attachments -------------------------------------------------------------------------------

const addResultLink: WriteHandler<"addResultLink"> = (context, { application_id }, body) =>
  Result.gen(function*() {
    const application = yield* context.requireFromPath("ats.application", application_id)
    yield* requireNonEmpty("label", body.label)
    if (!isWebAddress(body.url)) return yield* Result.fail(invalidInput("url must be an http or https address."))
    const { details, label, remote_fields, url } = body
    return emptyResult(context.records.insert("ats.result_link", context.at, {
      fields: {
        label,
        url,
        details: details == null
          ? null
          : { ...orNull(details, "custom_field_name_prefix"), attributes: details.attributes ?? [] },
        remote_fields: remote_fields ?? null
      },
      one: { application }
    }))
  })

const updateInterview: WriteHandler<"updateInterview"> = (context, { application_id }, body) =>
  Result.gen(function*() {
    const application = yield* context.requireFromPath("ats.application", application_id)
    const interview = application.many["interviews"]?.find((row) => row.id === body.interview_id && isLive(row))
    if (interview === undefined) {
      return yield* Result.fail(invalidInput("interview_id: the application has no interview with this id."))
    }
    const fields: Fields = {}
    if (body.title != null) fields["title"] = yield* requireNonEmpty("title", body.title)
    if (body.start_time != null) fields["starting_at"] = yield* parseTime("start_time", body.start_time)
    if (body.end_time != null) fields["ending_at"] = yield* parseTime("end_time", body.end_time)
    const { ending_at, starting_at } = { ...interview.fields, ...fields }
    if (String(ending_at) < String(starting_at)) {
      return yield* Result.fail(invalidInput("The interview would end before it starts."))
    }
    if (body.location != null) {
      const address = body.location.address ?? null
      fields["location"] = locationOf({ street_1: address }, address)
    }
    if (body.interviewer_user_ids != null) fields["interviewer_user_ids"] = body.interviewer_user_ids
    if (body.organizer_user_id != null) fields["organizer_user_id"] = body.organizer_user_id
    return emptyResult(context.updateIfChanged(interview, fields))
  })

const addCandidateAttachment: WriteHandler<"addCandidateAttachment"> = (context, { candidate_id }, { attachment }) =>
  Result.gen(function*() {
    const candidate = yield* context.requireFromPath("ats.candidate", candidate_id)
    yield* requireNonEmpty("attachment.name", attachment.name)
    yield* requireReadable("attachment", attachment)
    return emptyResult(storeAttachment(context.records, candidate, null, attachment, context.at))
  })

// ---- tags ---------------------------------------------------------------------------------------------------------

const addTag: WriteHandler<"addTag"> = (context, { candidate_id }, { tag: { name } }) =>
  Result.gen(function*() {
    const candidate = yield* context.requireFromPath("ats.candidate", candidate_id)
    yield* requireNonEmpty("tag.name", name)
    const tag = context.liveRows("ats.tag").find((row) => row.fields["name"] === name) ??
      context.records.insert("ats.tag", context.at, { fields: { name } })
    if (candidate.many["tags"]?.includes(tag)) return emptyResult(candidate, ["The candidate already had the tag."])
    return emptyResult(context.records.attach(candidate, "tags", tag, context.at))
  })

const removeTag: WriteHandler<"removeTag"> = (context, { candidate_id }, { tag: { name } }) =>
  Result.gen(function*() {
    const candidate = yield* context.requireFromPath("ats.candidate", candidate_id)
    const tag = candidate.many["tags"]?.find((row) => isLive(row) && row.fields["name"] === name)
    if (tag === undefined) {
      return yield* Result.fail(apiError("REMOTE.INPUT_INVALID", "The candidate has no tag of this name."))
    }
    context.records.detach(candidate, "tags", tag, context.at)
    return emptyResult(candidate)
  })

export const recruitingWrites = {
  createApplication,
  addResultLink,
  addTag,
  removeTag,
  updateInterview,
  addCandidateAttachment
}
