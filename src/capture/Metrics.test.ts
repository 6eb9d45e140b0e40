import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { lateChangeFound } from "./Metrics.ts"

const minute = 60_000
const hour = 60 * minute

/** The log line about a change that became visible `lag` ms late; null if there is none. */
const lineFor = (lag: number, overlap: { readonly before: number; readonly after: number }) => {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))
  return lateChangeFound({ integration: "greenhouse:acme", model: "ats.tag" }, lag, overlap).pipe(
    Effect.provide(Logger.layer([logger])),
    Effect.map(() => lines[0] ?? null)
  )
}

describe("The log line about a late change", () => {
  it.effect("reports an extended overlap, and is a warning if polls did not cover the change (W3)", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* lineFor(4 * minute, { before: 5 * minute, after: 8 * minute }),
        "Info late change: poll overlap extended"
      )
      assert.strictEqual(
        yield* lineFor(20 * minute, { before: 5 * minute, after: 16 * minute }),
        "Warn late change: poll overlap extended"
      )
      assert.strictEqual(yield* lineFor(2 * minute, { before: 5 * minute, after: 5 * minute }), null)
    }))

  it.effect("does not report an extended overlap if the overlap is at its maximum (W3)", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* lineFor(7 * hour, { before: 6 * hour, after: 6 * hour }),
        "Warn late change: poll overlap is at its maximum"
      )
    }))
})
