/** Records that repeat content of the records of a defined list. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { acme, startProcess } from "../../../test/support/capture/Capturing.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { defineList, withLists } from "../../domain/DefinedList.ts"
import type { Model, Models } from "../../domain/Model.ts"
import * as Processing from "../../domain/Processing.ts"
import { Store } from "../../store/Store.ts"

const models = withLists([
  defineList("hris.employee", {
    path: "/hris/employees",
    references: [{ path: "manager", kind: "employee", shared: ["first_name", "work_email"] }]
  }),
  defineList("ats.job", { path: "/ats/jobs" })
])

const employee = (
  id: string,
  first_name: string,
  manager: { readonly id: string; readonly first_name: string } | null
) => ({
  id,
  first_name,
  work_email: null,
  manager: manager && { ...manager, work_email: null }
})

describe("a record of a defined list that other records repeat", () => {
  it.effect("is refreshed in them when it changes, in lists and in built-in models, and no other record is read (N1)", () => {
    const apis = {
      "hris.employee": Scripted.make(),
      "ats.job": Scripted.make(),
      "ats.application": Scripted.make()
    }
    const put = (model: keyof typeof apis, at: number, row: Scripted.Row, silent = false) =>
      apis[model].put(start + at * 60_000, row, { silent })
    /** The ids of each refresh, between its two controls. */
    const refreshed = (model: keyof typeof apis) =>
      apis[model].requests.flatMap(({ ids, priority }) => priority === "refresh" ? [ids?.slice(1, -1)] : [])
    const published = (model: Model) =>
      Effect.map(
        Effect.flatMap(Store, (store) => store.readLog({ after: 0, limit: 1000 })),
        (all) => all.filter((one) => one.model === model).map(({ id, kind, origin }) => `${id} ${kind} ${origin}`)
      )
    return Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const [ada, bob] = [{ id: "ada", first_name: "Ada" }, { id: "bob", first_name: "Bob" }]
      for (const one of [ada, bob]) put("hris.employee", -1, employee(one.id, one.first_name, null))
      put("hris.employee", -1, employee("of ada", "Cy", ada))
      put("hris.employee", -1, employee("of bob", "Di", bob))
      put("hris.employee", -1, employee("none", "Ed", null))
      for (const id of ["j", "k"]) {
        put("ats.job", -1, { id, name: "Engineer" })
        put("ats.application", -1, { id: `for ${id}`, job: { id, name: "Engineer" } })
      }
      put("ats.application", -1, { id: "for none", job: null })
      yield* startProcess({
        declared: [{ ...acme, models: ["hris.employee", "ats.job", "ats.application"] }],
        processing: (model) => Processing.defaultProcessing(model, models)
      })
      yield* TestClock.adjust("10 minutes")
      put("hris.employee", 10, employee("ada", "Augusta", null))
      put("hris.employee", 10, employee("of ada", "Cy", { ...ada, first_name: "Augusta" }), true)
      put("ats.job", 10, { id: "j", name: "Architect" })
      put("ats.application", 10, { id: "for j", job: { id: "j", name: "Architect" } }, true)
      yield* TestClock.adjust("3 minutes")
      assert.deepStrictEqual((yield* published("hris.employee")).slice(5), [
        "ada updated poll",
        "of ada updated refresh"
      ])
      assert.deepStrictEqual((yield* published("ats.application")).slice(3), ["for j updated refresh"])
      assert.deepStrictEqual([refreshed("hris.employee"), refreshed("ats.application")], [[["of ada"]], [["for j"]]])
      assert.deepStrictEqual(refreshed("ats.job"), [])
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.merge(Scripted.layerOf(apis), MemoryStore.layer())),
      Effect.provideService(CurrentModels, models),
      Effect.provideService(References.MinimumLogLevel, "None")
    )
  })

  it.effect("is refreshed in a record that changed while the references of its list were added (N1)", () => {
    const api = Scripted.make()
    const put = (at: number, row: Scripted.Row, silent = false) => api.put(start + at * 60_000, row, { silent })
    const ada = { id: "ada", first_name: "Ada" }
    const read = (known: Models) =>
      startProcess({
        declared: [{ ...acme, models: ["hris.employee"] }],
        processing: (model) => Processing.defaultProcessing(model, known)
      }).pipe(Effect.provideService(CurrentModels, known))
    return Effect.gen(function*() {
      yield* TestClock.setTime(start)
      put(-1, employee("ada", "Ada", null))
      put(-1, employee("of ada", "Cy", ada))
      put(-1, employee("none", "Ed", null))
      const { stop } = yield* read(withLists([defineList("hris.employee", { path: "/hris/employees" })]))
      yield* TestClock.adjust("10 minutes")
      yield* stop
      put(10, employee("of ada", "Cyril", ada))
      yield* read(models)
      yield* TestClock.adjust("30 minutes")
      put(40, employee("ada", "Augusta", null))
      put(40, employee("of ada", "Cyril", { ...ada, first_name: "Augusta" }), true)
      yield* TestClock.adjust("3 minutes")
      const events = yield* Effect.flatMap(Store, (store) => store.readLog({ after: 0, limit: 1000 }))
      assert.deepStrictEqual(
        events.slice(3).map(({ id, kind, origin }) => `${id} ${kind} ${origin}`),
        ["of ada updated poll", "ada updated poll", "of ada updated refresh"]
      )
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.merge(Scripted.layer(api), MemoryStore.layer())),
      Effect.provideService(References.MinimumLogLevel, "None")
    )
  })
})
