/**
 * `/_sandbox`: what tests ask of the sandbox beside the API: the truth, single mutations, faults, what was requested.
 *
 * Gotchas
 * - It takes no key: the sandbox holds invented data and listens on loopback unless told otherwise.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Schema from "effect/Schema"
import { FaultSettings } from "./Faults.ts"
import { isWorldModel } from "./Records.ts"
import { invalid, Refusal } from "./Refusal.ts"
import type { Stage } from "./Stage.ts"
import { Steering } from "./Steering.ts"

const json = HttpServerResponse.jsonUnsafe

const answered = <E, R>(effect: Effect.Effect<HttpServerResponse.HttpServerResponse, E | Refusal, R>) =>
  Effect.catch(
    effect,
    (error) => error instanceof Refusal ? Effect.succeed(error.response) : Effect.fail(error as Exclude<E, Refusal>)
  )

/** The body, or a refusal that says what is wrong with it. */
const body = <A>(schema: Schema.Codec<A, unknown>) =>
  HttpServerRequest.schemaBodyJson(schema).pipe(Effect.mapError((error) => invalid(error.message)))

export const layer = (stage: Stage) =>
  HttpRouter.addAll([
    HttpRouter.route(
      "GET",
      "/_sandbox/models/:model",
      answered(Effect.gen(function*() {
        const { model = "" } = yield* HttpRouter.params
        const { integration } = yield* HttpServerRequest.ParsedSearchParams
        if (!isWorldModel(model)) return yield* invalid(`There is no model "${model}".`)
        const chosen = stage.world.integrations.find(({ id, models }) =>
          integration === undefined ? models.includes(model) : id === integration
        )
        if (chosen === undefined) return yield* invalid(`There is no integration "${integration}".`)
        yield* stage.catchUp
        return json({ integration: chosen.id, model, records: [...stage.world.truth(chosen.id, model).values()] })
      }))
    ),
    HttpRouter.route(
      "GET",
      "/_sandbox/mutations",
      Effect.map(stage.catchUp, () => json({ counts: stage.world.mutations, latest: stage.world.log.slice(-1000) }))
    ),
    HttpRouter.route(
      "POST",
      "/_sandbox/mutations",
      answered(Effect.gen(function*() {
        const act = yield* body(Steering)
        yield* stage.catchUp
        const done = stage.world.steer(act)
        return "refused" in done ? yield* invalid(done.refused) : json(done)
      }))
    ),
    HttpRouter.route(
      "PUT",
      "/_sandbox/faults",
      answered(Effect.map(body(FaultSettings), (settings) => {
        stage.faults.set(settings)
        return json(settings)
      }))
    ),
    HttpRouter.route(
      "DELETE",
      "/_sandbox/faults",
      Effect.sync(() => {
        stage.faults.set({})
        return json({})
      })
    ),
    HttpRouter.route("GET", "/_sandbox/requests", Effect.sync(() => json({ requests: stage.requests })))
  ])
