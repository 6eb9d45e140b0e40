/** Plugins that handle events of a defined list: their types, their checks, and their runs in the test kit. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { faultsOf } from "../../test/support/config/Checked.ts"
import { defineConfig, defineList } from "../config/ConfigFile.ts"
import * as Testing from "../testing/Testing.ts"
import * as Plugin from "./Plugin.ts"

const employees = defineList("hris.employee", {
  path: "/hris/employees",
  schema: Schema.Struct({ first_name: Schema.String, employment_status: Schema.String }),
  transitions: { terminated: { path: "employment_status", becomes: ["TERMINATED"] } }
})
const teams = defineList("hris.team", { path: "/hris/teams" })

const seen: Array<string> = []
const offboard = Plugin.make("offboard")
  .on(employees.transition("terminated"), {}, async (event) => {
    const name: "terminated" = event.transition.name
    seen.push(`${name} ${event.after.first_name ?? "?"}`)
  })
  .on(employees.updated, { changed: ["first_name"] }, async (event) => {
    const before: string | null | undefined = event.change.first_name?.before
    seen.push(`${before} → ${event.after.first_name}, ${event.model satisfies "hris.employee"}`)
  })
  .on(teams.created, {}, async (event) => {
    seen.push(`team ${event.after.id} ${String(event.after["size"])}`)
  })
  .batch(employees.created, { size: 2, within: "1 second" }, async (events) => {
    seen.push(events.map(({ after }) => after.id).join())
  })
  .onAny(
    [employees.updated, employees.transition("terminated"), "ats.tag.deleted"],
    { as: "any", changed: ["employment_status"] },
    async (event) => {
      if (event.model === "ats.tag") seen.push(`tag ${event.before?.name}`)
      else if ("changed" in event) seen.push(`any ${event.changed satisfies ReadonlyArray<"employment_status">}`)
      else seen.push(`any ${event.transition.name satisfies "terminated"} ${event.after.first_name}`)
    }
  )
  .every("1 day", { as: "daily" }, async (tick, { events }) => {
    const ended = await events.between(employees.transition("terminated"), tick.from, tick.to)
    seen.push(
      ...ended.map(({ after, transition: { name } }) => `daily ${name satisfies "terminated"} ${after.first_name}`)
    )
  })

/** Never run: these cases are checked by the compiler. */
export const refused = () => [
  // @ts-expect-error the list has no such transition
  employees.transition("hired"),
  // @ts-expect-error an employee has no such property
  Plugin.make("x").on(employees.updated, { changed: ["age"] }, async () => {}),
  // @ts-expect-error only the updates of one of the triggers have these properties
  Plugin.make("x").onAny([employees.updated, "ats.tag.created"], { as: "x", changed: ["name"] }, async () => {}),
  Plugin.make("x").every("1 day", { as: "x" }, (tick) =>
    // @ts-expect-error a model has no list of triggers
    Effect.asVoid(Plugin.Events.between("hris.employee.created", tick.from, tick.to))),
  // @ts-expect-error the first name is a text
  Testing.event(employees.created, { after: { first_name: 7 } })
]

describe("a plugin for a defined list", () => {
  it("receives typed events, transitions and batches, in the test kit without a configuration", async () => {
    assert.deepStrictEqual(offboard.issues, [])
    const testing = Testing.make(offboard, { records: [Testing.record(employees, { id: "a", first_name: "Ada" })] })
    const results = await testing.deliver([
      Testing.event(employees.created, { after: { id: "a" } }),
      Testing.event(employees.updated, { before: { first_name: "Ada" }, after: { first_name: "Eve" } }),
      Testing.event(employees.transition("terminated"), { after: { first_name: "Eve" } }),
      Testing.event(teams.created, { after: { size: 3 } }),
      Testing.event("ats.tag.deleted", { before: { name: "vip" } })
    ])
    assert.isNull(results.failure)
    assert.isNull((await testing.tick("daily")).failure)
    assert.sameMembers(seen, [
      "a",
      "Ada → Eve, hris.employee",
      "terminated Eve",
      "team team-1 3",
      "any employment_status",
      "tag vip",
      "daily terminated Eve"
    ])
  })

  it("reads records of the list, as they were published and as the API has them", async () => {
    const names: Array<string | null | undefined> = []
    const reading = Plugin.make("reading").on("ats.tag.created", {}, async (_, { api, records }) => {
      const [stored, live] = [await records.get(employees, "a"), await api.live(employees, "a")]
      names.push(stored?.first_name, live?.first_name)
    })
    const testing = Testing.make(reading, { records: [Testing.record(employees, { id: "a", first_name: "Ada" })] })
    assert.isNull((await testing.deliver(Testing.event("ats.tag.created", {}))).failure)
    assert.deepStrictEqual(names, ["Ada", "Ada"])
    assert.strictEqual(testing.live(employees, "a")?.first_name, "Ada")
  })

  it("is refused by the compiler's checks at run time too", () => {
    const wrong = Plugin.make("x").on({ list: employees, step: "hired" } as never, {}, async () => {})
    assert.match(wrong.issues[0]?.hint ?? "", /The triggers of hris.employee are created, updated, deleted, terminated/)
    const unknown = Plugin.make("x").on(employees.updated, { changed: ["age"] as never }, async () => {})
    assert.match(unknown.issues[0]?.message ?? "", /age/)
  })

  it.effect("needs the same definition in `lists`", () =>
    Effect.gen(function*() {
      const plugins = [offboard]
      assert.deepStrictEqual(yield* faultsOf({}, defineConfig({ lists: [employees, teams], plugins })), [])
      const [fault, ...others] = yield* faultsOf({}, defineConfig({ lists: [employees], plugins }))
      assert.deepStrictEqual([fault?.where, others.length], ["rollcall.config.ts, plugins[0]", 0])
      assert.match(fault?.message ?? "", /handles events of "hris.team"/)
      const other = defineList("hris.employee", { path: "/hris/employees" })
      const [changed] = yield* faultsOf({}, defineConfig({ lists: [other, teams], plugins }))
      assert.match(changed?.message ?? "", /"hris.employee"/)
    }))
})
