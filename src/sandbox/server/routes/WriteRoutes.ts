/**
 * The twelve writes over HTTP.
 *
 * Gotchas
 * - The body is read before the world advances to now: a slow upload is dated when it is complete.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { type WriteName, writeNames } from "../../../api/Writes.ts"
import { endpointOf } from "../Endpoints.ts"
import * as Middleware from "../Middleware.ts"
import type { SandboxState } from "../SandboxState.ts"
import * as RequestBody from "./RequestBody.ts"

export const layer = (state: SandboxState) =>
  HttpRouter.addAll(
    writeNames.map((name) =>
      Middleware.route(state, endpointOf(name), (integration) => handleWrite(state, name, integration))
    )
  )

/** The specification shows the responses of these writes without `warnings`. */
const withoutWarnings: ReadonlyArray<WriteName> = ["updateInterview"]

const handleWrite = Effect.fnUntraced(function*(state: SandboxState, name: WriteName, integration: string) {
  const body = yield* RequestBody.readJson
  const params = yield* HttpRouter.params
  yield* state.advanceToNow
  const { data, warnings } = yield* Effect.fromResult(state.world.write(integration, name, params, body))
  return { data, warnings: withoutWarnings.includes(name) ? null : warnings ?? [] }
})
