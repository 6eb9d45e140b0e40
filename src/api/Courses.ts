/**
 * Courses of a learning management system. The API has no list of courses; it returns a course when it is deactivated.
 *
 * Source: docs/contract.md, "LMS" and "Writes".
 */
import * as Schema from "effect/Schema"
import {
  changeMetadata,
  customFields,
  listOf,
  namedReference,
  nullish,
  object,
  oneOf,
  recordIds,
  reference,
  remoteTimes,
  text
} from "./Fields.ts"

/** A course's id, or `remote:<remote_id>`. */
export const CourseId = Schema.String.check(Schema.isPattern(/^(?!remote:$)[\s\S]+$/u))

const remote_created_at = remoteTimes.remote_created_at

const Revision = Schema.Struct({
  ...reference,
  course_id: text,
  title: text,
  description: text,
  remote_url: text,
  status: oneOf("ACTIVE", "INACTIVE"),
  remote_created_at,
  ...changeMetadata,
  ...customFields,
  skill_assignments: listOf({ skill: object(namedReference) })
})

export const Course = Schema.Struct({
  ...recordIds,
  provider_id: text,
  origin_id: text,
  remote_created_at,
  ...changeMetadata,
  ...customFields,
  provider: object(namedReference),
  revisions: nullish(Schema.Array(Revision))
}).annotate({ identifier: "Course" })
