/** The fields that matters of several kinds have in common: the integrations that they concern, their times, texts and links. */
import type { Matter } from "../contract/OverviewApi.ts"

type Scope = Pick<Matter, "integrations" | "integration_count" | "stream_count">

const namedIntegrations = 5
const longestDetail = 600

export const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? "" : "s"}`

/** A message of the API, of a plugin or of a process, as the detail of a matter. */
export const detailOf = (message: string | null | undefined): string => (message ?? "").slice(0, longestDetail)

export const earliest = (times: ReadonlyArray<string | null>): string | null =>
  times.flatMap((time) => time ?? []).toSorted()[0] ?? null

/** Several streams and their integrations, as the scope of a matter. */
export const scopeOf = (
  rows: ReadonlyArray<{ readonly integration: string }>,
  streams = rows.length
): Scope => {
  const integrations = [...new Set(rows.map(({ integration }) => integration))]
  return {
    integrations: integrations.slice(0, namedIntegrations),
    integration_count: integrations.length,
    stream_count: streams
  }
}
export const noScope: Scope = { integrations: [], integration_count: 0, stream_count: 0 }

export const query = (parameters: Readonly<Record<string, string>>): string => `?${new URLSearchParams(parameters)}`
