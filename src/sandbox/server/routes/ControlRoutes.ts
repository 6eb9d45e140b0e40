/**
 * `/_sandbox`: the endpoints that tests use besides the API: current records, single mutations, faults, the account's limits
 * and permissions, uploaded files, the request log, and the OpenAPI document.
 *
 * Gotchas
 * - These endpoints take no key: the data of the sandbox is invented, and by default the sandbox listens on loopback only.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Schema from "effect/Schema"
import { cursorParameter } from "../../../api/Lists.ts"
import { invalidInput, notFound } from "../../world/ApiError.ts"
import { readAttachment } from "../../world/Attachments.ts"
import { exampleIdsOf } from "../../world/ExampleIds.ts"
import { MutationRequest } from "../../world/Mutations.ts"
import { isWorldModel } from "../../world/Records.ts"
import { AccountSettings } from "../Account.ts"
import { FaultSettings } from "../FaultInjection.ts"
import { toErrorResponse } from "../Middleware.ts"
import type { SandboxState } from "../SandboxState.ts"
import { queryParameters } from "./ListRequest.ts"

/** A route that responds with JSON. */
const jsonRoute = <E, R>(
  method: "GET" | "POST" | "PUT" | "DELETE",
  path: `/${string}`,
  value: Effect.Effect<object, E, R>
) => HttpRouter.route(method, path, toErrorResponse(Effect.map(value, (json) => HttpServerResponse.jsonUnsafe(json))))

/** The decoded body, or an error that explains its faults. */
const decodeBody = <A>(schema: Schema.Codec<A, unknown>) =>
  HttpServerRequest.schemaBodyJson(schema).pipe(Effect.mapError((error) => invalidInput(error.message)))

/** Two routes for one settings object: PUT replaces it, DELETE resets it. */
const settingsRoutes = <A extends object>(
  path: `/${string}`,
  schema: Schema.Codec<A, unknown>,
  set: (settings: A | {}) => void
) => [
  jsonRoute("PUT", path, Effect.tap(decodeBody(schema), (settings) => Effect.sync(() => set(settings)))),
  jsonRoute("DELETE", path, Effect.as(Effect.sync(() => set({})), {}))
]

export const layer = (state: SandboxState) =>
  HttpRouter.addAll([
    jsonRoute(
      "GET",
      "/_sandbox/models/:model",
      Effect.gen(function*() {
        const { model = "" } = yield* HttpRouter.params
        const { integration } = yield* queryParameters
        if (!isWorldModel(model)) return yield* invalidInput(`There is no model "${model}".`)
        return { model, ...(yield* state.truth(model, integration)) }
      })
    ),
    jsonRoute(
      "GET",
      "/_sandbox/mutations",
      Effect.map(state.advanceToNow, () => ({ counts: state.world.mutations, latest: state.world.log.slice(-1000) }))
    ),
    jsonRoute(
      "POST",
      "/_sandbox/mutations",
      Effect.flatMap(decodeBody(MutationRequest), (mutation) => state.mutate(mutation))
    ),
    ...settingsRoutes("/_sandbox/faults", FaultSettings, (settings) => state.faults.set(settings)),
    jsonRoute("GET", "/_sandbox/account", Effect.sync(() => state.account.settings)),
    ...settingsRoutes("/_sandbox/account", AccountSettings, (settings) => state.account.set(settings)),
    HttpRouter.route(
      "GET",
      "/_sandbox/files/:integration/:id",
      toErrorResponse(Effect.gen(function*() {
        const { id = "", integration = "" } = yield* HttpRouter.params
        const known = state.world.integrations.some((known) => known.id === integration)
        const file = known ? readAttachment(state.world.writeContext(integration).records, id) : null
        if (file === null) return yield* notFound("The file does not exist.")
        return HttpServerResponse.uint8Array(file.bytes, { contentType: file.contentType })
      }))
    ),
    jsonRoute(
      "GET",
      "/_sandbox/openapi.json",
      Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
        openApiDocument(state, `http://${headers["host"]}/v1`))
    ),
    jsonRoute("GET", "/_sandbox/requests", Effect.sync(() => ({ requests: state.requests })))
  ])

// ---- the OpenAPI document -----------------------------------------------------------------------------------------

type Json = Record<string, unknown>

/**
 * The contract's OpenAPI 3.1 document with this sandbox's address, cursor parameter and example ids. It is built on request, because the
 * contract takes long to load and most sandboxes never need the document. `url` ends in `/v1`.
 */
const openApiDocument = (state: SandboxState, url: string): Effect.Effect<Json> =>
  Effect.map(
    Effect.promise(() => Promise.all([import("effect/http-api/OpenApi"), import("../../../api/UnifiedHttpApi.ts")])),
    ([OpenApi, { UnifiedHttpApi }]) => {
      const { info, paths, ...rest } = OpenApi.fromApi(UnifiedHttpApi)
      return { ...rest, info: { ...info, ...about }, servers: [{ url }], paths: withExamples(state, paths) }
    }
  )

/** The version comes from the contract: clients are generated for the interface, whichever sandbox serves it. */
const about = {
  title: "Unified HR, recruiting, assessment and learning API, as the Rollcall sandbox serves it",
  description: "`version` is the version of the API's interface, not of Rollcall."
}

const withExamples = ({ cursorParameter: cursor, world }: SandboxState, paths: object): Json => {
  const ids = Object.entries(exampleIdsOf(world)).map(([name, id]) => [`${name}_id`, id] as const)
  const shown = Object.entries(paths).map(([path, item]: [string, unknown]) => {
    const home = world.integrations.find(({ categories }) => categories.some((name) => path.startsWith(`/${name}/`)))
    const examples = new Map<string, string>([...ids, ["x-integration-id", home?.id ?? ""]])
    const withExample = (parameter: Json): Json => {
      const name = String(parameter["name"])
      const example = examples.get(name) ?? ""
      if (name === cursorParameter) return { ...parameter, name: cursor }
      return example === "" ? parameter : { ...parameter, example }
    }
    return [
      path,
      JSON.parse(JSON.stringify(item, (key, value) => key === "parameters" ? value.map(withExample) : value))
    ]
  })
  return Object.fromEntries(shown)
}
