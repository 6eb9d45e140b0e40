/**
 * Reads the certificates for encrypted connections, and checks them before the first connection: the driver would fail
 * in the middle of a handshake.
 *
 * Gotchas
 * - The files are read once, when the store is opened.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { X509Certificate } from "node:crypto"
import { readFileSync } from "node:fs"
import { type ConnectionOptions, createSecureContext } from "node:tls"
import { misconfigured, type StoreError } from "../StoreError.ts"

/** Paths are those of PEM files. */
export interface Tls {
  /** Whether the host name must be in the server's certificate. */
  readonly verifyHost: boolean
  /** The certificates that may have signed the server's; null: those that Node.js trusts. */
  readonly rootCertificate: string | null
  readonly client: {
    readonly certificate: string
    readonly key: string
    readonly keyPassword: Redacted.Redacted | null
  } | null
}

/** The error code of OpenSSL or the file system. Their messages may quote the content of a file. */
const codeOf = (cause: unknown): string => cause instanceof Error && "code" in cause ? ` (${String(cause.code)})` : ""

/** `parameter`: the parameter of the address that names the file. */
const readPem = (parameter: string, path: string, check: (pem: string) => unknown): string => {
  let pem: string
  try {
    pem = readFileSync(path, "utf8")
  } catch (cause) {
    throw misconfigured(
      `the file that ${parameter} names in the address of the database cannot be read${codeOf(cause)}`
    )
  }
  try {
    check(pem)
  } catch (cause) {
    throw misconfigured(
      `the file that ${parameter} names in the address of the database holds no ${
        parameter === "sslkey" ? "key that sslpassword decrypts" : "certificate in PEM format"
      }${codeOf(cause)}`
    )
  }
  return pem
}

const certificate = (parameter: string, path: string) => readPem(parameter, path, (pem) => new X509Certificate(pem))

const contextOf = ({ client, rootCertificate }: Tls) => {
  const ca = rootCertificate === null ? {} : { ca: certificate("sslrootcert", rootCertificate) }
  if (client === null) return createSecureContext(ca)
  const cert = certificate("sslcert", client.certificate)
  const passphrase = client.keyPassword === null ? {} : { passphrase: Redacted.value(client.keyPassword) }
  const key = readPem("sslkey", client.key, (key) => createSecureContext({ key, ...passphrase }))
  try {
    return createSecureContext({ ...ca, cert, key, ...passphrase })
  } catch (cause) {
    throw misconfigured(`sslcert and sslkey in the address of the database do not belong together${codeOf(cause)}`)
  }
}

export const optionsOf = (tls: Tls): Effect.Effect<ConnectionOptions, StoreError> =>
  Effect.try({
    try: () => ({
      secureContext: contextOf(tls),
      // set explicitly, so that NODE_TLS_REJECT_UNAUTHORIZED has no effect
      rejectUnauthorized: true,
      ...(tls.verifyHost ? {} : { checkServerIdentity: () => undefined })
    }),
    catch: (cause) => cause as StoreError
  })
