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
const reading = <P extends Readonly<Record<string, Schema.Codec<unknown, unknown>>>, B>(
  { body, params }: { readonly params: P; readonly body: Schema.Codec<B, unknown> },
  act: (site: Site, params: Schema.Struct.Type<P>, body: B) => Result.Result<Written, Refusal>
): Write =>
(site, givenParams, givenBody) =>
  Result.gen(function*() {
    const inPath = yield* read("path", Schema.Struct(params), givenParams)
    return yield* act(site, inPath, yield* read("body", body, givenBody))
  })

const writes: Readonly<Record<WriteName, Write>> = {
  createApplication: reading(schemas.createApplication, recruitingWrites.createApplication),
  addResultLink: reading(schemas.addResultLink, recruitingWrites.addResultLink),
  addTag: reading(schemas.addTag, recruitingWrites.addTag),
  removeTag: reading(schemas.removeTag, recruitingWrites.removeTag),
  updateInterview: reading(schemas.updateInterview, recruitingWrites.updateInterview),
  addCandidateAttachment: reading(schemas.addCandidateAttachment, recruitingWrites.addCandidateAttachment),
  createEmployee: reading(schemas.createEmployee, peopleWrites.createEmployee),
  uploadDocument: reading(schemas.uploadDocument, peopleWrites.uploadDocument),
  rateSkill: reading(schemas.rateSkill, peopleWrites.rateSkill),
  expectSkill: reading(schemas.expectSkill, peopleWrites.expectSkill),
  replacePackages: reading(schemas.replacePackages, peopleWrites.replacePackages),
  deactivateCourse: reading(schemas.deactivateCourse, peopleWrites.deactivateCourse)
}

/** Does it, or says why it cannot be done. */
export const write = (name: WriteName, site: Site, params: Params, body: unknown): Result.Result<Written, Refusal> =>
  writes[name](site, params, body)
