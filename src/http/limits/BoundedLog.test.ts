import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { TestClock } from "effect/testing"
import * as BoundedLog from "./BoundedLog.ts"

describe("a bounded log", () => {
  it.effect("logs an occurrence after a minute even if the clock of the machine was set back (W4)", () => {
    const counts: Array<unknown> = []
    const logger = Logger.map(Logger.formatStructured, ({ annotations }) => void counts.push(annotations["count"]))
    return Effect.gen(function*() {
      yield* TestClock.setTime(Date.parse("2026-03-01T00:00:00Z"))
      const note = yield* BoundedLog.make("requests were refused")
      yield* note("192.0.2.1")
      yield* note("192.0.2.1")
      yield* TestClock.adjust("1 minute")
      const clock = yield* Clock.Clock
      const anHourAgo = Effect.map(clock.currentTimeMillis, (now) => now - 3_600_000)
      yield* Effect.provideService(note("192.0.2.1"), Clock.Clock, { ...clock, currentTimeMillis: anHourAgo })
      assert.deepStrictEqual(counts, [1, 1, 1])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })
})
