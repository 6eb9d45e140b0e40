/**
 * Checks a write before it is sent: parameters and body against their schemas, answers against the form, a proficiency
 * against its scale.
 *
 * Invariants
 * 1. A violation never repeats a value: bodies contain personal data   (I11)
 *
 * Gotchas
 * - `pattern_unsupported` means that a pattern of the form was not checked, not that the answer violates it.
 */
import * as JsonPointer from "effect/JsonPointer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { checkForm } from "./FormCheck.ts"
import { CreateEmployee, type EmployeeForm } from "./Forms.ts"
import { checkProficiency, ExpectSkill, type ProficiencyScale, RateSkill } from "./Proficiency.ts"
import { type WriteName, writeSchemas } from "./Writes.ts"

export interface WriteViolation {
  /** JSON Pointer into the request: `/params/job_id`, `/body/candidate/first_name`. */
  readonly path: string
  /** `shape`, `size`, `scale`, or the violated rule of the form (`required`, `bounds`, …). */
  readonly rule: string
  readonly message: string
}

export interface UncheckedWrite {
  readonly write: WriteName
  readonly params: Readonly<Record<string, unknown>>
  readonly body: unknown
  readonly form?: EmployeeForm
  readonly scale?: ProficiencyScale
}

const pointer = (path: ReadonlyArray<PropertyKey>): string =>
  path.map((key) => `/${JsonPointer.escapeToken(String(key))}`).join("")

const issuesOf = SchemaIssue.makeFormatterStandardSchemaV1()

/** The issues of a schema describe the expected value, never the actual one. */
const checkShape = (
  root: string,
  schema: Schema.Codec<unknown, unknown>,
  value: unknown
): ReadonlyArray<WriteViolation> => {
  const result = Schema.decodeUnknownResult(schema)(value, { errors: "all" })
  if (Result.isSuccess(result)) return []
  return issuesOf(result.failure.issue).issues.map(({ message, path = [] }) => ({
    path: root + pointer(path as ReadonlyArray<PropertyKey>),
    rule: "shape",
    message
  }))
}

const isSegment = (text: string): boolean => !/^\.{1,2}$/.test(text) && text.isWellFormed()

/** Checks parameters, which become parts of the path or query: a dot segment would change the path even if escaped. */
export const checkParams = (
  schema: Schema.Codec<unknown, unknown>,
  params: Readonly<Record<string, unknown>>
): ReadonlyArray<WriteViolation> => [
  ...checkShape("/params", schema, params),
  ...Object.entries(params)
    .filter(([, value]) => typeof value === "string" && !isSegment(value))
    .map(([name]) => ({ path: pointer(["params", name]), rule: "shape", message: "cannot be part of a URL" }))
]

const isCreateEmployee = Schema.is(CreateEmployee)
const isRateSkill = Schema.is(RateSkill)
const isExpectSkill = Schema.is(ExpectSkill)

const checkScale = (scale: ProficiencyScale, write: WriteName, body: unknown): ReadonlyArray<WriteViolation> => {
  const [path, proficiency] = write === "rateSkill"
    ? ["/body/rating/proficiency", isRateSkill(body) ? body.rating?.proficiency : null]
    : ["/body/expected_proficiency", isExpectSkill(body) ? body.expected_proficiency : null]
  const message = proficiency == null ? null : checkProficiency(scale, proficiency)
  return message === null ? [] : [{ path, rule: "scale", message }]
}

const checkBody = ({ body, form, scale, write }: UncheckedWrite): ReadonlyArray<WriteViolation> => {
  const violations = checkShape("/body", writeSchemas[write].body, body)
  if (violations.length > 0) return violations
  if (form !== undefined && isCreateEmployee(body)) {
    return checkForm(form, body.properties).map((found) => ({ ...found, path: `/body/properties${found.path}` }))
  }
  return scale === undefined ? [] : checkScale(scale, write, body)
}

/** Every violation of the request; empty if there is none. */
export const checkWrite = (request: UncheckedWrite): ReadonlyArray<WriteViolation> => [
  ...checkParams(Schema.Struct(writeSchemas[request.write].params), request.params),
  ...checkBody(request)
]
