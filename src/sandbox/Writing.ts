/**
 * The twelve writes upon an integration's records: hides how what was sent is read before anything is done.
 *
 * Invariants
 * 1. A refused write has changed nothing.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type WriteName, writeSchemas as schemas } from "../api/Writes.ts"
import { peopleWrites } from "./PeopleWrites.ts"
import { recruitingWrites } from "./RecruitingWrites.ts"
import { invalid, type Refusal } from "./Refusal.ts"
import type { Site, Written } from "./Site.ts"

type Params = Readonly<Record<string, string | undefined>>
type Write = (site: Site, params: Params, body: unknown) => Result.Result<Written, Refusal>

const read = <A>(what: string, schema: Schema.Codec<A, unknown>, value: unknown): Result.Result<A, Refusal> =>
  Result.mapError(
    Schema.decodeUnknownResult(schema, { errors: "all" })(value),
    (error) => invalid(`${what}: ${error.message}`)
  )

/** A write that reads by these schemas what it then does. */
const reading = <P, B>(
  params: Schema.Codec<P, unknown>,
  body: Schema.Codec<B, unknown>,
  act: (site: Site, params: P, body: B) => Result.Result<Written, Refusal>
): Write =>
(site, givenParams, givenBody) =>
  Result.gen(function*() {
    const inPath = yield* read("path", params, givenParams)
    return yield* act(site, inPath, yield* read("body", body, givenBody))
  })

const writes: Readonly<Record<WriteName, Write>> = {
  createApplication: reading(
    Schema.Struct(schemas.createApplication.params),
    schemas.createApplication.body,
    recruitingWrites.createApplication
  ),
  addResultLink: reading(
    Schema.Struct(schemas.addResultLink.params),
    schemas.addResultLink.body,
    recruitingWrites.addResultLink
  ),
  addTag: reading(Schema.Struct(schemas.addTag.params), schemas.addTag.body, recruitingWrites.addTag),
  removeTag: reading(Schema.Struct(schemas.removeTag.params), schemas.removeTag.body, recruitingWrites.removeTag),
  updateInterview: reading(
    Schema.Struct(schemas.updateInterview.params),
    schemas.updateInterview.body,
    recruitingWrites.updateInterview
  ),
  addCandidateAttachment: reading(
    Schema.Struct(schemas.addCandidateAttachment.params),
    schemas.addCandidateAttachment.body,
    recruitingWrites.addCandidateAttachment
  ),
  createEmployee: reading(
    Schema.Struct(schemas.createEmployee.params),
    schemas.createEmployee.body,
    peopleWrites.createEmployee
  ),
  uploadDocument: reading(
    Schema.Struct(schemas.uploadDocument.params),
    schemas.uploadDocument.body,
    peopleWrites.uploadDocument
  ),
  rateSkill: reading(Schema.Struct(schemas.rateSkill.params), schemas.rateSkill.body, peopleWrites.rateSkill),
  expectSkill: reading(Schema.Struct(schemas.expectSkill.params), schemas.expectSkill.body, peopleWrites.expectSkill),
  replacePackages: reading(
    Schema.Struct(schemas.replacePackages.params),
    schemas.replacePackages.body,
    peopleWrites.replacePackages
  ),
  deactivateCourse: reading(
    Schema.Struct(schemas.deactivateCourse.params),
    schemas.deactivateCourse.body,
    peopleWrites.deactivateCourse
  )
}

/** Does it, or says why it cannot be done. */
export const write = (name: WriteName, site: Site, params: Params, body: unknown): Result.Result<Written, Refusal> =>
  writes[name](site, params, body)
