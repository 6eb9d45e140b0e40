/**
 * The words of the OpenAPI document that the contract of an endpoint does not have: its introduction, the names of tags, and its
 * parameters.
 */
import type { Models } from "../../domain/Model.ts"

type Json = Readonly<Record<string, unknown>>

export const introduction =
  `Rollcall polls an HR, recruiting, assessment and learning API, detects what changed, and publishes each change
as an event. This is the interface of a running process.

**Consumers** read the current records with \`GET /v1/records\`, and then every later change with \`GET /v1/events\`, as pages or as a
stream. \`GET /schemas\` describes their data. **Operators** read the state with the other requests, and send commands with POST and DELETE.

- **Access**: if the process has a token, send \`Authorization: Bearer <token>\`. The read token allows every GET, and no command.
- **Pages**: a list has \`items\` (or \`events\`, \`records\`) and \`next\`. Pass \`next\` as \`after\` of the next request. Except for
  events, \`next\` is null on the last page.
- **Commands**: most commands return the new state. A command without a described body is sent without one.
- **Problems**: a refused request gets \`application/problem+json\` (RFC 9457). \`type\` is the kind of problem, \`detail\` says what happened,
  and \`hint\` what to do. \`503\` with \`Retry-After\` means: send the same request again after this time.
- **Values**: an integration is \`<tool>:<identifier>\`, a stream \`<integration>/<model>\`. Times are RFC 3339 in UTC. Positions are opaque.
- **Later versions** may add properties, and values of enumerations: ignore those that you do not know.
`

/** The groups of the contract by the name of their tag, in the order of the document. */
export const tags: Readonly<Record<string, { readonly of: ReadonlyArray<string>; readonly description: string }>> = {
  Events: { of: ["feed"], description: "The event log and the current records, for consumers" },
  Schemas: { of: ["schemas"], description: "JSON Schemas of the published data" },
  Changes: { of: ["changes"], description: "Search for changes, their paths and their content, for people" },
  Overview: { of: ["overview"], description: "The state of the whole installation" },
  Streams: {
    of: ["streams", "streamDetail", "streamCommands"],
    description: "The state of each stream, its runs, and commands for one stream"
  },
  Integrations: {
    of: ["integrations"],
    description: "Integrations that are added and removed while Rollcall is running"
  },
  Holds: { of: ["holds"], description: "Changes that wait for a decision of an operator" },
  Plugins: { of: ["plugins"], description: "Plugins: their progress, switches and replays" },
  "Dead letters": { of: ["deadletters"], description: "Deliveries that failed for good" },
  Forgetting: { of: ["forget"], description: "Records that were forgotten on request" },
  "Audit log": { of: ["audit"], description: "The commands of operators, and who read records" },
  Sessions: { of: ["sessions"], description: "Users who signed in with a browser, or programs that signed in" },
  Processes: { of: ["fleet"], description: "The processes that share the store" },
  Health: { of: ["health"], description: "Probes; they need no token" }
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

/** By name, or by the operation's name and its own if the parameter means something else in that operation. */
export const parametersOf = ({ names, transitionNames }: Models): Readonly<Record<string, Json>> => ({
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
  "last-event-id": {
    description: "In a stream: the `id` after which it resumes. It takes precedence over `after` and `since`"
  },
  "listEvents.after": {
    description: "A position, or `latest`: only later events. Default: all events that are kept"
  },
  "listEvents.since": time(
    "Starts at the first event that was recorded at or after this time, RFC 3339. Not together with `after`"
  ),
  "listEvents.integration": several("Only events of these integrations"),
  "listEvents.model": several("Only events of these models", names),
  "listEvents.kind": several("Only events of these kinds", ["created", "updated", "deleted"]),
  "listEvents.transition": several("Only events with one of these transitions", transitionNames),
  "listRecords.id": { description: "Id of a record: only this one", schema: { type: "string" } },
  search: { description: "Words that must all occur in the integration, the model or the cause" },
  order: { description: "The column to sort by" },
  position: { description: "Position of the event, as responses show it" },
  before: { description: "`next` of the previous page: only earlier events" },
  kind: { description: "`created`, `updated` or `deleted`" },
  transition: { description: "Only events with this transition" },
  hold: {
    description: "Id of a hold: only the events that its approval has published",
    schema: { type: "integer", minimum: 1 }
  },
  "searchChanges.id": { description: "Id of a record: all its events", schema: { type: "string" } },
  "searchChanges.limit": {
    description: "Largest number of events in the page",
    schema: { type: "integer", minimum: 1, maximum: 200, default: 50 }
  },
  "searchStreams.state": { description: "Only streams in this state" },
  "searchStreams.after": { ...nextPage, schema: { type: "integer", minimum: 0 } },
  "searchStreams.limit": {
    description: "Largest number of rows in the page",
    schema: { type: "integer", minimum: 1, maximum: 500, default: 100 }
  },
  "endSession.id": { description: "Id of the session", schema: { type: "string" } },
  "removeIntegration.id": { description: "Id of the integration, `<tool>:<identifier>`", schema: { type: "string" } }
})

/** The descriptions of a response that is a document or a stream, whichever the request accepts. */
export const streamed: Readonly<
  Record<string, { readonly response: string; readonly events: string; readonly example: string }>
> = {
  "listEvents": {
    response: "A page of events. With `Accept: text/event-stream`: the same events as a stream that does not end",
    events:
      "Server-sent events. `id` is the position, `event` the kind (`created`, `updated` or `deleted`), and `data` one event as JSON, with " +
      "the schema `Event`. Comments with an `id` keep the connection alive",
    example: ': connected\nid: k3v9-1-10481\n\nid: k3v9-1-10482\nevent: updated\ndata: {"specversion":"1.0", …}\n\n'
  },
  "getOverview": {
    response: "The state. With `Accept: text/event-stream`: each new state as a stream that does not end",
    events: "Server-sent events. `event` is `overview`, and `data` the state as JSON, with the schema `Overview`",
    example: 'event: overview\ndata: {"as_of":"2026-03-01T12:00:00.000Z", …}\n\n'
  }
}
