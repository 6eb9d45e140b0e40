/**
 * The eleven lists over HTTP. Hides query rules, paging and the warnings about ignored parameters.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { type IncrementalModel, incrementalModels } from "../../../api/Lists.ts"
import { invalidInput } from "../../ApiError.ts"
import { endpointOf } from "../Endpoints.ts"
import * as Middleware from "../Middleware.ts"
import type { SandboxState } from "../SandboxState.ts"
import { parseListRequest, queryParameters } from "./ListRequest.ts"

export const layer = (state: SandboxState) =>
  HttpRouter.addAll(
    incrementalModels.map((model) =>
      Middleware.route(state, endpointOf(model), (integration) => handleList(state, model, integration))
    )
  )

const handleList = Effect.fnUntraced(function*(state: SandboxState, model: IncrementalModel, integration: string) {
  const unsupported = state.account.unsupportedFilters(integration)
  const listRequest = yield* Effect.fromResult(
    parseListRequest(integration, model, yield* queryParameters, unsupported, state.cursorParameter)
  )
  yield* state.advanceToNow
  const page = state.world.page(integration, model, listRequest.query, listRequest.pageSize, listRequest.cursor)
  if (page === "bad cursor") return yield* invalidInput(`${state.cursorParameter} was not issued by this list.`)
  const { next, results } = listRequest.matchesNothing ? { next: null, results: [] } : page
  return {
    data: { next, results },
    warnings: listRequest.ignoredParameters.map((name) =>
      listRequest.matchesNothing && unsupported.includes(name)
        ? `The integration does not support the filter "${name}", so the list is empty.`
        : `The parameter "${name}" is unknown here and was ignored.`
    )
  }
})
