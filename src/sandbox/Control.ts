/**
 * `/_sandbox`: what tests ask of the sandbox beside the API: the truth, single mutations, faults, the account's limits
 * and permissions, uploaded files, what was requested, and the API's own document.
 *
 * Gotchas
 * - It takes no key: the sandbox holds invented data and listens on loopback unless told otherwise.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Schema from "effect/Schema"
import { AccountSettings } from "./Account.ts"
import { documentOf } from "./Document.ts"
import { FaultSettings } from "./Faults.ts"
import { fileOf } from "./Files.ts"
import { isWorldModel } from "./Records.ts"
import { absent, invalid, Refusal } from "./Refusal.ts"
import { texts } from "./Request.ts"
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

/** Settings that are exchanged as a whole, and taken back. */
const settable = <A extends object>(
  path: `/${string}`,
  schema: Schema.Codec<A, unknown>,
  set: (settings: A | {}) => void
) => [
  HttpRouter.route(
    "PUT",
    path,
    answered(Effect.map(body(schema), (settings) => {
      set(settings)
      return json(settings)
    }))
  ),
  HttpRouter.route(
    "DELETE",
    path,
    Effect.sync(() => {
      set({})
      return json({})
    })
  )
]

export const layer = (stage: Stage) =>
  HttpRouter.addAll([
    HttpRouter.route(
      "GET",
      "/_sandbox/models/:model",
      answered(Effect.gen(function*() {
        const { model = "" } = yield* HttpRouter.params
        const { integration } = yield* texts
        if (!isWorldModel(model)) return yield* invalid(`There is no model "${model}".`)
        return json({ model, ...(yield* stage.truth(model, integration)) })
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
      answered(Effect.map(Effect.flatMap(body(Steering), (act) => stage.steer(act)), (done) => json(done)))
    ),
    ...settable("/_sandbox/faults", FaultSettings, (settings) => stage.faults.set(settings)),
    HttpRouter.route("GET", "/_sandbox/account", Effect.sync(() => json(stage.account.settings))),
    ...settable("/_sandbox/account", AccountSettings, (settings) => stage.account.set(settings)),
    HttpRouter.route(
      "GET",
      "/_sandbox/files/:integration/:id",
      answered(Effect.gen(function*() {
        const { id = "", integration = "" } = yield* HttpRouter.params
        const known = stage.world.integrations.some((known) => known.id === integration)
        const file = known ? fileOf(stage.world.site(integration).records, id) : null
        if (file === null) return yield* absent("There is no such file.")
        return HttpServerResponse.uint8Array(file.bytes, { contentType: file.contentType })
      }))
    ),
    HttpRouter.route(
      "GET",
      "/_sandbox/openapi.json",
      Effect.gen(function*() {
        const { headers } = yield* HttpServerRequest.HttpServerRequest
        return json(yield* documentOf(stage, `http://${headers["host"]}/v1`))
      })
    ),
    HttpRouter.route("GET", "/_sandbox/requests", Effect.sync(() => json({ requests: stage.requests })))
  ])
