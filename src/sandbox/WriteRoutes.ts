/**
 * The twelve writes over HTTP.
 *
 * Gotchas
 * - The body is read before the world moves on to now: a slow upload is dated when it is complete.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { type WriteName, writeNames } from "../api/Writes.ts"
import * as Body from "./Body.ts"
import { endpointOf } from "./Endpoints.ts"
import * as Gate from "./Gate.ts"
import type { Stage } from "./Stage.ts"

export const layer = (stage: Stage) =>
  HttpRouter.addAll(
    writeNames.map((name) => Gate.route(stage, endpointOf(name), (integration) => answer(stage, name, integration)))
  )

/** The specification shows these answers without `warnings`. */
const silent: ReadonlyArray<WriteName> = ["updateInterview"]

const answer = Effect.fnUntraced(function*(stage: Stage, name: WriteName, integration: string) {
  const body = yield* Body.json
  const params = yield* HttpRouter.params
  yield* stage.catchUp
  const { data, warnings } = yield* Effect.fromResult(stage.world.write(integration, name, params, body))
  return { data, warnings: silent.includes(name) ? null : warnings ?? [] }
})
