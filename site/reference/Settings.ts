/**
 * The page of settings: properties with their comments in `ConfigFile.ts`, the variables that the code reads in their place, and variables
 * without a property.
 */
import { check } from "../../src/config/Config.ts"
import { ConfigValue } from "../../src/config/ConfigValue.ts"
import type { RawConfig } from "../../src/config/RawConfig.ts"
import { isSecretVariable, type Variable, variableDefinitions, variableNames } from "../../src/config/Variables.ts"
import { modelNames } from "../../src/domain/BuiltInModels.ts"
import { read, table } from "./Markdown.ts"

interface Property {
  /** The path in the file, such as `accounts.<name>.url`. */
  readonly path: string
  readonly type: string
  /** Empty if the property shares the comment of the one before. */
  readonly comment: string
}

/** Where the objects of an interface are in the file, in the order of the page, each with the heading of its table. */
const sections: ReadonlyArray<readonly [type: string, path: string, title: string]> = [
  ["AccountConfig", "accounts.<name>", "Accounts"],
  ["IntegrationConfig", "integrations[]", "Integrations"],
  ["ModelConfig", "models.<model>", "Records"],
  ["ConfigFile", "", "Reading, store and connections"],
  ["GuardConfig", "guard", "Guard"],
  ["HttpConfig", "http", "Operating API"],
  ["KafkaConfig", "kafka", "Kafka"],
  ["KafkaLogin", "kafka.sasl", "Login at Kafka"],
  ["LogConfig", "log", "Log"]
]

const joined = (path: string, name: string): string => path === "" ? name : `${path}.${name}`

const oneLine = (comment: string): string => comment.replaceAll(/\s*\n\s*\*?\s*/g, " ").trim()

/** The properties of an interface, with those of objects inside it. */
const propertiesIn = (source: string, path: string): ReadonlyArray<Property> => {
  const found: Array<Property> = []
  const inside = [path]
  let comment = ""
  for (
    const [, text, name, type, end] of source.matchAll(
      /\/\*\*([^]*?)\*\/|^ +readonly (\w+)\??: (.*)$|^ *(\})/gm
    )
  ) {
    if (text !== undefined) comment = oneLine(text)
    else if (end !== undefined) {
      if (inside.length > 1) inside.pop()
    } else if (name !== undefined && type !== undefined) {
      const at = joined(inside.at(-1) ?? "", name)
      if (!found.some(({ path }) => path === at)) found.push({ path: at, type, comment })
      if (type.endsWith("{")) inside.push(at)
      comment = ""
    }
  }
  return found
}

const configFile = read("src/config/ConfigFile.ts")

/** The comment of an interface and its properties. */
const sourceOf = (type: string): readonly [comment: string, body: string] => {
  const form = String
    .raw`(?:\/\*\*((?:(?!\*\/)[^])*)\*\/\n)?export (?:interface ${type} \{|type ${type} =)\n([^]*?)\n(?:\}|\n)`
  const [, comment = "", body = ""] = new RegExp(form).exec(configFile) ?? []
  return [oneLine(comment), body]
}

export const properties: ReadonlyMap<string, ReadonlyArray<Property>> = new Map(
  sections.map(([type, path]) => [type, propertiesIn(sourceOf(type)[1], path)])
)

/** Variables that the code reads apart from the properties that they set. */
const others: Readonly<Record<string, Variable>> = {
  "integrations[].id": "ROLLCALL_INTEGRATIONS",
  "integrations[].models": "ROLLCALL_MODELS",
  "integrations[].interval": "ROLLCALL_INTERVAL",
  "integrations[].sweepInterval": "ROLLCALL_SWEEP_INTERVAL",
  lists: "ROLLCALL_LISTS",
  "kafka.ssl": "KAFKA_SSL"
}

