/**
 * The models of the integrations with `models: auto`, as this process knows them. While a part of an account's tool catalog is not
 * available, all its models are read; it is requested again in the background until it is known.
 *
 * Invariants
 * 1. The models of an integration change only if a part of its account's catalog was not available, or if its account changes
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type { Model } from "../../domain/Model.ts"
import { Source } from "../../source/Source.ts"
import type { IntegrationState } from "../../store/State.ts"
import {
  type Discovered,
  discoverModels,
  isProvisional,
  missingCategories,
  type Provisional,
  rediscoverModels
} from "./ModelDiscovery.ts"

const firstWait = Duration.seconds(10)
const longestWait = Duration.minutes(5)
/** While the API refuses every part that is missing, which changes only if someone changes the account. */
const longestWaitIfRefused = Duration.hours(1)

const isRefused = (one: Provisional): boolean =>
  missingCategories(one).every((category) => one.refused.includes(category))

/** `discovered`: the models that are known at the start. */
export const make = Effect.fnUntraced(function*(discovered: ReadonlyMap<string, Discovered>) {
  const source = yield* Source
  const known = new Map(discovered)
  const provisional = () => new Map([...known].flatMap(([id, one]) => isProvisional(one) ? [[id, one] as const] : []))
  /** Opened when a part of the catalog was missing for a further integration. */
  const somePartMissing = yield* Latch.make(true)

  /** Returns the integrations about which more is known now. */
  const requestAgain = Effect.gen(function*() {
    yield* somePartMissing.close
    const before = provisional()
    const found = yield* rediscoverModels(before)
    // an integration that was removed during the request may have been added again, with models of its own
    const current = [...found].filter(([id]) => known.get(id) === before.get(id))
    const complements = current.filter(([id, one]) =>
      missingCategories(one).length < missingCategories(before.get(id) ?? one).length
    )
    for (const [id, one] of current) known.set(id, one)
    return new Map(complements)
  }).pipe(Effect.provideService(Source, source))

  const longest = () => [...provisional().values()].every(isRefused) ? longestWaitIfRefused : longestWait

  /** A long wait ends when an integration was added, whose catalog may only be late. Returns whether it did. */
  const pause = (wait: Duration.Duration) =>
    Effect.raceFirst(
      Effect.as(Effect.sleep(wait), false),
      Duration.isGreaterThan(wait, longestWait) ? Effect.as(somePartMissing.await, true) : Effect.never
    )

  return {
    /** Empty if the models of the integration were not discovered. */
    modelsOf: (integration: string): ReadonlyArray<Model> => known.get(integration)?.models ?? [],
    /**
     * Discovers the models of those integrations that have `models: auto` and are not known yet, or known only with another account:
     * another process may have removed an integration and added it again.
     */
    discover: (integrations: ReadonlyArray<Pick<IntegrationState, "id" | "account" | "models">>) =>
      discoverModels(
        integrations.filter(({ account, id, models }) => models === "auto" && known.get(id)?.account !== account)
      ).pipe(
        Effect.provideService(Source, source),
        Effect.tap((found) => Effect.sync(() => found.forEach((one, id) => known.set(id, one)))),
        Effect.flatMap((found) => [...found.values()].some(isProvisional) ? somePartMissing.open : Effect.void),
        Effect.asVoid
      ),
    forget: (integration: string) => void known.delete(integration),
    /**
     * Requests the parts of the catalogs that were not available, at growing intervals of up to five minutes, and of up to an hour while
     * the API refuses them all. Runs `apply` with the integrations about which more is known, after `modelsOf` changed.
     */
    complete: Effect.fnUntraced(function*(
      apply: (integrations: ReadonlyMap<string, Discovered>) => Effect.Effect<void>
    ): Effect.fn.Return<never> {
      for (;;) {
        yield* somePartMissing.await
        yield* somePartMissing.close
        let wait = firstWait
        while (provisional().size > 0) {
          if (yield* pause(wait)) {
            wait = firstWait
            continue
          }
          const found = yield* requestAgain
          wait = Duration.min(Duration.times(wait, 2), longest())
          if (found.size > 0) yield* apply(found)
        }
      }
    })
  }
})
