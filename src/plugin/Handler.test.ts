/** The connections of a handler's requests after it ended. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import type { HandlerError } from "./Failure.ts"
import * as Plugin from "./Plugin.ts"

const url = "https://hooks.example/in"

/** A server that responds with this status and never ends the body. `signals`: one per request, aborted when its connection is closed. */
const endless = (status: number) => {
  const signals: Array<AbortSignal> = []
  const client = HttpClient.make((request, _, signal) => {
    signals.push(signal)
    return Effect.succeed(HttpClientResponse.fromWeb(request, new Response(new ReadableStream(), { status })))
  })
  return { client, signals }
}

/** Runs the handler of the plugin, which needs no other capability than the client. */
const ran = ({ handlers: [handler] }: Plugin.Plugin<{}>, client: HttpClient.HttpClient) => {
  assert.isDefined(handler)
  const run = handler.run({}, {}) as Effect.Effect<void, HandlerError, HttpClient.HttpClient>
  return Effect.exit(Effect.provideService(run, HttpClient.HttpClient, client))
}

describe("the requests of a handler", () => {
  it.effect("end with the handler, even if the response was not read and has no end", () =>
    Effect.gen(function*() {
      for (const [status, exit] of [[200, "Success"], [500, "Failure"]] as const) {
        const { client, signals } = endless(status)
        const during: Array<boolean> = []
        const plugin = Plugin.make("p").on("ats.tag.created", {}, () =>
          Effect.gen(function*() {
            yield* Plugin.send(HttpClientRequest.post(url), () => true)
            during.push(...signals.map(({ aborted }) => aborted))
            yield* Plugin.send(HttpClientRequest.post(url))
          }))
        assert.propertyVal(yield* ran(plugin, client), "_tag", exit)
        assert.deepStrictEqual(during, [false])
        assert.deepStrictEqual(signals.map(({ aborted }) => aborted), [true, true])
      }
    }))
})
