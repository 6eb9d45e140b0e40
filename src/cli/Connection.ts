/**
 * How commands reach the running process: the address, over TLS if it is configured.
 *
 * Gotchas
 * - On the server's own machine the configuration names the server's certificate, and commands connect to an address that the
 *   certificate need not contain. They then accept exactly that certificate.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Effect from "effect/Effect"
import { HttpClient } from "effect/http/HttpClient"
import type * as Redacted from "effect/Redacted"
import { X509Certificate } from "node:crypto"
import { readFile } from "node:fs/promises"
import { Agent } from "node:http"
import { Agent as HttpsAgent, type AgentOptions } from "node:https"
import { checkServerIdentity } from "node:tls"
import * as ApiClient from "./ApiClient.ts"

export interface Address {
  readonly host: string
  readonly port: number
  readonly token: Redacted.Redacted | null
  /** Paths of PEM files; null: without TLS. */
  readonly tls: { readonly certFile: string | null; readonly caFile: string | null } | null
}

const read = (path: string) =>
  Effect.tryPromise({
    try: () => readFile(path, "utf8"),
    catch: () =>
      new ApiClient.ApiClientError({
        reason: "invalid",
        message: `the certificate file ${path} cannot be read`,
        hint: "set ROLLCALL_HTTP_TLS_CA_FILE to the certificate of the authority that signed the server's certificate"
      })
  })

/** Accepts this certificate under every name, and others as usual. */
const trusting = (cert: string): AgentOptions => {
  const { raw } = new X509Certificate(cert)
  return {
    ca: cert,
    allowPartialTrustChain: true,
    checkServerIdentity: (host, peer) => raw.equals(peer.raw) ? undefined : checkServerIdentity(host, peer)
  }
}

const agentOptions = Effect.fnUntraced(function*({ caFile, certFile }: NonNullable<Address["tls"]>) {
  if (caFile !== null) return { ca: yield* read(caFile) }
  return certFile === null ? {} : trusting(yield* read(certFile))
})

/** A client of the process that listens at this address. */
export const connectTo = Effect.fnUntraced(function*({ host, port, tls, token }: Address) {
  const url = `${tls === null ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${port}`
  const make = ApiClient.make({ url, token })
  if (tls === null) return yield* make
  const agent = { http: new Agent(), https: new HttpsAgent(yield* agentOptions(tls)) }
  const client = yield* Effect.provideService(NodeHttpClient.makeNodeHttp, NodeHttpClient.HttpAgent, agent)
  return yield* Effect.provideService(make, HttpClient, client)
})
