/**
 * Reads the JSON body of a request, within limits of media type, size and nesting; each violation is the client's error.
 *
 * Gotchas
 * - A body that is nested deeper than `maxDepth` is rejected, because a recursive walk would overflow the stack.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import { largestBodyBytes } from "../../../api/Attachments.ts"
import { type ApiError, invalidInput } from "../../world/ApiError.ts"

const maxDepth = 100

const mediaType = /^application\/(?:[\w.+-]+\+)?json\s*(?:;\s*charset=(?:"?utf-?8"?)\s*)?$/i
const utf8 = new TextDecoder("utf-8", { fatal: true })

/** The body's JSON value, or the error that rejects it: 413 if the body is too large, else 400. */
export const readJson: Effect.Effect<unknown, ApiError, HttpServerRequest.HttpServerRequest> = Effect.gen(function*() {
  const request = yield* HttpServerRequest.HttpServerRequest
  if (!mediaType.test(request.headers["content-type"] ?? "")) {
    return yield* invalidInput("Send a JSON body with `Content-Type: application/json`.")
  }
  const bytes = yield* request.arrayBuffer.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(largestBodyBytes)),
    Effect.mapError(({ reason }) =>
      "reason" in reason && reason.reason === "BodyTooLarge" ? tooLarge : invalidInput("The body is incomplete.")
    )
  )
  const value = yield* Effect.try({
    try: (): unknown => JSON.parse(utf8.decode(bytes)),
    catch: () => invalidInput("The body is not JSON.")
  })
  return depthOf(value) > maxDepth ? yield* invalidInput(`The body is nested deeper than ${maxDepth} levels.`) : value
})

const tooLarge = invalidInput(`The body is larger than ${largestBodyBytes / 1024 / 1024} MiB.`, 413)

/** Levels of nesting; counting stops one level above the limit. */
const depthOf = (value: unknown): number => {
  let level: ReadonlyArray<unknown> = [value]
  for (let depth = 0;; depth++) {
    level = level.flatMap((value) => typeof value === "object" && value !== null ? Object.values(value) : [])
    if (level.length === 0 || depth > maxDepth) return depth
  }
}
