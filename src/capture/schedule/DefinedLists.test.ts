/** Lists that the configuration defines: their records are forgotten and redacted like others, and a list can be removed and defined again. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import {
  contentOf,
  entries,
  forgetNow,
  integration,
  later,
  scenario,
  startReading
} from "../../../test/support/capture/ForgettingWorld.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import { builtInModels } from "../../domain/BuiltInModels.ts"
import { defineList, withLists } from "../../domain/DefinedList.ts"
import type { Model } from "../../domain/Model.ts"
import * as Processing from "../../domain/Processing.ts"
import { Store } from "../../store/Store.ts"
import * as StoreAdoption from "../rewrite/StoreAdoption.ts"

const known = withLists([
  defineList("hris.employee", { path: "/hris/employees" }),
  defineList("hris.timesheet", {
    path: "/hris/timesheets",
    references: [
      { path: "employee", kind: "employee", shared: ["first_name"] },
      { path: "approvals.by", kind: "employee", shared: ["first_name"] }
    ]
  })
])
const models = ["hris.employee", "hris.timesheet"] as const
const ann = { integration, model: "hris.employee", id: "e-ann" } as const

const person = (name: string) => ({ id: `e-${name}`, first_name: `${name}@people` })

/** Two employees; each has a timesheet, and approves both. */
const twoLists = () => {
  const [employees, timesheets] = [Scripted.make(), Scripted.make()]
  for (const name of ["ann", "bob"]) {
    employees.put(start, person(name))
    const approvals = ["ann", "bob"].map((by) => ({ id: `${by}-${name}`, by: person(by) }))
    timesheets.put(start, { id: `t-${name}`, hours: 8, employee: person(name), approvals })
  }
  return { employees, timesheets, lists: { "hris.employee": employees, "hris.timesheet": timesheets } }
}

const brief = Effect.map(
  entries,
  (all) => all.map(({ id, kind, reason, version }) => `${id} ${version} ${reason ?? kind}`)
)
const eventsAfter = (count: number) => Effect.map(brief, (all) => all.slice(count).sort())

describe("a list that the configuration defines", () => {
  it.effect("whose references do not name a place: the plan lists the records that may repeat the record there", () => {
    const { employees, lists } = twoLists()
    employees.put(start, { ...person("bob"), manager: person("ann") })
    return scenario(function*() {
      const first = yield* startReading(models, known)
      const { copies, mentions } = yield* first.plan(ann)
      assert.deepStrictEqual(copies.map(({ model }) => model), ["hris.timesheet"])
      assert.deepStrictEqual(mentions, [{ model: "hris.employee", records: 1, ids: ["e-bob"] }])
      const { message, ...refusal } = yield* Effect.flip(first.plan({ ...ann, model: "ats.user" }))
      assert.match(
        "hint" in refusal ? refusal.hint : message,
        /^records of hris.employee, hris.timesheet have an object/
      )
      yield* first.stop
      const without = yield* startReading([], builtInModels)
      const { copies: none, mentions: all } = yield* without.plan(ann)
      assert.deepStrictEqual([none, all], [[], [
        { model: "hris.employee", records: 1, ids: ["e-bob"] },
        { model: "hris.timesheet", records: 2, ids: ["t-ann", "t-bob"] }
      ]])
    }, lists)
  })

  it.effect("forgets a record, and its copies where `references` says that records repeat it (I11)", () => {
    const { lists } = twoLists()
    return scenario(function*(world) {
      const process = yield* startReading(models, known)
      assert.isAbove(world.inFiles("ann@people"), 3)
      const before = (yield* entries).length
      const { copies, live } = yield* process.plan(ann)
      assert.isTrue(live)
      assert.deepStrictEqual(copies, [{ model: "hris.timesheet", records: 2, ids: ["t-ann", "t-bob"] }])
      yield* forgetNow(process, ann)
      assert.deepStrictEqual(yield* eventsAfter(before - 3), [
        "e-ann 2 forgotten",
        "t-ann 2 forgotten",
        "t-ann 3 created",
        "t-bob 2 forgotten",
        "t-bob 3 created"
      ])
      assert.strictEqual(world.inFiles("ann@people"), 0)
      const { approvals, employee, hours } = yield* contentOf("hris.timesheet", "t-ann")
      assert.deepStrictEqual([hours, employee, approvals.map(({ by }: { by: unknown }) => by)], [
        8,
        null,
        [null, person("bob")]
      ])
      const after = (yield* entries).length
      for (const model of models) yield* process.capture.sweep({ integration, model })
      assert.strictEqual((yield* entries).length, after)
      for (const model of models) {
        assert.strictEqual((yield* process.capture.audit({ integration, model })).differing, 0)
      }
    }, lists)
  })

  it.effect("is redacted by a rule that is added later (I11)", () => {
    const { lists } = twoLists()
    const processing = (redact: Processing.ProcessingRules["redact"]) => (model: Model) =>
      Processing.make(model, { remoteData: "drop", redact: model === "hris.employee" ? redact : {}, key: "" }, known)
    return scenario(function*(world) {
      const process = yield* startReading(["hris.employee"], known)
      yield* process.stop
      assert.isAbove(world.inFiles("ann@people"), 0)
      const before = (yield* entries).length
      yield* startReading(["hris.employee"], known, processing({ "/first_name": "drop" }))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(world.inFiles("ann@people"), 0)
      assert.deepStrictEqual(yield* eventsAfter(before), [])
      assert.notProperty(yield* contentOf("hris.employee", "e-ann"), "first_name")
    }, lists)
  })

  it.effect("keeps its history while it is not defined, can be forgotten and adopted meanwhile, and goes on without false events", () => {
    const { employees, lists } = twoLists()
    return scenario(function*(world) {
      const first = yield* startReading(models, known)
      yield* first.stop
      const before = yield* brief
      const without = yield* startReading([], builtInModels)
      employees.put(later(3), { ...person("bob"), first_name: "Robert" })
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual(yield* brief, before)
      yield* forgetNow(without, ann)
      assert.deepStrictEqual(yield* eventsAfter(before.length - 1), ["e-ann 2 forgotten"])
      assert.isNull(yield* contentOf("hris.employee", "e-ann"))
      yield* without.stop
      const plan = yield* StoreAdoption.plan(0)
      yield* StoreAdoption.adopt(plan, () => null)
      const adopted = yield* brief
      assert.deepStrictEqual([...adopted].sort(), ["e-bob 1 created", "t-ann 1 created", "t-bob 1 created"])
      const again = yield* startReading(models, known)
      for (const model of models) yield* again.capture.sweep({ integration, model })
      assert.deepStrictEqual(yield* eventsAfter(adopted.length), [
        "e-bob 2 updated",
        "t-ann 2 updated",
        "t-bob 2 updated"
      ])
      assert.isNull((yield* contentOf("hris.timesheet", "t-ann")).employee)
      const states = yield* Effect.flatMap(Store, ({ streams }) => streams)
      assert.isTrue(states.every(({ retired }) => retired !== true))
      assert.isAbove(world.inFiles("Robert"), 0)
    }, lists)
  })
})
