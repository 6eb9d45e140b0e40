/** Handlers for sessions. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { formatTime } from "../../domain/Watermark.ts"
import { endSessions, Sessions } from "../access/Sessions.ts"
import { Api } from "../contract/Api.ts"
import { NotFound } from "../contract/Problem.ts"
import { CurrentCaller } from "../request/Caller.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "sessions",
  (handlers) =>
    handlers
      .handle("list", () =>
        Effect.gen(function*() {
          const { list } = yield* Sessions
          const caller = yield* CurrentCaller
          const items = (yield* list).map(({ address, expiresAt, id, lastRequestAt, scope, startedAt }) => ({
            id,
            right: scope,
            address,
            started_at: formatTime(startedAt),
            last_request_at: formatTime(lastRequestAt),
            expires_at: formatTime(expiresAt),
            current: id === caller?.session
          }))
          return { items, next: null }
        }))
      .handle("endAll", () => Effect.map(endSessions("all", {}), (ended) => ({ ended })))
      .handle("end", ({ params: { id } }) =>
        Effect.gen(function*() {
          const ended = yield* endSessions(id, { id })
          if (ended > 0) return { ended }
          return yield* new NotFound({ detail: "no open session has this id: GET /v1/sessions lists all of them" })
        }))
)
