/**
 * Bodies of the writes to an applicant tracking system: applications, result links, tags and interviews.
 *
 * Source: docs/contract.md, "Writes".
 *
 * Gotchas
 * - The specification does not state which fields are required. Here those are required without which the write would be
 *   meaningless.
 * - Some fields are not in the specification but known from the public TypeScript client: further addresses, social links,
 *   the source, and answers other than texts.
 */
import * as Schema from "effect/Schema"
import { AttachmentUploads, Upload } from "./Attachments.ts"
import { DayOrTime, list, listOf, nullish, object, oneOf, openEnum, text } from "./Fields.ts"

/** Creates an application and its candidate. */
export const CreateApplication = Schema.Struct({
  stage_id: text,
  candidate: Schema.Struct({
    first_name: Schema.String,
    last_name: Schema.String,
    email_address: Schema.String.annotate({ format: "email" }),
    additional_email_addresses: listOf({ email_address: Schema.String, type: text }),
    company: text,
    title: text,
    phone_number: text,
    additional_phone_numbers: listOf({ phone_number: Schema.String, type: text }),
    location: object({ city: text, country: text, state: text, street_1: text, zip_code: text }),
    gender: oneOf("MALE", "FEMALE", "OTHER"),
    availability_date: nullish(DayOrTime),
    salary_expectations: nullish(Schema.Struct({ period: openEnum("YEAR", "MONTH"), amount: Schema.Finite })),
    social_links: listOf({ url: Schema.String })
  }),
  attachments: nullish(AttachmentUploads),
  source: object({ name: text }),
  screening_question_answers: list(
    Schema.Struct({
      question_id: Schema.String,
      /** An array contains the option ids of a multi-select question; a date is an ISO 8601 text. */
      answer: Schema.Union([Schema.String, Schema.Array(Schema.String), Schema.Boolean, Schema.Finite, Upload])
    })
  )
}).annotate({ identifier: "CreateApplication" })
export type CreateApplication = typeof CreateApplication.Type

/** Shows a result on an application. Short attribute keys and a short prefix keep the third-party view readable. */
export const AddResultLink = Schema.Struct({
  /** Display name of the link, if the third-party system can show one. */
  label: Schema.String,
  url: Schema.String.annotate({ format: "uri" }),
  details: nullish(Schema.Struct({
    custom_field_name_prefix: text,
    attributes: list(Schema.Struct({ key: Schema.String, value: Schema.String }))
  })),
  /** Passed through to the third-party system. */
  remote_fields: nullish(Schema.Record(Schema.String, Schema.Json))
}).annotate({ identifier: "AddResultLink" })

/** The name of a tag to add to a candidate or to remove from one. */
export const TagCandidate = Schema.Struct({ tag: Schema.Struct({ name: Schema.String }) }).annotate({
  identifier: "TagCandidate"
})
export type TagCandidate = typeof TagCandidate.Type

/**
 * Changes the given fields of an interview; times are ISO 8601.
 *
 * @beta Closed: offered to selected customers.
 */
export const UpdateInterview = Schema.Struct({
  interview_id: Schema.String,
  title: text,
  start_time: text,
  end_time: text,
  interviewer_user_ids: list(Schema.String),
  organizer_user_id: text,
  location: object({ address: text })
}).annotate({ identifier: "UpdateInterview" })
/** @beta Closed: offered to selected customers. */
export type UpdateInterview = typeof UpdateInterview.Type
