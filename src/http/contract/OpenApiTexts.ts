/**
 * The words of the OpenAPI document that the contract of an endpoint does not have: its introduction, the names of tags and operations, and
 * its parameters.
 */
import { modelNames, transitionNames } from "../../domain/Model.ts"

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

/** The name and the summary of each operation. A description is here if its endpoint has none. */
export const operations: Readonly<
  Record<string, { readonly name: string; readonly summary: string; readonly description?: string }>
> = {
  "feed.events": { name: "listEvents", summary: "List or stream events" },
  "feed.records": { name: "listRecords", summary: "List the current records of a stream" },
  "changes.search": { name: "searchChanges", summary: "Search for changes, newest first" },
  "changes.path": { name: "getChange", summary: "Get the path of a change" },
  "changes.content": { name: "revealChange", summary: "Reveal the content of a change" },
  "schemas.schemas": { name: "listSchemas", summary: "List the schemas" },
  "schemas.schema": { name: "getSchema", summary: "Get a schema" },
  "streams.streams": { name: "listStreams", summary: "List the streams" },
  "streams.stream": {
    name: "getStream",
    summary: "Get a stream",
    description: "Returns the state of one stream."
  },
  "streamCommands.command": { name: "commandStream", summary: "Poll, sweep, backfill, pause or resume a stream" },
  "streamCommands.rewind": { name: "rewindStream", summary: "Read a stream again from a time" },
  "streamCommands.audit": {
    name: "auditStream",
    summary: "Compare the published records of a stream with a full read"
  },
  "integrations.list": {
    name: "listIntegrations",
    summary: "List the integrations",
    description: "Lists the integrations that are declared or were added, including removed ones whose data is kept."
  },
  "integrations.add": { name: "addIntegration", summary: "Add an integration" },
  "integrations.remove": { name: "removeIntegration", summary: "Remove an integration" },
  "holds.list": { name: "listHolds", summary: "List the holds" },
  "holds.show": {
    name: "getHold",
    summary: "Get a hold",
    description: "Returns a hold with a page of the ids of its records."
  },
  "holds.plan": { name: "planApproval", summary: "Count the records that an approval would publish" },
  "holds.approve": { name: "approveHold", summary: "Publish held changes" },
  "holds.reject": { name: "rejectHold", summary: "Keep held changes unpublished" },
  "plugins.list": { name: "listPlugins", summary: "List the plugins" },
  "plugins.show": {
    name: "getPlugin",
    summary: "Get a plugin",
    description:
      "Returns a plugin: its handlers with their position, waiting deliveries and dead letters, and its switches."
  },
  "plugins.on": {
    name: "switchPluginOn",
    summary: "Switch a plugin on",
    description:
      "Switches the plugin on everywhere or in one integration. It continues with the events that it has not seen."
  },
  "plugins.off": { name: "switchPluginOff", summary: "Switch a plugin off" },
  "plugins.stop": { name: "stopWrites", summary: "Stop the writes of all plugins" },
  "plugins.unconfirmed": { name: "listUnconfirmedWrites", summary: "List writes whose effect was never seen" },
  "plugins.resume": {
    name: "resumeWrites",
    summary: "Allow the writes of plugins again",
    description: "Ends the stop of all writes: deliveries that waited for it continue."
  },
  "plugins.replay": { name: "replayEvents", summary: "Deliver a range of events again" },
  "deadletters.list": { name: "listDeadLetters", summary: "List the dead letters" },
  "deadletters.show": { name: "getDeadLetter", summary: "Get a dead letter" },
  "deadletters.plan": { name: "planRedrive", summary: "Count the dead letters of a filter" },
  "deadletters.redrive": { name: "redriveDeadLetters", summary: "Deliver planned dead letters again" },
  "deadletters.progress": { name: "getRedriveProgress", summary: "Count how far redriven dead letters are" },
  "deadletters.discard": { name: "discardDeadLetters", summary: "Discard planned dead letters" },
  "deadletters.resolve": { name: "resolveOutcome", summary: "Record the outcome of a write" },
  "forget.list": { name: "listForgottenRecords", summary: "List the forgotten records" },
  "forget.forget": { name: "forgetRecord", summary: "Forget a record" },
  "forget.plan": { name: "planForgetting", summary: "Count what forgetting a record would remove" },
  "forget.progress": { name: "getForgettingProgress", summary: "Get how far forgetting a record is" },
  "forget.allow": { name: "allowRecord", summary: "Let runs store a forgotten record again" },
  "audit.list": { name: "listCommands", summary: "List the commands of operators" },
  "audit.reads": { name: "listReads", summary: "List who read records" },
  "sessions.list": { name: "listSessions", summary: "List the sessions" },
  "sessions.endAll": { name: "endAllSessions", summary: "End all sessions" },
  "sessions.end": { name: "endSession", summary: "End a session" },
  "fleet.list": { name: "listProcesses", summary: "List the processes" },
  "streamDetail.detail": { name: "getStreamDetail", summary: "Get a stream in detail" },
  "streamDetail.runs": { name: "listRuns", summary: "List the runs of a stream" },
  "overview.show": { name: "getOverview", summary: "Get or stream the state of the installation" },
  "overview.streams": { name: "searchStreams", summary: "Search and sort the streams" },
  "overview.history": { name: "getHistory", summary: "List the samples of the last day" },
  "health.live": {
    name: "getLiveness",
    summary: "Liveness",
    description: "Responds as long as the process can respond."
  },
  "health.ready": {
    name: "getReadiness",
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
export const parameters: Readonly<Record<string, Json>> = {
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

/** The descriptions of a response that is a document or a stream, whichever the request accepts. */
export const streamed: Readonly<
  Record<string, { readonly response: string; readonly events: string; readonly example: string }>
> = {
  "feed.events": {
    response: "A page of events. With `Accept: text/event-stream`: the same events as a stream that does not end",
    events:
      "Server-sent events. `id` is the position, `event` the kind (`created`, `updated` or `deleted`), and `data` one event as JSON, with " +
      "the schema `Event`. Comments with an `id` keep the connection alive",
    example: ': connected\nid: k3v9-1-10481\n\nid: k3v9-1-10482\nevent: updated\ndata: {"specversion":"1.0", …}\n\n'
  },
  "overview.show": {
    response: "The state. With `Accept: text/event-stream`: each new state as a stream that does not end",
    events: "Server-sent events. `event` is `overview`, and `data` the state as JSON, with the schema `Overview`",
    example: 'event: overview\ndata: {"as_of":"2026-03-01T12:00:00.000Z", …}\n\n'
  }
}
