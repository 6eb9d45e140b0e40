/** Waits until the deliveries of dead letters that were sent again are done, and counts them. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { ProgressView, RedriveView } from "../http/deadletters/DeadLetterApi.ts"
import type { CommandError } from "./Process.ts"
import { formatPlural, formatSeconds, progressLine } from "./terminal/Tables.ts"
import { waitFor, type WaitOptions } from "./Waiting.ts"

/** The most ids in one request. */
const idsPerRequest = 1000

/** The sum over all of these deliveries; `count` returns it for at most a thousand. */
export const progressOf = <E>(
  ids: ReadonlyArray<number>,
  count: (ids: ReadonlyArray<number>) => Effect.Effect<ProgressView, E>
): Effect.Effect<ProgressView, E> =>
  Effect.gen(function*() {
    let [done, open, dead] = [0, 0, 0]
    for (let from = 0; from < ids.length; from += idsPerRequest) {
      const some = yield* count(ids.slice(from, from + idsPerRequest))
      done += some.done
      open += some.open
      dead += some.dead
    }
    return { done, open, dead }
  })

/** Returns how many are done and how many are dead letters again. */
export const awaitRedriven = <E extends Error>(
  { ids, to }: RedriveView,
  options: WaitOptions<ProgressView, E>
): Effect.Effect<ProgressView, E | CommandError> =>
  Effect.gen(function*() {
    const startedAt = yield* Clock.currentTimeMillis
    const subject = formatPlural(ids.length, "delivery", "deliveries")
    return yield* waitFor({
      subject: `the redrive of ${subject}`,
      hint:
        "It continues in the running process: `rollcall status` shows what waits, and `rollcall deadletters list` what failed again.",
      judge: ({ dead, done, open }) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          if (open === 0) return null
          const line = progressLine("redrive", done + dead, ids.length, (now - startedAt) / 1_000, "deliveries")
          // the last of them is not due before this time, however fast the others are
          const due = (Date.parse(to) - now) / 1_000
          return `${line}${dead === 0 ? "" : `, ${dead} failed again`}${
            due < 1 ? "" : `; the last is due in ${formatSeconds(due)}`
          }`
        })
    }, options)
  })
