/** A server on loopback with responses from the test, and the client of the API at its address. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { readFileSync } from "node:fs"
import { createServer, type RequestListener, type ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"
import { RequestBudget } from "../../../src/source/RequestBudget.ts"
import { Source } from "../../../src/source/Source.ts"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"
import * as Certificates from "../../support/services/Certificates.ts"
import { temporaryFolder } from "../../support/TemporaryFolder.ts"

export class Loopback {
  readonly server
  connections = 0
  closed = 0

  constructor(listener: RequestListener) {
    this.server = createServer(listener)
    this.server.on("connection", (socket) => {
      this.connections++
      socket.once("close", () => this.closed++)
    })
  }

  get url(): string {
    const address = this.server.address()
    return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/v1`
  }

  /** Starts a server on loopback that ends with the scope. */
  static readonly serving = (listener: RequestListener) =>
    Effect.acquireRelease(
      Effect.callback<Loopback>((resume) => {
        const loopback = new Loopback(listener)
        loopback.server.listen(0, "127.0.0.1", () => resume(Effect.succeed(loopback)))
      }),
      ({ server }) =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
}

/** An https server whose certificate names the host: its port, and the file of the authority that signed the certificate. */
export const secured = Effect.fnUntraced(function*(host: string, listener: RequestListener) {
  const folder = yield* temporaryFolder
  const authority = yield* Certificates.authority(folder, "authority")
  const own = yield* authority.sign(host)
  const server = createTlsServer({ cert: readFileSync(own.certificate), key: readFileSync(own.key) }, listener)
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.void))
    }),
    () => Effect.sync(() => server.close().closeAllConnections())
  )
  const address = server.address()
  return { authority: authority.certificate, port: typeof address === "object" && address !== null ? address.port : 0 }
})

export const json = (response: ServerResponse, body: string | Buffer, status = 200) =>
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) }).end(
    body
  )

/** The JSON of an error response of the API. */
export const refusal = (code: string): string =>
  JSON.stringify({ status: "error", error: { code, title: null, message: "no", log_url: null } })

/** An account of the API at this address. */
export const account = (url: string, key = "the-key") => ({ url, key: Effect.succeed(Redacted.make(key)) })

/** The client of the API at this address. */
export const clientOf = (url: string, options: Partial<UnifiedApi.Options> = {}, http = UnifiedApi.httpClient) =>
  UnifiedApi.layer({ accounts: { default: account(url) }, retryBase: "1 millis", ...options }).pipe(
    Layer.provide([http, RequestBudget.local])
  )

/** Reads the first page of an integration's tags, as a poll does. */
export const readTags = (integration = "greenhouse:acme") =>
  Effect.flatMap(Source, ({ page }) =>
    page({
      account: "default",
      integration,
      model: "ats.tag",
      priority: "poll",
      cursor: null,
      updatedAfter: null,
      ids: null
    }))
