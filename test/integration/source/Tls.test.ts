/** Requests over https, of the unified API and of plugins: they go only to a server whose certificate is verified. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as OutgoingHttp from "../../../src/network/OutgoingHttp.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import * as Certificates from "../../support/services/Certificates.ts"
import { run } from "../cli/Program.ts"
import { json, Loopback, secured } from "./Loopback.ts"

/** The check of the account by `rollcall doctor`. */
const examined = (url: string, more: Readonly<Record<string, string>> = {}) =>
  Effect.promise(async () => {
    const { stderr, stdout } = await run(["doctor", "--json"], {
      ROLLCALL_API_URL: url,
      ROLLCALL_API_KEY: "k3y",
      ROLLCALL_HTTP_PORT: "0",
      ROLLCALL_STORE: "sqlite::memory:",
      ...more
    })
    assert.notInclude(stdout + stderr, "k3y")
    const { checks }: { checks: ReadonlyArray<{ check: string; message: string; status: string }> } = JSON.parse(stdout)
    return checks.find(({ check }) => check === "account default")
  })

const tools = { status: "success", data: [] }

describe.skipIf(Certificates.missing !== null)("a server to which a plugin sends requests", () => {
  it.live("gets no request if its certificate is not trusted, even if the process verifies none", () =>
    Effect.gen(function*() {
      let requests = 0
      const { port } = yield* secured("localhost", (_, response) => {
        requests++
        response.end()
      })
      yield* Effect.acquireRelease(
        Effect.sync(() => process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0"),
        () => Effect.sync(() => delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"])
      )
      const failure = yield* Plugin.send(HttpClientRequest.post(`https://localhost:${port}/s3cret`)).pipe(
        Effect.provide(OutgoingHttp.layer()),
        Effect.flip
      )
      assert.deepInclude(failure, {
        _tag: "Transient",
        message: `no response from localhost:${port}: the connection failed`
      })
      assert.strictEqual(requests, 0)
    }))
})

describe.skipIf(Certificates.missing !== null)("an API over https", () => {
  it.live(
    "gets the key only if its certificate is signed by a trusted authority and names its host",
    () =>
      Effect.gen(function*() {
        const keys: Array<string | undefined> = []
        const { authority, port } = yield* secured("localhost", (incoming, response) => {
          keys.push(incoming.headers.authorization)
          json(response, JSON.stringify(tools))
        })
        const refused = [
          yield* examined(`https://localhost:${port}/v1`),
          yield* examined(`https://localhost:${port}/v1`, { NODE_TLS_REJECT_UNAUTHORIZED: "0" }),
          yield* examined(`https://127.0.0.1:${port}/v1`, { NODE_EXTRA_CA_CERTS: authority })
        ]
        for (const check of refused) {
          assert.strictEqual(check?.status, "problem")
          assert.match(check?.message ?? "", /the API's certificate is not valid \(\w+\).*NODE_EXTRA_CA_CERTS/)
        }
        assert.deepStrictEqual(keys, [])
        const accepted = yield* examined(`https://localhost:${port}/v1`, { NODE_EXTRA_CA_CERTS: authority })
        assert.notInclude(accepted?.message, "certificate")
        assert.include(keys, "Bearer k3y")
      })
  )

  it.live(
    "that redirects to http is not followed, so the key does not cross the network unencrypted",
    () =>
      Effect.gen(function*() {
        const plain: Array<string | undefined> = []
        const elsewhere = yield* Loopback.serving((incoming, response) => {
          plain.push(incoming.headers.authorization)
          json(response, JSON.stringify(tools))
        })
        const { authority, port } = yield* secured("localhost", (incoming, response) => {
          response.writeHead(307, { location: `${elsewhere.url}${incoming.url?.slice(3) ?? ""}` }).end()
        })
        const check = yield* examined(`https://localhost:${port}/v1`, { NODE_EXTRA_CA_CERTS: authority })
        assert.include(check?.message, "redirects to another address")
        assert.deepStrictEqual(plain, [])
      })
  )
})
