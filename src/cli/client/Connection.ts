/**
 * How commands reach the running process: the address, over TLS if it is configured.
 *
 * Gotchas
 * - On the server's own machine the configuration names the server's certificate, and commands connect to an address that the
 *   certificate need not contain. They then accept exactly that certificate.
 */
import * as Effect from "effect/Effect"
import { HttpClient } from "effect/http/HttpClient"
import type * as Redacted from "effect/Redacted"
import { X509Certificate } from "node:crypto"
import { readFile } from "node:fs/promises"
import type { AgentOptions } from "node:https"
import { checkServerIdentity, createSecureContext } from "node:tls"
import * as OutgoingHttp from "../../network/OutgoingHttp.ts"
import * as ApiClient from "./ApiClient.ts"

export interface Address {
  readonly host: string
  readonly port: number
  readonly token: Redacted.Redacted | null
  /** Paths of PEM files; null if TLS is not used. */
  readonly tls: {
    readonly certFile: string | null
    readonly caFile: string | null
    /** The certificate that the command presents; null if it presents none. */
    readonly client: { readonly certFile: string; readonly keyFile: string } | null
  } | null
}

const serverHint =
  "set ROLLCALL_HTTP_TLS_CA_FILE to the certificate of the authority that signed the server's certificate"
const clientHint =
  "set ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE and ROLLCALL_HTTP_TLS_CLIENT_KEY_FILE to a certificate and its unencrypted key"

const invalid = (message: string, hint: string) => new ApiClient.ApiClientError({ reason: "invalid", message, hint })

const read = (path: string, hint = serverHint) =>
  Effect.tryPromise({
    try: () => readFile(path, "utf8"),
    catch: () => invalid(`the certificate file ${path} cannot be read`, hint)
  })

/** Accepts this certificate under every name, and verifies other certificates as usual. */
const trusting = (cert: string): AgentOptions => {
  const { raw } = new X509Certificate(cert)
  return {
    ca: cert,
    allowPartialTrustChain: true,
    checkServerIdentity: (host, peer) => raw.equals(peer.raw) ? undefined : checkServerIdentity(host, peer)
  }
}

type Tls = NonNullable<Address["tls"]>

const presenting = Effect.fnUntraced(function*({ certFile, keyFile }: NonNullable<Tls["client"]>) {
  const pair = { cert: yield* read(certFile, clientHint), key: yield* read(keyFile, clientHint) }
  return yield* Effect.try({
    try: () => (createSecureContext(pair), pair),
    catch: () => invalid(`${certFile} and ${keyFile} are not a certificate and its key`, clientHint)
  })
})

const agentOptions = Effect.fnUntraced(function*({ caFile, certFile, client }: Tls) {
  const presented = client === null ? {} : yield* presenting(client)
  if (caFile !== null) return { ...presented, ca: yield* read(caFile) }
  return certFile === null ? presented : { ...presented, ...trusting(yield* read(certFile)) }
})

/** A client of the process that listens at this address. */
export const connectTo = Effect.fnUntraced(function*({ host, port, tls, token }: Address) {
  const url = `${tls === null ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${port}`
  const client = yield* OutgoingHttp.makeForOperatingApi(tls === null ? {} : yield* agentOptions(tls))
  return yield* Effect.provideService(ApiClient.make({ url, token }), HttpClient, client)
})
