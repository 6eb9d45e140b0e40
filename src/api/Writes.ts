/**
 * The twelve writes of the unified API as data. The contract, the source, the plugins' journal and the sandbox all read
 * this one table, so they cannot drift apart.
 *
 * Source: docs/contract.md, "Writes".
 *
 * Invariants
 * 1. `resolutionPolicy` is "safe" only if a second write sets, overwrites or replaces the same state and has no other effect
 *
 * Gotchas
 * - Removing a tag twice may be rejected, and moving an interview twice may send two invitations: both have the resolution policy "look".
 * - Polls do not notice every path in `visibleIn`: see `lists` for the paths that `updated_after` reacts to.
 */
import * as Schema from "effect/Schema"
import { ReplacePackages } from "./Assessment.ts"
import { AddCandidateAttachment, UploadDocument } from "./Attachments.ts"
import { Course, CourseId } from "./Courses.ts"
import { CreatedEmployee, CreateEmployee } from "./Forms.ts"
import type { IncrementalModel } from "./Lists.ts"
import { ExpectSkill, RateSkill, SkillExpectation, SkillProficiencyRating } from "./Proficiency.ts"
import { Application } from "./Records.ts"
import { AddResultLink, CreateApplication, TagCandidate, UpdateInterview } from "./Recruiting.ts"
import type { ToolCategory } from "./Tools.ts"

/**
 * How a write is resolved if its outcome is unknown.
 * - `safe`: the write is sent again
 * - `look`: a read shows whether the write took effect; if not, the write is sent again
 * - `find`: a read that finds the record proves the effect. If it finds none, that proves nothing, and a second write does harm
 * - `never`: no read shows whether the write took effect, and a second write does harm
 */
export type ResolutionPolicy = "safe" | "look" | "find" | "never"

export interface Write {
  /** Summary for the OpenAPI document. */
  readonly summary: string
  readonly method: "POST" | "PUT" | "PATCH" | "DELETE"
  readonly path: `/${string}`
  readonly category: ToolCategory
  /** Permission in the account's scope configuration; null if the specification does not mention one. */
  readonly permission: string | null
  readonly resolutionPolicy: ResolutionPolicy
  /** The model and the path in its record ("" = the record itself) where the effect becomes visible; null: in no model. */
  readonly visibleIn: { readonly model: IncrementalModel | "assessment.package"; readonly path: string } | null
  readonly maturity?: "deprecated" | "closed beta"
}

