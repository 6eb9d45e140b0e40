/**
 * Where the store is. Hides how the address of a database is read, which is as libpq does, and what can be wrong with it.
 *
 * Invariants
 * 1. No fault quotes an address, nor a part of it: what is misspelt may hold the password   (I11)
 *
 * Gotchas
 * - Parameters that nobody here knows are passed over: what serves a database hands out addresses with its own.
 */
import * as Redacted from "effect/Redacted"
import { isSecret } from "./ConfigFile.ts"
import type { ConfigValue, SectionReader } from "./ConfigValue.ts"

/** `name` may be read by everybody. */
export type StoreLocation =
  | { readonly _tag: "Sqlite"; readonly file: string; readonly name: string }
  | { readonly _tag: "Postgres"; readonly url: Redacted.Redacted; readonly name: string }

const hint = "Use sqlite:<file>, such as sqlite:./rollcall.db, or postgres://<user>@<host>/<database>"

const sslModes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]

const isEncoded = (part: string): boolean => {
  try {
    decodeURIComponent(part)
    return true
  } catch {
    return false
  }
}

const isPort = (text: string): boolean => /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535

/** Reports what keeps an address from being one. */
const checkUrl = (place: ConfigValue, url: URL): void => {
  const { hostname, password, pathname, searchParams, username } = url
  const all = (name: string, isRight: (value: string) => boolean) => searchParams.getAll(name).every(isRight)
  if (![hostname, password, pathname, username].every(isEncoded)) {
    place.fault("has a % that begins no code", "Write % itself as %25, also within the password")
  }
  if (!all("sslmode", (mode) => sslModes.includes(mode))) {
    place.fault("has an sslmode that there is not", `Use one of ${sslModes.join(", ")}, or leave it out`)
  }
  // passed over as others are, nothing would be encrypted
  if (searchParams.has("ssl")) place.fault("asks for ssl, which nobody here knows", "Write sslmode=require instead")
  // passed over as others are, the tables would be where nobody looks for them
  if (searchParams.has("schema")) {
    place.fault("names a schema", 'Leave `schema` out: the tables are always in the schema "rollcall" of the database')
  }
  if (!all("port", isPort)) place.fault("has a port that is none", "Use a number from 1 to 65535")
  if (!all("connect_timeout", (seconds) => /^\d+$/.test(seconds))) {
    place.fault("has a connect_timeout that is none", "Use a whole number of seconds; more than 15 are 15, and so is 0")
  }
}

/** The place of the store as `ROLLCALL_STORE`, else `DATABASE_URL`, else the file's property says it. */
export const parseStore = ({ file: own, secretAt, variable }: SectionReader<"store">): StoreLocation => {
  const place = variable("ROLLCALL_STORE").or(variable("DATABASE_URL")).or(own.store)
  const address = isSecret(place.value) ? secretAt(place)?.initial ?? Redacted.make("sqlite::memory:") : null
  const text = address === null ? place.text() ?? "sqlite:./rollcall.db" : Redacted.value(address)
  if (!/^postgres(ql)?:/.test(text)) {
    if (!/^sqlite:./.test(text)) place.fault("names no store", hint)
    const file = text.replace(/^sqlite:/, "")
    return { _tag: "Sqlite", file, name: file }
  }
  const url = URL.parse(text) ?? new URL("postgres:")
  const { host, password, pathname, searchParams } = url
  const database = searchParams.get("dbname") ?? pathname.slice(1)
  if (database === "") place.fault("is no address of a database", hint)
  checkUrl(place, url)
  const inFile = address === null && !variable("ROLLCALL_STORE").isSet
  if (inFile && (password !== "" || searchParams.has("password"))) {
    place.fault("holds a password", `Write secret("DATABASE_URL"), and set the variable of that name`)
  }
  const name = `postgres://${host || (searchParams.get("host") ?? "localhost")}/${database}`
  return { _tag: "Postgres", url: address ?? Redacted.make(text), name }
}
