/**
 * The work of the running process for which commands can wait: commands of a stream, deliveries that are sent again, and the removal of a
 * record.
 *
 * Invariants
 * 1. A run that started before the command of a stream does not end the wait, because it may already have passed the changes that the
 *    operator expects
 *
 * Gotchas
 * - A stream that is blocked or paused ends the wait. A failing stream does not, because Rollcall tries it again.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import {
  type DeliveryProgress,
  type IdRange,
  requestsOf,
  secondsLeft,
  sizeOf,
  sumOf
} from "../../domain/DeliveryProgress.ts"
import type { ForgottenView } from "../../http/contract/ForgetApi.ts"
import type { CommandView, StreamView } from "../../http/contract/StreamApi.ts"
import { shellWord } from "../../http/overview/ShellWord.ts"
import { oneLine } from "../../telemetry/TerminalText.ts"
import { progressPrinter, refuse } from "../terminal/Process.ts"
import { formatPlural, formatSeconds, progressLine, progressText } from "../terminal/Tables.ts"
import type { ApiClient } from "./ApiClient.ts"
import { startAndWait, waitFor, type WaitInput, type Work } from "./Waiting.ts"

// ---- commands of a stream -----------------------------------------------------------------------------------------

export type WaitedCommand = "poll" | "sweep" | "backfill"

/** Whether the process has carried out a command that it accepted at `at`. All times are RFC 3339 and come from the same clock. */
const isDone = (command: WaitedCommand, at: string, view: StreamView): boolean => {
  const isAfter = (time: string | null) => time !== null && time >= at
  const isSwept = isAfter(view.last_sweep_started_at) && !view.sweep_repeats
  if (command === "sweep") return isSwept
  if (command === "backfill") return isSwept && view.phase === "live"
  // a stream is not live before its first poll, unless the API returns its list only as a whole
  const isSweepOnly = view.phase === "live" && view.last_poll_started_at === null
  return isAfter(isSweepOnly ? view.last_sweep_started_at : view.last_poll_started_at)
}

const obstacleOf = ({ blocked, paused }: StreamView): string | null =>
  paused
    ? "an operator has paused the stream"
    : blocked === null
    ? null
    : `the stream is blocked (${blocked.reason}): ${blocked.message}`

const describe = ({ failing, phase, progress }: StreamView): string =>
  failing !== null
    ? `failed ${failing.count === 1 ? "once" : `${failing.count} times`}: ${failing.message}; trying again`
    : progress === null
    ? `waiting (${phase})`
    : progressText(progress)

/** A command of a stream, done once it is carried out. */
export const streamWork = (
  command: WaitedCommand,
  { accepted_at, stream }: Pick<CommandView, "stream" | "accepted_at">
): Work<StreamView> => {
  const name = oneLine(stream)
  const subject = `the ${command} of ${name}`
  return {
    subject,
    hint: `It continues in the running process: \`rollcall streams show ${shellWord(name)}\` shows how far it is.`,
    judge: (view) => {
      if (isDone(command, accepted_at, view)) return Effect.succeed(null)
      const obstacle = obstacleOf(view)
      return obstacle === null
        ? Effect.succeed(describe(view))
        : refuse(
          `${subject} is not done: ${oneLine(obstacle)}`,
          `\`rollcall streams resume ${shellWord(name)}\` continues`
        )
    }
  }
}

// ---- deliveries ---------------------------------------------------------------------------------------------------

/** The sum over all of these deliveries; `count` returns it for the ranges of one request. */
export const progressOf = <E>(
  ranges: ReadonlyArray<IdRange>,
  count: (ranges: ReadonlyArray<IdRange>) => Effect.Effect<DeliveryProgress, E>
): Effect.Effect<DeliveryProgress, E> => Effect.map(Effect.forEach(requestsOf(ranges), count), sumOf)

interface SentDeliveries {
  readonly kind: "redrive" | "replay"
  readonly ranges: ReadonlyArray<IdRange>
  /** When the command was sent, our clock, in ms. */
  readonly sentAt: number
  /** When the last of them is due, our clock, in ms. */
  readonly dueAt: number
}

