/**
 * Handles the API's `warnings[]`: counts every warning, and logs each distinct text once, masked   (I11).
 *
 * Gotchas
 * - The hashes of only the last 1000 logged texts are kept, so an older text may be logged again.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { hash } from "node:crypto"
import type { EndpointName } from "../api/Permissions.ts"
import { mask } from "./Masking.ts"

const counter = Metric.counter("rollcall_api_warnings_total", {
  description: "Warnings in responses of the unified API.",
  incremental: true
})
const maxRemembered = 1000

export type NoteWarnings = ReturnType<typeof make>

/** Returns a function that counts the warnings of one response and logs the new ones. */
export const make = () => {
  const logged = new Set<string>()
  return Effect.fnUntraced(function*(endpoint: EndpointName, warnings: ReadonlyArray<string>) {
    if (warnings.length === 0) return
    yield* Metric.update(Metric.withAttributes(counter, { endpoint }), warnings.length)
    for (const warning of warnings) {
      const text = mask(warning)
      const key = hash("sha256", text, "base64url")
      if (logged.has(key)) continue
      if (logged.size === maxRemembered) logged.delete(logged.values().next().value ?? "")
      logged.add(key)
      yield* Effect.logWarning("the API sent a warning").pipe(Effect.annotateLogs({ endpoint, warning: text }))
    }
  })
}
