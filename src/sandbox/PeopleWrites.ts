/**
 * The six writes to HR, assessment and learning: hides what each demands and what it does to the records.
 *
 * Source: docs/contract.md, "Writes".
 *
 * Gotchas
 * - An expectation that changes moves no `changed_at` of its staffing entity, which matches `updated_after` all the same.
 * - Packages that stay as they are keep their `updated_at` when the list is replaced.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { checkForm } from "../api/FormCheck.ts"
import { checkProficiency, type Proficiency, ProficiencyScale } from "../api/Proficiency.ts"
import { formOf } from "./EmployeeForms.ts"
import { isLive, type Json, type Row } from "./Records.ts"
import { invalid, type Refusal, refused } from "./Refusal.ts"
import { expectationOf, render, workEmailOf } from "./Rendering.ts"
import { type Act, done, type Site } from "./Site.ts"

// ---- employees ----------------------------------------------------------------------------------------------------

/** The staffing entity that a form is meant for; null if for none. */
export const staffingEntityOf = (site: Site, id: string | null | undefined): Result.Result<Row | null, Refusal> =>
  id == null ? Result.succeed(null) : site.meant("hris.staffing_entity", id, "staffing_entity_id")

const createEmployee: Act<"createEmployee"> = (site, _, { properties, staffing_entity_id }) =>
  Result.gen(function*() {
    const entity = yield* staffingEntityOf(site, staffing_entity_id)
    if (entity?.fields["status"] === "CLOSED") {
      return yield* Result.fail(refused("HRIS.STAFFING_ENTITY_CLOSED", "Nobody is hired for a closed staffing entity."))
    }
    const faults = checkForm(formOf(site.records, entity), properties)
    if (faults.length > 0) {
      const sentences = faults.map(({ message, path }) => `properties${path} ${message}`)
      return yield* Result.fail(invalid(`${sentences.join("; ")}.`))
    }
    const email = String(properties["work_email"])
    if (site.rows("hris.employee").some((row) => workEmailOf(row).toLowerCase() === email.toLowerCase())) {
      return yield* Result.fail(refused("HRIS.EMPLOYEE_ALREADY_EXISTS", "An employee has this work e-mail already."))
    }
    const employee = site.records.insert("hris.employee", site.at, {
      fields: { ...properties, staffing_entity_id: entity?.id ?? null }
    })
    const isPrehire = Date.parse(String(properties["start_date"])) > site.at
    const prehire = { remote_id: isPrehire ? `PRE-${employee.serial}` : null }
    return { row: employee, data: { id: employee.id, remote_id: employee.remoteId, prehire } }
  })

const uploadDocument: Act<"uploadDocument"> = (site, { employee_id }, { category_id, document }) =>
  Result.gen(function*() {
    const employee = yield* site.addressed("hris.employee", employee_id)
    const category = yield* site.meant("hris.document_category", category_id, "category_id")
    return done(site.records.insert("hris.document", site.at, { fields: { ...document }, one: { employee, category } }))
  })

// ---- skills -------------------------------------------------------------------------------------------------------

const readScale = Schema.decodeUnknownSync(ProficiencyScale)

/** The proficiency as answers show it, if the skill's scale allows it. */
const onScale = (skill: Row, proficiency: Proficiency, field: string): Result.Result<Json, Refusal> => {
  const scale = skill.one["proficiency_scale"]
  if (!scale) return Result.fail(invalid(`${field}: the skill has no proficiency scale.`))
  const fault = checkProficiency(readScale(scale.fields), proficiency)
  if (fault !== null) return Result.fail(invalid(`${field}: ${fault}.`))
  if (typeof proficiency === "object") return Result.succeed(proficiency)
  return Result.succeed(
    typeof proficiency === "number"
      ? { type: "NUMERIC", value: proficiency }
      : { type: "SINGLE_SELECT", selected_option_id: proficiency }
  )
}

const rateSkill: Act<"rateSkill"> = (site, _, { employee_id, rating, skill_id }) =>
  Result.gen(function*() {
    const employee = yield* site.meant("hris.employee", employee_id, "employee_id")
    const skill = yield* site.meant("hris.skill", skill_id, "skill_id")
    const source = rating?.rating_source ?? "EXTERNAL"
    const given = rating?.proficiency
    const proficiency = given == null ? null : yield* onScale(skill, given, "rating.proficiency")
    const known = site.rows("hris.rating").find(({ fields, one }) =>
      one["employee"] === employee && one["skill"] === skill && fields["rating_source"] === source
    )
    const row = known ?? site.records.insert("hris.rating", site.at, {
      fields: { rating_source: source, proficiency },
      one: { employee, skill }
    })
    if (proficiency !== null) site.settle(row, { proficiency })
    return { row, data: render(row) }
  })

const expectSkill: Act<"expectSkill"> = (site, { staffing_entity_id }, body) =>
  Result.gen(function*() {
    const entity = yield* site.addressed("hris.staffing_entity", staffing_entity_id)
    const skill = yield* site.meant("hris.skill", body.skill_id, "skill_id")
    const expected_proficiency = body.expected_proficiency === undefined
      ? null
      : yield* onScale(skill, body.expected_proficiency, "expected_proficiency")
    const known = entity.many["skills"]?.find((row) => isLive(row) && row.one["skill"] === skill)
    if (known !== undefined) {
      site.settle(known, { expected_proficiency })
      return { row: entity, data: expectationOf(entity, known) }
    }
    const expectation = site.records.insert("hris.expectation", site.at, {
      fields: { expected_proficiency },
      one: { skill }
    })
    site.records.attach(entity, "skills", expectation, site.at)
    return { row: entity, data: expectationOf(entity, expectation) }
  })

// ---- assessment, learning -----------------------------------------------------------------------------------------

const replacePackages: Act<"replacePackages"> = (site, _, { packages }) => {
  if (new Set(packages.map(({ id }) => id)).size < packages.length) {
    return Result.fail(invalid("packages: two of them have the same id."))
  }
  const wanted = new Set(packages.map(({ id }) => id))
  const gone = site.records.rows("assessment.package").filter(({ id }) => !wanted.has(id))
  for (const row of gone) site.records.drop(row)
  for (const { id, ...fields } of packages) {
    const known = site.records.find("assessment.package", id)
    if (known === undefined) site.records.insert("assessment.package", site.at, { id, fields })
    else site.settle(known, fields)
  }
  return Result.succeed({ row: null, data: {} })
}

const deactivateCourse: Act<"deactivateCourse"> = (site, { course_id }) =>
  Result.gen(function*() {
    const remoteId = course_id.startsWith("remote:") ? course_id.slice("remote:".length) : null
    const byRemoteId = site.rows("lms.course").find((row) => row.remoteId === remoteId)
    const course = byRemoteId ?? (yield* site.addressed("lms.course", course_id))
    site.settle(course, { status: "INACTIVE" })
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
