/**
 * Completes the generated OpenAPI 3.1 document of the operating API: adds the details that the contract's schemas cannot express, and
 * those that all endpoints have in common.
 *
 * Gotchas
 * - The generator describes every query parameter as a string, so the actual types are added here.
 * - The generator gives each operation an empty `security`, which would mean that no operation needs a token.
 */
import { modelNames, transitionNames } from "../domain/Model.ts"
import { version } from "./Version.ts"

type Json = Readonly<Record<string, unknown>>

const tags: Readonly<Record<string, string>> = {
  feed: "The event log and the current records, for consumers",
  changes: "Search for changes, their paths and their content, for people",
  schemas: "JSON Schemas of the published data",
  streams: "The state of each stream",
  integrations: "Integrations that are added and removed while Rollcall is running",
  streamDetail: "One stream in detail, and its runs",
  streamCommands: "Commands for one stream",
  holds: "Changes that wait for a decision of an operator",
  plugins: "Plugins: their progress, switches and replays",
  deadletters: "Deliveries that failed for good",
  forget: "Records that were forgotten on request",
  audit: "The commands of operators, and who read records",
  sessions: "Users who signed in with a browser, or programs that signed in",
  fleet: "The processes that share the store",
  overview: "The state of the whole installation",
  health: "Probes; they need no token"
}

/** Summary of each operation. A description is here if its endpoint has none. */
const operations: Readonly<Record<string, { readonly summary: string; readonly description?: string }>> = {
  "feed.events": { summary: "List or stream events" },
  "feed.records": { summary: "List the current records of a stream" },
  "changes.search": { summary: "Search for changes, newest first" },
  "changes.path": { summary: "Get the path of a change" },
  "changes.content": { summary: "Reveal the content of a change" },
  "schemas.schemas": { summary: "List the schemas" },
  "schemas.schema": { summary: "Get a schema" },
  "streams.streams": { summary: "List the streams" },
  "streams.stream": {
    summary: "Get a stream",
    description: "Returns the state of one stream."
  },
  "streamCommands.command": { summary: "Poll, sweep, backfill, pause or resume a stream" },
  "streamCommands.rewind": { summary: "Read a stream again from a time" },
  "streamCommands.audit": { summary: "Compare the published records of a stream with a full read" },
  "integrations.list": {
    summary: "List the integrations",
    description: "Lists the integrations that are declared or were added, including removed ones whose data is kept."
  },
  "integrations.add": { summary: "Add an integration" },
  "integrations.remove": { summary: "Remove an integration" },
  "holds.list": { summary: "List the holds" },
  "holds.show": {
    summary: "Get a hold",
    description: "Returns a hold with a page of the ids of its records."
  },
  "holds.plan": { summary: "Count the records that an approval would publish" },
  "holds.approve": { summary: "Publish held changes" },
  "holds.reject": { summary: "Keep held changes unpublished" },
  "plugins.list": { summary: "List the plugins" },
  "plugins.show": {
    summary: "Get a plugin",
    description:
      "Returns a plugin: its handlers with their position, waiting deliveries and dead letters, and its switches."
  },
  "plugins.on": {
    summary: "Switch a plugin on",
    description:
      "Switches the plugin on everywhere or in one integration. It continues with the events that it has not seen."
  },
  "plugins.off": { summary: "Switch a plugin off" },
  "plugins.stop": { summary: "Stop the writes of all plugins" },
  "plugins.unconfirmed": { summary: "List writes whose effect was never seen" },
  "plugins.resume": {
    summary: "Allow the writes of plugins again",
    description: "Ends the stop of all writes: deliveries that waited for it continue."
  },
  "plugins.replay": { summary: "Deliver a range of events again" },
  "deadletters.list": { summary: "List the dead letters" },
  "deadletters.show": { summary: "Get a dead letter" },
  "deadletters.plan": { summary: "Count the dead letters of a filter" },
  "deadletters.redrive": { summary: "Deliver planned dead letters again" },
  "deadletters.progress": { summary: "Count how far redriven dead letters are" },
  "deadletters.discard": { summary: "Discard planned dead letters" },
  "deadletters.resolve": { summary: "Record the outcome of a write" },
  "forget.list": { summary: "List the forgotten records" },
  "forget.forget": { summary: "Forget a record" },
  "forget.plan": { summary: "Count what forgetting a record would remove" },
  "forget.progress": { summary: "Get how far forgetting a record is" },
  "forget.allow": { summary: "Let runs store a forgotten record again" },
  "audit.list": { summary: "List the commands of operators" },
  "audit.reads": { summary: "List who read records" },
  "sessions.list": { summary: "List the sessions" },
  "sessions.endAll": { summary: "End all sessions" },
  "sessions.end": { summary: "End a session" },
  "fleet.list": { summary: "List the processes" },
  "streamDetail.detail": { summary: "Get a stream in detail" },
  "streamDetail.runs": { summary: "List the runs of a stream" },
  "overview.show": { summary: "Get or stream the state of the installation" },
  "overview.streams": { summary: "Search and sort the streams" },
  "overview.history": { summary: "List the samples of the last day" },
  "health.live": { summary: "Liveness", description: "Responds as long as the process can respond." },
  "health.ready": {
    summary: "Readiness",
    description: "200 if the store, the streams and the sinks work, otherwise 503; `checks` shows which of them failed."
  }
}

/** A query parameter with several values, separated by commas. */
const several = (description: string, values?: ReadonlyArray<string>): Json => ({
  description: `${description}, comma-separated`,
  schema: { type: "array", minItems: 1, items: { type: "string", ...values !== undefined && { enum: values } } },
  style: "form",
  explode: false
})

