/** The pages of the operating API and of the published data, from the documents that a process serves at `/openapi.json` and `/schemas`. */
import * as OpenApi from "effect/http-api/OpenApi"
import { builtInModels } from "../../src/domain/BuiltInModels.ts"
import { remedies } from "../../src/domain/FailureCause.ts"
import { Api } from "../../src/http/contract/Api.ts"
import { publishedSchemas } from "../../src/publish/SchemaDocuments.ts"
import { faultKinds, traitsOf } from "../../src/store/StoreFault.ts"
import { table } from "./Markdown.ts"

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly const?: unknown
  readonly enum?: ReadonlyArray<unknown>
  readonly anyOf?: ReadonlyArray<Schema>
  readonly oneOf?: ReadonlyArray<Schema>
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: ReadonlyArray<string>
  readonly title?: string
  readonly description?: string
}

interface Operation {
  readonly tags: ReadonlyArray<string>
  readonly summary?: string
  readonly description?: string
  readonly parameters: ReadonlyArray<
    { readonly name: string; readonly in: string; readonly description?: string; readonly schema: Schema }
  >
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> }
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: Schema }>> }>
  >
}

/** A type in a few words. */
const typeOf = (schema: Schema): string => {
  const choices = schema.anyOf ?? schema.oneOf
  if (schema.$ref !== undefined) return schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1)
  if (choices !== undefined) return [...new Set(choices.map(typeOf))].join(" or ")
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(", ")
  if (schema.type === "array") return `list of ${typeOf(schema.items ?? {})}`
  return schema.type ?? "any value"
}

/** The properties of an object, and of the objects and lists inside it, in the order of the schema. */
const rowsOf = (schema: Schema, path = ""): ReadonlyArray<ReadonlyArray<string>> => {
  const inner = [
    schema,
    schema.items ?? {},
    ...schema.anyOf ?? [],
    ...(schema.anyOf ?? []).flatMap(({ items = {} }) => items)
  ]
  return inner.flatMap(({ properties = {} }) =>
    Object.entries(properties).flatMap(([name, property]) => [
      [`\`${path}${name}\``, typeOf(property), property.description ?? ""],
      ...rowsOf(property, `${path}${name}.`)
    ])
  )
}

const propertyTable = (schema: Schema): string => table(["property", "type", "meaning"], rowsOf(schema))

interface Document {
  readonly tags: ReadonlyArray<{ readonly name: string; readonly description: string }>
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
  readonly info: { readonly description: string }
}

export const httpPage = (): string => {
  const document: Document = JSON.parse(JSON.stringify(OpenApi.fromApi(Api)))
  const resolved = (schema: Schema): Schema =>
    schema.$ref === undefined ? schema : document.components.schemas[typeOf(schema)] ?? {}
  const shown = (
    path: string,
    method: string,
    { description, parameters, requestBody, responses, summary }: Operation
  ) => {
    const body = Object.values(requestBody?.content ?? {})[0]?.schema
    const result = Object.values(responses["200"]?.content ?? {})[0]?.schema
    const codes = Object.keys(responses).filter((code) => code !== "200")
    return [
      `### ${method.toUpperCase()} ${path}\n`,
      `${summary}. ${description ?? ""}\n`,
      parameters.length === 0
        ? ""
        : table(
          ["parameter", "type", "meaning"],
          parameters.map((it) => [`\`${it.name}\``, typeOf(it.schema), it.description ?? ""])
        ),
      body === undefined ? "" : `The body:\n\n${propertyTable(resolved(body))}`,
      result === undefined
        ? ""
        : `The response is ${typeOf(result)}${
          rowsOf(resolved(result)).length > 0 ? `:\n\n${propertyTable(resolved(result))}` : ".\n"
        }`,
      codes.length > 0 ? `Other statuses: ${codes.join(", ")}\n` : ""
    ].filter((part) => part !== "").join("\n")
  }
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      tag: operation.tags[0],
      text: shown(path, method, operation)
    }))
  )
  const groups = document.tags.map(({ description, name }) =>
    [`## ${name}\n`, `${description}.\n`, ...operations.filter(({ tag }) => tag === name).map(({ text }) => text)].join(
      "\n"
    )
  )
  return `# Operating API\n\n${document.info.description}\n${groups.join("\n")}`
}

export const schemasPage = (): string =>
  [
    "# Schemas\n",
    ...publishedSchemas(builtInModels).map(({ document, name }) => {
      const schema = document() as Schema
      return `## ${name}\n\n${schema.description ?? ""}\n\n${propertyTable(schema)}`
    })
  ].join("\n")

/** The messages whose remedies the sources have in one place. Every other message has its remedy beside it where it is printed. */
export const messagesPage = (): string =>
  `# Messages

A message says what to do when it is printed: as \`hint\`, or in its second sentence. These are the remedies for faults of the store and for dead letters.

## Faults of the store

${table(["message", "remedy"], faultKinds.map((kind) => [traitsOf(kind).description, traitsOf(kind).remedy]))}
## Dead letters

${table(["reason", "remedy"], Object.entries(remedies).map(([reason, remedy]) => [`\`${reason}\``, remedy]))}`
