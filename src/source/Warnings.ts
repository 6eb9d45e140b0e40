/**
 * The API's `warnings[]`: every one is counted, each text is logged once and masked   (I11).
 *
 * Gotchas
 * - Which texts were logged is remembered as hashes and bounded: after many others a text may be logged again.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { hash } from "node:crypto"
import type { EndpointName } from "../api/Permissions.ts"
import { mask } from "./Masking.ts"

const counter = Metric.counter("rollcall_api_warnings_total", {
  description: "Warnings that came with answers of the unified API.",
  incremental: true
})
const maxRemembered = 1000

/** A function that counts the warnings of one answer and logs what is new. */
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
      yield* Effect.logWarning("the API warned").pipe(Effect.annotateLogs({ endpoint, warning: text }))
    }
  })
}
