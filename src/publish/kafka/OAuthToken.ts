/**
 * The token of the login OAUTHBEARER: from a file that another program renews, or from a token endpoint with the grant
 * `client_credentials` (RFC 6749, section 4.4).
 *
 * Invariants
 * 1. A token from the endpoint is renewed long enough before it expires, and when the brokers refused it
 * 2. The brokers may refuse a token that they accepted for a while, for example after a change of keys. That is an outage: the next login
 *    follows soon, with another token. After any other refusal, the relay waits for an operator
 * 3. Neither tokens nor the client's secret appear in errors   (I11)
 *
 * Gotchas
 * - Most tokens are JSON Web Tokens, but a broker may accept others: the expiry is checked only if the token contains it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { refused, SinkError, Unreachable } from "../Sink.ts"
import * as ServerRequest from "./ServerRequest.ts"

export interface TokenEndpoint {
  readonly url: string
  readonly clientId: string
  readonly clientSecret: Redacted.Redacted
  readonly scope: string | null
}

/** Either a token that another program keeps valid, or the endpoint that issues tokens. */
export type OAuthLogin =
  & {
    readonly mechanism: "oauthbearer"
  }
  & ({ readonly token: Effect.Effect<Redacted.Redacted>; readonly endpoint: null } | {
    readonly token: null
    readonly endpoint: TokenEndpoint
  })

export interface TokenSource {
  /** A token that has not expired. */
  readonly current: Effect.Effect<Redacted.Redacted, SinkError>
  /** Logs in with such a token; `send` fails with `Refused` if the brokers refuse it, and it is then not used again. */
  readonly login: (send: (token: Redacted.Redacted) => Effect.Effect<void, unknown>) => Effect.Effect<void, unknown>
}

/** Where tokens come from. */
interface Tokens extends Pick<TokenSource, "current"> {
  readonly forget: (token: Redacted.Redacted) => void
}

/** A session at a broker ends with its token; this time before (ms), kafkajs logs in again. */
export const loginMargin = 5000
/** A token is renewed when a quarter of its lifetime, but at least this time (ms), remains. */
const renewalMargin = 2 * loginMargin

const failed = (problem: string, advice: string): SinkError =>
  new SinkError({ reason: new Unreachable({ message: `logging in to Kafka: ${problem}`, cause: null, advice }) })

const Claims = Schema.fromJsonString(Schema.Struct({ exp: Schema.Number }))
/** When a JSON Web Token expires, in ms; null if the token does not contain it. */
const expiryOf = (token: string): number | null => {
  const payload = Buffer.from(token.split(".")[1] ?? "", "base64url").toString()
  return Option.match(Schema.decodeUnknownOption(Claims)(payload), {
    onNone: () => null,
    onSome: ({ exp }) => exp * 1000
  })
}

const fileAdvice = "Renew the file that KAFKA_SASL_TOKEN_FILE names; it is read again for each login."

const requireValid = Effect.fnUntraced(function*(token: Redacted.Redacted) {
  const now = yield* Clock.currentTimeMillis
  const text = Redacted.value(token)
  if (!/^[\x21-\x7e]+$/.test(text)) {
    return yield* failed("the token contains white space or control characters", fileAdvice)
  }
  const expiresAt = expiryOf(text)
  if (expiresAt === null || expiresAt > now) return token
  return yield* failed(`the token expired at ${new Date(expiresAt).toISOString()}`, fileAdvice)
})

const Grant = Schema.Struct({
  access_token: Schema.String.check(Schema.isPattern(/^[\x21-\x7e]+$/)),
  expires_in: Schema.optionalKey(Schema.Union([Schema.Number, Schema.NumberFromString]))
})
const Refusal = Schema.Struct({ error: Schema.String.check(Schema.isPattern(/^[\w.:-]{1,60}$/)) })

const endpointAdvice = "Check KAFKA_SASL_TOKEN_URL, and that the token endpoint can be reached."

