/** Waits until a record is forgotten, and shows how far its removal is. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { ForgottenView } from "../http/forget/ForgetApi.ts"
import type { CommandError } from "./Process.ts"
import { formatPlural, formatSeconds, progressLine } from "./terminal/Tables.ts"
import { waitFor, type WaitOptions } from "./Waiting.ts"

/** `searchSeconds`: how long the search of the log took for the plan; null if that is unknown. */
export const awaitForgotten = <E extends Error>(
  searchSeconds: number | null,
  options: WaitOptions<Pick<ForgottenView, "state" | "progress">, E>
) =>
  Effect.gen(function*() {
    const startedAt = yield* Clock.currentTimeMillis
    /** When the records began to be changed, in ms. After a restart, that is when the remaining ones do. */
    let countedAt: number | null = null

    const describe = (progress: ForgottenView["progress"], now: number): string => {
      if (progress === null) {
        const elapsed = (now - startedAt) / 1_000
        const left = searchSeconds === null || searchSeconds <= elapsed ? null : searchSeconds - elapsed
        return `searching the log for ${formatSeconds(elapsed)}${
          left === null ? "" : `, about ${formatSeconds(left)} left`
        }`
      }
      const { done, total } = progress
      if (done === 0 || countedAt === null) countedAt = now
      return done < total
        ? progressLine("forget", done, total, (now - countedAt) / 1_000)
        : `removed from ${formatPlural(total, "record")}; waiting for handlers that have it in memory`
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
