import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as Watchdog from "./Watchdog.ts"

/** A logger that records the annotations of every log line. */
const recordingLogger = () => {
  const logged: Array<Readonly<Record<string, unknown>>> = []
  const logger = Logger.make<unknown, void>(({ fiber }) => {
    logged.push(fiber.getRef(References.CurrentLogAnnotations))
  })
  return { logged, layer: Layer.fresh(Logger.layer([logger])) }
}

/** Uses this much CPU time, regardless of other load on the machine. */
const block = (millis: number) =>
  Effect.sync(() => {
    const end = process.threadCpuUsage().user + millis * 1_000
    // each reading is a system call, whose own time does not count: read seldom
    while (process.threadCpuUsage().user < end) for (let step = 0; step < 1_000_000; step++);
  })

describe("the watchdog", () => {
  it.live("the watchdog names the handler that computes without yielding, and no other", () => {
    const { logged, layer } = recordingLogger()
    return Effect.gen(function*() {
      const { watched } = yield* Watchdog.make
      const patient = watched({ plugin: "patient", handler: "h" })(Effect.forever(Effect.sleep(10)))
      const greedy = watched({ plugin: "greedy", handler: "h" })(
        Effect.andThen(Effect.sleep(150), Effect.andThen(block(1_300), Effect.sleep(300)))
      )
      yield* Effect.raceFirst(patient, greedy)
      assert.deepStrictEqual(logged.map(({ handler, plugin }) => [plugin, handler]), [["greedy", "h"]])
    }).pipe(Effect.scoped, Effect.provide(layer))
  })
})
