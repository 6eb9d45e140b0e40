/**
 * The matters of streams and of their changes: blocked, failing, late and paused streams, holds, and rows in quarantine.
 *
 * Invariants
 * 1. All streams with the same reason why they are not read are one matter, across integrations
 */
import type { HoldView } from "../contract/HoldApi.ts"
import type { Matter, StreamRow } from "../contract/OverviewApi.ts"
import { count, detailOf, earliest, query, scopeOf } from "./MatterFields.ts"

export const holdMatters = (holds: ReadonlyArray<HoldView>): ReadonlyArray<Matter> =>
  holds.filter(({ state }) => state === "open").map((hold) => ({
    id: `hold/${hold.id}`,
    kind: "hold",
    severity: "act",
    title: `${count(hold.records, "change")} of ${hold.model} held back: ${hold.kind}`,
    detail: hold.reason,
    since: hold.opened_at,
    ...scopeOf([hold]),
    action: "Review",
    link: `/holds/${hold.id}`
  }))

/** The page of the stream or integration if there is only one, otherwise the list with the same filter. */
const linkOf = (rows: ReadonlyArray<StreamRow>, state: string): string => {
  const [first] = rows
  if (first === undefined) return "/streams"
  if (rows.length === 1) return `/streams/${encodeURIComponent(first.integration)}/${first.model}`
  const isOne = rows.every(({ integration }) => integration === first.integration)
  if (isOne) return `/integrations/${encodeURIComponent(first.integration)}`
  return state === "" ? "/streams" : `/streams${query({ state })}`
}

/** The scope of a matter of streams in this state, and the page on which they are shown. */
const shown = (rows: ReadonlyArray<StreamRow>, state: StreamRow["state"]) => ({
  ...scopeOf(rows),
  action: rows.length === 1 ? "Open stream" : "Show streams",
  link: linkOf(rows, state)
})

const mattersByCause = (rows: ReadonlyArray<StreamRow>, state: "blocked" | "failing"): ReadonlyArray<Matter> =>
  [...Map.groupBy(rows.filter((row) => row.state === state), ({ cause }) => cause)].map(([cause, some]) => ({
    id: `${state}/${cause ?? ""}`,
    kind: state,
    severity: "act",
    title: `${count(some.length, "stream")} ${state}`,
    detail: detailOf(cause),
    since: earliest(some.map(({ since }) => since)),
    ...shown(some, state)
  }))

/** Streams that are not read. */
export const unreadMatters = (rows: ReadonlyArray<StreamRow>): ReadonlyArray<Matter> => [
  ...mattersByCause(rows, "blocked"),
  ...mattersByCause(rows, "failing")
]

const lateMatter = (rows: ReadonlyArray<StreamRow>): ReadonlyArray<Matter> => {
  const late = rows.filter(({ state }) => state === "late")
  return late.length === 0 ? [] : [{
    id: "late",
    kind: "late",
    severity: "watch",
    title: `${count(late.length, "stream")} behind the freshness target`,
    detail:
      "The streams are read without errors, but more slowly than they should be: the request budget of the account may be " +
      "used up, or the API has requested a pause. The stream's page shows which.",
    since: earliest(late.map(({ since }) => since)),
    ...shown(late, "late")
  }]
}

const lateSweepMatter = (rows: ReadonlyArray<StreamRow>): ReadonlyArray<Matter> => {
  const late = rows.filter(({ late_sweep }) => late_sweep !== null)
  return late.length === 0 ? [] : [{
    id: "late_sweep",
    kind: "late_sweep",
    severity: "watch",
    title: `${count(late.length, "stream")} not swept in time`,
    detail: `${late[0]!.late_sweep} The store or the API may be slow; the page of the stream shows its last runs.`,
    since: null,
    ...scopeOf(late),
    action: late.length === 1 ? "Open stream" : "Show streams",
    link: linkOf(late, "")
  }]
}

const pausedMatter = (rows: ReadonlyArray<StreamRow>): ReadonlyArray<Matter> => {
  const paused = rows.filter(({ state }) => state === "paused")
  return paused.length === 0 ? [] : [{
    id: "paused",
    kind: "switched_off",
    severity: "watch",
    title: `${count(paused.length, "stream")} paused by an operator`,
    detail: "A paused stream is not read until an operator resumes it.",
    since: null,
    ...shown(paused, "paused")
  }]
}

const quarantineMatter = (rows: ReadonlyArray<StreamRow>): ReadonlyArray<Matter> => {
  const some = rows.filter(({ quarantined }) => quarantined > 0)
  const total = some.reduce((sum, { quarantined }) => sum + quarantined, 0)
  return total === 0 ? [] : [{
    id: "quarantine",
    kind: "quarantine",
    severity: "watch",
    title: `${count(total, "row")} in quarantine`,
    detail: "Rollcall could not store these rows: they have no usable id, are nested too deeply, or are not objects. " +
      "Report them to the provider of the API.",
    since: null,
    ...scopeOf(some),
    action: "Show streams",
    link: some.length === 1 ? linkOf(some, "") : `/streams${query({ order: "quarantined" })}`
  }]
}

/** Streams that are read slowly, not at all on purpose, or not completely. */
export const watchedStreamMatters = (rows: ReadonlyArray<StreamRow>): ReadonlyArray<Matter> => [
  ...lateMatter(rows),
  ...lateSweepMatter(rows),
  ...pausedMatter(rows),
  ...quarantineMatter(rows)
]
