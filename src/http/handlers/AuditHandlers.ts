/** Handlers for the audit log. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { formatTime } from "../../domain/Watermark.ts"
import { Store } from "../../store/Store.ts"
import { Api } from "../contract/Api.ts"
import { pageOf } from "../contract/Schemas.ts"

const defaultLimit = 100

export const layer = HttpApiBuilder.group(
  Api,
  "audit",
  (handlers) =>
    handlers
      .handle("list", ({ query: { after, limit = defaultLimit } }) =>
        Effect.gen(function*() {
          const { auditLog } = yield* Store
          const entries = yield* auditLog(limit, after)
          return pageOf(entries.map((entry) => ({ ...entry, at: formatTime(entry.at) })), limit)
        }))
      .handle("reads", ({ query: { after, limit = defaultLimit } }) =>
        Effect.gen(function*() {
          const { auditedReads } = yield* Store
          const entries = yield* auditedReads(limit, after)
          const views = entries.map(({ firstAt, period, ...entry }) => ({
            ...entry,
            hour: formatTime(period),
            first_at: formatTime(firstAt)
          }))
          return pageOf(views, limit)
        }))
)
