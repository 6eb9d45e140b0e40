/**
 * Handlers for integrations: list, add and remove them.
 *
 * Gotchas
 * - The body of an addition is not decoded by its schema, because a schema reports only the first fault. It is checked like
 *   the configuration, which reports all faults and lists the known names.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Result from "effect/Result"
import { Commands } from "../../capture/command/Commands.ts"
import type { DataPolicy, IntegrationSettings } from "../../capture/schedule/Integrations.ts"
import type { IntegrationState } from "../../store/State.ts"
import { Api } from "../contract/Api.ts"
import { type Fault, IntegrationInvalid, toConflict, toNotFoundOrConflict } from "../contract/Problem.ts"
import { toCallProblem } from "../request/FailureResponses.ts"
import { storeOverview, viewOfIntegration } from "../status/StoreOverview.ts"

/** Turns a request body into the settings of an integration, or returns every fault of the body. */
export type IntegrationValidator = (
  body: unknown
) => Result.Result<IntegrationSettings, { readonly faults: ReadonlyArray<Fault> }>

const invalid = (faults: ReadonlyArray<Fault>) =>
  new IntegrationInvalid({
    detail: `the body has ${faults.length === 1 ? "an error" : `${faults.length} errors`}`,
    faults
  })

const notJson: Fault = {
  where: "body",
  message: "is not JSON",
  hint: "Send an object with Content-Type: application/json"
}

const viewOf = Effect.fnUntraced(function*(integration: IntegrationState) {
  const [view] = yield* viewOfIntegration(integration)
  return view ??
    (yield* Effect.die(new Error(`the response cannot show ${integration.id}, because the request has erased it`)))
})

const add = (check: IntegrationValidator) =>
  Effect.gen(function*() {
    const commands = yield* Commands
    const request = yield* HttpServerRequest
    const text = yield* Effect.orDie(request.text)
    const body = yield* Effect.try({ try: (): unknown => JSON.parse(text), catch: () => invalid([notJson]) })
    const settings = check(body)
    if (Result.isFailure(settings)) return yield* invalid(settings.failure.faults)
    return yield* Effect.flatMap(commands.add(settings.success), viewOf)
  }).pipe(
    Effect.catchTags({ CallError: toCallProblem, IntegrationRefused: toConflict })
  )

const remove = (id: string, data: DataPolicy) =>
  Effect.flatMap(Commands, (commands) => commands.remove({ id, data })).pipe(
    Effect.flatMap(viewOf),
    Effect.catchTags({
      IntegrationRefused: toNotFoundOrConflict,
      CallError: toCallProblem
    })
  )

export const layer = (check: IntegrationValidator) =>
  HttpApiBuilder.group(Api, "integrations", (handlers) =>
    handlers
      .handle("list", () =>
        storeOverview.pipe(
          Effect.map(({ integrations }) => ({ items: integrations, next: null }))
        ))
      .handleRaw("add", () => add(check))
      .handle("remove", ({ params: { id }, payload: { data } }) => remove(id, data)))
