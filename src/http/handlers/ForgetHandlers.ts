/** Handlers for forgetting records: plan, forget, list and allow them. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Commands } from "../../capture/command/Commands.ts"
import type { ForgettableRecord } from "../../domain/Forgotten.ts"
import { formatTime } from "../../domain/Watermark.ts"
import type { ForgottenRecord } from "../../store/Operators.ts"
import { Store } from "../../store/Store.ts"
import { Api } from "../contract/Api.ts"
import type { ForgottenView } from "../contract/ForgetApi.ts"
import { NotFound, toNotFoundOrConflict } from "../contract/Problem.ts"
import { formatTimeOrNull } from "../contract/Schemas.ts"
import { toCallProblem } from "../request/FailureResponses.ts"

const viewOf = ({ doneAt, id, integration, model, progress, requestedAt, state }: ForgottenRecord): ForgottenView => ({
  integration,
  model,
  id,
  state,
  requested_at: formatTime(requestedAt),
  done_at: formatTimeOrNull(doneAt),
  progress
})

const isSame = (one: ForgottenRecord, { id, integration, model }: ForgettableRecord): boolean =>
  one.integration === integration && one.model === model && one.id === id

const notForgotten = new NotFound({
  detail: "this record is neither forgotten nor being forgotten: `rollcall forget --list` shows all forgotten records"
})

const problems = {
  ForgettingRefused: toNotFoundOrConflict,
  CallError: toCallProblem
}

export const layer = HttpApiBuilder.group(Api, "forget", (handlers) =>
  handlers
    .handle("list", () =>
      Effect.map(
        Effect.flatMap(Store, ({ forgotten }) => forgotten),
        (records) => ({ items: records.map(viewOf), next: null })
      ))
    .handle("plan", ({ payload }) =>
      Effect.flatMap(Commands, ({ plan }) => plan(payload)).pipe(
        Effect.map(({ hash, ...counts }) => ({ plan: hash, ...counts })),
        Effect.catchTags(problems)
      ))
    .handle("forget", ({ payload: { plan, ...record } }) =>
      Effect.flatMap(Commands, ({ forget }) =>
        forget({ record, plan })).pipe(
          Effect.map(viewOf),
          Effect.catchTags(problems)
        ))
    .handle("progress", ({ payload }) =>
      Effect.flatMap(Store, ({ forgotten }) =>
        forgotten).pipe(
          Effect.map((records) => records.find((one) => isSame(one, payload))),
          Effect.flatMap((found) => found === undefined ? Effect.fail(notForgotten) : Effect.succeed(viewOf(found)))
        ))
    .handle("allow", ({ payload }) =>
      Effect.flatMap(Commands, ({ allow }) =>
        allow(payload)).pipe(Effect.catchTags(problems))))