const nextPage = { description: "`next` of the previous page" }
const time = (description: string): Json => ({ description, schema: { type: "string", format: "date-time" } })

/** By name, or by operation and name if the parameter means something else in that operation. */
const parameters: Readonly<Record<string, Json>> = {
  limit: {
    description: "Largest number of items in the page",
    schema: { type: "integer", minimum: 1, maximum: 1000, default: 100 }
  },
  after: nextPage,
  id: { description: "Id of the hold or the dead letter", schema: { type: "integer", minimum: 1 } },
  integration: { description: "Id of the integration, `<tool>:<identifier>`" },
  model: { description: "Name of the model" },
  plugin: { description: "Name of the plugin" },
  handler: { description: "Only those of this handler, `<plugin>/<handler>`" },
  reason: { description: "Only with this reason" },
  command: { description: "`poll`, `sweep`, `backfill`, `pause` or `resume`" },
  name: { description: "Name of the schema: `<model>`, `<model>.event` or `progress`" },
  version: { description: "Version of the schema", schema: { type: "integer", minimum: 1 } },
  state: { description: "Only holds in this state" },
  origin: { description: "`backfill`: the changes are published as old records" },
  silent: { description: "`true`: the changes are stored and not published" },
  since: time("Only entries from this time on"),
  until: time("Only entries before this time"),
  accept: { description: "`text/event-stream`: an endless stream instead of a page" },
  "last-event-id": {
    description: "In a stream: the `id` after which it resumes. It takes precedence over `after` and `since`"
  },
  "feed.events.after": {
    description: "A position, or `latest`: only later events. Default: all events that are kept"
  },
  "feed.events.since": time(
    "Starts at the first event that was recorded at or after this time, RFC 3339. Not together with `after`"
  ),
  "feed.events.integration": several("Only events of these integrations"),
  "feed.events.model": several("Only events of these models", modelNames),
  "feed.events.kind": several("Only events of these kinds", ["created", "updated", "deleted"]),
  "feed.events.transition": several("Only events with one of these transitions", transitionNames),
  "feed.records.id": { description: "Id of a record: only this one", schema: { type: "string" } },
  search: { description: "Words that must all occur in the integration, the model or the cause" },
  order: { description: "The column to sort by" },
  position: { description: "Position of the event, as responses show it" },
  before: { description: "`next` of the previous page: only earlier events" },
  kind: { description: "`created`, `updated` or `deleted`" },
  transition: { description: "Only events with this transition" },
  "changes.search.id": { description: "Id of a record: all its events", schema: { type: "string" } },
  "changes.search.limit": {
    description: "Largest number of events in the page",
    schema: { type: "integer", minimum: 1, maximum: 200, default: 50 }
  },
  "overview.streams.state": { description: "Only streams in this state" },
  "overview.streams.after": { ...nextPage, schema: { type: "integer", minimum: 0 } },
  "overview.streams.limit": {
    description: "Largest number of rows in the page",
    schema: { type: "integer", minimum: 1, maximum: 500, default: 100 }
  },
  "sessions.end.id": { description: "Id of the session", schema: { type: "string" } },
  "integrations.remove.id": { description: "Id of the integration, `<tool>:<identifier>`", schema: { type: "string" } }
}

const documentParameter = (operation: string, parameter: Json): Json => {
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
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } }
})

/** Responses that are not in the contract of an endpoint, because a request gets them before it reaches the endpoint. */
const guarded: Readonly<Record<string, Json>> = {
  401: problem("A token is required, or the token is wrong"),
  403: problem("The host name or the page's origin is not allowed, or the read token does not allow commands"),
  429: problem("Too many wrong tokens", {
    "Retry-After": { description: "Seconds to wait", schema: { type: "integer" } }
  })
}
const withBody: Readonly<Record<string, Json>> = {
  413: problem("The body is too large"),
  415: problem("The body is not JSON")
}

const documentOperation = (operation: Json, method: string): Json => {
  const id = String(operation["operationId"])
  const { security: _, ...own } = operation
  const isProbe = id.startsWith("health.")
  const added = { ...isProbe ? {} : guarded, ...method === "post" ? withBody : {} }
  return {
    ...operations[id],
    ...own,
    ...isProbe && { security: [] },
    parameters: (Array.isArray(operation["parameters"]) ? operation["parameters"] : [])
      .map((parameter: Json) => documentParameter(id, parameter)),
    responses: { ...added, ...Object(operation["responses"]) }
  }
}

const mapValues = (record: unknown, map: (value: Json, name: string) => Json): Json =>
  Object.fromEntries(Object.entries(Object(record)).map(([name, value]) => [name, map(Object(value), name)]))

/** Removes the rule of generated schemas that objects have no further properties: later versions may add some. */
const opened = (generated: Json): Json =>
  JSON.parse(
    JSON.stringify(generated, (key, value) => key === "additionalProperties" && value === false ? undefined : value)
  )

/** Completes the generated document. */
export const completeDocument = (document: Json): Record<string, unknown> => {
  const generated = opened(document)
  const { schemas } = Object(generated["components"])
  return {
    ...generated,
    info: { ...Object(generated["info"]), version, license: { name: "MIT", identifier: "MIT" } },
    servers: [{ url: "/", description: "The process that serves this document" }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: mapValues(generated["paths"], (path) => mapValues(path, documentOperation)),
    security: [{ token: [] }, { session: [] }, {}],
    components: {
      ...Object(generated["components"]),
      schemas: {
        ...schemas,
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
  }
}
