/**
 * How to reach the brokers: addresses, encryption and login, and a kafkajs client made from them.
 *
 * Gotchas
 * - kafkajs keeps the certificates that it is made with. A client is therefore made for each producer, consumer and admin.
 * - kafkajs calls the token's provider for each connection, and before a session at a broker ends.
 * - kafkajs repeats its log messages in the errors it throws, so its log goes to our debug level.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import kafkajs from "kafkajs"
import type { SinkError } from "../Sink.ts"
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
}

export interface Connector {
  /** Makes a client that is not connected yet; fails if certificates or a token cannot be had. */
  readonly connect: Effect.Effect<kafkajs.Kafka, SinkError>
  /** Forgets what a broker refused, so that the next client logs in with a new token. */
  readonly forget: Effect.Effect<void>
}

export const retry = { initialRetryTime: 50, maxRetryTime: 1000, factor: 0.2, multiplier: 2, retries: 7 }

export const make = Effect.fnUntraced(
  function*({ brokers, sasl, ssl }: KafkaConnection): Effect.fn.Return<Connector> {
    const services = yield* Effect.context<never>()
    const fork = Effect.runForkWith(services)
    const run = Effect.runPromiseWith(services)
    const tokens = sasl?.mechanism === "oauthbearer" ? OAuthToken.make(sasl) : null

    const loginOf = (): kafkajs.SASLOptions | undefined => {
      if (tokens !== null) {
        const oauthBearerProvider = () => run(Effect.map(tokens.current, (token) => ({ value: Redacted.value(token) })))
        return { mechanism: "oauthbearer", oauthBearerProvider }
      }
      if (sasl === undefined || sasl.mechanism === "oauthbearer") return undefined
      return {
        mechanism: sasl.mechanism,
        username: sasl.username,
        password: Redacted.value(sasl.password)
      } as kafkajs.SASLOptions
    }

    return {
      connect: Effect.gen(function*() {
        const tls = ssl === false ? false : ssl === true ? true : yield* readTls(ssl)
        if (tokens !== null) yield* tokens.current
        const login = loginOf()
        return new kafkajs.Kafka({
          clientId: "rollcall",
          brokers: [...brokers],
          ssl: tls,
          ...(login === undefined ? {} : { sasl: login }),
          connectionTimeout: 3000,
          requestTimeout: 10_000,
          retry,
          logLevel: kafkajs.logLevel.WARN,
          logCreator: () => ({ namespace, log }) => {
            fork(Effect.annotateLogs(Effect.logDebug(log.message), "kafkajs", namespace))
          }
        })
      }),
      forget: tokens === null ? Effect.void : tokens.invalidate
    }
  }
)
