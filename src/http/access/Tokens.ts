/** The two tokens: what each allows, and comparing them without revealing anything by the time it takes. */
import * as Redacted from "effect/Redacted"
import { createHash, timingSafeEqual } from "node:crypto"
import type { Caller } from "./Caller.ts"
import type { Reachability } from "./RequestOrigin.ts"

export interface Tokens {
  /** Allows everything; null: every request from this machine may do everything. */
  readonly token: Redacted.Redacted | null
  /** Allows GET only. */
  readonly readToken: Redacted.Redacted | null
}

/** Everything that access to the API depends on. */
export interface Access extends Tokens, Reachability {}

const digest = (text: string) => createHash("sha256").update(text).digest()

const equals = (token: Redacted.Redacted | null, candidate: Buffer): boolean =>
  token !== null && timingSafeEqual(digest(Redacted.value(token)), candidate)

/** The rights of the token; null if it is neither of the two. */
export const callerWith = ({ readToken, token }: Tokens, candidate: string): Caller | null => {
  const sent = digest(candidate)
  const [operates, reads] = [equals(token, sent), equals(readToken, sent)]
  if (operates) return { scope: "operate", means: "operate token" }
  return reads ? { scope: "read", means: "read token" } : null
}

/** The token of an `Authorization` header; null if the header has another form. */
export const bearerOf = (authorization: string | undefined): string | null =>
  /^bearer +(\S+) *$/i.exec(authorization ?? "")?.[1] ?? null
