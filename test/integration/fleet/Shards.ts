/** The shards of real processes. */
import * as Effect from "effect/Effect"
import { until } from "../../fault/kill/Patience.ts"
import type { Service } from "../../fault/kill/Service.ts"

/** How many shards the process owns, by its log. */
export const shardsOf = (service: Service): number => {
  const counts = service.log().split("\n").flatMap((line) => {
    const entry = line.startsWith("{") ? JSON.parse(line) : {}
    return entry.message === "shards taken" ? [entry.now] : entry.message === "shards handed over" ? [entry.left] : []
  })
  return counts.at(-1) ?? 0
}

/** Waits until these processes own all shards, and each of them some. */
export const shared = (...services: ReadonlyArray<Service>) =>
  until(
    `${services.length} processes to own all shards`,
    Effect.sync(() => services.map(shardsOf)),
    (counts) => counts.reduce((sum, count) => sum + count, 0) === 64 && counts.every((count) => count > 0)
  )
