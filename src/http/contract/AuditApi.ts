/** The contract of the operating API for the audit log: the commands of operators, and who read records. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Schema from "effect/Schema"
import { Limit, page, PositiveInt, words } from "./Schemas.ts"

/** These ids may exceed 32 bits: PostgreSQL uses up an id even if the entry exists already. */
const EntryId = Schema.FiniteFromString.check(
  Schema.isInt(),
  Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
)

const AuditEntryView = Schema.Struct({
  id: Schema.Int,
  at: Schema.String,
  command: Schema.String,
  target: Schema.String.annotate({ description: "The stream, hold, plugin … that the command was applied to" }),
  detail: Schema.String,
  actor: Schema.String.annotate({
    description:
      "`operate token`, `session` or `no token`; with ` (cli)` if the client calls itself the rollcall command; " +
      "`process` without a request"
  }),
  address: Schema.NullOr(Schema.String).annotate({
    description: "The address of the connection; behind a proxy, that of the proxy"
  })
}).annotate({
  identifier: "AuditEntry",
  examples: [{
    id: 12,
    at: "2026-03-01T12:00:00.000Z",
    command: "streams.pause",
    target: "greenhouse:acme/ats.tag",
    detail: "",
    actor: "operate token (cli)",
    address: "127.0.0.1"
  }]
})
export type AuditEntryView = typeof AuditEntryView.Type

const AuditedReadsView = Schema.Struct({
  id: Schema.Int,
  hour: Schema.String.annotate({ description: "The start of the hour" }),
  route: Schema.String,
  target: Schema.String.annotate({
    description: "`<integration>/<model>`, as the request names it; `*` if it names none or several"
  }),
  actor: Schema.String.annotate({ description: "As in `GET /v1/audit`" }),
  address: Schema.String.annotate({
    description: "The address of the connection; behind a proxy, that of the proxy; `several` if there are too many"
  }),
  first_at: Schema.String
}).annotate({
  identifier: "AuditedReads",
  examples: [{
    id: 7,
    hour: "2026-03-01T12:00:00.000Z",
    route: "/v1/events",
    target: "greenhouse:acme/ats.application",
    actor: "read token",
    address: "192.0.2.7",
    first_at: "2026-03-01T12:00:03.000Z"
  }]
})
export type AuditedReadsView = typeof AuditedReadsView.Type

export const audit = HttpApiGroup.make("audit").add(
  HttpApiEndpoint.get("list", "/v1/audit", {
    query: { after: Schema.optionalKey(PositiveInt), limit: Schema.optionalKey(Limit) },
    success: page(AuditEntryView)
  }).annotateMerge(words(
    "listCommands",
    "List the commands of operators",
    "Lists the commands of operators, newest first, and who sent them."
  )),
  HttpApiEndpoint.get("reads", "/v1/audit/reads", {
    query: { after: Schema.optionalKey(EntryId), limit: Schema.optionalKey(Limit) },
    success: page(AuditedReadsView)
  }).annotateMerge(words(
    "listReads",
    "List who read records",
    "Lists who read records, newest first: one entry for the requests of an hour to one route, by one kind of caller, " +
      "from one address. Entries are kept for 90 days."
  ))
)
