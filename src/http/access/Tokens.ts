/**
 * The tokens of the operating API and the right of each. Comparisons take the same time for every token, so that their duration reveals
 * nothing.
 *
 * Invariants
 * 1. A token that was removed from its file is refused within a minute, and its sessions and streams of events end
 * 2. A seal proves that its maker had a token, and reveals nothing about the token
 * 3. No token is both an operate token and a read token: a file that would make it so is not used
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createHash, createHmac, timingSafeEqual } from "node:crypto"
import { keepCurrent } from "../files/ReplacedFiles.ts"
import type { Caller, Scope } from "../request/Caller.ts"

/** The tokens of one right: the current one and, while clients change to it, the previous one. */
export interface TokenSource {
  readonly initial: ReadonlyArray<Redacted.Redacted>
  readonly file: {
    /** `ROLLCALL_HTTP_TOKEN_FILE` */
    readonly variable: string
    /** Reads the tokens again, or fails with the reason why they cannot be used. */
    readonly read: Effect.Effect<
      ReadonlyArray<Redacted.Redacted>,
      { readonly message: string; readonly hint: string }
    >
  } | null
}

export interface TokenSources {
  /** Allows everything; null if every request from this machine may do everything. */
  readonly token: TokenSource | null
  /** Allows GET and HEAD only. */
  readonly readToken: TokenSource | null
}

/** The right of a token, and whether it still has it. */
export interface Grant {
  readonly caller: Caller
  /** False once the token was replaced. */
  readonly isValid: () => boolean
  /** A digest of the text that cannot be made without the token. */
  readonly seal: (text: string) => string
}

const digestOf = (text: string) => createHash("sha256").update(text).digest()
const digestsOf = (tokens: ReadonlyArray<Redacted.Redacted>): ReadonlyArray<Buffer> =>
  tokens.map((token) => digestOf(Redacted.value(token)))

const sealOf = (token: Buffer, text: string): Buffer => createHmac("sha256", token).update(text).digest()
const isEqual = (one: Buffer, other: Buffer): boolean => one.length === other.length && timingSafeEqual(one, other)

/** Compares with all digests, so that the duration does not depend on which one is equal. */
const contains = (digests: ReadonlyArray<Buffer>, sent: Buffer): boolean =>
  digests.reduce((found, digest) => timingSafeEqual(digest, sent) || found, false)

const isSame = (one: ReadonlyArray<Buffer>, other: ReadonlyArray<Buffer>): boolean =>
  Buffer.concat(one).equals(Buffer.concat(other))

/** The token of an `Authorization` header; null if the header has another form. */
export const bearerOf = (authorization: string | undefined): string | null =>
  /^bearer +(\S+) *$/i.exec(authorization ?? "")?.[1] ?? null

const make = Effect.fnUntraced(function*({ readToken, token }: TokenSources) {
  const accepted: Record<Scope, ReadonlyArray<Buffer>> = {
    operate: digestsOf(token?.initial ?? []),
    read: digestsOf(readToken?.initial ?? [])
  }

  const follow = (scope: Scope, other: Scope, source: TokenSource | null) => {
    if (source === null || source.file === null) return Effect.void
    const { read, variable } = source.file
    return Effect.forkScoped(keepCurrent({
      name: "token",
      first: accepted[scope],
      read: Effect.filterOrFail(
        Effect.map(read, digestsOf),
        (digests) => !digests.some((digest) => contains(accepted[other], digest)),
        () => ({
          message: `${variable} contains a token that is both the read token and the operate token`,
          hint: "make another token with: openssl rand -hex 32"
        })
      ),
      isSame,
      use: (digests) => {
        accepted[scope] = digests
        return { variable }
      }
    }))
  }
  yield* follow("operate", "read", token)
  yield* follow("read", "operate", readToken)

  const grant = (scope: Scope, sent: Buffer): Grant => ({
    caller: { scope, authenticatedBy: scope === "operate" ? "operate token" : "read token" },
    isValid: () => contains(accepted[scope], sent),
    seal: (text) => sealOf(sent, text).toString("base64url")
  })
  const hasSealed = (scope: Scope, text: string, seal: Buffer): boolean =>
    accepted[scope].some((token) => isEqual(sealOf(token, text), seal))
  return {
    /** The right of the valid token with which the text was sealed; null if no valid token made the seal. */
    sealedBy: (text: string, encoded: string): Scope | null => {
      const seal = Buffer.from(encoded, "base64url")
      return hasSealed("operate", text, seal) ? "operate" : hasSealed("read", text, seal) ? "read" : null
    },
    /** Null if the candidate is not one of the tokens. */
    check: (candidate: string): Grant | null => {
      const sent = digestOf(candidate)
      const [operates, reads] = [contains(accepted.operate, sent), contains(accepted.read, sent)]
      return operates ? grant("operate", sent) : reads ? grant("read", sent) : null
    }
  }
})

export class Tokens extends Context.Service<Tokens, Effect.Success<ReturnType<typeof make>>>()("rollcall/http/Tokens") {
  static readonly layer = (sources: TokenSources): Layer.Layer<Tokens> => Layer.effect(Tokens, make(sources))
}
