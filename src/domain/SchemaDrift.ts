/**
 * Where a record departs from the contract's schema. It is published all the same: our schema must never become their
 * outage (S1), but somebody should know.
 *
 * Gotchas
 * - Paths are made of the schema's own names, `*` stands for any member of an array: no value is ever in them   (I11)
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { AssessmentPackage } from "../api/Assessment.ts"
import { recordSchemas } from "../api/Records.ts"
import type { StreamModel } from "./Model.ts"

const schemas: Readonly<Record<StreamModel, Schema.Codec<unknown, unknown>>> = {
  ...recordSchemas,
  "assessment.package": AssessmentPackage
}
const decoders = new Map(
  Object.entries(schemas).map(([model, schema]) => [model, Schema.decodeUnknownResult(schema, { errors: "all" })])
)
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** Each path once; none where the record is what the contract says. */
export const findSchemaDrift = (model: StreamModel, record: unknown): ReadonlyArray<string> => {
  const read = decoders.get(model)?.(record)
  if (read === undefined || Result.isSuccess(read)) return []
  const paths = format(read.failure.issue).issues.map(({ path = [] }) =>
    path.map((step) => typeof step === "string" ? `/${step}` : "/*").join("")
  )
  return [...new Set(paths)]
}
