/** The types of the plugin API: each line that is marked as a compile error must be one. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Schema from "effect/Schema"
import type { Resembling } from "./Event.ts"
import * as Plugin from "./Plugin.ts"

const config = Config.all({ hris: Config.String("HRIS_INTEGRATION"), entity: Config.String("STAFFING_ENTITY") })
const Employee = Schema.Struct({ id: Schema.NullOr(Schema.String) })

const welcome = Plugin.make("welcome", { config, needs: { writes: ["createEmployee", "addResultLink"] } })
  .on(
    "ats.application.hired",
    { timeout: "30 seconds" },
    Effect.fn("Welcome.hired")(function*(event, { config: { entity, hris } }) {
      const api = yield* Plugin.Api
      const people = yield* Plugin.Api.for(hris)
      const employee = yield* Plugin.Journal.oncePerRecord(
        "create-employee",
        Employee,
        people.createEmployee({ staffing_entity_id: entity, properties: { name: event.after.id } })
      )
      yield* api.addResultLink(event.recordId, { label: "Employee", url: `https://hr.example/${employee.id}` })
    })
  )
  .on(
    "hris.performance_review.updated",
    { changed: ["summary_comment"] },
    Effect.fnUntraced(function*(event) {
      const before: string | null | undefined = event.change.summary_comment?.before
      const only: ReadonlyArray<"summary_comment"> = event.changed
      yield* Effect.logDebug("review changed", { had: before !== null, only })
    })
  )
  .onAny(
    ["ats.tag.created", "ats.tag.updated", "ats.offer.offer_sent"],
    { as: "several", changed: ["remote_id"] },
    Effect.fnUntraced(function*(event) {
      if (event.model === "ats.offer") yield* Effect.logDebug(event.transition.name)
      else if (event.kind === "updated") yield* Effect.logDebug(`${event.before.name} → ${event.after.name}`)
    })
  )
  .batch("ats.application.declined", { size: 100, within: "1 minute" }, (events) => Effect.log(`${events.length}`))
  .every(
    "1 day",
    { as: "digest" },
    Effect.fnUntraced(function*(tick) {
      const hired = yield* Plugin.Events.between("ats.application.hired", tick.from, tick.to)
      yield* Effect.log(`${hired.length} hired`)
    })
  )

/** A handler is an async function as well. */
export const asynchronous = Plugin.make("plain", { config })
  .on("ats.application.hired", {}, async (event, { api, config }) => {
    const name: "hired" | "declined" | "stage_changed" = event.transition.name
    await api.for(config.hris).createEmployee({ properties: { name } })
  })
  .on("ats.tag.updated", { changed: ["name"] }, async (event) => {
    const only: ReadonlyArray<"name"> = event.changed
    await Promise.resolve(only)
  })
  .onAny(["ats.tag.created", "ats.tag.deleted"], { as: "any" }, async (event) => void event.recordId)
  .batch("ats.tag.created", { as: "many", size: 2, within: "1 second" }, async (events) => void events[0]?.recordId)
  .every("1 day", { as: "daily" }, async (tick, { events }) => {
    const hired = await events.between("ats.application.hired", tick.from, tick.to)
    await Promise.resolve(hired.map(({ recordId }) => recordId))
  })

/** A configuration value may have the name of a capability, and a handler may be declared elsewhere. */
const declared: Plugin.HandlerFunction<Plugin.EventOf<"ats.tag.created">, { readonly api: string }> = async (
  _,
  { api, config }
) => {
  await api.addTag("c", { tag: { name: config.api } })
}
Plugin.make("names", { config: Config.all({ api: Config.String("API") }) })
  .on("ats.tag.created", {}, (_, { config }) => Effect.log(config.api.toUpperCase()))
  .on("ats.tag.created", { as: "declared" }, declared)

