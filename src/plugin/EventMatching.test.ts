/** Matching of events to handlers and their triggers. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Testing from "../testing/Testing.ts"
import { type PublishedEvent, triggerFor } from "./EventMatching.ts"
import * as Plugin from "./Plugin.ts"

const seenBy = async (
  triggers: ReadonlyArray<"ats.application.updated" | "ats.application.hired" | "ats.application.deleted">,
  changed?: ReadonlyArray<"outcome" | "job_id">
) => {
  const seen: Array<unknown> = []
  const plugin = Plugin.make("several").onAny(
    triggers,
    { as: "all", ...(changed && { changed }) },
    (event) =>
      Effect.sync(() =>
        void seen.push("transition" in event ? event.transition.name : [event.kind, "changed" in event])
      )
  )
  const hired = Testing.event("ats.application.hired", { after: { id: "a1" } })
  const moved = Testing.event("ats.application.updated", {
    version: 3,
    before: { id: "a1", job_id: "j1" },
    after: { id: "a1", job_id: "j2" }
  })
  const gone = Testing.event("ats.application.deleted", { version: 4, before: { id: "a1" } })
  await Testing.make(plugin).deliver([hired, moved, gone])
  return seen
}

describe("a handler of several triggers", () => {
  it("receives each event once, for the first trigger that matches, in order per record", async () => {
    const updated = ["updated", true]
    const deleted = ["deleted", false]
    const all = ["ats.application.deleted", "ats.application.hired", "ats.application.updated"] as const
    assert.deepStrictEqual(await seenBy(all), ["hired", updated, deleted])
    assert.deepStrictEqual(await seenBy(["ats.application.updated", "ats.application.hired"]), [updated, updated])
    assert.deepStrictEqual(await seenBy(["ats.application.hired"]), ["hired"])
  })

  it("applies the `changed` option only to updates", async () => {
    const triggers = ["ats.application.updated", "ats.application.deleted"] as const
    assert.deepStrictEqual(await seenBy(triggers, ["job_id"]), [["updated", true], ["deleted", false]])
    assert.deepStrictEqual(await seenBy(triggers, ["outcome"]), [["updated", true], ["deleted", false]])
  })

  it("needs at least one trigger", () => {
    const { issues } = Plugin.make("none").onAny([], { as: "all" }, () => Effect.void)
    assert.match(issues[0]?.message ?? "", /"all" has no triggers/)
  })
})

describe("the trigger of an event", () => {
  it("is found without the contents of the event, which are parsed only for handlers that run", () => {
    const plugin = Plugin.make("p").on("ats.application.created", { origins: ["poll"] }, () => Effect.void)
    const unparsed = (): never => assert.fail("the contents were parsed")
    const event = Object.defineProperties(
      { model: "ats.application", kind: "created", origin: "poll", transitions: [], changes: [], cause: null },
      { before: { get: unparsed }, after: { get: unparsed } }
    ) as unknown as PublishedEvent
    const [handler] = plugin.handlers
    assert.isDefined(handler)
    assert.strictEqual(triggerFor("p", handler!, event), "ats.application.created")
    assert.isNull(triggerFor("p", handler!, { ...event, origin: "backfill", before: null, after: null }))
  })
})
