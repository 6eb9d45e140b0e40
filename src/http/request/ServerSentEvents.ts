/** Responses that are streams of server-sent events. */
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type * as Stream from "effect/Stream"

/**
 * Whether the client wants a stream of events in place of one response. `accept`: the header of the request. The handlers and the limit on
 * streams (`RequestLimits.ts`) decide by the same rule.
 */
export const wantsEvents = (accept: string | undefined): boolean => accept?.includes("text/event-stream") === true

/** The header `x-accel-buffering` keeps a proxy from holding events back. */
export const eventResponse = <E>(events: Stream.Stream<Uint8Array, E>): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.stream(events, {
    contentType: "text/event-stream; charset=utf-8",
    headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
  })
