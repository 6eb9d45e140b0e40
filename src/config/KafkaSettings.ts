/** The settings of Kafka: brokers, encryption, login and topics. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { isIPv6 } from "node:net"
import { type ConfigValue, notSet, requireBoth } from "./ConfigValue.ts"
import { isLoopback, orAllowPlaintext, type PlaintextConnection } from "./Plaintext.ts"

// ---- brokers and encryption ---------------------------------------------------------------------------------------

const parseBroker = (value: ConfigValue): string => {
  const broker = value.text() ?? ""
  const [, address = "::", port] = /^(?:[^\s:/[\]]+|\[([^\]]+)\]):(\d{1,5})$/.exec(broker) ?? []
  if (port === undefined || Number(port) < 1 || Number(port) > 65_535 || !isIPv6(address)) {
    value.fault(
      `"${broker}" is not a broker address`,
      "Write host:port, with a port from 1 to 65535 and with an IPv6 address in brackets; separate several with commas"
    )
  }
  return broker
}

/** How the broker's certificate is verified, and the client's own certificate. Paths of PEM files. */
export interface TlsSettings {
  readonly caFile?: string
  readonly certFile?: string
  readonly keyFile?: string
  readonly serverName?: string
}

/**
 * False if connections are unencrypted. In the file, `ssl` is `true`, `false` or an object with the properties of `TlsSettings`. A
 * variable for one of these properties switches encryption on too.
 */
const parseSsl = (section: ConfigValue, value: ConfigValue): TlsSettings | false => {
  const isObject = typeof value.value === "object"
  const own = (isObject ? value : section.unset("ssl")).fields({
    caFile: "KAFKA_SSL_CA_FILE",
    certFile: "KAFKA_SSL_CERT_FILE",
    keyFile: "KAFKA_SSL_KEY_FILE",
    serverName: "KAFKA_SSL_SERVER_NAME"
  })
  const variable = section.variable("KAFKA_SSL")
  const flag = (variable.isSet ? variable : isObject ? section.unset("ssl") : value).flag()
  const given = Object.values(own).filter((part) => part.isSet)
  if (flag === false) {
    for (const part of given) part.fault("has no effect, because encryption is off", "Set KAFKA_SSL=true, or remove it")
    return false
  }
  requireBoth(own.certFile, own.keyFile, "Set the client's certificate and its private key together, or none of them")
  const texts = Object.entries(own).flatMap(([name, part]) => part.isSet ? [[name, part.text() ?? ""]] : [])
  return flag === true || given.length > 0 || isObject ? Object.fromEntries(texts) as TlsSettings : false
}

// ---- login --------------------------------------------------------------------------------------------------------

const saslVariables = {
  mechanism: "KAFKA_SASL_MECHANISM",
  username: "KAFKA_SASL_USERNAME",
  password: "KAFKA_SASL_PASSWORD",
  token: "KAFKA_SASL_TOKEN",
  tokenUrl: "KAFKA_SASL_TOKEN_URL",
  clientId: "KAFKA_SASL_CLIENT_ID",
  clientSecret: "KAFKA_SASL_CLIENT_SECRET",
  scope: "KAFKA_SASL_SCOPE"
} as const

type SaslFields = { readonly [name in keyof typeof saslVariables]: ConfigValue }
type SaslName = keyof SaslFields

/**
 * The address of an HTTP server. `sent`: what is sent to it, for messages; `instead`: the settings for a login that the address must not
 * contain.
 */
const parseUrl = (
  value: ConfigValue,
  instead: string,
  sent: string,
  allowPlaintext: ReadonlySet<PlaintextConnection>
): string => {
  const text = value.text() ?? ""
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    value.fault("is not the address of an HTTP server", "Write https://<host>/<path>")
    return "https://localhost"
  }
  if (url.username !== "" || url.password !== "") value.fault("contains a login", `Use ${instead}`)
  if (url.protocol === "http:" && !isLoopback(url.hostname) && !allowPlaintext.has("kafka")) {
    value.fault(`would send ${sent} unencrypted`, `Use https; or, ${orAllowPlaintext("kafka")}`)
  }
  return text
}

/** Null if no part of the login is set. */
const parseSasl = (own: SaslFields, allowPlaintext: ReadonlySet<PlaintextConnection>) => {
  const given = (Object.keys(own) as ReadonlyArray<SaslName>).filter((name) => own[name].isSet)
  if (given.length === 0) return null
  if (!own.mechanism.isSet) own.mechanism.fault(notSet, "Set it to the mechanism of the login, or remove the login")
  const mechanism = own.mechanism.oneOf("plain", "scram-sha-256", "scram-sha-512", "oauthbearer") ?? "plain"
  const require = (hint: string, ...names: ReadonlyArray<SaslName>) => {
    for (const name of names) if (!own[name].isSet) own[name].fault(notSet, hint)
    return names
  }
  const none = Redacted.make("")
  const used: Array<SaslName> = ["mechanism"]
  const refuseOthers = () => {
    for (const name of given.filter((name) => !used.includes(name))) {
      own[name].fault(`has no meaning for this login (${mechanism})`, `Remove it; this login uses ${used.join(", ")}`)
    }
  }
  if (mechanism !== "oauthbearer") {
    used.push(...require("Set mechanism, user name and password together, or none of them", "username", "password"))
    if (own.mechanism.isSet) refuseOthers()
    return {
      mechanism,
      username: own.username.text() ?? "",
      password: own.password.secret()?.initial ?? none
    }
  }
  if (own.token.isSet) {
    used.push("token")
    refuseOthers()
    const token = own.token.secret()?.current ?? Effect.succeed(none)
    return { mechanism, token, endpoint: null }
  }
  const hint =
    "Set KAFKA_SASL_TOKEN_FILE to a file that contains the token; or set the token URL, the client id and the client secret"
  used.push(...require(hint, "tokenUrl", "clientId", "clientSecret"), "scope")
  refuseOthers()
  return {
    mechanism,
    token: null,
    endpoint: {
      url: parseUrl(own.tokenUrl, "clientId and clientSecret", "the client's secret", allowPlaintext),
      clientId: own.clientId.text() ?? "",
      clientSecret: own.clientSecret.secret()?.initial ?? none,
      scope: own.scope.text() ?? null
    }
  }
}

