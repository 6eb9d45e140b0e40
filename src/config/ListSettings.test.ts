import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { faultsOf, settingsOf } from "../../test/support/config/Checked.ts"
import { builtInModels } from "../domain/BuiltInModels.ts"
import { recordEntryOf } from "../domain/Model.ts"
import { defineConfig, defineList } from "./ConfigFile.ts"

const employees = defineList("hris.employee", {
  path: "/hris/employees",
  schema: Schema.Struct({ first_name: Schema.String, age: Schema.Finite }),
  references: [{ path: "manager", kind: "employee", shared: ["first_name"] }],
  transitions: { terminated: { path: "employment.status", becomes: ["TERMINATED"] }, moved: { path: "location_id" } },
  unordered: ["work_phones"]
})

describe("a list in the configuration", () => {
  it.effect("is a model that integrations and redaction rules can name, beside the built-in ones", () =>
    Effect.gen(function*() {
      const { integrations, known, models } = yield* settingsOf(
        { ROLLCALL_LISTS: "ats.job=/ats/jobs" },
        defineConfig({
          lists: [employees],
          integrations: [{ id: "workday:acme", models: ["hris.employee", "ats.job", "hris.skill"] }],
          models: { "hris.employee": { redact: { "/first_name": "drop" } } }
        })
      )
      assert.deepStrictEqual(known.names, [...builtInModels.names, "hris.employee", "ats.job"])
      assert.sameMembers([...integrations[0]!.models], ["hris.skill", "hris.employee", "ats.job"])
      assert.deepStrictEqual(models["hris.employee"]?.redact, { "/first_name": "drop" })
      const { nested, transitions, unordered } = recordEntryOf(known, "hris.employee")
      assert.deepStrictEqual(nested, [{ path: ["manager"], kind: "employee", shared: ["first_name"] }])
      assert.deepStrictEqual(unordered, ["work_phones"])
      assert.deepStrictEqual(transitions, [
        { name: "terminated", path: ["employment", "status"], when: ["TERMINATED"] },
        { name: "moved", path: ["location_id"], when: "set" }
      ])
    }))

  it.effect("needs no file", () =>
    Effect.gen(function*() {
      const { integrations, known } = yield* settingsOf({
        ROLLCALL_LISTS: "hris.employee=/hris/employees",
        ROLLCALL_INTEGRATIONS: "workday:acme",
        ROLLCALL_MODELS: "hris.employee"
      })
      assert.deepStrictEqual(integrations[0]!.models, ["hris.employee"])
      assert.strictEqual(known.listOf("hris.employee")?.path, "/hris/employees")
    }))

  it.effect("may replace the derivation of candidates, with the structure that these have", () =>
    Effect.gen(function*() {
      const { integrations, known } = yield* settingsOf({
        ROLLCALL_LISTS: "ats.candidate=/ats/candidates",
        ROLLCALL_INTEGRATIONS: "greenhouse:acme",
        ROLLCALL_MODELS: "ats.candidate"
      })
      assert.deepStrictEqual(integrations[0]!.models, ["ats.candidate"])
      assert.deepStrictEqual([known.names, known.derived], [builtInModels.names, []])
      const { nested, path, schema, unordered } = known.listOf("ats.candidate")!
      const derived = builtInModels.derivedOf("ats.candidate")!
      assert.deepStrictEqual([path, nested, unordered], ["/ats/candidates", derived.nested, derived.unordered])
      assert.strictEqual(schema, derived.schema)
    }))

  const wrong: ReadonlyArray<readonly [variable: string, message: RegExp, hint: RegExp]> = [
    ["hris.employee", /"hris.employee" is not a list/, /<name>=<path>/],
    ["employee=/hris/employees", /"employee" cannot be the name/, /<category>\.<name>/],
    ["a.b=b&k=f9QLiedyey0U7jjAffdQ", /"a.b" has the path "\(24 characters\)"/, /below the base URL/],
    ["f9QLiedyey0U7jjAffdQ=/hris/employees", /"\(20 characters\)" cannot be the name/, /<category>/],
    ["hris.Employee=/hris/employees", /cannot be the name/, /lower-case/],
    ["hris.a.b=/hris/employees", /cannot be the name/, /<category>/],
    [`hris.${"x".repeat(60)}=/hris/employees`, /cannot be the name/, /64 characters/],
    ["rollcall.export=/e", /"rollcall.export" begins with a reserved word/, /another category/],
    ["sqlite.x=/e", /"sqlite.x" begins with a reserved word/, /another category/],
    ["hris.skill=/hris/abilities", /"hris.skill" is a built-in model/, /Remove it/],
    ["hris.ability=/hris/skills", /has the path of "hris.skill"/, /one model for each path/],
    ["ats.candidate=/a,ats.candidate=/b", /"ats.candidate" is defined twice/, /Remove one/],
    ["hris.a=/hris/a,hris.a=/hris/b", /"hris.a" is defined twice/, /Remove one/],
    ["hris.a=/hris/a,hris.b=/hris/a", /has the path of "hris.a"/, /one model/],
    ["performance.review=/p", /same name as one of "hris.performance_review": PerformanceReview/, /another name/],
    ["hris.a=/hris/a,hris.a_event=/hris/b", /same name as one of "hris.a": HrisAEvent/, /another name/],
    ["hris.a_state=/hris/b,hris.a=/hris/a", /same name as one of "hris.a_state": HrisAState/, /another name/],
    ["hris.a=hris/a", /has the path "hris\/a"/, /\/hris\/employees/],
    ["hris.a=/hris/a?x=1", /has the path/, /without a query/],
    ["hris.a=/../admin", /has the path/, /without a query/]
  ]
  it.effect.each(wrong)(
    "is refused at start with the place: ROLLCALL_LISTS=%s",
    ([variable, message, hint]) =>
      Effect.gen(function*() {
        const [fault, ...others] = yield* faultsOf({ ROLLCALL_LISTS: variable })
        assert.match(fault?.where ?? "", /^ROLLCALL_LISTS/)
        assert.match(fault?.message ?? "", message)
        assert.match(fault?.hint ?? "", hint)
        assert.deepStrictEqual(others, [])
      })
  )

  it.effect("is refused with its place in the file if a part of its definition has another form", () =>
    Effect.gen(function*() {
      const definitions: ReadonlyArray<object> = [
        { schema: { name: "x" } },
        { schema: Schema.String },
        { unordered: "phones" },
        { sweepOnly: "yes" },
        { references: [{ path: "manager" }] },
        { transitions: { created: { path: "status" } } },
        { transitions: { left: {} } }
      ]
      for (const definition of definitions) {
        const list: unknown = { model: "hris.a", definition: { path: "/hris/a", ...definition } }
        const faults = yield* faultsOf({}, { lists: [employees, list] })
        assert.deepStrictEqual(
          faults.map(({ where }) => where),
          ["rollcall.config.ts, lists[1]"],
          Object.keys(definition)[0]
        )
      }
      const [fault] = yield* faultsOf({}, { lists: ["hris.employee"] })
      assert.match(fault?.hint ?? "", /defineList/)
    }))
})
