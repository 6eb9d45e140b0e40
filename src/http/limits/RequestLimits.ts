/**
 * Limits on one request: the size of its body, and the number of readers that follow the event log.
 *
 * Gotchas
 * - A reader is counted until its response is closed. Node.js reports that even if the event stream never started.
 * - A request without a token is refused and not counted as a reader. Otherwise such requests could use up the limit.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as ByteSize from "effect/ByteSize"
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { MaxBodySize } from "effect/http/HttpIncomingMessage"
import { HttpServerError } from "effect/http/HttpServerError"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { PayloadTooLarge, TooManyReaders } from "../contract/Problem.ts"
import { CurrentCaller } from "../request/Caller.ts"
import { wantsEvents } from "../request/ServerSentEvents.ts"
import { type Limits, retryAfter } from "./Limits.ts"

/** Whether reading the body failed because of its size. */
export const isTooLarge = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) => {
    const error = reason._tag === "Die" ? reason.defect : reason._tag === "Fail" ? reason.error : null
    return error instanceof HttpServerError && error.reason._tag === "RequestParseError" &&
      error.reason.reason === "BodyTooLarge"
  })

/** Refuses the request. The rest of the body is not read, so the connection cannot be used again. */
export const respondTooLarge = (limit: number) =>
  Effect.map(
    HttpServerRespondable.toResponse(
      new PayloadTooLarge({
        detail: `the body is larger than ${limit / 1024} KiB`,
        hint: "send less data in one request"
      })
    ),
    HttpServerResponse.setHeader("connection", "close")
  )

const tooManyReaders = (limit: number) =>
  Effect.map(
    HttpServerRespondable.toResponse(
      new TooManyReaders({
        detail: `${limit} readers already follow the event log`,
        hint: "read pages of GET /v1/events without `Accept: text/event-stream`, or try again"
      })
    ),
    HttpServerResponse.setHeader("retry-after", retryAfter)
  )

/** Makes the middleware. */
export const make = ({ bodyBytes, eventReaders }: Limits) => {
  const maxBody = ByteSize.fromInputUnsafe(bodyBytes)
  let readers = 0
  const follows = ({ headers, method }: HttpServerRequest): boolean =>
    method === "GET" && wantsEvents(headers["accept"])

  return Effect.fnUntraced(function*<E, R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) {
    const request = yield* HttpServerRequest
    if (Number(request.headers["content-length"] ?? 0) > bodyBytes) return yield* respondTooLarge(bodyBytes)
    if ((yield* CurrentCaller) !== null && follows(request)) {
      if (readers >= eventReaders) return yield* tooManyReaders(eventReaders)
      const response = NodeHttpServerRequest.toServerResponse(request)
      if (!response.closed) {
        readers += 1
        response.once("close", () => readers -= 1)
      }
    }
    return yield* Effect.provideService(handler, MaxBodySize, maxBody)
  })
}
