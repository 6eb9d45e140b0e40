/**
 * The location of the store, how the connection to a PostgreSQL server is encrypted (the parameters of libpq in its address), and the keys
 * that encrypt the store's content. `Config.ts` reads how long events are kept (`retention`).
 *
 * Invariants
 * 1. No fault quotes a URL or a part of one: the misspelled part may be the password   (I11)
 * 2. An encrypted connection goes to a server whose certificate was verified, by default including its host name
 * 3. A parameter that would make the connection safer is obeyed or refused, never ignored
 *
 * Gotchas
 * - Unknown URL parameters are ignored, because database providers issue URLs with additional parameters.
 */
import * as Redacted from "effect/Redacted"
import { type EncryptionKey, parseKey } from "../domain/EncryptionKey.ts"
import { isSecret } from "./ConfigFile.ts"
import type { ConfigValue } from "./ConfigValue.ts"
import { isLoopback, orAllowPlaintext, type PlaintextConnection } from "./Plaintext.ts"

/** `off`: never encrypted. `optional`: encrypted if the server offers it. Paths are those of PEM files. */
type DatabaseTls = "off" | "optional" | {
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

/** `name` contains no secret, so it may be logged. */
export type StoreLocation =
  | { readonly _tag: "Sqlite"; readonly file: string; readonly name: string }
  | {
    readonly _tag: "Postgres"
    readonly url: Redacted.Redacted
    readonly name: string
    readonly tls: DatabaseTls
  }

// ---- the connection to PostgreSQL ---------------------------------------------------------------------------------

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
const parseTls = (
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

// ---- the location -------------------------------------------------------------------------------------------------

const hint =
  "Use sqlite:<file>, such as sqlite:./rollcall.db, or postgres://<user>@<host>/<database>?sslmode=verify-full"

const isEncoded = (part: string): boolean => {
  try {
    decodeURIComponent(part)
    return true
  } catch {
    return false
  }
}

const isPort = (text: string): boolean => /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535

/** Reports every error in the URL of a database. */
const checkUrl = (location: ConfigValue, url: URL): void => {
  const { hostname, password, pathname, searchParams, username } = url
  const all = (name: string, isRight: (value: string) => boolean) => searchParams.getAll(name).every(isRight)
  if (![hostname, password, pathname, username].every(isEncoded)) {
    location.fault(
      "contains a % that is not followed by two hexadecimal digits",
      "Write a literal % as %25, even in the password"
    )
  }
  // if it were ignored like other unknown parameters, the tables would not be in the schema that it names
  if (searchParams.has("schema")) {
    location.fault(
      "names a schema",
      'Leave `schema` out: the tables are always in the schema "rollcall" of the database'
    )
  }
  if (!all("port", isPort)) location.fault("has an invalid port", "Use a number from 1 to 65535")
  if (!all("connect_timeout", (seconds) => /^\d+$/.test(seconds))) {
    location.fault(
      "has an invalid connect_timeout",
      "Use a whole number of seconds; 0 and values above 15 mean 15 seconds"
    )
  }
}

/** The parameter `host` takes precedence over the host of the URL. If it is a path, it is the folder of a Unix socket. */
const hostOf = ({ hostname, searchParams }: URL): string =>
  searchParams.getAll("host").at(-1) ?? ((isEncoded(hostname) ? decodeURIComponent(hostname) : "") || "localhost")

export const parseStore = (
  location: ConfigValue,
  allowPlaintext: ReadonlySet<PlaintextConnection>
): StoreLocation => {
  const secretUrl = isSecret(location.value) ? location.secret()?.initial ?? Redacted.make("sqlite::memory:") : null
  const text = secretUrl === null ? location.text() ?? "sqlite:./rollcall.db" : Redacted.value(secretUrl)
  if (!/^postgres(ql)?:/.test(text)) {
    // after `sqlite:`, the URL of a database would be taken for a file name, and shown with its password
    if (!/^sqlite:(?!file:)./.test(text) || text.includes("://")) location.fault("is not a store URL", hint)
    const file = text.replace(/^sqlite:/, "")
    return { _tag: "Sqlite", file, name: file }
  }
  const url = URL.parse(text) ?? new URL("postgres:")
  const { host, password, pathname, searchParams } = url
  const database = searchParams.get("dbname") ?? pathname.slice(1)
  if (database === "") location.fault("does not name a database", hint)
  if (/[/@]/.test(database)) {
    location.fault(
      "has a / or @ in the name of the database, so the user name or the password probably contains an unescaped /",
      "Write / as %2F, @ as %40 and # as %23 in the user name and the password"
    )
  }
  checkUrl(location, url)
  const isInFile = secretUrl === null && !location.isVariable
  if (isInFile && (password !== "" || searchParams.has("password"))) {
    location.fault("contains a password", `Write secret("DATABASE_URL"), and set the variable with that name`)
  }
  const name = `postgres://${searchParams.getAll("host").at(-1) ?? (host || "localhost")}/${database}`
  const tls = parseTls(location, searchParams, hostOf(url), allowPlaintext)
  return { _tag: "Postgres", url: secretUrl ?? Redacted.make(text), name, tls }
}

// ---- keys ---------------------------------------------------------------------------------------------------------

/** The keys in the secret: one per line, the newest first. */
export const parseEncryptionKeys = (value: ConfigValue): ReadonlyArray<EncryptionKey> => {
  const secret = value.secret()
  if (secret === undefined) return []
  const lines = Redacted.value(secret.initial).split(/[\s,]+/).filter((line) => line !== "")
  const keys = lines.map(parseKey)
  const bad = keys.indexOf(undefined)
  if (lines.length === 0 || bad >= 0) {
    value.fault(
      lines.length === 0
        ? "contains no key"
        : `contains a key that is not 32 bytes in base64: number ${bad + 1} of ${lines.length}`,
      "Make a key with `openssl rand -base64 32`. Several keys are written one per line, the newest first"
    )
  }
  const known = keys.flatMap((key) => key ?? [])
  if (new Set(known.map(({ id }) => id)).size < known.length) {
    value.fault("contains a key twice", "Write each key once, the newest first")
  }
  return known
}
