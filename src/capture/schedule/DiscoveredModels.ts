/**
 * The models of the integrations with `models: auto`, as this process knows them. While a part of an account's tool catalog is not
 * available, all its models are read; it is requested again in the background until it is known.
 *
 * Invariants
 * 1. The models of an integration change only if a part of its account's catalog was not available
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type { Model } from "../../domain/Model.ts"
import { Source } from "../../source/Source.ts"
import type { IntegrationState } from "../../store/State.ts"
import { type Discovered, discoverModels, isProvisional, rediscoverModels } from "./ModelDiscovery.ts"

const firstWait = Duration.seconds(10)
const longestWait = Duration.minutes(5)

export interface DiscoveredModels {
  /** Empty if the models of the integration were not discovered. */
  readonly modelsOf: (integration: string) => ReadonlyArray<Model>
  /** Discovers the models of those integrations that have `models: auto` and are not known yet. */
  readonly discover: (
    integrations: ReadonlyArray<Pick<IntegrationState, "id" | "account" | "models">>
  ) => Effect.Effect<void>
  readonly forget: (integration: string) => void
  /**
   * Requests the parts of the catalogs that were not available, at growing intervals. Runs `apply` with the integrations of which more is
   * known, after `modelsOf` changed. Runs until interrupted.
   */
  readonly complete: (
    apply: (integrations: ReadonlyMap<string, Discovered>) => Effect.Effect<void>
  ) => Effect.Effect<never>
}

/** `discovered`: the models that are known at the start. */
export const make = Effect.fnUntraced(function*(
  discovered: ReadonlyMap<string, Discovered>
): Effect.fn.Return<DiscoveredModels, never, Source> {
  const source = yield* Source
  const known = new Map(discovered)
  const provisional = () => new Map([...known].flatMap(([id, one]) => isProvisional(one) ? [[id, one] as const] : []))
  /** Opened when the models of an integration may be provisional. */
  const mayBeProvisional = yield* Latch.make(true)

  const requestAgain = Effect.gen(function*() {
    const before = provisional()
    const found = yield* rediscoverModels(before)
    // an integration that was removed during the request may have been added again, with models of its own
    const current = new Map([...found].filter(([id]) => known.get(id) === before.get(id)))
    for (const [id, one] of current) known.set(id, one)
    return current
  }).pipe(Effect.provideService(Source, source))

  return {
    modelsOf: (integration) => known.get(integration)?.models ?? [],
    discover: (integrations) =>
      discoverModels(integrations.filter(({ id, models }) => models === "auto" && !known.has(id))).pipe(
        Effect.provideService(Source, source),
        Effect.map((found) => found.forEach((one, id) => known.set(id, one))),
        Effect.andThen(mayBeProvisional.open),
        Effect.asVoid
      ),
    forget: (integration) => void known.delete(integration),
    complete: Effect.fnUntraced(function*(apply) {
      for (;;) {
        yield* mayBeProvisional.await
        yield* mayBeProvisional.close
        for (let wait = firstWait; provisional().size > 0; wait = Duration.min(Duration.times(wait, 2), longestWait)) {
          yield* Effect.sleep(wait)
          const found = yield* requestAgain
          if (found.size > 0) yield* apply(found)
        }
      }
    })
  }
})
