/**
 * The location of the store, and the keys that encrypt its content. `Config.ts` reads how long events are kept (`retention`).
 *
 * Invariants
 * 1. No fault quotes a URL or a part of one: the misspelled part may be the password   (I11)
 *
 * Gotchas
 * - Unknown URL parameters are ignored, because database providers issue URLs with additional parameters.
 */
import * as Redacted from "effect/Redacted"
import { type EncryptionKey, parseKey } from "../domain/EncryptionKey.ts"
import { isSecret } from "./ConfigFile.ts"
import type { ConfigValue } from "./ConfigValue.ts"
import { type DatabaseTls, parseTls } from "./DatabaseTls.ts"
import type { PlaintextConnection } from "./Plaintext.ts"

/** `name` contains no secret, so it may be logged. */
export type StoreLocation =
  | { readonly _tag: "Sqlite"; readonly file: string; readonly name: string }
  | {
    readonly _tag: "Postgres"
    readonly url: Redacted.Redacted
    readonly name: string
    readonly tls: DatabaseTls
  }

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
