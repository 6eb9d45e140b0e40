/** The acts on streams over HTTP: what an operator asks for is done by capture, refusals become problems. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Capture } from "../capture/Capture.ts"
import type { Act, ActRefused } from "../capture/Operation.ts"
import { derivedRegistry, isDerived, type StreamKey, streamName } from "../domain/Model.ts"
import type { StoreError } from "../store/Store.ts"
import { Api } from "./Api.ts"
import * as Feed from "./Feed.ts"
import { overview } from "./Overview.ts"
import { NotFound, NotNow, SourceAway } from "./Problem.ts"

const notFound = (key: StreamKey): NotFound => {
  const { integration, model } = key
  if (!isDerived(model)) {
    return new NotFound({
      detail: `there is no stream ${streamName(key)}: rollcall streams list, or GET /v1/streams, shows them`
    })
  }
  const { from } = derivedRegistry[model]
  return new NotFound({
    detail: `${model} is not read, it is derived from ${from}: ask for ${streamName({ integration, model: from })}`
  })
}

/** The stream as it is now. */
export const viewOf = Effect.fnUntraced(function*(key: StreamKey) {
  const stream = streamName(key)
  const { streams } = yield* Effect.catchTag(overview, "StoreError", Feed.orStoreAway)
  const view = streams.find((view) => view.stream === stream)
  return view ?? (yield* notFound(key))
})

const done = Effect.fnUntraced(function*(key: StreamKey, act: Act) {
  const { operate } = yield* Capture
  yield* operate(key, act).pipe(
    Effect.catchTags({
      ActRefused: ({ hint, message }: ActRefused) => Effect.fail(new NotNow({ detail: message, hint })),
      UnknownStream: () => Effect.fail(notFound(key)),
      StoreError: (error: StoreError) => Feed.orStoreAway(error)
    })
  )
  return yield* viewOf(key)
})

export const layer = HttpApiBuilder.group(Api, "operation", (handlers) =>
  handlers
    .handle("act", ({ params: { act, ...key } }) => done(key, { act }))
    .handle("rewind", ({ params, payload }) => done(params, { act: "rewind", to: DateTime.toEpochMillis(payload.to) }))
    .handle("audit", ({ params }) =>
      Effect.gen(function*() {
        const { audit } = yield* Capture
        const report = yield* audit(params).pipe(
          Effect.catchTags({
            UnknownStream: () => Effect.fail(notFound(params)),
            StoreError: (error) => Feed.orStoreAway(error),
            SourceError: (error) => Effect.fail(new SourceAway({ detail: error.message })),
            ReadingAborted: (error) => Effect.fail(new SourceAway({ detail: error.message }))
          })
        )
        return { stream: streamName(params), ...report }
      })))
