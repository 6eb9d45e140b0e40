/** Waits until a record is forgotten, and shows how far its removal is. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { ForgottenView } from "../../http/contract/ForgetApi.ts"
import type { CommandError } from "../terminal/Process.ts"
import { formatPlural, formatSeconds, progressLine } from "../terminal/Tables.ts"
import { waitFor, type WaitOptions } from "./Waiting.ts"

/** `searchSeconds`: how long the search of the log took for the plan; null if that is unknown. */
export const awaitForgotten = <E extends Error>(
  searchSeconds: number | null,
  options: WaitOptions<Pick<ForgottenView, "state" | "progress">, E>
) =>
  Effect.gen(function*() {
    const startedAt = yield* Clock.currentTimeMillis
    /** The first count that was seen, and when, in ms. After a restart, the remaining records are counted again. */
    let first: { readonly done: number; readonly at: number } | null = null

    const describe = (progress: ForgottenView["progress"], now: number): string => {
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

    return yield* waitFor<Pick<ForgottenView, "state" | "progress">, E | CommandError>({
      subject: "the removal of this record",
      hint: "It continues in the running process: `rollcall forget --list` shows when it is complete.",
      judge: ({ progress, state }) =>
        state === "forgotten"
          ? Effect.succeed(null)
          : Effect.map(Clock.currentTimeMillis, (now) => describe(progress, now))
    }, options)
  })
