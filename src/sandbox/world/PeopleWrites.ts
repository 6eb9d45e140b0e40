/**
 * The six writes to HR, assessment and learning: what each requires and how it changes the records.
 *
 * Source: docs/contract.md, "Writes".
 *
 * Gotchas
 * - A changed expectation does not move `changed_at` of its staffing entity, but `updated_after` matches the entity.
 * - Unchanged packages keep their `updated_at` when the list is replaced.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { checkForm } from "../../api/FormCheck.ts"
import { checkProficiency, type Proficiency, ProficiencyScale } from "../../api/Proficiency.ts"
import { type ApiError, apiError, invalidInput } from "./ApiError.ts"
import { contentOf, requireReadable } from "./Attachments.ts"
import { employeeFormFor } from "./EmployeeForms.ts"
import { isLive, type Json, type Row } from "./Records.ts"
import { renderExpectation, workEmailOf } from "./Rendering.ts"
import { render } from "./Rendering.ts"
import { emptyResult, type WriteContext, type WriteHandler } from "./WriteContext.ts"

// ---- employees ----------------------------------------------------------------------------------------------------

/** The staffing entity to which the form belongs; null if it belongs to none. */
export const requireStaffingEntity = (
  context: WriteContext,
  id: string | null | undefined
): Result.Result<Row | null, ApiError> =>
  id == null ? Result.succeed(null) : context.requireFromBody("hris.staffing_entity", id, "staffing_entity_id")

const createEmployee: WriteHandler<"createEmployee"> = (context, _, { properties, staffing_entity_id }) =>
  Result.gen(function*() {
    const entity = yield* requireStaffingEntity(context, staffing_entity_id)
    if (entity?.fields["status"] === "CLOSED") {
      return yield* Result.fail(
        apiError("HRIS.STAFFING_ENTITY_CLOSED", "The staffing entity is closed; no employee can be created for it.")
      )
    }
    const faults = checkForm(employeeFormFor(context.records, entity), properties)
    if (faults.length > 0) {
      const sentences = faults.map(({ message, path }) => `properties${path} ${message}`)
      return yield* Result.fail(invalidInput(`${sentences.join("; ")}.`))
    }
    const email = String(properties["work_email"])
    if (context.liveRows("hris.employee").some((row) => workEmailOf(row).toLowerCase() === email.toLowerCase())) {
      return yield* Result.fail(apiError("HRIS.EMPLOYEE_ALREADY_EXISTS", "An employee has this work e-mail already."))
    }
    const employee = context.records.insert("hris.employee", context.at, {
      fields: { ...properties, staffing_entity_id: entity?.id ?? null }
    })
    const isPrehire = Date.parse(String(properties["start_date"])) > context.at
    const prehire = { remote_id: isPrehire ? `PRE-${employee.serial}` : null }
    return { row: employee, data: { id: employee.id, remote_id: employee.remoteId, prehire } }
  })

const uploadDocument: WriteHandler<"uploadDocument"> = (context, { employee_id }, { category_id, document }) =>
  Result.gen(function*() {
    const employee = yield* context.requireFromPath("hris.employee", employee_id)
    const category = yield* context.requireFromBody("hris.document_category", category_id, "category_id")
    yield* requireReadable("document", document)
    const fields = { name: document.name, ...contentOf(document) }
    return emptyResult(
      context.records.insert("hris.document", context.at, { fields, one: { employee, category } })
    )
  })

// ---- skills -------------------------------------------------------------------------------------------------------

const readScale = Schema.decodeUnknownSync(ProficiencyScale)