export const writes = {
  createApplication: {
    summary: "Create an application and its candidate",
    method: "POST",
    path: "/ats/jobs/{job_id}/applications",
    category: "ats",
    permission: null,
    resolutionPolicy: "find",
    visibleIn: { model: "ats.application", path: "" }
  },
  addResultLink: {
    summary: "Show a result on an application",
    method: "POST",
    path: "/ats/applications/{application_id}/result-links",
    category: "ats",
    permission: null,
    resolutionPolicy: "never",
    visibleIn: null
  },
  addTag: {
    summary: "Add a tag to a candidate",
    method: "POST",
    path: "/ats/candidates/{candidate_id}/tags",
    category: "ats",
    permission: "Manage tags",
    resolutionPolicy: "look",
    visibleIn: { model: "ats.application", path: "candidate.tags" }
  },
  removeTag: {
    summary: "Remove a tag from a candidate by name",
    method: "DELETE",
    path: "/ats/candidates/{candidate_id}/tags",
    category: "ats",
    permission: "Manage tags",
    resolutionPolicy: "look",
    visibleIn: { model: "ats.application", path: "candidate.tags" }
  },
  /** @beta Closed: offered to selected customers. */
  updateInterview: {
    summary: "Change an interview",
    method: "PATCH",
    path: "/ats/applications/{application_id}/interviews",
    category: "ats",
    permission: null,
    resolutionPolicy: "look",
    visibleIn: { model: "ats.application", path: "interviews" },
    maturity: "closed beta"
  },
  /** @deprecated The API recommends attaching to the application instead, but does not document that endpoint. */
  addCandidateAttachment: {
    summary: "Add an attachment to a candidate",
    method: "POST",
    path: "/ats/candidates/{candidate_id}/attachments",
    category: "ats",
    permission: "Add attachments",
    resolutionPolicy: "never",
    visibleIn: null,
    maturity: "deprecated"
  },
  createEmployee: {
    summary: "Create an employee from the form's answers",
    method: "POST",
    path: "/hris/employees/form",
    category: "hris",
    permission: "Create and manage employees",
    resolutionPolicy: "never",
    visibleIn: null
  },
  uploadDocument: {
    summary: "Upload a document for an employee",
    method: "POST",
    path: "/hris/employees/{employee_id}/documents",
    category: "hris",
    permission: "Manage documents",
    resolutionPolicy: "never",
    visibleIn: null
  },
  rateSkill: {
    summary: "Rate an employee's skill, or overwrite the rating",
    method: "POST",
    path: "/hris/skill-proficiency-ratings",
    category: "hris",
    permission: "Manage employee skill proficiency ratings",
    resolutionPolicy: "safe",
    visibleIn: null
  },
  expectSkill: {
    summary: "Attach a skill to a staffing entity, or update the expected proficiency",
    method: "POST",
    path: "/hris/staffing-entities/{staffing_entity_id}/skills",
    category: "hris",
    permission: null,
    resolutionPolicy: "safe",
    visibleIn: { model: "hris.staffing_entity", path: "skills" }
  },
  replacePackages: {
    summary: "Replace all assessment packages",
    method: "PUT",
    path: "/assessment/packages",
    category: "assessment",
    permission: null,
    resolutionPolicy: "safe",
    visibleIn: { model: "assessment.package", path: "" }
  },
  deactivateCourse: {
    summary: "Deactivate a course",
    method: "POST",
    path: "/lms/courses/{course_id}/deactivate",
    category: "lms",
    permission: "Upsert courses",
    resolutionPolicy: "safe",
    visibleIn: null
  }
} as const satisfies Record<string, Write>
export type WriteName = keyof typeof writes
export const writeNames = Object.keys(writes) as ReadonlyArray<WriteName>

// ---- schemas ------------------------------------------------------------------------------------------------------

/** An object with no expected properties. */
export const Empty = Schema.Record(Schema.String, Schema.Json)

const id = Schema.NonEmptyString
const application = { application_id: id }
const candidate = { candidate_id: id }

/** Path parameters, body, and the response's `data` of each write. */
export const writeSchemas = {
  createApplication: { params: { job_id: id }, body: CreateApplication, data: Application },
  addResultLink: { params: application, body: AddResultLink, data: Empty },
  addTag: { params: candidate, body: TagCandidate, data: Empty },
  removeTag: { params: candidate, body: TagCandidate, data: Empty },
  updateInterview: { params: application, body: UpdateInterview, data: Empty },
  addCandidateAttachment: { params: candidate, body: AddCandidateAttachment, data: Empty },
  createEmployee: { params: {}, body: CreateEmployee, data: CreatedEmployee },
  uploadDocument: { params: { employee_id: id }, body: UploadDocument, data: Empty },
  rateSkill: { params: {}, body: RateSkill, data: SkillProficiencyRating },
  expectSkill: { params: { staffing_entity_id: id }, body: ExpectSkill, data: SkillExpectation },
  replacePackages: { params: {}, body: ReplacePackages, data: Empty },
  deactivateCourse: { params: { course_id: CourseId }, body: Empty, data: Course }
} as const satisfies Record<
  WriteName,
  { readonly params: Schema.Struct.Fields; readonly body: Schema.Top; readonly data: Schema.Top }
>
export type WriteParams<W extends WriteName> = Schema.Struct.Type<(typeof writeSchemas)[W]["params"]>
export type WriteBody<W extends WriteName> = (typeof writeSchemas)[W]["body"]["Type"]
export type WriteData<W extends WriteName> = (typeof writeSchemas)[W]["data"]["Type"]
