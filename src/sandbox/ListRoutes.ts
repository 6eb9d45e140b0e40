/**
 * The eleven lists over HTTP: hides query rules, paging and the warnings about what was ignored.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { type IncrementalModel, incrementalModels } from "../api/Lists.ts"
import { endpointOf } from "./Endpoints.ts"
import * as Gate from "./Gate.ts"
import { invalid } from "./Refusal.ts"
import { parse, texts } from "./Request.ts"
import type { Stage } from "./Stage.ts"

export const layer = (stage: Stage) =>
  HttpRouter.addAll(
    incrementalModels.map((model) =>
      Gate.route(stage, endpointOf(model), (integration) => answer(stage, model, integration))
    )
  )

const answer = Effect.fnUntraced(function*(stage: Stage, model: IncrementalModel, integration: string) {
  const unsupported = stage.account.unsupportedFilters(integration)
  const asked = yield* Effect.fromResult(parse(integration, model, yield* texts, unsupported, stage.cursorParameter))
  yield* stage.catchUp
  const page = stage.world.page(integration, model, asked.query, asked.pageSize, asked.cursor)
  if (page === "bad cursor") return yield* invalid(`${stage.cursorParameter} is not one that this list gave.`)
  const { next, results } = asked.nothing ? { next: null, results: [] } : page
  return {
    data: { next, results },
    warnings: asked.ignored.map((name) =>
      asked.nothing && unsupported.includes(name)
        ? `The integration does not support the filter "${name}", which therefore leaves nothing.`
        : `The parameter "${name}" means nothing here and was ignored.`
    )
  }
})
