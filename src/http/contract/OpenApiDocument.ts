/**
 * Completes the generated OpenAPI 3.1 document of the operating API: adds the details that the contract's schemas cannot express, and
 * those that all endpoints have in common.
 *
 * Gotchas
 * - The generator describes every query parameter as a string, so the actual types are added here.
 * - The generator gives each operation an empty `security`, which would mean that no operation needs a token.
 */
import type { Models } from "../../domain/Model.ts"
import { type JsonSchema, recordSchemaOf } from "../../publish/RecordSchema.ts"
import { eventDataSchemaOf } from "../../publish/SchemaDocuments.ts"
import { introduction, parametersOf, streamed, tags } from "./OpenApiTexts.ts"
import { version } from "./Version.ts"

type Json = Readonly<Record<string, unknown>>

const refTo = (name: string): { readonly $ref: string } => ({ $ref: `#/components/schemas/${name}` })

const mapValues = (record: unknown, map: (value: Json, name: string) => Json): Readonly<Record<string, Json>> =>
  Object.fromEntries(Object.entries(Object(record)).map(([name, value]) => [name, map(Object(value), name)]))

type Parameters = ReturnType<typeof parametersOf>

const documentParameter = (parameters: Parameters, operation: string, parameter: Json): Json => {
  const name = String(parameter["name"])
  const { description } = Object(parameter["schema"])
  return {
    ...description !== undefined && { description },
    ...parameter,
    ...parameters[name],
    ...parameters[`${operation}.${name}`]
  }
}

const problem = (description: string, headers?: Json): Json => ({
  description,
  ...headers !== undefined && { headers },
  content: { "application/problem+json": { schema: refTo("Problem") } }
})

/** A response of an endpoint. Its problems are not all that the status may have: later versions, and the checks before the endpoint, add some. */
const openResponse = (response: Json): Json => {
  const { "application/problem+json": document } = Object(response["content"])
  if (document === undefined) return response
  const { anyOf = [document.schema] } = document.schema
  const schema = { anyOf: [...anyOf, refTo("Problem")] }
  return { ...response, content: { "application/problem+json": { schema } } }
}

/** Responses that are not in the contract of an endpoint, because a request gets them before it reaches the endpoint. */
const guarded: Readonly<Record<string, Json>> = {
  401: problem("A token is required, or the token is wrong"),
  403: problem("The host name or the page's origin is not allowed, or the read token does not allow commands"),
  429: problem("Too many wrong tokens", {
    "Retry-After": { description: "Seconds to wait", schema: { type: "integer" } }
  }),
  503: problem("The store does not answer, or too many requests wait")
}
const withBody: Readonly<Record<string, Json>> = {
  413: problem("The body is too large"),
  415: problem("The body is not JSON")
}

/** The response of an operation that answers with a document or a stream of events, whichever the request accepts. */
const documentStream = (id: string, { 200: success, ...others }: Readonly<Record<string, Json>>): Json => {
  const { events, example, response } = streamed[id] ?? {}
  if (events === undefined) return { 200: success, ...others }
  const { "application/json": document } = Object(success?.["content"])
  return {
    200: {
      description: response,
      content: {
        "application/json": document,
        "text/event-stream": { schema: { type: "string", description: events }, example }
      }
    },
    ...others
  }
}

const documentOperation = (parameters: Parameters) => (operation: Json, method: string): Json => {
  const id = String(operation["operationId"])
  const { security: _, tags: [group = ""] = [], ...own } = operation as Json & { readonly tags?: ReadonlyArray<string> }
  const isProbe = group === "health"
  const added = { ...isProbe ? {} : guarded, ...method === "post" ? withBody : {} }
  return {
    ...own,
    tags: Object.entries(tags).flatMap(([tag, { of }]) => of.includes(group) ? [tag] : []),
    ...isProbe && { security: [] },
    // a document cannot describe the header `accept` as a parameter: the media types of the responses are its values
    parameters: (Array.isArray(operation["parameters"]) ? operation["parameters"] : [])
      .flatMap((parameter: Json) =>
        parameter["name"] === "accept" ? [] : [documentParameter(parameters, id, parameter)]
      ),
    responses: { ...added, ...documentStream(id, mapValues(operation["responses"], openResponse)) }
  }
}

const orNull = (name: string): Json => ({ anyOf: [refTo(name), { type: "null" }] })

