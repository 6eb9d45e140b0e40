/**
 * Answers requests that reach no handler, because Node.js cannot read them: their headers are too long, they do not arrive in time, or they
 * are not HTTP. Without a listener Node.js answers them with a status and no body.
 *
 * Gotchas
 * - The response is written to the connection itself. It is left out while another response is being sent, because a client would take it
 *   for a part of that response.
 * - Node.js reports failed handshakes and broken connections with the same event. They get no response.
 */
import * as Effect from "effect/Effect"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import { maxHeaderSize, type Server, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { HeadersTooLarge, PayloadTooLarge, RequestTimeout, RequestUnreadable } from "../contract/Problem.ts"
import * as SecurityHeaders from "../request/SecurityHeaders.ts"

/** The problem for an error code of Node.js; null if the client gets no response. */
const problemOf = (code: string): HttpServerRespondable.Respondable | null => {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new HeadersTooLarge({
        detail: `the request line and the headers together are longer than ${maxHeaderSize / 1024} KiB`,
        hint: "shorten the query, or send fewer or shorter headers"
      })
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new PayloadTooLarge({
        detail: "the extensions of the chunks of the body are too long",
        hint: "send the body without chunk extensions"
      })
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new RequestTimeout({
        detail: "the request did not arrive in time",
        hint: "send the headers and the body without pauses"
      })
    default:
      return code.startsWith("HPE_")
        ? new RequestUnreadable({ detail: "the request is not valid HTTP/1.1", hint: "check the client that sent it" })
        : null
  }
}

const toText = ({ body, headers, status }: HttpServerResponse.HttpServerResponse): string => {
  const content = body._tag === "Uint8Array" ? new TextDecoder().decode(body.body) : ""
  const lines = Object.entries({
    ...headers,
    ...SecurityHeaders.withoutHandler,
    "content-length": String(Buffer.byteLength(content)),
    connection: "close"
  }).map(([name, value]) => `${name}: ${value}`)
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`, ...lines, "", content].join("\r\n")
}

/** Answers the requests and closes their connections. `isSending`: whether a response is being sent on the connection. */
export const answer = (server: Server, isSending: (connection: Duplex) => boolean): void => {
  server.on("clientError", (error: NodeJS.ErrnoException, connection: Duplex) => {
    const problem = problemOf(error.code ?? "")
    if (problem !== null && connection.writable && !isSending(connection)) {
      connection.write(toText(Effect.runSync(HttpServerRespondable.toResponse(problem))))
    }
    connection.destroy(error)
  })
}
