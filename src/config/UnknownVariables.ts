/**
 * Finds environment variables that are probably meant for Rollcall but are unknown. Such a misspelled setting has no effect, and the
 * default is used.
 *
 * Gotchas
 * - Rollcall warns about such variables but starts, because other programs may share the environment. Kubernetes sets
 *   variables with the name of each service of a namespace, and a compose file may hand all of its variables to all containers.
 */
import * as Effect from "effect/Effect"
import { closestName, distanceOf } from "../domain/ClosestName.ts"
import { isPlugin } from "../plugin/Plugin.ts"
import { variablesOf } from "../plugin/PluginConfiguration.ts"
import type { Fault, RawConfig } from "./RawConfig.ts"
import { isSecretVariable, variableNames } from "./Variables.ts"

/** Maximum edit distance from a known name at which a name is treated as misspelled. */
const nearby = 2
const maxNameLength = 100
const maxReported = 20

const files = (names: Iterable<string>): ReadonlyArray<string> => [...names].map((name) => `${name}_FILE`)

const settings: ReadonlyArray<string> = [...variableNames, ...files(variableNames.filter(isSecretVariable))]

/** Set by Kubernetes for a service: `ROLLCALL_SERVICE_HOST`, `ROLLCALL_PORT_8477_TCP_ADDR`, `ROLLCALL_PORT=tcp://10.0.0.1:8477`. */
const isServiceLink = (name: string, value: string): boolean =>
  /_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/.test(name) ||
  /^(tcp|udp|sctp):\/\//.test(value)

/** The known name that was probably meant: a similar name whose variable is not set; undefined if there is none. */
const misspelledOf = (name: string, isSet: (name: string) => boolean): string | undefined => {
  const upper = name.toUpperCase()
  return settings.find((known) =>
    known[0] === upper[0] && Math.abs(known.length - name.length) <= nearby && !isSet(known) &&
    distanceOf(upper, known) <= nearby
  )
}

const wordsOf = (name: string): ReadonlyArray<string> => name.split("_").filter((word) => word !== "ROLLCALL")

/** The closest name among those with all of its words, such as ROLLCALL_HTTP_PORT for ROLLCALL_PORT, or among all. */
const closestOf = (upper: string): string => {
  const words = wordsOf(upper.slice(0, maxNameLength))
  const alike = settings.filter((known) => words.every((word) => wordsOf(known).includes(word)))
  return closestName(upper, alike.length === 0 ? settings : alike)
}

const faultOf = (name: string, isSet: (name: string) => boolean): Fault | null => {
  const isOurs = /^rollcall_/i.test(name)
  const upper = name.toUpperCase()
  const setting = variableNames.find((known) => `${known}_FILE` === upper)
  const meant = misspelledOf(name, isSet) ?? (isOurs ? closestOf(upper) : undefined)
  if (meant === undefined) return null
  return {
    where: name.length > maxNameLength ? `${name.slice(0, maxNameLength)}…` : name,
    message: "is not a variable of Rollcall, so it has no effect",
    hint: setting === undefined
      ? `Did you mean ${meant}? If another program reads it, there is nothing to do`
      : `Set ${setting} itself: only secrets are read from files`
  }
}

/** The secrets and the variables of plugins that the configuration file names. */
const namesOf = ({ file, secrets }: RawConfig): Effect.Effect<ReadonlyArray<string>> => {
  const value = file?.value
  const plugins = typeof value === "object" && value !== null && "plugins" in value && Array.isArray(value.plugins)
    ? value.plugins.filter(isPlugin)
    : []
  return Effect.map(Effect.forEach(plugins, variablesOf), (sets) => {
    const names = [...secrets.keys(), ...sets.flatMap((set) => [...set])]
    return [...names, ...files(names)]
  })
}

/** `environment`: every variable with its value; an empty one is treated as not set. */
export const findUnknownVariables = (
  input: RawConfig,
  environment: Readonly<Record<string, string | undefined>>
): Effect.Effect<ReadonlyArray<Fault>> =>
  Effect.map(namesOf(input), (names) => {
    const known = new Set([...settings, ...names])
    const isSet = (name: string): boolean => (environment[name]?.trim() ?? "") !== ""
    const unknown = Object.keys(environment).sort().filter((name) =>
      /^[rko]/i.test(name) && !known.has(name) && isSet(name) && !isServiceLink(name, environment[name] ?? "")
    )
    const faults: Array<Fault> = []
    for (const name of unknown) {
      if (faults.length === maxReported) break
      const fault = faultOf(name, isSet)
      if (fault !== null) faults.push(fault)
    }
    return faults
  })
