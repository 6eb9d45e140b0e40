/** One stream in detail: its state as a sentence, its request budget, and its runs with the reason why each ended. */
import * as Duration from "effect/Duration"
import { gapReasons, hasConsistentCounts } from "../../capture/commit/RunHistory.ts"
import { elapsedText } from "../../domain/ElapsedText.ts"
import { formatTime, timeInWords } from "../../domain/Watermark.ts"
import type { BudgetUsage } from "../../source/RequestBudget.ts"
import type { EndedRun, IdlePolls, Run } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import type { StreamView } from "../contract/StreamApi.ts"
import type { IdlePollsView, RunView, StreamDetailView, StreamRuns } from "../contract/StreamDetailApi.ts"
import type { Condition } from "../matters/StreamConditions.ts"

const count = (number: number, noun: string, several = `${noun}s`): string =>
  `${number} ${number === 1 ? noun : several}`
const timeOf = (time: string | null): string => time === null ? "an unknown time" : timeInWords(time)
const asText = (seconds: number): string => elapsedText(Math.max(1, seconds))

const closed = (message: string): string => /[.!?]$/.test(message) ? message : `${message}.`

/** The page of the API's log, as the end of a sentence about a failure. */
const logOf = ({ log_url: url }: { readonly log_url?: string }): string =>
  url === undefined ? "" : ` The API's log of the request: ${url}`

const nextProbe: Readonly<Record<string, string>> = {
  key: "Rollcall tries again every 5 minutes.",
  permission: "Rollcall tries again every 15 minutes.",
  unsupported: "Rollcall tries again daily; the integration does not have this model, so there may be nothing to do.",
  not_ready: "The API is still setting the integration up; Rollcall tries again at each poll.",
  inactive: "Rollcall tries again by itself.",
  unreadable: "Rollcall tries again every 15 minutes; report it to the provider of the API. No change is lost."
}

/** `meant`: the similar id of another integration, if the API does not know that of the stream. */
const sentenceOf = ({ cause, state, stream, target }: Condition, meant: string | null): string => {
  const { blocked, failing, freshness_seconds: freshness, progress } = stream
  if (blocked !== null) {
    return `Blocked (${blocked.reason}) since ${timeOf(blocked.since)}: ${closed(blocked.message)} ${
      meant === null
        ? nextProbe[blocked.reason] ?? ""
        : `Did you mean ${meant}? Then remove the integration ${stream.integration}.`
    }`.trim() + logOf(blocked)
  }
  if (state === "paused") return "Paused by an operator: it is not read until it is resumed."
  if (failing !== null) {
    return `Failing since ${timeOf(failing.since)}, ${count(failing.count, "run")} in a row: ${closed(cause)}${
      /automatically/.test(failing.message) ? "" : " Rollcall tries again by itself."
    }${logOf(failing)}`
  }
  if (stream.phase === "starting") return "Waiting for the first response of the API."
  if (stream.phase === "backfilling") {
    return `Backfilling: ${count(progress?.records ?? 0, "record")} read so far, ${
      Math.round(progress?.records_per_second ?? 0)
    } per second.`
  }
  if (freshness === null) return "It is read without errors."
  return state === "late"
    ? `Late: it was last read completely ${asText(freshness)} ago, and its target is ${
      asText(target)
    }. It is read without errors.`
    : `Read in time: it was last read completely ${asText(freshness)} ago, and its target is ${asText(target)}.`
}

const heldText = ({ pending }: StreamView): string | null => {
  const held = pending["held"] ?? 0
  return held === 0 ? null : `${count(held, "change is", "changes are")} held back and not published.`
}

const requestsOf = ({ limit, processes, taken, wanted }: BudgetUsage): string => {
  if (processes === null) {
    const waiting = wanted - taken
    return `${taken} of ${limit} requests in use${waiting === 0 ? "" : `, and ${waiting} wait`}.`
  }
  return processes === 0
    ? `No process of the fleet sends requests now; together they may have ${limit} in flight.`
    : `${count(processes, "process", "processes")} of the fleet ${processes === 1 ? "has" : "have"} ${
      count(taken, "slot")
    } of ${limit} for requests, and could use ${wanted}.`
}

const budgetView = (account: string, usage: BudgetUsage | null): StreamDetailView["budget"] => {
  if (usage === null) {
    const text = "This process does not know the account, so it cannot show the requests."
    return { account, limit: null, taken: null, wanted: null, processes: null, paused_seconds: 0, text }
  }
  const { limit, pauseLeft, processes, taken, wanted } = usage
  const paused = Duration.toSeconds(pauseLeft)
  const requests = requestsOf(usage)
  return {
    account,
    limit,
    taken,
    wanted,
    processes,
    paused_seconds: paused,
    text: paused > 0 ? `${requests} The API requested a pause: no request is sent for ${asText(paused)}.` : requests
  }
}

export const detailOf = (
  condition: Condition,
  { account }: Pick<StreamState, "account">,
  usage: BudgetUsage | null,
  meant: string | null = null
): StreamDetailView => ({
  stream: condition.stream,
  state: condition.state,
  sentence: [sentenceOf(condition, meant), heldText(condition.stream), condition.lateSweep].filter((part) =>
    part !== null
  ).join(" "),
  target_seconds: condition.target,
  budget: budgetView(account, usage)
})

// ---- runs -----------------------------------------------------------------------------------------------------------

const reasonOf = ({ outcome, reason }: Pick<EndedRun, "outcome" | "reason">): string | null => {
  if (outcome === "replaced") return "an operator started another sweep"
  return reason === null ? null : gapReasons[reason as keyof typeof gapReasons] ?? reason
}

const idleView = (idle: IdlePolls | null | undefined): IdlePollsView | null =>
  idle == null ? null : { ...idle, since: formatTime(idle.since), until: formatTime(idle.until) }

type Counted = Pick<Run, "kind" | "backfill" | "pages" | "startedAt" | "rowCounts" | "published">

const countsOf = ({ backfill, kind, pages, published, rowCounts, startedAt }: Counted) => {
  return {
    kind: backfill ? "backfill" as const : kind,
    started_at: formatTime(startedAt),
    pages,
    ...published ?? { created: 0, updated: 0, deleted: 0 },
    ...rowCounts,
    balanced: hasConsistentCounts(rowCounts)
  }
}

const endedView = (run: EndedRun): RunView => ({
  ...countsOf(run),
  number: run.number,
  pass: run.pass,
  ended_at: formatTime(run.endedAt),
  outcome: run.outcome,
  reason: reasonOf(run),
  times: run.times,
  idle_before: idleView(run.idle)
})

const runningView = (run: Run): RunView => ({
  ...countsOf(run),
  number: null,
  pass: run.pass ?? 1,
  ended_at: null,
  outcome: "running",
  reason: null,
  times: 1,
  idle_before: null
})

/** `runs`: the history, newest first. */
export const runsOf = (
  { idlePolls, sweep }: Pick<StreamState, "idlePolls" | "sweep">,
  runs: ReadonlyArray<EndedRun>
): StreamRuns => ({
  idle: idleView(idlePolls),
  items: [...sweep === null ? [] : [runningView(sweep)], ...runs.map(endedView)]
})