/** The schemas whose content depends on the model. `title`: the name of the type of the model's records. */
const contentOf: Readonly<Record<string, (title: string) => Json>> = {
  Event: (title) => ({ data: refTo(`${title}EventData`) }),
  CurrentRecord: (title) => ({ after: refTo(title) }),
  ChangeContent: (title) => ({ before: orNull(title), after: orNull(title) })
}

/** The schemas of records and of the `data` of events, and one variant for each model of the schemas above. */
const modelSchemas = ({ entries }: Models, schemas: Readonly<Record<string, JsonSchema>>): Json => {
  const models = entries.map((entry) => [entry.model, recordSchemaOf(entry)] as const)
  const own = entries.flatMap((entry) => {
    const { title, ...record } = recordSchemaOf(entry)
    const { title: _, ...data } = eventDataSchemaOf(entry, refTo(title).$ref)
    return [[title, record], [`${title}EventData`, data]] as const
  })
  const variants = Object.entries(contentOf).flatMap(([name, content]) => {
    const { properties, ...schema } = schemas[name] ?? {}
    const mapping = models.map(([model, { title }]) => [model, refTo(`${title}${name}`)] as const)
    const common = {
      oneOf: mapping.map(([, ref]) => ref),
      discriminator: {
        propertyName: "model",
        mapping: Object.fromEntries(mapping.map(([model, { $ref }]) => [model, $ref]))
      }
    }
    return [
      [name, common] as const,
      ...models.map(([model, { title }]) =>
        [`${title}${name}`, {
          ...schema,
          properties: { ...properties, model: { type: "string", const: model }, ...content(title) }
        }] as const
      )
    ]
  })
  return Object.fromEntries([...own, ...variants])
}

const isWhole = ({ maximum, minimum, type }: Json): boolean =>
  type === "integer" && minimum === Number.MIN_SAFE_INTEGER && maximum === Number.MAX_SAFE_INTEGER

const correctedSchema = ({ additionalProperties, maximum, minimum, ...schema }: Json): Json => ({
  ...schema,
  // later versions may add properties
  ...additionalProperties !== undefined && additionalProperties !== false && { additionalProperties },
  // the same as none, and some generators accept no array without it
  ...schema["type"] === "array" && schema["items"] === undefined && schema["prefixItems"] === undefined &&
    { items: {} },
  // without a format, generators make a type of 32 bits
  ...isWhole({ ...schema, maximum, minimum }) ? { format: "int64" } : { minimum, maximum }
})

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

/** Corrects the generated schemas, and their names: the generator calls a problem after its encoding, the only form that clients see. */
const corrected = (generated: Json): Record<string, unknown> =>
  JSON.parse(
    JSON.stringify(generated, (_, value) => isObject(value) ? correctedSchema(value) : value)
      .replaceAll(/(?<=#\/components\/schemas\/\w+)Encoded(?=")|(?<="\w+)Encoded(?=":)/g, "")
  )

/** Completes the generated document. */
export const completeDocument = (models: Models) => (document: Json): Record<string, unknown> => {
  const { schemas } = Object(document["components"])
  return corrected({
    ...document,
    info: { title: "Rollcall", version, description: introduction, license: { name: "MIT", identifier: "MIT" } },
    servers: [{ url: "/", description: "The process that serves this document" }],
    tags: Object.entries(tags).map(([name, { description }]) => ({ name, description })),
    paths: mapValues(document["paths"], (path) => mapValues(path, documentOperation(parametersOf(models)))),
    security: [{ token: [] }, { session: [] }, {}],
    components: {
      ...Object(document["components"]),
      schemas: {
        ...schemas,
        ...modelSchemas(models, Object(schemas)),
        Model: { type: "string", enum: models.names },
        Problem: {
          type: "object",
          description: "A problem as in RFC 9457",
          required: ["type", "title", "status"],
          properties: {
            type: { type: "string", description: "`urn:rollcall:problem:<name>`" },
            title: { type: "string" },
            status: { type: "integer" },
            detail: { type: "string", description: "What happened" },
            hint: { type: "string", description: "What to do" }
          }
        }
      },
      securitySchemes: {
        token: {
          type: "http",
          scheme: "bearer",
          description:
            "`ROLLCALL_HTTP_TOKEN`, or `ROLLCALL_HTTP_READ_TOKEN` for everything but commands. Needed if a token is configured"
        },
        session: {
          type: "apiKey",
          in: "cookie",
          name: "rollcall_8477",
          description:
            "The session of a browser that signed in at `/login`. The name contains the port, and over TLS it starts with `__Host-`"
        }
      }
    }
  })
}
