/**
 * The certificate and key of the operating API, and the authorities that must have signed its clients' certificates, from files that may
 * be replaced while the process is running.
 *
 * Gotchas
 * - If a list of revoked certificates is out of date, or does not cover each authority of a client's chain, the client is refused.
 * - An OCSP response that is out of date is still sent.
 * - A certificate is checked when its connection starts. If authorities or revocations change, all connections are therefore closed. That
 *   includes connections that have not finished their handshake, because they use the lists from their start.
 * - Node.js uses only the first list of a text, and ignores damaged certificates of authorities after the first one.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { X509Certificate } from "node:crypto"
import { readFile } from "node:fs/promises"
import type { Server } from "node:https"
import type { Socket } from "node:net"
import { createSecureContext } from "node:tls"
import { isDeepStrictEqual } from "node:util"
import * as ReplacedFiles from "../ReplacedFiles.ts"

/** Paths of PEM files, and of one DER file. */
export interface TlsFiles {
  /** The server's certificate, followed by those of its intermediate authorities. */
  readonly certFile: string
  readonly keyFile: string
  /** An OCSP response in DER: whether the authority revoked the certificate of the server; null if none is sent. */
  readonly ocspFile: string | null
  /** Null if clients need no certificate. */
  readonly clients: {
    /** The authorities that sign the certificates of clients. */
    readonly caFile: string
    /** The lists of certificates that these authorities revoked; null if no list is read. */
    readonly crlFile: string | null
  } | null
}

/** The contents of the files, as options of a TLS server. */
export interface TlsContent {
  readonly cert: string
  readonly key: string
  /** Whether every client must present a certificate that an authority in `ca` signed. If so, `ca` is set. */
  readonly requestCert: boolean
  readonly ca?: Array<string>
  readonly crl?: Array<string>
  readonly ocsp: Buffer | null
  readonly minVersion: "TLSv1.2"
}

/** The files cannot be used. */
export class TlsError extends Schema.TaggedError<TlsError>()("TlsError", {
  message: Schema.String,
  hint: Schema.String
}) {}

const codeOf = (cause: unknown): string =>
  cause instanceof Error && "code" in cause ? String(cause.code) : "not a PEM file"

const readBytes = (name: string, path: string) =>
  Effect.tryPromise({
    try: () => readFile(path),
    catch: (cause) =>
      new TlsError({
        message: `${name} names ${path}, which cannot be read (${codeOf(cause)})`,
        hint: `correct ${name}, or the rights of the file`
      })
  })

const read = (name: string, path: string) => Effect.map(readBytes(name, path), String)

const check = (uses: () => unknown, message: string, hint: string) =>
  Effect.try({ try: uses, catch: (cause) => new TlsError({ message: `${message} (${codeOf(cause)})`, hint }) })

/** The parts of a PEM file; the whole text if it has none. */
const partsOf = (pem: string): Array<string> => {
  const [first = "", ...parts] = pem.split(/(?=-----BEGIN )/)
  return parts.length === 0 || first.startsWith("-----BEGIN ") ? [first, ...parts] : parts
}

const loadClients = Effect.fnUntraced(function*({ caFile, crlFile }: NonNullable<TlsFiles["clients"]>) {
  const ca = partsOf(yield* read("ROLLCALL_HTTP_TLS_CLIENT_CA_FILE", caFile))
  // if the file had no certificate, no client would be accepted
  yield* check(
    () => ca.map((one) => new X509Certificate(one)),
    `${caFile} is not a certificate`,
    "name the PEM file of the authority that signs the certificates of clients"
  )
  if (crlFile === null) return { ca }
  const crl = partsOf(yield* read("ROLLCALL_HTTP_TLS_CLIENT_CRL_FILE", crlFile))
  yield* check(
    () => createSecureContext({ crl }),
    `${crlFile} is not a list of revoked certificates`,
    "name the PEM file of the list that the authority of the clients publishes"
  )
  return { ca, crl }
})

/** Whether this is an OCSPResponse (RFC 6960) with the status `successful`: a SEQUENCE as long as the file that starts with ENUMERATED 0. */
const isSuccessful = (der: Buffer): boolean => {
  const lengthBytes = (der[1] ?? 0) - 0x80
  const start = 2 + lengthBytes
  if (der[0] !== 0x30 || lengthBytes < 1 || lengthBytes > 4 || der.length < start) return false
  return der.length === start + der.readUIntBE(2, lengthBytes) && der.toString("hex", start, start + 3) === "0a0100"
}

const loadOcsp = Effect.fnUntraced(function*(ocspFile: string, { certFile, cert }: { certFile: string; cert: string }) {
  const ocsp = yield* readBytes("ROLLCALL_HTTP_TLS_OCSP_FILE", ocspFile)
  const refuse = (what: string) =>
    new TlsError({
      message: `ROLLCALL_HTTP_TLS_OCSP_FILE names ${ocspFile}, which is not ${what}`,
      hint: `fetch a response for ${certFile} with openssl ocsp -respout, or unset ROLLCALL_HTTP_TLS_OCSP_FILE`
    })
  if (!isSuccessful(ocsp)) return yield* refuse("a successful OCSP response in DER")
  // clients refuse a connection whose response is for another certificate
  const { serialNumber } = new X509Certificate(cert)
  if (!ocsp.includes(serialNumber, 0, "hex")) return yield* refuse(`an OCSP response for the certificate ${certFile}`)
  return ocsp
})

/** Reads the files and checks that they can be used together. */
export const load = Effect.fnUntraced(function*({ certFile, clients, keyFile, ocspFile }: TlsFiles) {
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
    ...(clients === null ? {} : yield* loadClients(clients)),
    requestCert: clients !== null,
    ocsp: ocspFile === null ? null : yield* loadOcsp(ocspFile, { certFile, cert: pair.cert }),
    minVersion: "TLSv1.2"
  }
  return content
})

const expiryOf = ({ cert }: TlsContent): string => new Date(new X509Certificate(cert).validTo).toISOString()

const sameClients = (one: TlsContent, other: TlsContent): boolean =>
  isDeepStrictEqual([one.ca, one.crl], [other.ca, other.crl])

/** Answers requests for the OCSP response. Logs until when the certificate is valid, and uses new files within a minute. Never returns. */
export const keepCurrent = (files: TlsFiles, first: TlsContent, server: Server): Effect.Effect<never> => {
  let current = first
  const connections = new Set<Socket>()
  server.on("connection", (socket: Socket) => {
    connections.add(socket)
    socket.once("close", () => connections.delete(socket))
  })
  if (files.ocspFile !== null) server.on("OCSPRequest", (_, __, answer) => answer(null, current.ocsp))
  return Effect.andThen(
    Effect.annotateLogs(Effect.logInfo("certificate loaded"), { expires: expiryOf(first) }),
    ReplacedFiles.keepCurrent({
      name: "certificate",
      first,
      read: load(files),
      isSame: isDeepStrictEqual,
      use: (content) => {
        server.setSecureContext(content)
        if (!sameClients(content, current)) { for (const socket of connections) socket.destroy() }
        current = content
        return { expires: expiryOf(content) }
      }
    })
  )
}