/** The proficiency as the API shows it, if the skill's scale allows it. */
const validateProficiency = (skill: Row, proficiency: Proficiency, field: string): Result.Result<Json, ApiError> => {
  const scale = skill.one["proficiency_scale"]
  if (!scale) return Result.fail(invalidInput(`${field}: the skill has no proficiency scale.`))
  const fault = checkProficiency(readScale(scale.fields), proficiency)
  if (fault !== null) return Result.fail(invalidInput(`${field}: ${fault}.`))
  if (typeof proficiency === "object") return Result.succeed(proficiency)
  return Result.succeed(
    typeof proficiency === "number"
      ? { type: "NUMERIC", value: proficiency }
      : { type: "SINGLE_SELECT", selected_option_id: proficiency }
  )
}

const rateSkill: WriteHandler<"rateSkill"> = (context, _, { employee_id, rating, skill_id }) =>
  Result.gen(function*() {
    const employee = yield* context.requireFromBody("hris.employee", employee_id, "employee_id")
    const skill = yield* context.requireFromBody("hris.skill", skill_id, "skill_id")
    const source = rating?.rating_source ?? "EXTERNAL"
    const given = rating?.proficiency
    const proficiency = given == null ? null : yield* validateProficiency(skill, given, "rating.proficiency")
    const known = context.liveRows("hris.rating").find(({ fields, one }) =>
      one["employee"] === employee && one["skill"] === skill && fields["rating_source"] === source
    )
    const row = known ?? context.records.insert("hris.rating", context.at, {
      fields: { rating_source: source, proficiency },
      one: { employee, skill }
    })
    if (proficiency !== null) context.updateIfChanged(row, { proficiency })
    return { row, data: render(row) }
  })

const expectSkill: WriteHandler<"expectSkill"> = (context, { staffing_entity_id }, body) =>
  Result.gen(function*() {
    const entity = yield* context.requireFromPath("hris.staffing_entity", staffing_entity_id)
    const skill = yield* context.requireFromBody("hris.skill", body.skill_id, "skill_id")
    const expected_proficiency = body.expected_proficiency === undefined
      ? null
      : yield* validateProficiency(skill, body.expected_proficiency, "expected_proficiency")
    const known = entity.many["skills"]?.find((row) => isLive(row) && row.one["skill"] === skill)
    if (known !== undefined) {
      context.updateIfChanged(known, { expected_proficiency })
      return { row: entity, data: renderExpectation(entity, known) }
    }
    const expectation = context.records.insert("hris.expectation", context.at, {
      fields: { expected_proficiency },
      one: { skill }
    })
    context.records.attach(entity, "skills", expectation, context.at)
    return { row: entity, data: renderExpectation(entity, expectation) }
  })

// ---- assessment, learning -----------------------------------------------------------------------------------------

const replacePackages: WriteHandler<"replacePackages"> = (context, _, { packages }) => {
  if (new Set(packages.map(({ id }) => id)).size < packages.length) {
    return Result.fail(invalidInput("packages: two packages have the same id."))
  }
  const wanted = new Set(packages.map(({ id }) => id))
  const gone = context.records.rows("assessment.package").filter(({ id }) => !wanted.has(id))
  for (const row of gone) context.records.purge(row)
  for (const { id, ...fields } of packages) {
    const known = context.records.find("assessment.package", id)
    if (known === undefined) context.records.insert("assessment.package", context.at, { id, fields })
    else context.updateIfChanged(known, fields)
  }
  return Result.succeed({ row: null, data: {} })
}

const deactivateCourse: WriteHandler<"deactivateCourse"> = (context, { course_id }) =>
  Result.gen(function*() {
    const remoteId = course_id.startsWith("remote:") ? course_id.slice("remote:".length) : null
    const byRemoteId = context.liveRows("lms.course").find((row) => row.remoteId === remoteId)
    const course = byRemoteId ?? (yield* context.requireFromPath("lms.course", course_id))
    context.updateIfChanged(course, { status: "INACTIVE" })
    return { row: course, data: render(course) }
  })

export const peopleWrites = {
  createEmployee,
  uploadDocument,
  rateSkill,
  expectSkill,
  replacePackages,
  deactivateCourse
}
