/**
 * Finds integrations in the settings of plugins that are probably misspelled. A misspelled id has no effect: a plugin that it turns off is
 * on, and values that it sets are not used.
 *
 * Gotchas
 * - An id that no declared integration resembles may belong to an integration that operators add at run time, so it is not reported. The
 *   same holds for one that differs only in digits, such as the number of another customer.
 */
import { closestName, distanceOf } from "../domain/ClosestName.ts"
import { display } from "../domain/Quote.ts"
import type { Settings } from "./Config.ts"
import type { Fault } from "./RawConfig.ts"

/** Maximum edit distance from a declared id at which an id is treated as misspelled. */
const maxDistance = 2

const withoutDigits = (id: string): string => id.replaceAll(/\d/g, "")
const isMisspelled = (id: string, meant: string): boolean =>
  distanceOf(id, meant) <= maxDistance && withoutDigits(id) !== withoutDigits(meant)

export const findUnknownIntegrations = (
  { integrations, plugins }: Pick<Settings, "integrations" | "plugins">
): ReadonlyArray<Fault> =>
  plugins.flatMap(({ name, settings }) => {
    const used = Object.keys(settings.integrations ?? {})
    const others = integrations.map(({ id }) => id).filter((id) => !used.includes(id))
    const unknown = used.filter((id) => integrations.every((integration) => integration.id !== id))
    return unknown.flatMap((id) => {
      const meant = others.length === 0 ? null : closestName(id, others)
      if (meant === null || !isMisspelled(id, meant)) return []
      return [{
        where: `plugin ${name}, integrations["${display(id)}"]`,
        message: `names no integration of the configuration, so it has no effect on ${display(meant)}`,
        hint: `Did you mean ${display(meant)}? If the integration is added at run time, there is nothing to do`
      }]
    })
  })