/** Deliveries that were sent again, done when none is open. */
export const deliveryWork = ({ dueAt, kind, ranges, sentAt }: SentDeliveries): Work<DeliveryProgress> => {
  const count = sizeOf(ranges)
  const failed = kind === "redrive" ? "failed again" : "failed"
  return {
    subject: `the ${kind} of ${formatPlural(count, "delivery", "deliveries")}`,
    hint:
      "It continues in the running process: `rollcall status` shows what waits, and `rollcall deadletters list` what failed.",
    judge: (progress) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const { dead, done, open } = progress
        if (open === 0) return null
        const elapsed = (now - sentAt) / 1_000
        const due = (dueAt - now) / 1_000
        const line = progressLine(kind, done + dead, count, elapsed, {
          things: "deliveries",
          secondsLeft: secondsLeft(progress, { elapsed, due })
        })
        return dead === 0 ? line : `${line}, ${dead} ${failed}`
      })
  }
}

/** A request that makes deliveries due again. */
interface Sending<A> {
  readonly kind: SentDeliveries["kind"]
  /** What to do if the request is not answered in time. */
  readonly hint: string
  /** When the last of the deliveries is due, our clock, in ms; by default when the request is answered. */
  readonly dueAt?: (answer: A) => number
  readonly wait: WaitInput
  readonly json: boolean
}

/**
 * Sends deliveries again. With --wait, waits until they are done: counts them once a second, by requests to the running process, and shows
 * the progress unless the output is JSON.
 */
export const sendAgain = Effect.fnUntraced(
  function*<A extends { readonly ranges: ReadonlyArray<IdRange> }, E, R>(
    client: ApiClient,
    request: Effect.Effect<A, E, R>,
    { dueAt, hint, json, kind, wait }: Sending<A>
  ) {
    const sentAt = yield* Clock.currentTimeMillis
    return yield* startAndWait(
      { hint, timeout: wait.timeout },
      request,
      Effect.fnUntraced(function*(answer, limit) {
        if (!wait.wait) return { ...answer, progress: undefined }
        const { ranges } = answer
        const read = progressOf(ranges, (ranges) => client.deadletters.progress({ payload: { ranges } }))
        const work = deliveryWork({ kind, ranges, sentAt, dueAt: dueAt?.(answer) ?? (yield* Clock.currentTimeMillis) })
        const progress = yield* waitFor(work, { limit, read, show: progressPrinter(json) })
        return { ...answer, progress }
      })
    )
  }
)

/** Fails if deliveries are dead letters. */
export const verifySent = (progress: DeliveryProgress | undefined, how: string) =>
  progress === undefined || progress.dead === 0
    ? Effect.void
    : refuse(
      `${formatPlural(progress.dead, "delivery", "deliveries")} ${how}`,
      "`rollcall deadletters list` shows why."
    )

// ---- the removal of a record --------------------------------------------------------------------------------------

type Removal = Pick<ForgottenView, "state" | "progress">

/**
 * The removal of a record, done when it is forgotten. `startedAt`: our clock, in ms. `searchSeconds`: how long the search of the log took
 * for the plan; null if that is unknown.
 */
export const removalWork = (startedAt: number, searchSeconds: number | null): Work<Removal> => {
  /** The first count that was seen, and when, in ms. After a restart, the remaining records are counted again. */
  let first: { readonly done: number; readonly at: number } | null = null

  const describeRemoval = (progress: ForgottenView["progress"], now: number): string => {
    if (progress === null) {
      const elapsed = (now - startedAt) / 1_000
      const left = searchSeconds === null || searchSeconds <= elapsed ? null : searchSeconds - elapsed
      return `searching the log for ${formatSeconds(elapsed)}${
        left === null ? "" : `, about ${formatSeconds(left)} left`
      }`
    }
    const { done, total } = progress
    if (first === null || done <= first.done) first = { done, at: now }
    // as if all of them had been changed at the rate since then
    const elapsed = done === first.done ? 0 : (now - first.at) / 1_000 * done / (done - first.done)
    return done < total
      ? progressLine("forget", done, total, elapsed)
      : `removed from ${formatPlural(total, "record")}; removing the rest`
  }

  return {
    subject: "the removal of this record",
    hint: "It continues in the running process: `rollcall forget --list` shows when it is complete.",
    judge: ({ progress, state }) =>
      state === "forgotten"
        ? Effect.succeed(null)
        : Effect.map(Clock.currentTimeMillis, (now) => describeRemoval(progress, now))
  }
}
