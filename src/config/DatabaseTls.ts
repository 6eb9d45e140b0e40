/**
 * How the connection to a PostgreSQL server is encrypted: the parameters of libpq in its address.
 *
 * Invariants
 * 1. An encrypted connection goes to a server whose certificate was verified, by default including its host name
 * 2. A parameter that would make the connection safer is obeyed or refused, never ignored
 * 3. No fault quotes a part of the address: the misspelled part may be the password   (I11)
 */
import * as Redacted from "effect/Redacted"
import type { ConfigValue } from "./ConfigValue.ts"
import { isLoopback, orAllowPlaintext, type PlaintextConnection } from "./Plaintext.ts"

/** `off`: never encrypted. `optional`: encrypted if the server offers it. */
export type DatabaseTls = "off" | "optional" | RequiredTls

/** Paths are those of PEM files. */
export interface RequiredTls {
  /** True if the host name must be in the server's certificate. */
  readonly verifyHost: boolean
  /** The certificates of the authorities that may have signed the server's certificate; null for those that Node.js trusts. */
  readonly rootCertificate: string | null
  readonly client: {
    readonly certificate: string
    readonly key: string
    readonly keyPassword: Redacted.Redacted | null
  } | null
}

const encrypting = ["require", "verify-ca", "verify-full"]
const modes = ["disable", "allow", "prefer", ...encrypting]

/** By parameter: the values that are refused (null for all), and what to do instead. */
const refused: Readonly<Record<string, { readonly values: ReadonlyArray<string> | null; readonly hint: string }>> = {
  ssl: { values: null, hint: "Write sslmode=verify-full instead" },
  channel_binding: {
    values: ["require"],
    hint: "Leave it out and write sslmode=verify-full: then the server proves its identity with its certificate"
  },
  gssencmode: { values: ["require"], hint: "Leave it out and write sslmode=verify-full" },
  require_auth: { values: null, hint: "Leave it out; a password is only sent over a connection that the rules allow" },
  requirepeer: { values: null, hint: "Leave it out, and let only the server's user write the folder of the socket" },
  sslcrl: { values: null, hint: "Leave it out: lists of revoked certificates are not read" },
  sslcrldir: { values: null, hint: "Leave it out: lists of revoked certificates are not read" },
  sslnegotiation: { values: ["direct"], hint: "Leave it out" },
  ssl_min_protocol_version: { values: ["TLSv1.3"], hint: "Leave it out: the server chooses TLS 1.2 or 1.3" }
}

const checkParameters = (location: ConfigValue, parameters: URLSearchParams): void => {
  if (parameters.getAll("sslmode").some((mode) => !modes.includes(mode))) {
    location.fault("has an unknown sslmode", `Use one of ${modes.join(", ")}, or leave sslmode out`)
  }
  for (const [name, { hint, values }] of Object.entries(refused)) {
    const given = parameters.getAll(name).filter((value) => values === null || values.includes(value))
    if (given.length === 0) continue
    location.fault(`has the parameter ${name}${values === null ? "" : `=${values[0]}`}, which is not supported`, hint)
  }
}

/** `host`: the host name, or a path if it is a Unix socket. If a parameter is repeated, the last value is used. */
export const parseTls = (
  location: ConfigValue,
  parameters: URLSearchParams,
  host: string,
  allowPlaintext: ReadonlySet<PlaintextConnection>
): DatabaseTls => {
  checkParameters(location, parameters)
  // a socket is never encrypted, as in libpq
  if (host.startsWith("/")) return "off"
  const last = (name: string): string | null => parameters.getAll(name).at(-1) || null
  const mode = last("sslmode")
  const [root, certificate, key] = [last("sslrootcert"), last("sslcert"), last("sslkey")]
  if (mode === null || !encrypting.includes(mode)) {
    if (root !== null || certificate !== null || key !== null) {
      location.fault("names certificates, but its sslmode does not require encryption", "Add sslmode=verify-full")
    } else if (!isLoopback(host) && !allowPlaintext.has("postgres")) {
      location.fault(
        "would send the password and every record unencrypted to another machine",
        `Add sslmode=verify-full, and sslrootcert=<file> if the server's certificate is signed by your own authority; ${
          orAllowPlaintext("postgres")
        }`
      )
    }
    return mode === "allow" || mode === "prefer" ? "optional" : "off"
  }
  if ((certificate === null) !== (key === null)) {
    location.fault("has only one of sslcert and sslkey", "Name the client's certificate and its key, or neither")
  }
  const rootCertificate = root === "system" ? null : root
  if (mode === "verify-ca" && rootCertificate === null) {
    location.fault(
      "has sslmode=verify-ca without sslrootcert, so any server's certificate would be accepted",
      "Write sslmode=verify-full, or add sslrootcert=<file> with the certificate of your own authority"
    )
  }
  const keyPassword = last("sslpassword")
  return {
    verifyHost: mode !== "verify-ca",
    rootCertificate,
    client: certificate === null || key === null
      ? null
      : { certificate, key, keyPassword: keyPassword === null ? null : Redacted.make(keyPassword) }
  }
}
