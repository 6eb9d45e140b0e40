/**
 * The settings of one deployment: the operating API, Kafka and the log. Hides how their addresses and credentials are
 * written.
 */
import * as Redacted from "effect/Redacted"
import { type ConfigReader, type ConfigValue, notSet, type SectionReader } from "./ConfigValue.ts"

export interface HttpSettings {
  readonly host: string
  readonly port: number
  /** Every request must carry it; null if no token is required. */
  readonly token: Redacted.Redacted | null
}

const saslMechanisms = ["plain", "scram-sha-256", "scram-sha-512"] as const

export interface KafkaSettings {
  /** `host:port` */
  readonly brokers: ReadonlyArray<string>
  readonly ssl: boolean
  readonly sasl: {
    readonly mechanism: (typeof saslMechanisms)[number]
    readonly username: string
    readonly password: Redacted.Redacted
  } | null
  /** Template with `{model}` and `{integration}`. */
  readonly topic: string
  /** Whether the latest content of each record also goes to a compacted topic. */
  readonly state: boolean
  readonly transactions: boolean
}

const logLevels = ["trace", "debug", "info", "warn", "error"] as const
type LogFormat = "pretty" | "json"

export interface LogSettings {
  readonly level: (typeof logLevels)[number]
  /** null: pretty on a terminal, JSON elsewhere. */
  readonly format: LogFormat | null
}

/** Whether only this machine can reach an address. */
const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || /^127(\.\d+){3}$/.test(host)

export const parseHttp = ({ file, secretAt, variable }: SectionReader<"http">): HttpSettings => {
  const own = file.http.fields("host", "port", "token")
  const host = variable("ROLLCALL_HTTP_HOST").or(own.host).text() ?? "127.0.0.1"
  const portValue = variable("ROLLCALL_HTTP_PORT").or(own.port)
  const port = String(portValue.value ?? 8477)
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    portValue.fault(`"${port}" is not a port`, "Use a number from 1 to 65535, or 0 for any free port")
  }
  const tokenValue = variable("ROLLCALL_HTTP_TOKEN").or(own.token)
  const token = secretAt(tokenValue)?.initial ?? null
  if (!isLoopback(host) && !tokenValue.isSet) {
    variable("ROLLCALL_HTTP_TOKEN").fault(
      `is not set, but the operating API listens on ${host}, which other machines can reach`,
      "Set a long random token, or listen on 127.0.0.1"
    )
  }
  return { host, port: Number(port), token }
}

const parseSasl = (
  mechanism: ConfigValue,
  username: ConfigValue,
  password: ConfigValue,
  secretAt: ConfigReader["secretAt"]
): KafkaSettings["sasl"] => {
  const parts = [mechanism, username, password]
  if (parts.every((part) => !part.isSet)) return null
  for (const part of parts.filter((part) => !part.isSet)) {
    part.fault(notSet, "Set mechanism, user name and password together, or none of them")
  }
  return {
    mechanism: mechanism.oneOf(...saslMechanisms) ?? "plain",
    username: username.text() ?? "",
    password: secretAt(password)?.initial ?? Redacted.make("")
  }
}

export const parseKafka = ({ file, list, secretAt, variable }: SectionReader<"kafka">): KafkaSettings | null => {
  const own = file.kafka.fields("brokers", "ssl", "sasl", "topic", "state", "transactions")
  const login = own.sasl.fields("mechanism", "username", "password")
  const brokersValue = list("KAFKA_BROKERS").or(own.brokers)
  const brokers = brokersValue.items().map((item) => {
    const broker = item.text() ?? ""
    if (!/^[^\s:/]+:\d{1,5}$|^\[[0-9a-fA-F:]+\]:\d{1,5}$/.test(broker)) {
      item.fault(`"${broker}" is not a broker address`, "Write host:port; separate several with commas")
    }
    return broker
  })
  const ssl = variable("KAFKA_SSL").or(own.ssl).flag() ?? false
  const sasl = parseSasl(
    variable("KAFKA_SASL_MECHANISM").or(login.mechanism),
    variable("KAFKA_SASL_USERNAME").or(login.username),
    variable("KAFKA_SASL_PASSWORD").or(login.password),
    secretAt
  )
  const topicValue = variable("ROLLCALL_TOPIC").or(own.topic)
  const topic = topicValue.text() ?? "rollcall.{model}"
  if (!/^[A-Za-z0-9._-]+$/.test(topic.replaceAll("{model}", "m").replaceAll("{integration}", "i"))) {
    topicValue.fault(
      `"${topic}" is not a topic template`,
      "Use letters, digits, `.`, `_`, `-` and the placeholders {model} and {integration}"
    )
  }
  const state = own.state.flag() ?? false
  const transactions = variable("ROLLCALL_KAFKA_TRANSACTIONS").or(own.transactions).flag("on", "off") ?? true
  if (file.kafka.isSet && brokers.length === 0) {
    own.brokers.fault("names no broker", "List at least one host:port, set KAFKA_BROKERS, or leave kafka out")
  }
  return brokers.length === 0 ? null : { brokers, ssl, sasl, topic, state, transactions }
}

export const parseLog = ({ file, variable }: SectionReader<"log">): LogSettings => {
  const own = file.log.fields("level", "format")
  return {
    level: variable("ROLLCALL_LOG_LEVEL").or(own.level).oneOf(...logLevels) ?? "info",
    format: variable("ROLLCALL_LOG_FORMAT").or(own.format).oneOf("pretty", "json") ?? null
  }
}
