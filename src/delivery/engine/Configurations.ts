/** The configurations of plugins in integrations, each decoded once. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import { configurationOf, type IncompleteConfiguration } from "../../plugin/PluginConfiguration.ts"
import type { Subscription } from "../handler/Subscription.ts"

export const make = () => {
  /** The configurations by plugin and integration. */
  const configurations = new Map<string, Result.Result<unknown, IncompleteConfiguration>>()

  /** If the configuration is incomplete, the deliveries wait for a process with a complete one. */
  const configurationFor = Effect.fnUntraced(function*({ plugin }: Subscription, integration: string) {
    const key = `${plugin.name} in ${integration}`
    const known = configurations.get(key)
    if (known !== undefined) return known
    const found = yield* Effect.result(configurationOf(plugin, integration))
    configurations.set(key, found)
    if (found._tag === "Failure") {
      yield* Effect.logError("plugin configuration is incomplete: its deliveries in this integration wait").pipe(
        Effect.annotateLogs({ plugin: plugin.name, integration, why: found.failure.message })
      )
    }
    return found
  })

  const unconfigured = (): ReadonlyArray<IncompleteConfiguration> => Arr.getFailures(configurations.values())

  return { configurationFor, unconfigured }
}
