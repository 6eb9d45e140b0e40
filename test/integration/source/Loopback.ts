/** A server on loopback with responses from the test; it ends with the test's scope. */
import * as Effect from "effect/Effect"
import { createServer, type RequestListener, type ServerResponse } from "node:http"

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

export const json = (response: ServerResponse, body: string | Buffer, status = 200) =>
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) }).end(
    body
  )
