/** Requests that wait for their connection while a response to another request pauses the account. */
import { afterEach, assert, describe, it, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import dns from "node:dns"
import { readFileSync } from "node:fs"
import { createServer, type RequestListener, type Server } from "node:http"
import { connect, type Socket } from "node:net"
import * as tls from "node:tls"
import * as OutgoingHttp from "../../../src/network/OutgoingHttp.ts"
import { Source } from "../../../src/source/Source.ts"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"
import * as Certificates from "../../support/services/Certificates.ts"
import { clientOf, json, readTags, refusal, secured } from "./Loopback.ts"

const success = JSON.stringify({ status: "success", data: { next: null, results: [] } })
/** Resolves when the rate-limit response is sent. */
let limited = Promise.withResolvers<void>()
/** Continues later than the client gets that response, however long it takes to send it. */
const afterLimit = (next: () => void): void => void limited.promise.then(() => setTimeout(next, 300))

/** The times of the requests, in ms. The first one gets a rate-limit response that requests a pause of one second. */
const limiting = (arrivals: Array<number>): RequestListener => (_, response) => {
  if (arrivals.push(performance.now()) > 1) return void json(response, success)
  response.once("finish", limited.resolve).setHeader("retry-after", "1")
  json(response, refusal("PLATFORM.RATE_LIMIT_EXCEEDED"), 429)
}

const started = (server: Server) =>
  Effect.acquireRelease(
    Effect.callback<number>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
      })
    }),
    () => Effect.sync(() => (server.close(), server.closeAllConnections()))
  )

/** Looking up the address of the second and later connections takes until after the limit. */
const slowLookups = (): void => {
  const lookup = dns.lookup
  let lookups = 0
  vi.spyOn(dns, "lookup").mockImplementation(
    ((...args: Parameters<typeof lookup>) => {
      const next = () => void lookup(...args)
      if (lookups++ === 0) next()
      else afterLimit(next)
    }) as typeof lookup
  )
}
afterEach(() => vi.restoreAllMocks())

/** Notes the calls of its hooks. */
const write = (calls: Array<string>) =>
  Effect.flatMap(Source, (source) =>
    source.write({
      account: "default",
      integration: "c:3",
      write: "addTag",
      params: { candidate_id: "1" },
      body: { tag: { name: "x" } }
    }, {
      before: Effect.sync(() => void calls.push("before")),
      onNoEffect: Effect.sync(() => void calls.push("onNoEffect"))
    }))

/** The other two requests have their slots, and are still connecting when the response to the first one arrives. */
const isSentAfterThePause = Effect.fnUntraced(function*(
  url: string,
  arrivals: ReadonlyArray<number>,
  client = UnifiedApi.httpClient
) {
  limited = Promise.withResolvers()
  slowLookups()
  const calls: Array<string> = []
  yield* Effect.all([readTags("a:1"), readTags("b:2"), write(calls)], { concurrency: 3 }).pipe(
    Effect.provide(clientOf(url, { retryBase: "100 millis" }, client))
  )
  const [first = 0, ...others] = arrivals.map((at) => at - arrivals[0]!)
  assert.strictEqual(first, 0)
  assert.deepStrictEqual(others.filter((at) => at < 990), [])
  assert.lengthOf(others, 3)
  assert.deepStrictEqual(calls, ["before", "onNoEffect", "before"])
})

describe("a request that is still connecting when the account is paused", () => {
  it.live("is not sent before the pause ends (R1)", () =>
    Effect.gen(function*() {
      const arrivals: Array<number> = []
      const port = yield* started(createServer(limiting(arrivals)))
      yield* isSentAfterThePause(`http://localhost:${port}/v1`, arrivals)
    }))

  it.live.skipIf(Certificates.missing !== null)(
    "is not sent before the pause ends, over https and through a proxy (R1)",
    () =>
      Effect.gen(function*() {
        const arrivals: Array<number> = []
        const { authority, port } = yield* secured("localhost", limiting(arrivals))
        yield* Effect.acquireRelease(
          Effect.sync(() => {
            const before = tls.getCACertificates("default")
            tls.setDefaultCACertificates([readFileSync(authority, "utf8")])
            return before
          }),
          (before) => Effect.sync(() => tls.setDefaultCACertificates(before))
        )
        yield* isSentAfterThePause(`https://localhost:${port}/v1`, arrivals)

        for (const slowAnswer of ["200 Connection Established", "503 Service Unavailable"]) {
          vi.restoreAllMocks()
          arrivals.length = 0
          const proxy = createServer()
          let tunnels = 0
          proxy.on("connect", (_, client: Socket) => {
            const number = ++tunnels
            const answer = number === 2 || number === 3 ? slowAnswer : "200 Connection Established"
            const upstream = connect(port, "127.0.0.1")
            upstream.on("error", () => client.destroy())
            client.on("error", () => upstream.destroy())
            const next = () => {
              client.write(`HTTP/1.1 ${answer}\r\n\r\n`)
              if (answer.startsWith("200")) client.pipe(upstream).pipe(client)
              else upstream.destroy()
            }
            if (number === 1) next()
            else afterLimit(next)
          })
          const proxyPort = yield* started(proxy)
          const proxied = OutgoingHttp.layer({
            keepAlive: true,
            proxyEnv: { HTTPS_PROXY: `http://127.0.0.1:${proxyPort}` }
          })
          yield* isSentAfterThePause(`https://localhost:${port}/v1`, arrivals, proxied)
          assert.isAtLeast(tunnels, 2)
        }
      })
  )
})
