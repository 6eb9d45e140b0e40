/**
 * Finds settings that have no effect because a name in them is probably misspelled. Rollcall warns about them and starts.
 *
 * Gotchas
 * - Variables: other programs may share the environment. Kubernetes sets variables with the name of each service of a namespace, and a
 *   compose file may hand all of its variables to all containers.
 * - Redaction rules: a misspelled pointer removes nothing, so personal data that the operator believes to be removed is stored and
 *   published. Rollcall applies such a rule, because the API may send fields that our schema lacks (S1). Below `custom_fields`,
 *   `integration_fields`, `remote_data` and every other value of free form, any name is possible. Below a value without fields, such as a
 *   text, a rule removes the value (see `domain/Redaction.ts`), so it is not reported.
 * - Integrations in the settings of plugins: an id that no declared integration resembles may belong to an integration that operators add
 *   at run time, so it is not reported. The same holds for one that differs only in digits, such as the number of another customer.
 */
import * as Effect from "effect/Effect"
import type * as SchemaAST from "effect/SchemaAST"
import { fieldsOf } from "../api/Fields.ts"
import { closestName, distanceOf } from "../domain/ClosestName.ts"
import { segments } from "../domain/Diff.ts"
import type { RecordSchema } from "../domain/Model.ts"
import { display } from "../domain/Quote.ts"
import { isPlugin } from "../plugin/Plugin.ts"
import { variablesOf } from "../plugin/PluginConfiguration.ts"
import type { Settings } from "./Config.ts"
import type { Fault, RawConfig } from "./RawConfig.ts"
import { isSecretVariable, variableNames } from "./Variables.ts"

/** Maximum edit distance from a known name at which a name is treated as misspelled. */
const maxDistance = 2

// ---- variables ----------------------------------------------------------------------------------------------------

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
    known[0] === upper[0] && Math.abs(known.length - name.length) <= maxDistance && !isSet(known) &&
    distanceOf(upper, known) <= maxDistance
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

// ---- redaction rules ----------------------------------------------------------------------------------------------

type Fields = ReadonlyMap<string, SchemaAST.AST>

const maxSuggested = 3

/** All pointers of these fields, and of the fields below them. */
const pointersOf = (fields: Fields, above = ""): ReadonlyArray<string> =>
  [...fields].flatMap(([name, ast]) => {
    const pointer = `${above}/${name}`
    return [pointer, ...pointersOf(fieldsOf(ast) ?? new Map(), pointer)]
  })

interface UnknownField {
  readonly name: string
  /** The known fields of the object that lacks the name. */
  readonly fields: Fields
  /** The pointer of that object. */
  readonly above: string
}

/** The first name of the pointer that the schema does not have; null if it may have all of them. */
const findUnknownField = (schema: RecordSchema, pointer: string): UnknownField | null => {
  let ast: SchemaAST.AST | undefined = schema.ast
  let above = ""
  for (const name of segments(pointer)) {
    const fields = fieldsOf(ast)
    if (fields === null) return null
    ast = fields.get(name)
    if (ast === undefined) return { name, fields, above }
    above += `/${name}`
  }
  return null
}

/** The pointers that were probably meant: those that end with a similar name, else the most similar field of the same object. */
const suggested = (schema: RecordSchema, { above, fields, name }: UnknownField): ReadonlyArray<string> => {
  const alike = pointersOf(fieldsOf(schema.ast) ?? new Map()).filter((pointer) =>
    distanceOf(name, segments(pointer).at(-1) ?? "") <= maxDistance
  )
  const beside = [...fields.keys()]
  if (alike.length === 0) {
    return [`${above}/${beside.find((known) => known.includes(name)) ?? closestName(name, beside)}`]
  }
  const nearest = alike.filter((pointer) => pointer.startsWith(`${above}/`))
  return [...new Set([...nearest, ...alike])].slice(0, maxSuggested)
}

/** The configuration file is the only source of redaction rules. */
const findUnknownFields = (file: RawConfig["file"], { known, models }: NamingSettings): ReadonlyArray<Fault> =>
  known.entries.flatMap(({ model, schema }) =>
    Object.keys(models[model]?.redact ?? {}).flatMap((pointer) => {
      const unknown = findUnknownField(schema, pointer)
      if (unknown === null) return []
      const meant = suggested(schema, unknown).join(" or ")
      return [{
        where: `${file === null ? "" : `${file.name}, `}models["${model}"].redact["${display(pointer)}"]`,
        message: `names no field of ${model} that Rollcall knows, so the rule probably removes nothing`,
        hint: `Did you mean ${meant}? If the records have this field, there is nothing to do`
      }]
    })
  )

// ---- integrations of plugins --------------------------------------------------------------------------------------

const withoutDigits = (id: string): string => id.replaceAll(/\d/g, "")
const isMisspelled = (id: string, meant: string): boolean =>
  distanceOf(id, meant) <= maxDistance && withoutDigits(id) !== withoutDigits(meant)

const findUnknownIntegrations = ({ integrations, plugins }: NamingSettings): ReadonlyArray<Fault> =>
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

// ---- all ----------------------------------------------------------------------------------------------------------

type NamingSettings = Pick<Settings, "integrations" | "known" | "models" | "plugins" | "telemetryFaults">

/** The settings without effect in a valid configuration, besides variables. */
export const findIneffective = ({ file }: Pick<RawConfig, "file">, settings: NamingSettings): ReadonlyArray<Fault> => [
  ...settings.telemetryFaults,
  ...findUnknownFields(file, settings),
  ...findUnknownIntegrations(settings)
]
