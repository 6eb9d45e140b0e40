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
import { type Overview, overview } from "./Overview.ts"
import { Picture } from "./Picture.ts"
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

const find = (key: StreamKey, { streams }: Overview) => {
  const view = streams.find(({ stream }) => stream === streamName(key))
  return view === undefined ? Effect.fail(notFound(key)) : Effect.succeed(view)
}

/** The stream as it is now; fails within a second where the store does not answer. */
export const viewOf = (key: StreamKey) =>
  Effect.flatMap(Picture, ({ overview }) => overview).pipe(
    Effect.flatMap(({ stale, value }) => stale === null ? Effect.succeed(value) : Effect.fail(stale)),
    Effect.catchTag("StoreError", Feed.orStoreAway),
    Effect.flatMap((all) => find(key, all))
  )

const done = Effect.fnUntraced(function*(key: StreamKey, act: Act) {
  const { operate } = yield* Capture
  yield* operate(key, act).pipe(
    Effect.catchTags({
      ActRefused: ({ hint, message }: ActRefused) => Effect.fail(new NotNow({ detail: message, hint })),
      UnknownStream: () => Effect.fail(notFound(key)),
      StoreError: (error: StoreError) => Feed.orStoreAway(error)
    })
  )
  return yield* find(key, yield* Effect.catchTag(overview, "StoreError", Feed.orStoreAway))
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
