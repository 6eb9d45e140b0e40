import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as TestClock from "effect/testing/TestClock"
import { make, recorder } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const trigger = "ats.application.created"

describe("a claim whose response is lost (X10)", () => {
  it.effect("is released, and its deliveries are claimed again", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      yield* rig.start([Plugin.make("p").on(trigger, {}, ({ recordId }) => note(recordId))])
      rig.lostClaims = 2
      yield* rig.append("a1")
      yield* rig.append("a2")
      yield* rig.until(() => rig.lostClaims === 1)
      yield* TestClock.adjust("1 second")
      yield* rig.until(() => rig.lostClaims === 0)
      yield* TestClock.adjust("1 second")
      yield* rig.empty
      assert.deepStrictEqual(received.toSorted(), ["a1", "a2"])
    }))

  it.effect("leaves running and queued deliveries to their handler", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const gate = yield* Latch.make(false)
      yield* rig.start([
        Plugin.make("p").on(
          trigger,
          { concurrency: 1, timeout: Duration.hours(1) },
          ({ recordId }) => Effect.andThen(note(recordId), gate.await)
        )
      ])
      yield* rig.append("running")
      yield* rig.until(() => received.length === 1)
      yield* rig.append("queued")
      yield* rig.until(() => rig.deliveries.backlog, ([own]) => own?.running === 2)
      rig.lostClaims = 1
      yield* rig.append("lost")
      yield* rig.until(() => rig.lostClaims === 0)
      yield* TestClock.adjust("1 second")
      yield* rig.until(() => rig.deliveries.backlog, ([own]) => own?.running === 3)
      yield* gate.open
      yield* rig.empty
      assert.deepStrictEqual(received, ["running", "queued", "lost"])
    }))
})
