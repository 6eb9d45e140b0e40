import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import * as Watchdog from "../../../src/delivery/engine/Watchdog.ts"

/** What is logged, with its annotations. */
const listening = () => {
  const heard: Array<Readonly<Record<string, unknown>>> = []
  const logger = Logger.make<unknown, void>(({ fiber }) => {
    heard.push(fiber.getRef(References.CurrentLogAnnotations))
  })
  return { heard, layer: Layer.fresh(Logger.layer([logger])) }
}

/** Computes for so long, however busy the machine is otherwise. */
const block = (millis: number) =>
  Effect.sync(() => {
    const end = process.threadCpuUsage().user + millis * 1_000
    while (process.threadCpuUsage().user < end);
  })

describe("the watchdog", () => {
  it.live("names the handler that computes without yielding, not those beside it", () => {
    const { heard, layer } = listening()
    return Effect.gen(function*() {
      const { watched } = yield* Watchdog.make
      const patient = watched({ plugin: "patient", handler: "h" })(Effect.forever(Effect.sleep(10)))
      const greedy = watched({ plugin: "greedy", handler: "h" })(
        Effect.andThen(Effect.sleep(150), Effect.andThen(block(1_300), Effect.sleep(300)))
      )
      yield* Effect.raceFirst(patient, greedy)
      assert.deepStrictEqual(heard.map(({ handler, plugin }) => [plugin, handler]), [["greedy", "h"]])
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it("names the handler that fills up the memory", async () => {
    const program = fileURLToPath(new URL("./Leaking.ts", import.meta.url))
    const { stdout } = await promisify(execFile)(process.execPath, [
      "--max-old-space-size=120",
      "--max-semi-space-size=1",
      program
    ], {
      timeout: 50_000
    })
    const { handlers } = JSON.parse(stdout) as { readonly handlers: string }
    assert.include(handlers, "leaky/h")
  })
})
