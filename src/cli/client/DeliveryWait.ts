/** Sends the deliveries of a redrive or a replay, waits until they are done, and counts them. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import {
  type DeliveryProgress,
  type IdRange,
  requestsOf,
  secondsLeft,
  sizeOf,
  sumOf
} from "../../domain/DeliveryProgress.ts"
import { CommandError, progressPrinter } from "../terminal/Process.ts"
import { formatPlural, progressLine } from "../terminal/Tables.ts"
import type { ApiClient } from "./ApiClient.ts"
import { startAndWait, type TimeLimit, waitFor, type WaitInput, type WaitOptions } from "./Waiting.ts"

/** The sum over all of these deliveries; `count` returns it for the ranges of one request. */
export const progressOf = <E>(
  ranges: ReadonlyArray<IdRange>,
  count: (ranges: ReadonlyArray<IdRange>) => Effect.Effect<DeliveryProgress, E>
): Effect.Effect<DeliveryProgress, E> => Effect.map(Effect.forEach(requestsOf(ranges), count), sumOf)

export interface SentDeliveries {
  readonly kind: "redrive" | "replay"
  readonly ranges: ReadonlyArray<IdRange>
  /** When the command was sent, our clock, in ms. */
  readonly sentAt: number
  /** When the last of them is due, our clock, in ms. */
  readonly dueAt: number
}

/** Returns how many are done and how many are dead letters. */
export const awaitDeliveries = <E extends Error>(
  { dueAt, kind, ranges, sentAt }: SentDeliveries,
  options: WaitOptions<DeliveryProgress, E>
): Effect.Effect<DeliveryProgress, E | CommandError> =>
  Effect.gen(function*() {
    const count = sizeOf(ranges)
    const failed = kind === "redrive" ? "failed again" : "failed"
    return yield* waitFor({
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
    }, options)
  })

/** A request that makes deliveries due again. */
export interface Sending<A> {
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
    const show = progressPrinter(json)
    return yield* startAndWait(
      { hint, timeout: wait.timeout },
      request,
      Effect.fnUntraced(function*(answer: A, limit: Option.Option<TimeLimit>) {
        if (!wait.wait) return { ...answer, progress: undefined }
        const { ranges } = answer
        const read = progressOf(ranges, (ranges) => client.deadletters.progress({ payload: { ranges } }))
        const sent = { kind, ranges, sentAt, dueAt: dueAt?.(answer) ?? (yield* Clock.currentTimeMillis) }
        const progress = yield* Effect.ensuring(awaitDeliveries(sent, { limit, read, show }), show(""))
        return { ...answer, progress }
      })
    )
  }
)

/** Fails if deliveries are dead letters. */
export const verifySent = (progress: DeliveryProgress | undefined, how: string) =>
  progress === undefined || progress.dead === 0 ? Effect.void : Effect.fail(
    new CommandError({
      message: `${formatPlural(progress.dead, "delivery", "deliveries")} ${how}`,
      hint: "`rollcall deadletters list` shows why."
    })
  )
