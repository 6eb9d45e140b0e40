/** Requests over https through a proxy, which only connects: TLS is spoken with the API itself. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createServer as createPlainServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as OutgoingHttp from "../../../src/network/OutgoingHttp.ts"
import { CurrentProxies, noProxies } from "../../../src/network/Proxies.ts"
import { Source } from "../../../src/source/Source.ts"
import * as Certificates from "../../support/services/Certificates.ts"
import { noHooks } from "../../support/source/Doubles.ts"
import { requests } from "../../support/source/Requests.ts"
import { run } from "../cli/Program.ts"
import { account, clientOf, json, secured } from "../source/Loopback.ts"
import { Switchboard } from "./Switchboard.ts"

const url = "https://api.example.test/v1"
const tools = JSON.stringify({ status: "success", data: { tools: [] } })

const proxy = Effect.acquireRelease(
  Effect.promise(() => Switchboard.start()),
  (board) => Effect.sync(() => board[Symbol.dispose]())
)

/** The checks by `rollcall doctor`, by their names. */
const examined = (variables: Readonly<Record<string, string>>) =>
  Effect.promise(async () => {
    const { stderr, stdout } = await run(["doctor", "--json"], {
      ROLLCALL_API_URL: url,
      ROLLCALL_API_KEY: "k3y",
      ROLLCALL_HTTP_PORT: "0",
      ROLLCALL_STORE: "sqlite::memory:",
      ...variables
    })
    assert.notInclude(stdout + stderr, "p4ss")
    const { checks }: { checks: ReadonlyArray<{ check: string; message: string }> } = JSON.parse(stdout)
    return (name: string) => checks.find(({ check }) => check === name)?.message ?? ""
  })

describe.skipIf(Certificates.missing !== null)("an API over https behind a proxy", () => {
  it.live(
    "is reached through a connection that the proxy makes, and the proxy does not see the key",
    () =>
      Effect.gen(function*() {
        const keys: Array<string | undefined> = []
        const { authority, port } = yield* secured("api.example.test", (incoming, response) => {
          keys.push(incoming.headers.authorization)
          json(response, tools)
        })
        const board = yield* proxy
        board.servers["api"] = `https://127.0.0.1:${port}`
        board.login = "user:p4ss"
        const address = `127.0.0.1:${board.port}`
        const trusting = { NODE_EXTRA_CA_CERTS: authority }
        const checks = yield* examined({ ...trusting, HTTPS_PROXY: `http://user:p4ss@${address}` })
        assert.include(checks("account default"), "answers and accepts the key")
        assert.include(checks("proxy"), `go to https://api.example.test through the proxy http://${address}`)
        assert.include(keys, "Bearer k3y")
        assert.isTrue(board.received.every(({ connects, headers }) => connects && headers.authorization === undefined))

        const own = yield* examined({
          ...trusting,
          HTTPS_PROXY: "http://127.0.0.1:1",
          ROLLCALL_API_PROXY: `user:p4ss@${address}`
        })
        assert.include(own("account default"), "answers and accepts the key")

        const refused = yield* examined({ ...trusting, HTTPS_PROXY: `http://user:p4ssw0rd@${address}` })
        assert.include(
          refused("account default"),
          `the connection through the proxy http://${address} failed (ERR_PROXY_TUNNEL, status 407)`
        )
        const untrusted = yield* examined({
          HTTPS_PROXY: `http://user:p4ss@${address}`,
          NODE_TLS_REJECT_UNAUTHORIZED: "0"
        })
        assert.include(untrusted("account default"), "the API's certificate is not valid")
        const direct = yield* examined({ ...trusting, HTTPS_PROXY: `http://${address}`, NO_PROXY: "example.test" })
        assert.include(direct("proxy"), "go to https://api.example.test directly")
        assert.match(
          direct("account default"),
          /^the API does not answer: the connection failed \((ENOTFOUND|EAI_AGAIN)\)/
        )
      })
  )

  it.live("certainly did not execute a write if the proxy made no connection", () =>
    Effect.gen(function*() {
      const board = yield* proxy
      const through = Redacted.make(`http://127.0.0.1:${board.port}`)
      const api = clientOf(url, { accounts: { eu: { ...account(url), proxies: { ...noProxies, https: through } } } })
      const { write } = Context.get(yield* Layer.build(api), Source)
      const error = yield* Effect.flip(write(requests.addTag, noHooks))
      const { reason } = error._tag === "WriteError" ? error : assert.fail(error.message)
      assert.strictEqual(reason._tag, "NotSent")
      assert.include(reason.message, "ERR_PROXY_TUNNEL, status 502")
    }))

  it.live("may open a tunnel more slowly than idle connections are closed", () =>
    Effect.gen(function*() {
      let connections = 0
      const server = createPlainServer((_, response) => void json(response, tools))
      server.on("connection", () => connections++)
      server.on("connect", (_, tunnel) => {
        setTimeout(() => tunnel.end("HTTP/1.1 503 Service Unavailable\r\n\r\n"), 300)
      })
      yield* Effect.acquireRelease(
        Effect.callback<void>((resume) => {
          server.listen(0, "127.0.0.1", () => resume(Effect.void))
        }),
        () => Effect.sync(() => server.close().closeAllConnections())
      )
      const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const client = Context.get(
        yield* Layer.build(OutgoingHttp.layer({ keepAlive: true, timeout: 100 })),
        HttpClient.HttpClient
      )
      const error = yield* Effect.flip(client.get(url)).pipe(
        Effect.provideService(CurrentProxies, { ...noProxies, https: Redacted.make(origin) })
      )
      assert.propertyVal(error.reason.cause, "statusCode", 503)

      for (const _ of [1, 2]) {
        yield* Effect.flatMap(client.get(origin), ({ text }) => text)
        yield* Effect.sleep("300 millis")
      }
      assert.strictEqual(connections, 3)
    }))
})
