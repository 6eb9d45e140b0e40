/**
 * Everything that is wrong with a write before it leaves: its shape, the form's answers against the form, a proficiency
 * against its scale.
 *
 * Invariants
 * 1. No fault repeats a value: bodies are personal data   (I11)
 *
 * Gotchas
 * - `pattern_unsupported` says that a pattern of the form was not checked, not that it is broken.
 */
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
  /** `shape`, `size`, `scale`, or the form's rule that is broken (`required`, `bounds`, …). */
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
  path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("")

const issuesOf = SchemaIssue.makeFormatterStandardSchemaV1()

/** Issues of a schema name what is expected, never what was given. */
const checkShape = (
  place: string,
  schema: Schema.Codec<unknown, unknown>,
  value: unknown
): ReadonlyArray<WriteViolation> => {
  const result = Schema.decodeUnknownResult(schema)(value, { errors: "all" })
  if (Result.isSuccess(result)) return []
  return issuesOf(result.failure.issue).issues.map(({ message, path = [] }) => ({
    path: place + pointer(path as ReadonlyArray<PropertyKey>),
    rule: "shape",
    message
  }))
}

const isSegment = (text: string): boolean => !/^\.{1,2}$/.test(text) && text.isWellFormed()

/** Of what becomes part of an address: a dot segment would address something else, however it is escaped. */
export const checkParams = (
  schema: Schema.Codec<unknown, unknown>,
  params: Readonly<Record<string, unknown>>
): ReadonlyArray<WriteViolation> => [
  ...checkShape("/params", schema, params),
  ...Object.entries(params)
    .filter(([, value]) => typeof value === "string" && !isSegment(value))
    .map(([name]) => ({ path: pointer(["params", name]), rule: "shape", message: "cannot be part of an address" }))
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
  const misshapen = checkShape("/body", writeSchemas[write].body, body)
  if (misshapen.length > 0) return misshapen
  if (form !== undefined && isCreateEmployee(body)) {
    return checkForm(form, body.properties).map((fault) => ({ ...fault, path: `/body/properties${fault.path}` }))
  }
  return scale === undefined ? [] : checkScale(scale, write, body)
}

/** Every fault of the request; empty if there is none. */
export const checkWrite = (request: UncheckedWrite): ReadonlyArray<WriteViolation> => [
  ...checkParams(Schema.Struct(writeSchemas[request.write].params), request.params),
  ...checkBody(request)
]
