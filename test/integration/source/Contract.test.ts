import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createServer } from "node:http"
import { incrementalModels } from "../../../src/api/Lists.ts"
import { Authorization, Lists } from "../../../src/api/UnifiedHttpApi.ts"
import { Source } from "../../../src/source/Source.ts"
import { valuesOf } from "../../support/source/Doubles.ts"
import { clientOf } from "./Loopback.ts"

interface Understood {
  readonly model: string
  readonly query: unknown
  readonly headers: unknown
  readonly key: string
}

const readApi = HttpApi.make("unified-api").add(Lists)

/** A server made only from the contract; records each request as it decoded it. */
const contractServer = (understood: Array<Understood>) => {
  let key = ""
  const note = (model: string) => (request: { readonly query: unknown; readonly headers: unknown }) =>
    Effect.sync(() => {
      understood.push({ model, query: request.query, headers: request.headers, key })
      return { status: "success" as const, data: { next: null, results: [{ id: model }] } }
    })
  const handlers = HttpApiBuilder.group(readApi, "lists", (group) =>
    Effect.succeed(group.handleAll({
      "ats.application": note("ats.application"),
      "ats.scorecard": note("ats.scorecard"),
      "ats.offer": note("ats.offer"),
      "ats.tag": note("ats.tag"),
      "hris.payslip": note("hris.payslip"),
      "hris.performance_review": note("hris.performance_review"),
      "hris.performance_review_cycle": note("hris.performance_review_cycle"),
      "hris.staffing_entity": note("hris.staffing_entity"),
      "hris.legal_entity": note("hris.legal_entity"),
      "hris.skill": note("hris.skill"),
      "hris.absence_type": note("hris.absence_type")
    })))
  const authorization = Layer.succeed(Authorization, {
    key: (effect, { credential }) =>
      Effect.suspend(() => {
        key = Redacted.value(credential)
        return effect
      })
  })
  return HttpRouter.serve(
    HttpApiBuilder.layer(readApi).pipe(Layer.provide(handlers), Layer.provide(authorization)),
    { disableLogger: true, disableListenLog: true }
  ).pipe(Layer.provideMerge(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" })))
}

it.live("a server of the contract accepts every list request of the client", () =>
  Effect.gen(function*() {
    const understood: Array<Understood> = []
    const context = yield* Layer.build(contractServer(understood))
    const { address } = Context.get(context, HttpServer.HttpServer)
    const url = address._tag === "InetAddressV4" ? `http://127.0.0.1:${address.port}` : assert.fail("no port")
    yield* Effect.gen(function*() {
      const source = yield* Source
      for (const model of incrementalModels) {
        const page = yield* source.page({
          account: "default",
          integration: "greenhouse:acme",
          model,
          priority: "poll",
          cursor: "c/2=",
          updatedAfter: Date.UTC(2024, 4, 1, 10, 0, 0, 7),
          ids: ["a", "b"]
        })
        assert.deepStrictEqual(valuesOf(page), [{ id: model }])
      }
    }).pipe(Effect.provide(clientOf(url)))

    assert.deepStrictEqual(
      understood,
      incrementalModels.map((model) => ({
        model,
        key: "the-key",
        headers: { "x-integration-id": "greenhouse:acme" },
        query: {
          cursor: "c/2=",
          page_size: 250,
          updated_after: "2024-05-01T10:00:00.007Z",
          include_deleted: true,
          ignore_unsupported_filters: true,
          ids: ["a", "b"]
        }
      }))
    )
  }))
