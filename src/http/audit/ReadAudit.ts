/**
 * The middleware of the API that notes in the audit log which endpoints were used to read records.
 *
 * Gotchas
 * - A stream of events is noted as one request in each hour in which it sends an event.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpBody from "effect/http/HttpBody"
import * as HttpRouter from "effect/http/HttpRouter"
import { ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { CurrentActor } from "../../store/Operators.ts"
import { ReadAudit, ShowsRecords } from "../contract/ReadAudit.ts"
import { hourOf, type Named, ReadLog } from "./ReadLog.ts"

/** The value of a parameter; undefined if it is given several times or not at all. */
const only = (values: string | ReadonlyArray<string> = []): string | undefined => {
  const [first, ...others] = new Set([values].flat().flatMap((text) => text.split(",")))
  return others.length === 0 ? first : undefined
}

const namedBy = Effect.gen(function*() {
  const params = yield* HttpRouter.params
  const query = yield* ParsedSearchParams
  const named: Named = {
    integration: params["integration"] ?? only(query["integration"]),
    model: params["model"] ?? only(query["model"])
  }
  return named
})

/** Notes each hour after `hour` before a stream sends an event in that hour. */
const noteLaterHours = (
  response: HttpServerResponse.HttpServerResponse,
  hour: number,
  note: Effect.Effect<void>
): HttpServerResponse.HttpServerResponse => {
  const { body } = response
  if (body._tag !== "Stream") return response
  let noted = hour
  const noteHour = Effect.flatMap(Clock.currentTimeMillis, (now) => {
    if (hourOf(now) === noted) return Effect.void
    noted = hourOf(now)
    return note
  })
  return HttpServerResponse.setBody(
    response,
    HttpBody.stream(Stream.tap(body.stream, () => noteHour), body.contentType, body.contentLength)
  )
}

export const layer: Layer.Layer<ReadAudit, never, ReadLog> = Layer.effect(
  ReadAudit,
  Effect.map(
    ReadLog,
    ({ noteRead }) => (handler, { endpoint: { annotations, path } }) =>
      Context.get(annotations, ShowsRecords)
        ? Effect.gen(function*() {
          const response = yield* handler
          if (response.status >= 300) return response
          const actor = yield* CurrentActor
          const note = Effect.provideService(noteRead(path, yield* namedBy), CurrentActor, actor)
          const hour = hourOf(yield* Clock.currentTimeMillis)
          yield* note
          return noteLaterHours(response, hour, note)
        })
        : handler
  )
)