const requestToken = Effect.fnUntraced(function*(endpoint: TokenEndpoint) {
  const { clientId, clientSecret, scope } = endpoint
  const { host, pathname } = new URL(endpoint.url)
  const name = `the token endpoint ${host}${pathname}`
  const request = HttpClientRequest.post(endpoint.url).pipe(
    // RFC 6749, section 2.3.1: both parts are form-encoded first
    HttpClientRequest.basicAuth(
      encodeURIComponent(clientId),
      Redacted.make(encodeURIComponent(Redacted.value(clientSecret)))
    ),
    HttpClientRequest.acceptJson,
    HttpClientRequest.bodyUrlParams({ grant_type: "client_credentials", ...(scope === null ? {} : { scope }) })
  )
  const { body, status } = yield* Effect.mapError(
    ServerRequest.send(request),
    (why) => failed(`${name} did not respond (${why})`, endpointAdvice)
  )
  if (status === 400 || status === 401 || status === 403) {
    const refusal = Option.flatMap(body, Schema.decodeUnknownOption(Refusal))
    const reason = Option.match(refusal, { onNone: () => `status ${status}`, onSome: ({ error }) => error })
    return yield* refused(
      `logging in to Kafka: ${name} refused the client (${reason})`,
      "check KAFKA_SASL_CLIENT_ID, KAFKA_SASL_CLIENT_SECRET and KAFKA_SASL_SCOPE."
    )
  }
  const grant = Option.flatMap(body, Schema.decodeUnknownOption(Grant))
  if (status === 200 && Option.isSome(grant)) return grant.value
  return yield* failed(`${name} did not issue a token (status ${status})`, endpointAdvice)
})

/** Has at most one request to the endpoint in flight. While it is unavailable, the last token is used until it expires. */
const fromEndpoint = (endpoint: TokenEndpoint): Tokens => {
  const mutex = Semaphore.makeUnsafe(1)
  let issued: { readonly token: Redacted.Redacted; readonly renewAt: number; readonly usableUntil: number } | null =
    null

  const renew = Effect.fnUntraced(function*(now: number) {
    const { access_token: token, expires_in: lifetime } = yield* requestToken(endpoint)
    const expiresAt = lifetime === undefined ? expiryOf(token) ?? now : now + lifetime * 1000
    issued = {
      token: Redacted.make(token),
      renewAt: expiresAt - Math.max(renewalMargin, (expiresAt - now) / 4),
      usableUntil: expiresAt - loginMargin
    }
    return issued.token
  })
  return {
    current: mutex.withPermit(Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      const last = issued
      if (last === null || now >= last.usableUntil) return yield* renew(now)
      if (now < last.renewAt) return last.token
      return yield* Effect.catchReason(renew(now), "SinkError", "Unreachable", () => Effect.succeed(last.token))
    })),
    forget: (token) => {
      if (issued?.token === token) issued = null
    }
  }
}

const fromFile = (token: Effect.Effect<Redacted.Redacted>): Tokens => ({
  current: Effect.flatMap(token, requireValid),
  forget: () => {}
})

/** If a token was accepted for at least this time (ms), a refusal means that the token is no longer valid. Otherwise it was never valid. */
const trialTime = 60_000

export const make = ({ endpoint, token }: OAuthLogin): TokenSource => {
  const { current, forget } = endpoint === null ? fromFile(token) : fromEndpoint(endpoint)
  let accepted: { readonly text: string; readonly since: number } | null = null
  return {
    current,
    login: Effect.fnUntraced(function*(send) {
      const token = yield* current
      const text = Redacted.value(token)
      const now = yield* Clock.currentTimeMillis
      yield* Effect.catch(send(token), (error) => {
        if (!(error instanceof SinkError) || error.reason._tag !== "Refused") return Effect.fail(error)
        forget(token)
        const isRevoked = accepted?.text === text && now - accepted.since >= trialTime
        accepted = null
        const advice = endpoint === null
          ? "The next login reads the token again."
          : "The next login uses another token."
        return Effect.fail(isRevoked ? failed("the brokers no longer accept the token", advice) : error)
      })
      if (accepted?.text !== text) accepted = { text, since: now }
    })
  }
}

// ---- the login at a broker ----------------------------------------------------------------------------------------

/** The client's message (RFC 7628, section 3.1). */
export const encodeLogin = (token: Redacted.Redacted): Buffer =>
  Buffer.from(`n,,\u0001auth=Bearer ${Redacted.value(token)}\u0001\u0001`)

/** The response of a broker is empty if it accepts the token. Otherwise it is JSON with the reason. */
export const requireSuccess = (answer: Buffer): void => {
  const [, status] = /"status"\s*:\s*"([\w-]{1,40})"/.exec(answer.toString()) ?? []
  if (answer.length <= 4 && status === undefined) return
  throw refused(
    `logging in to Kafka: the brokers refused the token (${status ?? "without a reason"})`,
    "check that the token is for these brokers: its issuer, audience, scope and lifetime must be what they require."
  )
}
