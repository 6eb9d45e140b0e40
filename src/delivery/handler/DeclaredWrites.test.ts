/** A plugin makes only the writes that it declares in `needs`, even if the declaration changed while deliveries were open. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { make, type Rig, unknownOutcome } from "../../../test/support/delivery/Rig.ts"
import type { WriteName } from "../../api/Writes.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const link = { label: "Result", url: "https://x.example" }

/** Links each new application, and tags its candidate. */
const declaring = (...writes: ReadonlyArray<WriteName>) =>
  Plugin.make("p", { needs: { writes, reads: ["tools"] } }).on(
    "ats.application.created",
    {},
    Effect.fnUntraced(function*({ recordId }) {
      const api = yield* Plugin.Api
      yield* api.addResultLink(recordId, link)
      yield* api.addTag("c1", { tag: { name: "met" } })
    })
  )

const sentBy = ({ sent }: Rig) => sent.map(({ write }) => write)
const letterOf = (rig: Rig) =>
  Effect.map(
    rig.deliveries.deadLetters({ limit: 2 }),
    (letters) => letters.map(({ failure: { message, reason, refusal } }) => [reason, refusal, message])
  )
const undeclared = [
  "Permanent",
  "Undeclared",
  `plugin "p" does not declare the write addTag: write needs: { writes: ["addResultLink", "addTag"], reads: ["tools"] } in its definition`
]

describe("a write that the plugin does not declare", () => {
  it.effect("is not sent: the delivery is dead at once, with the line that declares it, and a redrive continues it", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const first = yield* rig.start([declaring("addResultLink")])
      yield* rig.append("a1", { shows: "c1" })
      yield* rig.dead(1)
      assert.deepStrictEqual([sentBy(rig), yield* letterOf(rig)], [["addResultLink"], [undeclared]])
      assert.deepStrictEqual([...rig.intents], [])
      yield* first.stop
      yield* rig.start([declaring("addResultLink", "addTag")])
      yield* rig.redrive
      yield* rig.empty
      assert.deepStrictEqual(sentBy(rig), ["addResultLink", "addTag"])
    }))

  it.effect("is not sent by a plugin without `needs`", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const plugin = Plugin.make("p").on(
        "ats.application.created",
        {},
        () => Effect.flatMap(Plugin.Api, (api) => api.addTag("c1", { tag: { name: "met" } }))
      )
      yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.dead(1)
      const [[, , message] = []] = yield* letterOf(rig)
      assert.include(message, `write needs: { writes: ["addTag"] } in its definition`)
      assert.deepStrictEqual(rig.sent, [])
    }))

  it.effect("keeps its unknown outcome, and is neither read nor sent again before the plugin declares it again (L5)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = ({ write }) => write === "addTag" ? unknownOutcome : Effect.succeed({})
      rig.script.rows = [{ id: "a1", candidate: { id: "c1", tags: [{ name: "met" }] } }]
      const first = yield* rig.start([declaring("addResultLink", "addTag")])
      yield* rig.append("a1", { shows: "c1" })
      yield* rig.until(() => rig.deliveries.backlog, ([own]) => own?.later === 1)
      yield* first.stop
      const second = yield* rig.start([declaring("addResultLink")])
      yield* TestClock.adjust("10 minutes")
      yield* rig.dead(1)
      assert.deepStrictEqual([yield* letterOf(rig), rig.reads], [[undeclared], []])
      yield* second.stop
      assert.lengthOf(rig.intents, 1)
      yield* rig.start([declaring("addResultLink", "addTag")])
      yield* rig.redrive
      yield* rig.empty
      assert.deepStrictEqual([sentBy(rig), rig.reads], [["addResultLink", "addTag"], ["page"]])
    }))
})
