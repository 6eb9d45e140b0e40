/**
 * Logs occurrences that a client can cause without limit: the first occurrence at once, and then once a minute the number of further ones.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"

const interval = Duration.minutes(1)

/**
 * Returns the function to call for each occurrence. If there are several, only the address and the details of the last occurrence are
 * logged.
 */
export const make = Effect.fnUntraced(function*(message: string) {
  const scope = yield* Scope.Scope
  let unlogged = 0
  let last = {}
  let isQuiet = false

  const log = (count: number) => Effect.annotateLogs(Effect.logWarning(message), { count, ...last })

  const logRest = Effect.suspend(() => {
    const count = unlogged
    unlogged = 0
    isQuiet = false
    return count === 0 ? Effect.void : log(count)
  }).pipe(Effect.delay(interval))

  return Effect.fnUntraced(function*(address: string, details: Readonly<Record<string, string | number>> = {}) {
    last = { address, ...details }
    if (isQuiet) {
      unlogged += 1
      return
    }
    isQuiet = true
    yield* Effect.forkIn(Effect.interruptible(logRest), scope)
    yield* log(1)
  }, Effect.uninterruptible)
})
