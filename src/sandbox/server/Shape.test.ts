/** Compares the records that the sandbox shows with one full example of everything the specification defines. */
import { assert, describe, it } from "@effect/vitest"
import { listExamples, recordExamples } from "../../../test/support/api/Examples.ts"
import { type IncrementalModel, incrementalModels } from "../../api/Lists.ts"
import type { WorldModel } from "../world/Records.ts"
import { World } from "../world/World.ts"

const world = World.make({ seed: 5, start: Date.parse("2026-03-01T12:00:00.000Z"), records: 400 })
const shown = (model: WorldModel) => [...world.truth("sandbox:everything", model).values()]

type Leaf = readonly [path: string, value: unknown]

/** Third-party data, and content whose shape depends on the type of question or scale. */
const opaque = /\.(remote_data|custom_fields|integration_fields|answer|expected_proficiency|proficiency)$/

/** Every path in a record with the value at it; the entries of an array share one path. */
const leavesOf = (value: unknown, path = ""): ReadonlyArray<Leaf> => {
  const here: Leaf = [path, value]
  if (opaque.test(path) || typeof value !== "object" || value === null) return [here]
  if (Array.isArray(value)) return [here, ...value.flatMap((entry) => leavesOf(entry, `${path}[]`))]
  return [here, ...Object.entries(value).flatMap(([name, inner]) => leavesOf(inner, `${path}.${name}`))]
}

const pathsOf = (records: ReadonlyArray<unknown>) =>
  [...new Set(records.flatMap((record) => leavesOf(record)).map(([path]) => path))].sort()

const examples: ReadonlyArray<readonly [WorldModel, unknown]> = [
  ...incrementalModels.map((model: IncrementalModel) => [model, listExamples[model]] as const),
  ["lms.course", recordExamples.course],
  ["assessment.package", recordExamples.assessmentPackage]
]

describe("a record that the sandbox shows", () => {
  it.each(examples)(
    "of %s has every property of the specification, at every depth, and no other (U28)",
    (model, example) => {
      assert.deepStrictEqual(pathsOf(shown(model)), pathsOf([example]))
    }
  )

  it.each(examples)("of %s has times in UTC with milliseconds, and days without a time (U29)", (model) => {
    const found = shown(model).flatMap((record) => leavesOf(record)).filter(([, value]) => value !== null)
    const moments = found.filter(([path]) => /(_at|employment_start_date|review_period_start_date)$/.test(path))
    const days = found.filter(([path]) => /\.pay_run\.(start|end)_date$/.test(path))
    assert.isNotEmpty(moments)
    for (const [path, value] of moments) assert.match(String(value), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, path)
    for (const [path, value] of days) assert.match(String(value), /^\d{4}-\d\d-\d\d$/, path)
  })

  it("of a scorecard has answers of all six types, each in its shape, and null (U30)", () => {
    const isOption = (value: unknown) =>
      typeof value === "object" && value !== null && Object.keys(value).sort().join() === "label,remote_id"
    const shapes: Readonly<Record<string, (answer: unknown) => boolean>> = {
      SINGLE_SELECT: isOption,
      MULTI_SELECT: (answer) => Array.isArray(answer) && answer.every(isOption),
      TEXT: (answer) => typeof answer === "string",
      BOOLEAN: (answer) => typeof answer === "boolean",
      NUMBER: (answer) => typeof answer === "number",
      DATE: (answer) => /^\d{4}-\d\d-\d\d$/.test(String(answer))
    }
    const responses = shown("ats.scorecard").flatMap((scorecard) =>
      (scorecard as unknown as { responses: ReadonlyArray<{ type: string; answer: unknown; options?: unknown }> })
        .responses
    )
    assert.sameMembers([...new Set(responses.map(({ type }) => type))], Object.keys(shapes))
    assert.isTrue(responses.some(({ answer }) => answer === null))
    for (const { answer, options, type } of responses) {
      assert.isTrue(answer === null || shapes[type]?.(answer), `${type}: ${JSON.stringify(answer)}`)
      assert.strictEqual(Array.isArray(options), type.endsWith("SELECT"))
    }
  })

  it("has the values that appear in the specification (U31)", () => {
    const values = new Set(
      incrementalModels.flatMap((model) => shown(model)).flatMap((record) => leavesOf(record)).map(([, value]) => value)
    )
    const named = "PENDING HIRED DECLINED HOME PRIVATE YOUTUBE OFFICE TEAM FULL_TIME DAYS ACCEPTED ACTIVE NUMERIC " +
      "SINGLE_SELECT MANAGER DIRECT_REPORT PEER SELF JOB POSITION REQUISITION OPEN_LIMITED OPEN_UNLIMITED FROZEN FILLED CLOSED"
    for (const value of named.split(" ")) assert.isTrue(values.has(value), value)
  })

  it("of a skill has a scale with the properties of the scale's type, and no other (U32)", () => {
    const skills = shown("hris.skill") as unknown as ReadonlyArray<{ proficiency_scale: { type: string } }>
    const shapes = new Set(skills.map(({ proficiency_scale }) => Object.keys(proficiency_scale).sort().join()))
    assert.deepStrictEqual([...shapes].sort(), ["id,max,min,remote_id,step,type", "id,ordered_options,remote_id,type"])
  })

  it("of a requisition names its position (U32)", () => {
    const entities = shown("hris.staffing_entity") as unknown as ReadonlyArray<
      Record<"id" | "model_type" | "parent_id", string>
    >
    const kinds = new Map(entities.map(({ id, model_type }) => [id, model_type]))
    const parents = entities.filter(({ model_type }) => model_type === "REQUISITION").map(({ parent_id }) => parent_id)
    assert.isNotEmpty(parents.filter((id) => id !== null))
    for (const id of parents) assert.isTrue(id === null || (kinds.get(id) ?? "POSITION") === "POSITION", id)
  })
})
