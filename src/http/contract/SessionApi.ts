/** The contract of the operating API for sessions. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Schema from "effect/Schema"
import { NotFound } from "./Problem.ts"
import { page, words } from "./Schemas.ts"

const SessionView = Schema.Struct({
  id: Schema.String.annotate({ description: "Names the session; it is not the secret in the cookie" }),
  right: Schema.Literals(["read", "operate"]),
  address: Schema.String.annotate({
    description: "Where the user signed in; behind a proxy, the address of the proxy"
  }),
  started_at: Schema.String,
  last_request_at: Schema.String,
  expires_at: Schema.String.annotate({ description: "When the session ends without a further request" }),
  current: Schema.Boolean.annotate({ description: "Whether this request belongs to the session" })
}).annotate({ identifier: "Session" })
export type SessionView = typeof SessionView.Type

const Ended = Schema.Struct({ ended: Schema.Int.annotate({ description: "Number of sessions that were ended" }) })
  .annotate({ identifier: "EndedSessions" })

export const sessions = HttpApiGroup.make("sessions").add(
  HttpApiEndpoint.get("list", "/v1/sessions", { success: page(SessionView) }).annotateMerge(
    words(
      "listSessions",
      "List the sessions",
      "Lists the sessions that are open in any process, those with the oldest last request first."
    )
  ),
  HttpApiEndpoint.delete("endAll", "/v1/sessions", { success: Ended }).annotateMerge(words(
    "endAllSessions",
    "End all sessions",
    "Ends every session in every process, including the session of this request. Their streams of events end a few seconds later."
  )),
  HttpApiEndpoint.delete("end", "/v1/sessions/:id", {
    params: { id: Schema.String },
    success: Ended,
    error: NotFound
  }).annotateMerge(words(
    "endSession",
    "End a session",
    "Ends one session. Its streams of events end a few seconds later."
  ))
)
