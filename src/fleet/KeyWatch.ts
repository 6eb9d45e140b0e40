/**
 * Keeps a process out of the work of a fleet while it lacks a key with which content of the store is encrypted. It hands its work over to
 * processes that have all keys, and gets a share again once no content needs the key.
 *
 * Gotchas
 * - Correctness does not depend on it: until it notices a new key, the process can only fail to read content that has this key.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { missingKeys as missing, Store } from "../store/Store.ts"

const interval = "1 second"

export class KeyWatch extends Context.Service<KeyWatch, {
  /** Why this process takes no part in the work; null if it has all keys. */
  readonly problem: Effect.Effect<string | null>
  /** Runs the work of this process. It is interrupted while a key is missing. */
  readonly whileComplete: <E, R>(work: Effect.Effect<never, E, R>) => Effect.Effect<never, E, R>
}>()("rollcall/fleet/KeyWatch") {
  static readonly layer: Layer.Layer<KeyWatch, never, Store> = Layer.effect(
    KeyWatch,
    Effect.gen(function*() {
      const { missingKeys } = yield* Store
      let problem: string | null = null

      const check = Effect.gen(function*() {
        const keys = yield* missingKeys
        problem = keys.length === 0 ? null : missing(keys).message
      }).pipe(
        // the store logs its outages
        Effect.ignore,
        Effect.map(() => problem)
      )
      const until = (holds: (problem: string | null) => boolean) =>
        Effect.repeat(check, { until: holds, schedule: Schedule.spaced(interval) })

      const whileComplete: KeyWatch["Service"]["whileComplete"] = (work) =>
        Effect.gen(function*() {
          yield* Effect.raceFirst(work, until((problem) => problem !== null))
          yield* Effect.logError(`this process hands its work over: ${problem}`)
          yield* until((problem) => problem === null)
          yield* Effect.logInfo("no key is missing any longer: this process takes part in the work again")
        }).pipe(Effect.forever)
      return KeyWatch.of({ problem: Effect.sync(() => problem), whileComplete })
    })
  )
}
