/**
 * The eleven lists over HTTP: hides admission, query rules, paging, faults and the log of requests.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { type IncrementalModel, incrementalModels, lists } from "../api/Lists.ts"
import type { Fault } from "./Faults.ts"
import { invalid, Refusal } from "./Refusal.ts"
import { admit, parse } from "./Request.ts"
import type { Stage } from "./Stage.ts"

/** Routes of all lists, below `/v1`, and the answer to every path that is none. */
export const layer = (stage: Stage) =>
  HttpRouter.addAll([
    ...incrementalModels.map((model) =>
      HttpRouter.route("GET", `/v1${lists[model].path}`, recorded(stage, answer(stage, model)))
    ),
    HttpRouter.route("*", "/*", recorded(stage, unknownPath))
  ])

const unknownPath = HttpServerRequest.HttpServerRequest.pipe(
  Effect.flatMap((request) =>
    Effect.fail(
      new Refusal({
        status: 404,
        code: "PLATFORM.INPUT_INVALID",
        message: `There is no ${request.method} ${request.url.split("?")[0]}. Paths begin with /v1.`
      })
    )
  )
)

const answer = Effect.fnUntraced(function*(stage: Stage, model: IncrementalModel) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const integration = yield* Effect.fromResult(admit(stage.world, stage.key, model, request.headers))
  const fault = stage.faults.strike(integration, model)
  if (fault !== null) yield* before(stage, fault)
  const params = yield* HttpServerRequest.ParsedSearchParams
  const asked = yield* Effect.fromResult(parse(integration, model, params))
  yield* stage.catchUp
  const page = stage.world.page(integration, model, asked.query, asked.pageSize, asked.cursor)
  if (page === "bad cursor") return yield* invalid("cursor is not one that this list gave.")
  const warnings = asked.ignored.map((name) => ({
    message: `The parameter "${name}" means nothing here and was ignored.`
  }))
  if (stage.faults.warns()) warnings.push({ message: "The connected system answered slowly." })
  const text = JSON.stringify({ status: "success", data: { next: page.next, results: page.results }, warnings })
  return spoilt(text, fault)
})

/** Faults that need no answer to spoil. */
const before = Effect.fnUntraced(function*(stage: Stage, fault: Fault) {
  switch (fault.kind) {
    case "rate_limit":
      return yield* new Refusal({
        status: 429,
        code: "PLATFORM.RATE_LIMIT_EXCEEDED",
        message: "The request budget of this key is used up.",
        ...(fault.retryAfter !== null && { retryAfter: fault.retryAfter ?? 1 })
      })
    case "server_error": {
      const status = fault.status ?? stage.faults.serverError()
      return yield* new Refusal({
        status,
        code: status === 500 ? "PLATFORM.UNKNOWN_ERROR" : "REMOTE.SERVICE_UNAVAILABLE",
        message: "The request could not be served."
      })
    }
    case "delay":
      return yield* Effect.sleep(fault.delay ?? 1000)
    case "drop": {
      const request = yield* HttpServerRequest.HttpServerRequest
      NodeHttpServerRequest.toServerResponse(request).destroy()
      return yield* Effect.never
    }
  }
})

const spoilt = (text: string, fault: Fault | null): HttpServerResponse.HttpServerResponse => {
  switch (fault?.kind) {
    case "truncated":
      return HttpServerResponse.text(text.slice(0, Math.floor(text.length * 0.7)), { contentType: "application/json" })
    case "html":
      return HttpServerResponse.text("<!doctype html><title>Maintenance</title><h1>Back soon</h1>", {
        contentType: "text/html"
      })
    default:
      return HttpServerResponse.text(text, { contentType: "application/json" })
  }
}

/** Refusals become answers, and what was answered is written down. */
const recorded = <E, R>(stage: Stage, effect: Effect.Effect<HttpServerResponse.HttpServerResponse, E | Refusal, R>) =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const at = new Date(yield* stage.now).toISOString()
    const [path = "", query = ""] = request.url.split("?", 2)
    const write = (status: number | null) =>
      stage.record({
        at,
        method: request.method,
        path,
        query,
        integration: request.headers["x-integration-id"] ?? null,
        status
      })
    return yield* effect.pipe(
      Effect.catch((error) => error instanceof Refusal ? Effect.succeed(error.response) : Effect.fail(error)),
      Effect.tap((response) => write(response.status)),
      Effect.onInterrupt(() => write(null))
    )
  })
