/**
 * Logs occurrences that a client can cause without limit: the first one at once, and then once a minute how many there were.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"

const interval = Duration.minutes(1)

/** Returns the function to call for each occurrence. Of several occurrences, only the last address and its details are logged. */
export const make = Effect.fnUntraced(function*(message: string) {
  const scope = yield* Scope.Scope
  let unlogged = 0
  let last = {}
  let quietUntil = 0

  const log = (count: number) => Effect.annotateLogs(Effect.logWarning(message), { count, ...last })

  const logRest = Effect.suspend(() => {
    const count = unlogged
    unlogged = 0
    return count === 0 ? Effect.void : log(count)
  }).pipe(Effect.delay(interval))

  return Effect.fnUntraced(function*(address: string, details: Readonly<Record<string, string | number>> = {}) {
    last = { address, ...details }
    const now = yield* Clock.currentTimeMillis
    if (now < quietUntil) {
      unlogged += 1
      return
    }
    quietUntil = now + Duration.toMillis(interval)
    yield* log(1)
    yield* Effect.forkIn(logRest, scope)
  })
})
