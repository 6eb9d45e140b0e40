/** A request whose handler fails because of the store: its response, and its log lines. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { Damaged, OlderCopy, StoreError, Unavailable } from "../../store/Store.ts"
import { StoreFailures } from "../contract/StoreFailures.ts"
import * as FailureResponses from "./FailureResponses.ts"

const api = HttpApi.make("test")
  .add(HttpApiGroup.make("log").add(HttpApiEndpoint.get("read", "/")))
  .middleware(StoreFailures)

describe("a request that the store does not answer", () => {
  it.effect.each([
    { name: "nothing in an outage", reason: new Unavailable({ operation: "log", cause: null }), logged: 0 },
    { name: "nothing while an older copy answers (X14)", reason: new OlderCopy({ missing: 1 }), logged: 0 },
    { name: "what else is wrong", reason: new Damaged({ message: "row 1" }), logged: 1 }
  ])("logs $name", ({ logged, reason }) =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      const { dispose, handler } = HttpRouter.toWebHandler(
        HttpApiBuilder.layer(api).pipe(
          Layer.provide(
            HttpApiBuilder.group(api, "log", (handlers) =>
              handlers.handle("read", () =>
                Effect.fail(new StoreError({ reason }))))
          ),
          Layer.provide(FailureResponses.layer),
          Layer.provide(HttpServer.layerServices),
          Layer.provideMerge(Logger.layer([Logger.make(({ message }) =>
            void lines.push(String(message))
          )]))
        ),
        { disableLogger: true }
      )
      const response = yield* Effect.promise(() => handler(new Request("http://localhost/")))
      const { detail, type } = yield* Effect.promise(() => response.json() as Promise<Record<string, unknown>>)
      yield* Effect.promise(dispose)
      assert.deepStrictEqual(
        [response.status, response.headers.get("content-type"), type, detail],
        [503, "application/problem+json", "urn:rollcall:problem:store-unavailable", reason.hint]
      )
      assert.strictEqual(lines.length, logged)
    }))
})
