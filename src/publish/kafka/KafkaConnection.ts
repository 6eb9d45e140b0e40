/**
 * How to reach the brokers (addresses, encryption, login), and the clients for that: kafkajs, and a producer of the driver.
 *
 * Gotchas
 * - kafkajs keeps the certificates that it is made with. A client is therefore made for each producer, consumer and admin.
 * - A broker that refuses a token answers with a challenge (RFC 7628, section 3.2.3). The drivers treat the challenge as a success, and
 *   fail with the next request without a reason. Tokens are therefore sent by our own provider.
 * - After such a challenge a broker accepts no other login on the connection. kafkajs tries another login and fails with that error, so
 *   `explain` restores the first error.
 * - kafkajs logs in for each connection, and again `loginMargin` before the token expires. A broker does not allow a second login within
 *   a second. So a token that is valid for less than `loginMargin` cannot be used.
 * - kafkajs repeats its log messages in the errors it throws, so its log goes to our debug level.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import kafkajs from "kafkajs"
import { SinkError } from "../Sink.ts"
import type { Codec } from "./driver/Compression.ts"
import {
  clientId,
  type DriverName,
  type Endpoint,
  type Exchange,
  type Producer,
  type ProducerOptions,
  timeouts
} from "./driver/Driver.ts"
import { kafkaJsAddress, socketFactory } from "./driver/KafkaJsCorrections.ts"
import * as KafkaJsProducer from "./driver/KafkaJsProducer.ts"
import { toSinkError } from "./KafkaErrors.ts"
import { readTls, type TlsOptions } from "./KafkaTls.ts"
import * as OAuthToken from "./OAuthToken.ts"

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
  /** The library that sends messages; `kafkajs` by default. */
  readonly driver?: DriverName
  /** How sent messages are compressed; `none` by default. */
  readonly compression?: Codec
}

/** A client that is not connected yet. */
export interface Connection {
  readonly kafka: kafkajs.Kafka
  /** A producer of the configured driver, which is loaded here. */
  readonly producer: (options: Omit<ProducerOptions, "codec">) => Promise<Producer>
  /** Replaces an error of this client with the refusal of the token that caused it. */
  readonly explain: (error: SinkError) => SinkError
}

/** Returns an effect that makes a new client each time. It fails if certificates cannot be read or a token cannot be obtained. */
export const make = Effect.fnUntraced(
  function*(
    { brokers, compression: codec = "none", driver = "kafkajs", sasl, ssl }: KafkaConnection
  ): Effect.fn.Return<Effect.Effect<Connection, SinkError>> {
    const services = yield* Effect.context<never>()
    const fork = Effect.runForkWith(services)
    const run = Effect.runPromiseWith(services)
    const tokens = sasl?.mechanism === "oauthbearer" ? OAuthToken.make(sasl) : null

    /** Sends a token, and keeps the reason if the broker refuses it. */
    const logIn =
      ({ login }: OAuthToken.TokenSource, setRefusal: (refusal: SinkError | null) => void) =>
      async (exchange: Exchange): Promise<void> => {
        setRefusal(null)
        await run(Effect.tapError(
          login((token) =>
            Effect.tryPromise({
              try: async () => OAuthToken.requireSuccess(await exchange(OAuthToken.encodeLogin(token))),
              catch: (error) => {
                const known = toSinkError("logging in to Kafka", error)
                return known.reason._tag === "Refused" ? known : error
              }
            })
          ),
          (error) => Effect.sync(() => setRefusal(error instanceof SinkError ? error : null))
        ))
      }

    return Effect.gen(function*() {
      const tls = ssl === false ? false : yield* readTls(ssl === true ? {} : ssl)
      if (tokens !== null) yield* tokens.current
      /** Why this client's last login failed; null after a login. */
      let refusal: SinkError | null = null
      const login: Endpoint["login"] = tokens !== null
        ? { mechanism: "oauthbearer", logIn: logIn(tokens, (latest) => refusal = latest) }
        : sasl === undefined || sasl.mechanism === "oauthbearer"
        ? null
        : { ...sasl, password: Redacted.value(sasl.password) }
      const kafka = new kafkajs.Kafka({
        clientId,
        brokers: brokers.map(kafkaJsAddress),
        socketFactory,
        ssl: tls,
        ...(login === null ? {} : { sasl: KafkaJsProducer.saslOf(login) }),
        reauthenticationThreshold: OAuthToken.loginMargin,
        connectionTimeout: timeouts.connect,
        requestTimeout: timeouts.request,
        retry: KafkaJsProducer.retry,
        logLevel: kafkajs.logLevel.WARN,
        logCreator: () => ({ namespace, log }) => {
          fork(Effect.annotateLogs(Effect.logDebug(log.message), "kafkajs", namespace))
        }
      })
      return {
        kafka,
        producer: async (options) =>
          driver === "kafkajs"
            ? KafkaJsProducer.make(kafka, { ...options, codec })
            : (await import("./driver/PlatformaticProducer.ts")).make({ brokers, tls, login }, { ...options, codec }),
        explain: (error) => error.reason._tag === "Fenced" ? error : refusal ?? error
      }
    })
  }
)
