/**
 * The certificate and key of the operating API, and the authorities that must have signed its clients' certificates, from files that may
 * be replaced while the process is running.
 *
 * Gotchas
 * - A certificate is checked when its connection starts. If the authorities change, all connections are therefore closed. That includes
 *   connections that have not finished their handshake, because they use the authorities from their start.
 * - Node.js ignores damaged certificates of authorities after the first one.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { X509Certificate } from "node:crypto"
import { readFile } from "node:fs/promises"
import type { Server } from "node:https"
import type { Socket } from "node:net"
import { createSecureContext } from "node:tls"
import { isDeepStrictEqual } from "node:util"
import * as ReplacedFiles from "./ReplacedFiles.ts"

/** Paths of PEM files. */
export interface TlsFiles {
  /** The server's certificate, followed by those of its intermediate authorities. */
  readonly certFile: string
  readonly keyFile: string
  /** The authorities that sign the certificates of clients; null if clients need no certificate. */
  readonly clientCaFile: string | null
}

/** The contents of the files, as options of a TLS server. */
export interface TlsContent {
  readonly cert: string
  readonly key: string
  /** Whether every client must present a certificate that an authority in `ca` signed. If so, `ca` is set. */
  readonly requestCert: boolean
  readonly ca?: Array<string>
  readonly minVersion: "TLSv1.2"
}

/** The files cannot be used. */
export class TlsError extends Schema.TaggedError<TlsError>()("TlsError", {
  message: Schema.String,
  hint: Schema.String
}) {}

const codeOf = (cause: unknown): string =>
  cause instanceof Error && "code" in cause ? String(cause.code) : "not a PEM file"

const read = (name: string, path: string) =>
  Effect.tryPromise({
    try: () => readFile(path, "utf8"),
    catch: (cause) =>
      new TlsError({
        message: `${name} names ${path}, which cannot be read (${codeOf(cause)})`,
        hint: `correct ${name}, or the rights of the file`
      })
  })

const check = (uses: () => unknown, message: string, hint: string) =>
  Effect.try({ try: uses, catch: (cause) => new TlsError({ message: `${message} (${codeOf(cause)})`, hint }) })

/** The parts of a PEM file; the whole text if it has none. */
const partsOf = (pem: string): Array<string> => {
  const [first = "", ...parts] = pem.split(/(?=-----BEGIN )/)
  return parts.length === 0 || first.startsWith("-----BEGIN ") ? [first, ...parts] : parts
}

const loadAuthorities = Effect.fnUntraced(function*(caFile: string) {
  const ca = partsOf(yield* read("ROLLCALL_HTTP_TLS_CLIENT_CA_FILE", caFile))
  // if the file had no certificate, no client would be accepted
  yield* check(
    () => ca.map((one) => new X509Certificate(one)),
    `${caFile} is not a certificate`,
    "name the PEM file of the authority that signs the certificates of clients"
  )
  return ca
})

/** Reads the files and checks that they can be used together. */
export const load = Effect.fnUntraced(function*({ certFile, clientCaFile, keyFile }: TlsFiles) {
  const pair = {
    cert: yield* read("ROLLCALL_HTTP_TLS_CERT_FILE", certFile),
    key: yield* read("ROLLCALL_HTTP_TLS_KEY_FILE", keyFile)
  }
  yield* check(
    () => createSecureContext(pair),
    `${certFile} and ${keyFile} are not a certificate and its key`,
    "name the PEM file of the certificate, with its intermediate certificates, and the PEM file of its unencrypted private key"
  )
  const content: TlsContent = {
    ...pair,
    ...(clientCaFile === null ? {} : { ca: yield* loadAuthorities(clientCaFile) }),
    requestCert: clientCaFile !== null,
    minVersion: "TLSv1.2"
  }
  return content
})

const expiryOf = ({ cert }: TlsContent): string => new Date(new X509Certificate(cert).validTo).toISOString()

/** Logs until when the certificate is valid, and uses new files within a minute. Never returns. */
export const keepCurrent = (files: TlsFiles, first: TlsContent, server: Server): Effect.Effect<never> => {
  let current = first
  const connections = new Set<Socket>()
  server.on("connection", (socket: Socket) => {
    connections.add(socket)
    socket.once("close", () => connections.delete(socket))
  })
  return Effect.andThen(
    Effect.annotateLogs(Effect.logInfo("certificate loaded"), { expires: expiryOf(first) }),
    ReplacedFiles.keepCurrent({
      name: "certificate",
      first,
      read: load(files),
      isSame: isDeepStrictEqual,
      use: (content) => {
        server.setSecureContext(content)
        if (!isDeepStrictEqual(content.ca, current.ca)) { for (const socket of connections) socket.destroy() }
        current = content
        return { expires: expiryOf(content) }
      }
    })
  )
}