// ---- all ----------------------------------------------------------------------------------------------------------

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

/** `connect`: Debezium's envelope with the schemas of Kafka Connect. */
const parseFormat = (
  own: Readonly<Record<"format" | "schemas" | "schemaRegistry" | "tombstones", ConfigValue>>
): "cloudevents" | "debezium" | "connect" => {
  const format = own.format.oneOf("cloudevents", "debezium") ?? "cloudevents"
  for (const value of [own.tombstones, own.schemas]) {
    if (format === "cloudevents" && value.isSet) {
      value.fault("has no effect without the format debezium", 'Set format to "debezium", or remove it')
    }
  }
  if (own.schemas.oneOf("connect") === undefined) return format
  if (own.schemaRegistry.isSet) {
    own.schemas.fault("puts the schemas into the messages, and schemaRegistry does not", "Remove one of them")
  }
  return "connect"
}

/** Null if no registry is set. */
const parseRegistry = (section: ConfigValue, topic: ConfigValue, allowPlaintext: ReadonlySet<PlaintextConnection>) => {
  if (!section.isSet) return null
  const own = section.fields({ url: null, username: null, password: null })
  if (!own.url.isSet) own.url.fault(notSet, "Set it to the address of the schema registry")
  const url = own.url.isSet ? parseUrl(own.url, "username and password", "the login", allowPlaintext) : ""
  if (/[?#]/.test(url)) {
    own.url.fault("has a query or a fragment", "Write https://<host>/<path>; paths are appended to it")
  }
  requireBoth(own.username, own.password, "Set the registry's user name and password together, or none of them")
  if (topic.isSet && !topic.text()?.includes("{model}")) {
    topic.fault(
      "has no {model}, so events of several models would share the one schema of a topic",
      "Add {model} to the template, or leave out schemaRegistry"
    )
  }
  const password = own.password.secret()?.initial
  return { url, login: password === undefined ? null : { username: own.username.text() ?? "", password } }
}

const hostOf = (broker: string): string => broker.slice(0, broker.lastIndexOf(":"))

export type KafkaSettings = NonNullable<ReturnType<typeof parseKafka>>

/** Null if no broker is set. */
export const parseKafka = (section: ConfigValue, allowPlaintext: ReadonlySet<PlaintextConnection>) => {
  const own = section.fields({
    brokers: "KAFKA_BROKERS",
    ssl: null,
    sasl: null,
    topic: "ROLLCALL_TOPIC",
    state: null,
    partitions: null,
    replicationFactor: null,
    driver: "ROLLCALL_KAFKA_DRIVER",
    compression: null,
    format: null,
    schemas: null,
    tombstones: null,
    schemaRegistry: null,
    transactions: "ROLLCALL_KAFKA_TRANSACTIONS"
  })
  const settings = {
    brokers: own.brokers.items().map(parseBroker),
    ssl: parseSsl(section, own.ssl),
    sasl: parseSasl(own.sasl.fields(saslVariables), allowPlaintext),
    topic: parseTopic(own.topic),
    state: own.state.flag() ?? false,
    /** Number of partitions of topics that Rollcall creates; undefined for the default of the sink. */
    partitions: own.partitions.count(1, 1000),
    replicationFactor: own.replicationFactor.count(1, 100),
    format: parseFormat(own),
    /** With `debezium`: whether a deleted event is followed by a message without a value. */
    tombstones: own.tombstones.flag() ?? true,
    schemaRegistry: parseRegistry(own.schemaRegistry, own.topic, allowPlaintext),
    driver: own.driver.oneOf("kafkajs", "platformatic") ?? "kafkajs",
    compression: own.compression.oneOf("none", "gzip", "snappy", "lz4", "zstd") ?? "none",
    transactions: own.transactions.flag("on", "off") ?? true
  }
  if (settings.brokers.length === 0) {
    if (section.isSet) {
      own.brokers.fault("does not name a broker", "List at least one host:port, set KAFKA_BROKERS, or leave kafka out")
    }
    return null
  }
  const remote = settings.brokers.find((broker) => !isLoopback(hostOf(broker)))
  if (settings.ssl === false && remote !== undefined && !allowPlaintext.has("kafka")) {
    const sent = settings.sasl === null ? "personal data" : "the login and personal data"
    own.brokers.fault(
      `names ${remote}, and encryption is off: ${sent} would cross the network unencrypted`,
      `Set KAFKA_SSL=true and use a TLS port of the brokers; or, ${orAllowPlaintext("kafka")}`
    )
  }
  return settings
}
