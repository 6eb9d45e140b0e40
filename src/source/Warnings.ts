/**
 * Handles the API's `warnings[]`: counts every warning, and logs each distinct text once, masked   (I11).
 *
 * Invariants
 * 1. One response costs a bounded number of log lines and a bounded time, however many warnings it has
 *
 * Gotchas
 * - The hashes of only the last 1000 logged texts are kept, so an older text may be logged again.
 * - If a response has too many new texts, some are not logged. Each of them is logged when a later response has it.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { hash } from "node:crypto"
import { mask } from "./Masking.ts"

const counter = Metric.counter("rollcall_api_warnings_total", {
  description: "Warnings in responses of the unified API",
  incremental: true
})
const maxRemembered = 1000
/** Maximum number of different texts of one response that are masked: masking takes microseconds. */
const maxMasked = 1000
/** Maximum number of texts of one response that are logged. */
const maxLogged = 20

export type NoteWarnings = ReturnType<typeof make>

/** Returns a function that counts the warnings of one response and logs the new ones. */
export const make = () => {
  const logged = new Set<string>()
  return Effect.fnUntraced(function*(endpoint: string, warnings: ReadonlyArray<string>) {
    if (warnings.length === 0) return
    yield* Metric.update(Metric.withAttributes(counter, { endpoint }), warnings.length)
    const different = [...new Set(warnings)]
    const texts = new Set(different.slice(0, maxMasked).map(mask))
    let unlogged = Math.max(0, different.length - maxMasked)
    let lines = 0
    for (const text of texts) {
      const key = hash("sha256", text, "base64url")
      if (logged.has(key)) continue
      if (lines === maxLogged) {
        unlogged++
        continue
      }
      lines++
      if (logged.size === maxRemembered) logged.delete(logged.values().next().value ?? "")
      logged.add(key)
      yield* Effect.logWarning("the API sent a warning").pipe(Effect.annotateLogs({ endpoint, warning: text }))
    }
    if (unlogged > 0) {
      yield* Effect.logWarning("the API sent more warnings in one response than are logged").pipe(
        Effect.annotateLogs({ endpoint, unlogged })
      )
    }
  })
}
