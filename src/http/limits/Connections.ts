/**
 * The server of Node.js, with limits on connections: their number, the time in which a request must arrive, and the time for which a
 * client may leave its response unread.
 *
 * Gotchas
 * - A connection without traffic is not idle while its request is running, because an audit may take minutes. A connection is closed only
 *   if no request is running, or if bytes wait to be sent and the client reads none.
 * - Node.js applies no limit to a connection whose request to change the protocol (`Upgrade`) is accepted. Such a request is
 *   therefore answered as if it had no such header; clients in Java send it with their first request.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { keepCurrent, load, type TlsFiles } from "../files/TlsFiles.ts"
import * as BoundedLog from "./BoundedLog.ts"
import type { Limits } from "./Limits.ts"
import * as UnreadableRequests from "./UnreadableRequests.ts"

const dropped = Metric.counter("rollcall_http_connections_dropped_total", {
  description: "Connections to the operating API that were closed because too many were open",
  incremental: true
})
const handshakesFailed = Metric.counter("rollcall_http_handshakes_failed_total", {
  description:
    "Connections to the operating API that failed before the first request: no accepted client certificate, or no TLS",
  incremental: true
})
/** Includes the readers that `PageBudget` disconnects. */
export const readersCut = Metric.counter("rollcall_http_readers_cut_total", {
  description:
    "Connections to the operating API that were closed because the client did not read its response, or too slowly",
  incremental: true
})

/** The responses of each connection that are not finished. */
class RunningResponses {
  private readonly responses = new WeakMap<Duplex, Set<ServerResponse>>()

  of(connection: Duplex): ReadonlySet<ServerResponse> {
    return this.responses.get(connection) ?? new Set()
  }

  add(connection: Duplex, response: ServerResponse): void {
    const own = this.responses.get(connection) ?? new Set()
    this.responses.set(connection, own.add(response))
    response.once("close", () => own.delete(response))
  }

  isSending(connection: Duplex): boolean {
    return [...this.of(connection)].some(({ headersSent }) => headersSent)
  }
}

/**
 * Maximum number of requests of one connection that run at the same time. Responses are sent in order, so each finished response waits in
 * memory for the earlier ones.
 */
const maxRunning = 8

const cutStalled = (server: Server, running: RunningResponses, onCut: (address: string) => void): void => {
  const count = ({ socket }: IncomingMessage, response: ServerResponse) => {
    running.add(socket, response)
    if (running.of(socket).size > maxRunning && !socket.destroyed) {
      onCut(socket.remoteAddress ?? "unknown")
      socket.destroy()
    }
  }
  server.on("request", count)
  // Node.js emits this event instead of "request" for a request with `Expect: 100-continue`.
  server.on("checkContinue", count)
  server.on("timeout", (socket: Socket) => {
    if (running.of(socket).size > 0 && socket.writableLength === 0) return
    if (socket.writableLength > 0) onCut(socket.remoteAddress ?? "unknown")
    socket.destroy()
  })
}

const create = Effect.fnUntraced(function*(limits: Limits, tls: TlsFiles | null) {
  const headers = Duration.toMillis(limits.headers)
  const request = Duration.toMillis(limits.request)
  const options = {
    headersTimeout: headers,
    requestTimeout: request,
    connectionsCheckingInterval: Math.min(headers, request) / 2,
    shouldUpgradeCallback: () => false
  }
  if (tls === null) return createServer(options)
  const content = yield* load(tls)
  const server = createTlsServer({ ...options, ...content, handshakeTimeout: headers })
  yield* Effect.forkScoped(keepCurrent(tls, content, server))
  return server
})

/** Makes the server, which is not listening yet. */
export const makeServer = Effect.fnUntraced(function*(limits: Limits, tls: TlsFiles | null) {
  const noteDropped = yield* BoundedLog.make("too many connections are open; a new one was closed")
  const noteStalled = yield* BoundedLog.make("a client that does not read its response was disconnected")
  const noteFailed = yield* BoundedLog.make(
    "connections failed before the first request: the client has no accepted certificate, or does not use TLS as it should"
  )
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const server = yield* create(limits, tls)
  server.maxConnections = limits.connections
  server.timeout = Duration.toMillis(limits.stall)
  server.on("drop", (connection) => {
    run(Effect.andThen(Metric.update(dropped, 1), noteDropped(connection?.remoteAddress ?? "unknown")))
  })
  server.on("tlsClientError", (_, { remoteAddress = "unknown" }: Socket) => {
    run(Effect.andThen(Metric.update(handshakesFailed, 1), noteFailed(remoteAddress)))
  })
  const running = new RunningResponses()
  UnreadableRequests.answer(server, (connection) => running.isSending(connection))
  cutStalled(server, running, (address) => run(Effect.andThen(Metric.update(readersCut, 1), noteStalled(address))))
  return server
})
