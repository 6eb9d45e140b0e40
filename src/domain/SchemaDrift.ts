/**
 * Finds the paths at which a record does not match the schema. Such a record is still published, because a mistake in our
 * schema must not stop a stream (S1); the drift is only reported.
 *
 * Gotchas
 * - Fields and enumeration values that the schema lacks are not drift.
 * - Paths consist of the schema's own property names and `*` for any other step, so they contain no values   (I11)
 * - The schema of a defined list is code of the user, which may throw: then the path is `/*`.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import { fieldsOf } from "../api/Fields.ts"
import type { RecordSchema } from "./Model.ts"

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** The property names of a map are data, such as names of persons. */
const pathText = (schema: RecordSchema, path: ReadonlyArray<unknown>): string => {
  let at: SchemaAST.AST | undefined = SchemaAST.toEncoded(schema.ast)
  return path.map((step) => {
    if (typeof step === "number") return "/*"
    at = fieldsOf(at)?.get(String(step))
    return at === undefined ? "/*" : `/${String(step)}`
  }).join("")
}

/** The paths that do not match the schema, each once; empty if the record matches. */
export const findSchemaDrift = (schema: RecordSchema, record: unknown): ReadonlyArray<string> => {
  try {
    const read = Schema.decodeUnknownResult(schema, { errors: "all" })(record)
    if (Result.isSuccess(read)) return []
    return [...new Set(format(read.failure.issue).issues.map(({ path = [] }) => pathText(schema, path)))]
  } catch {
    return ["/*"]
  }
}