type Same<A, B> = [A] extends [B] ? [B] extends [A] ? true : never : never
/** The triggers that the compiler's message names for a misspelled one. */
export const resembling: [
  Same<Resembling<"ats.application.hird">, "ats.application.hired">,
  Same<Resembling<"ats.aplication.hired">, "ats.application.hired">,
  Same<Resembling<"ats.ofer.created">, "ats.offer.created">,
  Same<Resembling<"ats.tag.renamed">, "ats.tag.created" | "ats.tag.updated" | "ats.tag.deleted">,
  Same<Resembling<"hired">, Plugin.Trigger>
] = [true, true, true, true, true]

const needsFiles: Effect.Effect<void, never, FileSystem.FileSystem> = Effect.gen(function*() {
  yield* FileSystem.FileSystem
})

/** Never run: these cases are checked by the compiler. */
export const refused = () => [
  Plugin.make("x", { config })
    // @ts-expect-error unclassified error
    .on("ats.tag.created", {}, () => Effect.fail(new Error("boom"))),
  Plugin.make("x", { config })
    // @ts-expect-error unknown property
    .on("ats.tag.updated", { changed: ["nope"] }, () => Effect.void),
  Plugin.make("x", { config })
    // @ts-expect-error a property that never counts as changed
    .on("ats.tag.updated", { changed: ["changed_at"] }, () => Effect.void),
  Plugin.make("x", { config })
    // @ts-expect-error only updates are narrowed by property
    .on("ats.tag.created", { changed: ["name"] }, () => Effect.void),
  Plugin.make("x", { config })
    // @ts-expect-error a tag has no such transition
    .on("ats.tag.hired", {}, () => Effect.void),
  Plugin.make("x", { config })
    // @ts-expect-error a handler of several triggers needs a name
    .onAny(["ats.tag.created", "ats.tag.deleted"], {}, () => Effect.void),
  Plugin.make("x", { config })
    .on("ats.tag.deleted", {}, (event) => {
      // @ts-expect-error a delete has no content after
      void event.after.name
      return Effect.void
    }),
  Plugin.make("x", { config })
    // @ts-expect-error a handler returns no value
    .on("ats.tag.created", {}, async () => 1),
  Plugin.make("x", { config })
    // @ts-expect-error a handler is an async function or returns an Effect
    .on("ats.tag.created", {}, () => {}),
  Plugin.make("x", { config })
    // @ts-expect-error an unknown trigger
    .batch("ats.tag.creatd", { size: 2, within: "1 second" }, () => Effect.void),
  Plugin.make("x", { config })
    // @ts-expect-error a service that is not a capability
    .on("ats.tag.created", {}, () => needsFiles),
  Plugin.make("x")
    .on("ats.application.hired", {}, (event) =>
      Effect.gen(function*() {
        const api = yield* Plugin.Api
        // @ts-expect-error a write takes its body
        yield* api.addTag(event.recordId)
        // @ts-expect-error only createEmployee takes a form
        yield* api.addTag(event.recordId, { tag: { name: "x" } }, { form: { properties: {} } })
        const { transition } = event
        // @ts-expect-error the name is one of the model's transitions
        void (transition.name === "opened")
      }))
]

describe("a plugin as a value", () => {
  it("names its handlers and needs without running anything", () => {
    assert.deepStrictEqual(welcome.handlers.map(({ name, activation }) => [name, activation._tag]), [
      ["ats.application.hired", "Event"],
      ["hris.performance_review.updated", "Event"],
      ["several", "Event"],
      ["ats.application.declined", "Batch"],
      ["digest", "Tick"]
    ])
    assert.deepStrictEqual(welcome.definition.needs?.writes, ["createEmployee", "addResultLink"])
    assert.deepStrictEqual(welcome.handlers[1]?.activation, {
      _tag: "Event",
      triggers: ["hris.performance_review.updated"],
      changed: ["summary_comment"]
    })
  })

  it("is not changed by `with`", () => {
    const used = welcome.with({ others: false, integrations: { "greenhouse:acme": true } })
    assert.deepStrictEqual([welcome.settings, used.settings.others], [{}, false])
    assert.strictEqual(used.handlers, welcome.handlers)
  })
})
