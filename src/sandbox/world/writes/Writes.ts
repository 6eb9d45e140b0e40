/**
 * The twelve writes to an integration's records. Hides how the input is decoded before the write starts.
 *
 * Invariants
 * 1. A rejected write changes nothing.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type WriteName, writeSchemas as schemas } from "../../../api/Writes.ts"
import { type ApiError, invalidInput } from "../../ApiError.ts"
import { peopleWrites } from "./PeopleWrites.ts"
import { recruitingWrites } from "./RecruitingWrites.ts"
import type { WriteContext, WriteResult } from "./WriteContext.ts"

type Params = Readonly<Record<string, string | undefined>>
type Write = (context: WriteContext, params: Params, body: unknown) => Result.Result<WriteResult, ApiError>

const decode = <A>(what: string, schema: Schema.Codec<A, unknown>, value: unknown): Result.Result<A, ApiError> =>
  Result.mapError(
    Schema.decodeUnknownResult(schema, { errors: "all" })(value),
    (error) => invalidInput(`${what}: ${error.message}`)
  )

/** A write that decodes its path parameters and body with these schemas first. */
const withDecodedInput = <P extends Readonly<Record<string, Schema.Codec<unknown, unknown>>>, B>(
  { body, params }: { readonly params: P; readonly body: Schema.Codec<B, unknown> },
  handler: (context: WriteContext, params: Schema.Struct.Type<P>, body: B) => Result.Result<WriteResult, ApiError>
): Write =>
(context, givenParams, givenBody) =>
  Result.gen(function*() {
    const inPath = yield* decode("path", Schema.Struct(params), givenParams)
    return yield* handler(context, inPath, yield* decode("body", body, givenBody))
  })

const handlers: Readonly<Record<WriteName, Write>> = {
  createApplication: withDecodedInput(schemas.createApplication, recruitingWrites.createApplication),
  addResultLink: withDecodedInput(schemas.addResultLink, recruitingWrites.addResultLink),
  addTag: withDecodedInput(schemas.addTag, recruitingWrites.addTag),
  removeTag: withDecodedInput(schemas.removeTag, recruitingWrites.removeTag),
  updateInterview: withDecodedInput(schemas.updateInterview, recruitingWrites.updateInterview),
  addCandidateAttachment: withDecodedInput(schemas.addCandidateAttachment, recruitingWrites.addCandidateAttachment),
  createEmployee: withDecodedInput(schemas.createEmployee, peopleWrites.createEmployee),
  uploadDocument: withDecodedInput(schemas.uploadDocument, peopleWrites.uploadDocument),
  rateSkill: withDecodedInput(schemas.rateSkill, peopleWrites.rateSkill),
  expectSkill: withDecodedInput(schemas.expectSkill, peopleWrites.expectSkill),
  replacePackages: withDecodedInput(schemas.replacePackages, peopleWrites.replacePackages),
  deactivateCourse: withDecodedInput(schemas.deactivateCourse, peopleWrites.deactivateCourse)
}

/** Performs the write, or returns the error that explains why it is rejected. */
export const write = (
  name: WriteName,
  context: WriteContext,
  params: Params,
  body: unknown
): Result.Result<WriteResult, ApiError> => handlers[name](context, params, body)
