import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { checkForm } from "../../api/FormCheck.ts"
import { type EmployeeForm, type FormField, isKnownField } from "../../api/Forms.ts"
import { incrementalModels } from "../../api/Lists.ts"
import { checkProficiency, type Proficiency, ProficiencyScale } from "../../api/Proficiency.ts"
import { type WriteName, writeNames } from "../../api/Writes.ts"
import { employeeFormFor } from "./EmployeeForms.ts"
import { exampleIdsOf } from "./ExampleIds.ts"
import { allRecords } from "./ListQuery.ts"
import { isLive, models } from "./Records.ts"
import { SeededRandom } from "./SeededRandom.ts"
import { World } from "./World.ts"

const start = Date.parse("2026-03-01T12:00:00.000Z")
const integration = "sandbox:everything"

const Seed = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0xffff_ffff }))

const small = (seed: number) => World.make({ seed, start, records: 10, speed: 0 })
const everyRecord = (world: World) =>
  JSON.stringify([
    incrementalModels.map((model) => world.list(integration, model, allRecords)),
    models.map((model) => [...world.truth(integration, model).values()])
  ])
const scaleOf = Schema.decodeUnknownSync(ProficiencyScale)

/** Random answers to a form. */
const answersTo = ({ properties }: EmployeeForm, random: SeededRandom): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(properties)
      .filter(([, field]) => field.required === true || random.boolean(0.6))
      .map(([key, field]) => [key, answerTo(key, field, random)])
  )

const answerTo = (key: string, field: FormField, random: SeededRandom): unknown => {
  if (!isKnownField(field)) return null
  switch (field.type) {
    case "text":
      if (field.reg_exp == null) return "x".repeat(random.int(field.min_length ?? 0, field.max_length ?? 9))
      return { work_email: "ada@work.example", zip_code: "B-1000", phone: "+41 555", approval_number: "R-0042" }[key]
    case "date":
      return `2026-0${random.int(1, 9)}-1${random.int(0, 9)}`
    case "number":
      return random.int(field.min ?? 0, field.max ?? 9)
    case "object":
      return answersTo({ properties: field.properties ?? {} }, random)
    case "array":
      return Array.from(
        { length: random.int(field.min_items ?? 0, field.max_items ?? 3) },
        () => field.item_type && answerTo(key, field.item_type, random)
      )
    case "single_select":
      return random.pick(field.options?.entries ?? []).id
  }
}

describe("a write", () => {
  it.prop(
    "that is rejected changes nothing, for any input",
    { seed: Seed, name: Schema.Literals(writeNames), body: Schema.Json, known: Schema.Boolean },
    ({ body, known, name, seed }) => {
      const world = small(seed % 20)
      const ids = exampleIdsOf(world)
      const params = known
        ? {
          job_id: ids.job,
          application_id: ids.application,
          candidate_id: ids.candidate,
          employee_id: ids.employee,
          staffing_entity_id: ids.staffing_entity,
          course_id: ids.course
        }
        : { job_id: "x", application_id: "x", candidate_id: "x", course_id: "x" }
      const before = everyRecord(world)
      world.advance(start + 1000)
      const done = world.write(integration, name, params, body)
      if (Result.isFailure(done)) assert.strictEqual(everyRecord(world), before)
    }
  )

  it.prop("that is partly valid is rejected before it changes anything", { seed: Seed }, ({ seed }) => {
    const world = small(seed % 20)
    const { application, candidate, interview, job, skill, staffing_entity } = exampleIdsOf(world)
    const person = { first_name: "A", last_name: "B", email_address: "a@b.example" }
    const upload = { name: "a", content_type: "b", data: "AAAA", type: "CV" }
    const halves: ReadonlyArray<readonly [WriteName, Record<string, string>, unknown]> = [
      ["createApplication", { job_id: job }, { candidate: person, attachments: [upload, { ...upload, data: "?" }] }],
      ["createApplication", { job_id: job }, { candidate: person, stage_id: "none" }],
      ["updateInterview", { application_id: application }, { interview_id: interview, title: "T", end_time: "late" }],
      ["addTag", { candidate_id: candidate }, { tag: { name: "" } }],
      ["expectSkill", { staffing_entity_id: staffing_entity }, { skill_id: skill, expected_proficiency: -1 }],
      ["replacePackages", {}, {
        packages: [1, 1].map(() => ({ id: "a", type: "SKILLS_TEST", name: "n", description: "d" }))
      }]
    ]
    const before = everyRecord(world)
    for (const [name, params, body] of halves) {
      assert.isTrue(Result.isFailure(world.write(integration, name, params, body)), name)
    }
    assert.strictEqual(everyRecord(world), before)
  })
})

