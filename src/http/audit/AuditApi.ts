/** The contract of the operating API for the audit log: the commands of operators. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { StoreUnavailable } from "../Problem.ts"
import { Limit, page, PositiveInt } from "../Schemas.ts"

const AuditEntryView = Schema.Struct({
  id: Schema.Number,
  at: Schema.String,
  command: Schema.String,
  target: Schema.String.annotate({ description: "The stream, hold, plugin … that the command was applied to" }),
  detail: Schema.String,
  actor: Schema.NullOr(Schema.String).annotate({
    description:
      "`operate token`, `session` or `no token`; with ` (cli)` if the client calls itself the rollcall command; " +
      "`process` without a request; null in entries of earlier versions"
  }),
  address: Schema.NullOr(Schema.String).annotate({
    description: "The address of the connection; behind a proxy, that of the proxy"
  })
}).annotate({
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

export const audit = HttpApiGroup.make("audit").add(
  HttpApiEndpoint.get("list", "/v1/audit", {
    query: { after: Schema.optionalKey(PositiveInt), limit: Schema.optionalKey(Limit) },
    success: page(AuditEntryView),
    error: StoreUnavailable
  }).annotate(OpenApi.Description, "Lists the commands of operators, newest first, and who sent them.")
)
