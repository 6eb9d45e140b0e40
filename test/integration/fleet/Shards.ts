/** Real processes that share one database, and their shards. */
import * as Effect from "effect/Effect"
import type { SandboxHandle } from "../../../src/sandbox/Sandbox.ts"
import { until } from "../../fault/kill/Patience.ts"
import type { Service } from "../../fault/kill/Service.ts"

/** The settings of a process that reads this world into this database. */
export const settingsOf = (
  { integrations, key, url }: SandboxHandle,
  database: string,
  models: ReadonlyArray<string>
): Readonly<Record<string, string>> => ({
  ROLLCALL_API_URL: url,
  ROLLCALL_API_KEY: key,
  DATABASE_URL: database,
  ROLLCALL_INTEGRATIONS: integrations.join(),
  ROLLCALL_MODELS: models.join(),
  ROLLCALL_INTERVAL: "500 millis",
  ROLLCALL_SWEEP_INTERVAL: "2 seconds",
  ROLLCALL_CONFIRM_INTERVAL: "1 second",
  ROLLCALL_OVERLAP_MIN: "3 seconds",
  ROLLCALL_RETRY_BASE: "20 millis"
})

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
