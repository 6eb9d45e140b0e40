/** The settings of one deployment: the operating API, Kafka and the log. */
import * as Redacted from "effect/Redacted"
import { type ConfigValue, notSet } from "./ConfigValue.ts"
import { isLoopback } from "./Plaintext.ts"

export type HttpSettings = ReturnType<typeof parseHttp>

export const parseHttp = (section: ConfigValue) => {
  const own = section.fields({
    host: "ROLLCALL_HTTP_HOST",
    port: "ROLLCALL_HTTP_PORT",
    token: "ROLLCALL_HTTP_TOKEN"
  })
  const host = own.host.text() ?? "127.0.0.1"
  const port = String(own.port.value ?? 8477)
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    own.port.fault(`"${port}" is not a port`, "Use a number from 1 to 65535, or 0 for any free port")
  }
  /** Every request must carry it; null if no token is required. */
  const token = own.token.secret()?.initial ?? null
  if (!isLoopback(host) && !own.token.isSet) {
    section.variable("ROLLCALL_HTTP_TOKEN").fault(
      `is not set, but the operating API listens on ${host}, which other machines can reach`,
      "Set a long random token, or listen on 127.0.0.1"
    )
  }
  return { host, port: Number(port), token }
}

const parseBroker = (value: ConfigValue): string => {
  const broker = value.text() ?? ""
  if (!/^[^\s:/]+:\d{1,5}$|^\[[0-9a-fA-F:]+\]:\d{1,5}$/.test(broker)) {
    value.fault(`"${broker}" is not a broker address`, "Write host:port; separate several with commas")
  }
  return broker
}

const saslFields = (section: ConfigValue) =>
  section.fields({
    mechanism: "KAFKA_SASL_MECHANISM",
    username: "KAFKA_SASL_USERNAME",
    password: "KAFKA_SASL_PASSWORD"
  })

/** null if no part of the login is set. */
const parseSasl = (own: ReturnType<typeof saslFields>) => {
  const missing = Object.values(own).filter((part) => !part.isSet)
  if (missing.length === 3) return null
  for (const part of missing) part.fault(notSet, "Set mechanism, user name and password together, or none of them")
  return {
    mechanism: own.mechanism.oneOf("plain", "scram-sha-256", "scram-sha-512") ?? "plain",
    username: own.username.text() ?? "",
    password: own.password.secret()?.initial ?? Redacted.make("")
  }
}

const parseTopic = (value: ConfigValue): string => {
  const topic = value.text() ?? "rollcall.{model}"
  if (!/^[A-Za-z0-9._-]+$/.test(topic.replaceAll("{model}", "m").replaceAll("{integration}", "i"))) {
    value.fault(
      `"${topic}" is not a topic template`,
      "Use letters, digits, `.`, `_`, `-` and the placeholders {model} and {integration}"
    )
  }
  return topic
}

export type KafkaSettings = NonNullable<ReturnType<typeof parseKafka>>

/** null if no broker is set. */
export const parseKafka = (section: ConfigValue) => {
  const own = section.fields({
    brokers: "KAFKA_BROKERS",
    ssl: "KAFKA_SSL",
    sasl: null,
    topic: "ROLLCALL_TOPIC",
    state: null,
    transactions: "ROLLCALL_KAFKA_TRANSACTIONS"
  })
  const login = saslFields(own.sasl)
  const settings = {
    brokers: own.brokers.items().map(parseBroker),
    ssl: own.ssl.flag() ?? false,
    sasl: parseSasl(login),
    topic: parseTopic(own.topic),
    state: own.state.flag() ?? false,
    transactions: own.transactions.flag("on", "off") ?? true
  }
  if (settings.brokers.length > 0) return settings
  if (section.isSet) {
    own.brokers.fault("names no broker", "List at least one host:port, set KAFKA_BROKERS, or leave kafka out")
  }
  return null
}

export type LogSettings = ReturnType<typeof parseLog>

export const parseLog = (section: ConfigValue) => {
  const own = section.fields({ level: "ROLLCALL_LOG_LEVEL", format: "ROLLCALL_LOG_FORMAT" })
  return {
    level: own.level.oneOf("trace", "debug", "info", "warn", "error") ?? "info",
    /** null: pretty on a terminal, JSON elsewhere. */
    format: own.format.oneOf("pretty", "json") ?? null
  }
}
