/**
 * Finds the paths at which a record does not match the schema. Such a record is still published, because a mistake in our
 * schema must not stop a stream (S1); the drift is only reported.
 *
 * Gotchas
 * - Fields and enumeration values that the schema lacks are not drift.
 * - Paths consist of the schema's own property names and `*` for any member of an array, so they contain no values   (I11)
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import type { RecordSchema } from "./Model.ts"

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** The paths that do not match the schema, each once; empty if the record matches. */
export const findSchemaDrift = (schema: RecordSchema, record: unknown): ReadonlyArray<string> => {
  const read = Schema.decodeUnknownResult(schema, { errors: "all" })(record)
  if (Result.isSuccess(read)) return []
  const paths = format(read.failure.issue).issues.map(({ path = [] }) =>
    path.map((step) => typeof step === "string" ? `/${step}` : "/*").join("")
  )
  return [...new Set(paths)]
}
