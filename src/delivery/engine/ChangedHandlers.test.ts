/** Handlers that have another form after a restart, but the same name: the deliveries that they left continue. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { make, recorder } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const trigger = "ats.application.created"
const failing = new Plugin.Transient({ message: "not yet" })
const records = ["a1", "a2", "a3"]

/** Three events in one batch, whose first attempt has failed after `step` was run. */
const undelivered = (step: Effect.Effect<void, Plugin.HandlerError, Plugin.Journal>) =>
  Effect.gen(function*() {
    const rig = yield* make
    const plugin = Plugin.make("p")
      .batch(trigger, { size: 3, within: "1 minute" }, () => Effect.andThen(step, failing))
    const { stop } = yield* rig.start([plugin])
    for (const id of records) yield* rig.append(id)
    yield* rig.until(() => rig.deliveries.backlog, ([own]) => own?.later === 3)
    yield* stop
    return rig
  })

describe("a handler of batches that takes single events after a restart", () => {
  it.effect("each event of an unsettled batch is delivered alone (L7)", () =>
    Effect.gen(function*() {
      const { received, note } = recorder()
      const rig = yield* undelivered(Effect.void)
      yield* rig.start([Plugin.make("p").on(trigger, {}, ({ recordId }) => note(recordId))])
      yield* TestClock.adjust("1 minute")
      yield* rig.empty
      assert.deepStrictEqual(received.toSorted(), records)
    }))

  it.effect("a step that the batch has done is not repeated, and a new step runs once for each event (L4)", () =>
    Effect.gen(function*() {
      const { received, note } = recorder()
      const once = (name: string, text: string) => Plugin.Journal.once(name, Schema.Void, note(text))
      const rig = yield* undelivered(once("report", "report of the batch"))
      const single = Plugin.make("p").on(trigger, {}, ({ recordId }) =>
        Effect.andThen(once("report", `report ${recordId}`), once("mail", `mail ${recordId}`)))
      yield* rig.start([single])
      yield* TestClock.adjust("1 minute")
      yield* rig.empty
      assert.deepStrictEqual(received.toSorted(), ["mail a1", "mail a2", "mail a3", "report of the batch"])
    }))
})