describe("the employee form", () => {
  it.prop(
    "accepts answers generated from it, with or without a staffing entity, and rejects those for another one",
    { seed: Seed },
    ({ seed }) => {
      const world = small(seed)
      const { records, rows } = ((site) => ({ records: site.records, rows: site.liveRows("hris.staffing_entity") }))(
        world.writeContext(integration)
      )
      const random = new SeededRandom(seed)
      const entity = random.pick(rows.filter(({ fields }) => fields["status"] !== "CLOSED"))
      for (const place of [null, entity]) {
        const form = employeeFormFor(records, place)
        const properties = answersTo(form, random)
        assert.deepStrictEqual(checkForm(form, properties), [])
        const wrong = { staffing_entity_id: place === null ? entity.id : null, properties }
        const right = { staffing_entity_id: place?.id ?? null, properties }
        assert.isTrue(Result.isFailure(world.write(integration, "createEmployee", {}, wrong)))
        const done = world.write(integration, "createEmployee", {}, right)
        assert.strictEqual(
          Result.isSuccess(done) ? "created" : done.failure.code,
          place === null ? "created" : "HRIS.EMPLOYEE_ALREADY_EXISTS"
        )
      }
    }
  )
})

describe("tags", () => {
  it.prop(
    "of a candidate are those added and not removed since, and no application matches updated_after because of them",
    { acts: Schema.Array(Schema.Tuple([Schema.Boolean, Schema.Literals(["a", "b", "c"])])) },
    ({ acts }) => {
      const world = small(4)
      const { candidate } = exampleIdsOf(world)
      const tags = () =>
        world.writeContext(integration).records.find("ats.candidate", candidate)?.many["tags"]
          ?.filter(isLive).map(({ fields }) => String(fields["name"])) ?? []
      const expected = new Set(tags())
      for (const [adds, name] of acts) {
        world.advance(world.now + 1000)
        const body = { tag: { name } }
        const done = world.write(integration, adds ? "addTag" : "removeTag", { candidate_id: candidate }, body)
        assert.strictEqual(Result.isSuccess(done), adds || expected.has(name))
        if (adds) expected.add(name)
        else expected.delete(name)
        assert.sameMembers(tags(), [...expected])
      }
      const matched = world.list(integration, "ats.application", { ...allRecords, updatedAfter: start })
      assert.isEmpty(matched)
    }
  )
})

describe("an expectation", () => {
  it.prop(
    "is stored exactly if the scale of its skill allows it",
    { seed: Seed, value: Schema.Union([Schema.Finite, Schema.Int, Schema.String]), among: Schema.Boolean },
    ({ among, seed, value }) => {
      const world = small(seed % 20)
      const site = world.writeContext(integration)
      const skill = new SeededRandom(seed).pick(
        site.liveRows("hris.skill").filter(({ one }) => one["proficiency_scale"])
      )
      const scale = scaleOf(skill.one["proficiency_scale"]?.fields)
      const proficiency: Proficiency = !among
        ? value
        : scale.type === "NUMERIC"
        ? scale.min ?? 0
        : String(scale.ordered_options?.[0]?.id)
      const body = { skill_id: skill.id, expected_proficiency: proficiency }
      const entity = { staffing_entity_id: exampleIdsOf(world).staffing_entity }
      const done = world.write(integration, "expectSkill", entity, body)
      assert.strictEqual(Result.isSuccess(done), checkProficiency(scale, proficiency) === null)
      assert.isTrue(!among || Result.isSuccess(done))
    }
  )
})

describe("packages", () => {
  const Package = Schema.Struct({
    id: Schema.Literals(["a", "b", "c", "d"]),
    type: Schema.Literals(["SKILLS_TEST", "VIDEO_INTERVIEW"]),
    name: Schema.String,
    description: Schema.String
  })

  it.prop(
    "are those of the last accepted list",
    { lists: Schema.Array(Schema.Array(Package)) },
    ({ lists }) => {
      const world = small(4)
      for (const packages of lists) {
        const shown = () => [...world.truth(integration, "assessment.package").values()] as ReadonlyArray<object>
        const before = shown()
        const done = world.write(integration, "replacePackages", {}, { packages })
        const unique = new Set(packages.map(({ id }) => id)).size === packages.length
        assert.strictEqual(Result.isSuccess(done), unique)
        if (!unique) assert.deepStrictEqual(shown(), before)
        else {
          assert.sameDeepMembers(
            shown().map((row) => ({ ...row, updated_at: null })),
            packages.map((row) => ({ ...row, updated_at: null }))
          )
        }
      }
    }
  )
})
