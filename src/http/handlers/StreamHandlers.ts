/** Handlers for streams: their state, and commands. Refusals become problem responses. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Layer from "effect/Layer"
import { Commands } from "../../capture/command/Commands.ts"
import type { StreamCommand } from "../../capture/schedule/StreamCommands.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { similarName } from "../../domain/ClosestName.ts"
import { type StreamKey, streamName } from "../../domain/Model.ts"
import { formatTime } from "../../domain/Watermark.ts"
import type { BudgetUsage } from "../../source/RequestBudget.ts"
import type { StreamQuery } from "../../store/State.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { Api } from "../contract/Api.ts"
import { NotFound, SourceUnavailable, toConflict } from "../contract/Problem.ts"
import { conditionOf, defaultIntervals, isUnknown } from "../matters/StreamConditions.ts"
import { toCallProblem } from "../request/FailureResponses.ts"
import { OverviewCache } from "../status/OverviewCache.ts"
import { type StreamPage, streamPage } from "../status/StoreOverview.ts"
import { detailOf, runsOf } from "./StreamDetail.ts"

const defaultLimit = 100

const notFound = Effect.fnUntraced(function*(key: StreamKey) {
  const { integration, model } = key
  const from = (yield* CurrentModels).derivedOf(model)?.from
  if (from === undefined) {
    return yield* new NotFound({
      detail: `stream ${streamName(key)} does not exist: \`rollcall streams list\` or GET /v1/streams lists the streams`
    })
  }
  return yield* new NotFound({
    detail: `${model} is not read but derived from ${from}: use stream ${streamName({ integration, model: from })}`
  })
})

/** Selects one stream. */
const only = ({ integration, model }: StreamKey): StreamQuery => ({
  integrations: [integration],
  models: [model],
  limit: 1
})

const find = (key: StreamKey, { items: [view] }: StreamPage) =>
  view === undefined ? notFound(key) : Effect.succeed(view)

/** The current state of the stream. Fails within a second if the store does not answer. */
const viewOf = (key: StreamKey) =>
  Effect.flatMap(OverviewCache, ({ streams }) => streams(only(key))).pipe(
    Effect.flatMap(({ stale, value }) => stale === null ? Effect.succeed(value) : Effect.fail(stale)),
    Effect.flatMap((page) => find(key, page))
  )

const afterName = (name: string): StreamQuery["after"] => {
  const [integration = "", model = ""] = name.split("/")
  return { integration, model }
}

const runCommand = Effect.fnUntraced(function*(key: StreamKey, command: StreamCommand) {
  const { execute } = yield* Commands
  const now = yield* Clock.currentTimeMillis
  yield* execute({ key, command }).pipe(
    Effect.catchTags({
      CallError: toCallProblem,
      CommandRefused: toConflict,
      UnknownStream: () => notFound(key)
    })
  )
  const store = yield* Store
  const [page, state] = yield* Effect.all([streamPage(only(key)), store.stream(key)])
  const view = yield* find(key, page)
  // the process that reads the stream may have another clock
  return { ...view, accepted_at: formatTime(state?.commandedAt ?? now) }
})

const toSourceUnavailable = ({ message }: Error) => new SourceUnavailable({ detail: message })

const streams = HttpApiBuilder.group(Api, "streams", (handlers) =>
  handlers
    .handle("streams", ({ query: { after, integration, limit = defaultLimit, model } }) =>
      Effect.flatMap(OverviewCache, ({ streams }) =>
        streams({
          integrations: integration,
          models: model,
          limit,
          ...after === undefined ? {} : { after: afterName(after) }
        })).pipe(
          Effect.map(({ at, value: { items, next } }) => ({ items, next, as_of: formatTime(at) }))
        ))
    .handle("stream", ({ params }) =>
      viewOf(params)))

const commands = HttpApiBuilder.group(Api, "streamCommands", (handlers) =>
  handlers
    .handle("command", ({ params: { command, ...key } }) => runCommand(key, { kind: command }))
    .handle("rewind", ({ params, payload }) => runCommand(params, { kind: "rewind", to: payload.to }))
    .handle("audit", ({ params }) =>
      Effect.flatMap(Commands, ({ audit }) => audit(params)).pipe(
        Effect.map((report) => ({ stream: streamName(params), ...report })),
        Effect.catchTags({
          UnknownStream: () => notFound(params),
          CallError: toCallProblem,
          CommandRefused: toConflict,
          SourceError: toSourceUnavailable,
          RunAborted: toSourceUnavailable
        })
      )))

/** `usageOf`: null if this process does not know the account. */
const detail = (usageOf: (account: string) => Effect.Effect<BudgetUsage | null, StoreError>) =>
  HttpApiBuilder.group(
    Api,
    "streamDetail",
    (handlers) =>
      handlers.handle("detail", ({ params }) =>
        Effect.gen(function*() {
          const store = yield* Store
          const view = yield* viewOf(params)
          const state = (yield* store.stream(params)) ?? (yield* notFound(params))
          const integration = yield* store.integration(params.integration)
          const intervals = integration === null ? defaultIntervals : {
            interval_seconds: integration.interval / 1_000,
            sweep_interval_seconds: integration.sweepInterval / 1_000
          }
          const meant = isUnknown(view)
            ? similarName(
              params.integration,
              (yield* store.integrations).flatMap(({ id, state }) => state === "active" ? [id] : [])
            )
            : null
          return detailOf(conditionOf(view, intervals), state, yield* usageOf(state.account), meant)
        }))
        .handle("runs", ({ params }) =>
          Effect.gen(function*() {
            const store = yield* Store
            const state = yield* store.stream(params)
            if (
              state === null || state.retired === true || (yield* CurrentModels).derivedOf(params.model) !== undefined
            ) return yield* notFound(params)
            return runsOf(state, yield* store.runs(params))
          }))
  )

export const layer = (usageOf: (account: string) => Effect.Effect<BudgetUsage | null, StoreError>) =>
  Layer.mergeAll(streams, commands, detail(usageOf))
