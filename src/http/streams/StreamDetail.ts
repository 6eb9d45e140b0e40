/** One stream in detail: its state as a sentence and its request budget. */
import * as Duration from "effect/Duration"
import type { StreamState } from "../../store/State.ts"
import type { StreamRow } from "../overview/OverviewApi.ts"
import { rowOf } from "../overview/StreamRows.ts"
import type { StreamView } from "./StreamApi.ts"
import type { StreamDetailView } from "./StreamDetailApi.ts"

/** The requests of this process to one account. */
export interface AccountUsage {
  readonly inFlight: number
  readonly waiting: number
  readonly limit: number
  readonly pauseLeft: Duration.Duration
}

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? "" : "s"}`
const minuteOf = (time: string | null): string =>
  time === null ? "an unknown time" : `${time.slice(0, 16).replace("T", " ")} UTC`
const asText = (seconds: number): string => Duration.format(Duration.seconds(Math.max(1, Math.round(seconds))))

const closed = (message: string): string => /[.)!?]$/.test(message) ? message : `${message}.`

const nextProbe: Readonly<Record<string, string>> = {
  key: "Rollcall tries again every 5 minutes; check the key of the account.",
  permission: "Rollcall tries again every 15 minutes; enable the model in the scope configuration of the account.",
  unsupported: "Rollcall tries again daily; the integration does not have this model, so there may be nothing to do.",
  not_ready: "The API is still setting the integration up; Rollcall tries again at each poll.",
  inactive: "Rollcall tries again by itself; check the connection with the provider of the API.",
  unreadable: "Rollcall tries again every 15 minutes; report it to the provider of the API. No change is lost."
}

const sentenceOf = (stream: StreamView, { state, target_seconds }: StreamRow): string => {
  const { blocked, failing, freshness_seconds: freshness, progress } = stream
  if (blocked !== null) {
    return `Blocked (${blocked.reason}) since ${minuteOf(blocked.since)}: ${closed(blocked.message)} ${
      nextProbe[blocked.reason] ?? ""
    }`.trim()
  }
  if (state === "paused") return "Paused by an operator: it is not read until it is resumed."
  if (failing !== null) {
    return `Failing since ${minuteOf(failing.since)}, ${count(failing.count, "time")} in a row: ${
      closed(failing.message)
    } Rollcall tries again by itself.`
  }
  if (stream.phase === "starting") return "Waiting for the first response of the API."
  if (stream.phase === "backfilling") {
    return `Backfilling: ${count(progress?.records ?? 0, "record")} read so far, ${
      Math.round(progress?.records_per_second ?? 0)
    } per second.`
  }
  if (freshness === null) return "It is read without errors."
  return state === "late"
    ? `Late: it is ${asText(freshness)} behind, and its target is ${asText(target_seconds)}. It is read without errors.`
    : `Up to date: it is ${asText(freshness)} behind, within its target of ${asText(target_seconds)}.`
}

const budgetView = (account: string, usage: AccountUsage | null): StreamDetailView["budget"] => {
  if (usage === null) {
    const text = "This process does not send requests to the account."
    return { account, in_flight: null, waiting: null, limit: null, paused_seconds: 0, text }
  }
  const paused = Duration.toSeconds(usage.pauseLeft)
  const requests = `This process has ${count(usage.inFlight, "request")} in flight, may have ${usage.limit}, and ` +
    `${usage.waiting === 0 ? "none waits" : `${usage.waiting} wait`}.`
  return {
    account,
    in_flight: usage.inFlight,
    waiting: usage.waiting,
    limit: usage.limit,
    paused_seconds: paused,
    text: paused > 0 ? `${requests} The API requested a pause: no request is sent for ${asText(paused)}.` : requests
  }
}

/** `interval`: time between two polls, in s. */
export const detailOf = (
  stream: StreamView,
  { account }: StreamState,
  interval: number,
  usage: AccountUsage | null
): StreamDetailView => {
  const row = rowOf(stream, interval)
  return {
    stream,
    state: row.state,
    sentence: sentenceOf(stream, row),
    target_seconds: row.target_seconds,
    budget: budgetView(account, usage)
  }
}
