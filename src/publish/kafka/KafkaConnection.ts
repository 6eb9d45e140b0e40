/**
 * How to reach the brokers: addresses, encryption and login, and a kafkajs client made from them.
 *
 * Gotchas
 * - kafkajs keeps the certificates that it is made with. A client is therefore made for each producer, consumer and admin.
 * - A broker that refuses a token answers with a challenge (RFC 7628, section 3.2.3). kafkajs takes that for a success and fails
 *   with the next request, which does not say why. Tokens are therefore sent by our own provider.
 * - After such a challenge a broker accepts no other login on the connection. kafkajs tries one and fails with that error, so `explain`
 *   brings back the first one.
 * - kafkajs logs in for each connection, and before a session at a broker ends. A broker does not allow a second login within a
 *   second, so tokens that are valid for less than `loginMargin` cannot be used.
 * - kafkajs repeats its log messages in the errors it throws, so its log goes to our debug level.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import kafkajs from "kafkajs"
import { promisify } from "node:util"
import { zstdCompress, zstdDecompress } from "node:zlib"
import { SinkError } from "../Sink.ts"
import { toSinkError } from "./KafkaErrors.ts"
import { readTls, type TlsOptions } from "./KafkaTls.ts"
import * as OAuthToken from "./OAuthToken.ts"

const { CompressionCodecs, CompressionTypes } = kafkajs

/** kafkajs has its own gzip, and gets zstd from Node.js; others would need native packages. */
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: ({ buffer }: { readonly buffer: Buffer }) => promisify(zstdCompress)(buffer),
  decompress: (buffer: Buffer) => promisify(zstdDecompress)(buffer)
})
export const compressionTypes = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  zstd: CompressionTypes.ZSTD
} as const

export interface PasswordLogin {
  readonly mechanism: "plain" | "scram-sha-256" | "scram-sha-512"
  readonly username: string
  readonly password: Redacted.Redacted
}

export interface KafkaConnection {
  /** `host:port` */
  readonly brokers: ReadonlyArray<string>
  /** Whether connections are encrypted, and with which certificates. */
  readonly ssl: boolean | TlsOptions
  readonly sasl?: PasswordLogin | OAuthToken.OAuthLogin | undefined
  /** How sent messages are compressed; `none` by default. */
  readonly compression?: keyof typeof compressionTypes
}

/** A client that is not connected yet. */
export interface Connection {
  readonly kafka: kafkajs.Kafka
  /** Replaces an error of this client with the refusal of the token that caused it. */
  readonly explain: (error: SinkError) => SinkError
}

export const retry = { initialRetryTime: 50, maxRetryTime: 1000, factor: 0.2, multiplier: 2, retries: 7 }

/** The result makes a client for each run; that fails if certificates cannot be read or a token cannot be obtained. */
export const make = Effect.fnUntraced(
  function*({ brokers, sasl, ssl }: KafkaConnection): Effect.fn.Return<Effect.Effect<Connection, SinkError>> {
    const services = yield* Effect.context<never>()
    const fork = Effect.runForkWith(services)
    const run = Effect.runPromiseWith(services)
    const tokens = sasl?.mechanism === "oauthbearer" ? OAuthToken.make(sasl) : null

    const tokenProvider = (
      { login }: OAuthToken.TokenSource,
      setRefusal: (refusal: SinkError | null) => void
    ): kafkajs.Mechanism => ({
      mechanism: "oauthbearer",
      authenticationProvider: ({ saslAuthenticate }) => ({
        authenticate: async () => {
          setRefusal(null)
          await run(Effect.tapError(
            login((token) =>
              Effect.tryPromise({
                try: () =>
                  saslAuthenticate({
                    request: { encode: () => OAuthToken.encodeLogin(token) },
                    response: { decode: (bytes) => bytes, parse: OAuthToken.requireSuccess }
                  }),
                catch: (error) => {
                  const known = toSinkError("logging in to Kafka", error)
                  return known.reason._tag === "Refused" ? known : error
                }
              })
            ),
            (error) => Effect.sync(() => setRefusal(error instanceof SinkError ? error : null))
          ))
        }
      })
    })
    const passwordLogin = sasl === undefined || sasl.mechanism === "oauthbearer"
      ? null
      : { ...sasl, password: Redacted.value(sasl.password) } as kafkajs.SASLOptions

    return Effect.gen(function*() {
      const tls = ssl === false ? false : yield* readTls(ssl === true ? {} : ssl)
      if (tokens !== null) yield* tokens.current
      /** Why this client's last login failed; null after a login. */
      let refusal: SinkError | null = null
      const login = tokens === null ? passwordLogin : tokenProvider(tokens, (latest) => refusal = latest)
      const kafka = new kafkajs.Kafka({
        clientId: "rollcall",
        brokers: [...brokers],
        ssl: tls,
        ...(login === null ? {} : { sasl: { ...login } }),
        reauthenticationThreshold: OAuthToken.loginMargin,
        connectionTimeout: 3000,
        requestTimeout: 10_000,
        retry,
        logLevel: kafkajs.logLevel.WARN,
        logCreator: () => ({ namespace, log }) => {
          fork(Effect.annotateLogs(Effect.logDebug(log.message), "kafkajs", namespace))
        }
      })
      return { kafka, explain: (error) => error.reason._tag === "Fenced" ? error : refusal ?? error }
    })
  }
)
