/**
 * The twelve writes to an integration's records: decodes the input before the write starts.
 *
 * Invariants
 * 1. A rejected write changes nothing.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type WriteName, writeSchemas } from "../../api/Writes.ts"
import { type ApiError, invalidInput } from "./ApiError.ts"
import { peopleWrites } from "./PeopleWrites.ts"
import { recruitingWrites } from "./RecruitingWrites.ts"
import type { WriteContext, WriteHandler, WriteResult } from "./WriteContext.ts"

const decode = <A>(what: string, schema: Schema.Codec<A, unknown>, value: unknown): Result.Result<A, ApiError> =>
  Result.mapError(
    Schema.decodeUnknownResult(schema, { errors: "all" })(value),
    (error) => invalidInput(`${what}: ${error.message}`)
  )

const handlers: { readonly [W in WriteName]: WriteHandler<W> } = { ...recruitingWrites, ...peopleWrites }

/** Performs the write, or returns the error that explains why it is rejected. */
export const write = (
  name: WriteName,
  context: WriteContext,
  params: Readonly<Record<string, string | undefined>>,
  body: unknown
): Result.Result<WriteResult, ApiError> =>
  Result.gen(function*() {
    const schemas = writeSchemas[name]
    const decodedParams = yield* decode(
      "path",
      Schema.Struct<Record<string, Schema.Codec<string>>>(schemas.params),
      params
    )
    const decodedBody = yield* decode<unknown>("body", schemas.body, body)
    // The compiler does not see that schemas and handler belong to the same write.
    return yield* handlers[name](context, decodedParams as never, decodedBody as never)
  })