/** Every property that the code reads, with its variables: noted while it reads a file that has every object. */
export const readProperties = (): ReadonlyMap<string, ReadonlyArray<Variable>> => {
  const found = new Map<string, ReadonlyArray<Variable>>()
  const { fields } = ConfigValue.prototype
  ConfigValue.prototype.fields = function(names) {
    const path = this.where.replace(/^file,\s?/, "").replace("accounts.default", "accounts.<name>")
      .replace("integrations[0]", "integrations[]").replace(/models\["[^"]+"\]/, "models.<model>")
    for (const [name, variables] of Object.entries(names)) {
      const at = joined(path, name)
      found.set(at, [...variables === null ? [] : [variables].flat(), ...others[at] === undefined ? [] : [others[at]]])
    }
    return fields.call(this, names) as ReturnType<typeof fields<typeof names>>
  }
  const value = {
    accounts: { default: {} },
    integrations: [{}],
    models: { "ats.tag": {} },
    kafka: { ssl: {}, sasl: {}, schemaRegistry: {} },
    http: { tls: {} }
  }
  const raw: RawConfig = { variables: {}, secrets: new Map(), file: { name: "file", value }, faults: [] }
  try {
    check(raw)
  } finally {
    ConfigValue.prototype.fields = fields
  }
  return found
}

const marked = (name: string, isSecret: boolean): string => `\`${name}\`${isSecret ? " (secret)" : ""}`

/** A row for each comment, with the properties that share it. The properties of other sections have rows there. */
const rowsOf = (own: ReadonlyArray<Property>, variables: ReadonlyMap<string, ReadonlyArray<Variable>>) => {
  const roots = sections.map(([, path]) => /^\w*/.exec(path)?.[0])
  const groups: Array<Array<Property>> = []
  for (const property of own) {
    if (roots.includes(property.path)) continue
    if (property.comment === "") groups.at(-1)?.push(property)
    else groups.push([property])
  }
  return groups.map((group) => {
    const names = group.flatMap(({ path, type }) => {
      const isSecret = /^Secret\b/.test(type)
      const read = (variables.get(path) ?? []).map((name) => marked(name, !isSecret && isSecretVariable(name)))
      return [marked(path, isSecret), ...read]
    })
    const { isRequired, meaning, standard } = partsOf(group[0]?.comment ?? "")
    return [names.join(", "), meaning, isRequired ? "required" : standard]
  })
}

/** The parts of a comment. */
export const partsOf = (comment: string) => {
  const [, required, meaning = "", standard = "none"] = /^(Required\. )?(.*?)\.?(?: Default: (.*)\.)?$/.exec(comment) ??
    []
  return { isRequired: required !== undefined, meaning, standard }
}

/** The variables that set no property. */
const variableRows = (used: ReadonlySet<Variable>) => {
  const rows: Array<Array<string>> = []
  for (const name of variableNames.filter((name) => !used.has(name))) {
    const shown = marked(name, isSecretVariable(name))
    const { description } = variableDefinitions[name]
    const [, meaning = "", standard = "none"] = /^(.*?)(?: \(([^()]*)\))?$/.exec(description) ?? []
    const previous = rows.at(-1)
    if (/^the same\b/.test(description) && previous !== undefined) previous[0] += `, ${shown}`
    else rows.push([shown, meaning, standard])
  }
  return rows
}

export const settingsPage = (): string => {
  const variables = readProperties()
  const shown = sections.map(([type, , title]) => {
    const [comment] = sourceOf(type)
    const models = modelNames.map((name) => marked(name, false)).join(", ")
    const intro = type === "IntegrationConfig" ? `${comment} The models are ${models}.` : comment
    const rows = rowsOf(properties.get(type) ?? [], variables)
    return [`## ${title}`, ...intro === "" ? [] : [intro], table(["property, variable", "meaning", "default"], rows)]
      .join("\n\n")
  })
  const alone = variableRows(new Set([...variables.values()].flat()))
  return `# Settings

Every property of \`rollcall.config.ts\`, and the environment variable that takes precedence over it. [Configuration](../configuration.md) says how to
use them. A list in a variable is separated by commas. For a secret, \`<variable>_FILE\` can name a file instead.

${shown.join("\n")}
## Variables without a property

[Proxies](../configuration.md#proxies) and the [export over OTLP](../configuration.md#traces-and-metrics-over-otlp) have variables only, which other programs read too. A variable
for one signal (\`TRACES\`, \`METRICS\`) takes precedence for that signal.

${table(["variable", "meaning", "default"], alone)}`
}
