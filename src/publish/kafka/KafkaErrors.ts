/**
 * Translates errors of the drivers into what the relay must do: wait, or stop.
 *
 * Gotchas
 * - The drivers wrap errors: the broker's own error is somewhere in the chain of `cause`, or among `errors`. kafkajs has the name of
 *   the broker's error in `type`, @platformatic/kafka in `apiId`.
 * - An unknown error is treated as `Unreachable`: the relay keeps its position and retries, so no event is lost.
 */
import { Fenced, refused, SinkError, type Unreachable, unreachable } from "../Sink.ts"

const permissions =
  "grant this principal Create, Write, Describe and DescribeConfigs on the event topics and the progress topic " +
  "(rollcall.progress); the same and Read on the relay topic (rollcall.relay) and the topics ending in .state; " +
  "Read on groups rollcall-relay-*; Write and Describe on transactional ids rollcall-relay-*."
const credentials =
  "check KAFKA_SASL_MECHANISM, and KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD, or for oauthbearer where the token comes from."
const topics = "correct ROLLCALL_TOPIC, or create the topics yourself according to the broker's rules."
const replicas =
  "the cluster has fewer brokers than a topic should have copies: lower kafka.replicationFactor, or create the topics yourself."
const unreadable =
  "set compression.type of this topic to producer: its messages are compressed in a way that Rollcall does not know."
const certificate =
  "The broker's certificate is not trusted: set KAFKA_SSL_CA_FILE to the certificate of the authority that signed it."
const expired = "The broker's certificate has expired: renew it at the broker."
const otherName =
  "The broker's certificate is for another name: use a name from the certificate in KAFKA_BROKERS (and in the broker's " +
  "advertised listeners), or set KAFKA_SSL_SERVER_NAME to one."
const clientCertificate =
  "The broker does not accept the client's certificate, or requires one: check KAFKA_SSL_CERT_FILE and KAFKA_SSL_KEY_FILE."
const withoutCoordinator =
  "the cluster does not support transactions (the topic __transaction_state is missing, or there are fewer brokers than its " +
  "replication factor): repair the cluster, or set ROLLCALL_KAFKA_TRANSACTIONS=off."
const coordinator = `No broker coordinates transactions. If this continues, ${withoutCoordinator}`
/** For a transaction that has not begun in time: a slow broker needs longer than that to say that none coordinates transactions. */
export const notBegun = `Check KAFKA_BROKERS. If other clients reach the brokers, ${withoutCoordinator}`
const transactions =
  "this broker does not support the transactions that Rollcall needs: set ROLLCALL_KAFKA_TRANSACTIONS=off."

const oldBroker = "this broker is older than Kafka 2.4: set kafka.driver to kafkajs."

/** By the name of the broker's error, by the name of kafkajs' own error, or by the code of @platformatic/kafka's own error. */
const permanentErrorHints: Readonly<Record<string, string>> = {
  TOPIC_AUTHORIZATION_FAILED: permissions,
  GROUP_AUTHORIZATION_FAILED: permissions,
  CLUSTER_AUTHORIZATION_FAILED: permissions,
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED: permissions,
  SASL_AUTHENTICATION_FAILED: credentials,
  UNSUPPORTED_SASL_MECHANISM: credentials,
  ILLEGAL_SASL_STATE: credentials,
  KafkaJSSASLAuthenticationError: credentials,
  INVALID_TOPIC_EXCEPTION: topics,
  INVALID_PARTITIONS: topics,
  INVALID_REPLICATION_FACTOR: replicas,
  INVALID_CONFIG: topics,
  POLICY_VIOLATION: topics,
  UNSUPPORTED_VERSION: transactions,
  INVALID_TRANSACTION_TIMEOUT: transactions,
  KafkaJSServerDoesNotSupportApiKey: transactions,
  PLT_KFK_UNSUPPORTED_API: oldBroker,
  KafkaJSNotImplemented: unreadable
}
/** Errors that may disappear without action but need an operator if they persist; by code, or by kafkajs' error name. */
const transientErrorHints: Readonly<Record<string, string>> = {
  KafkaJSGroupCoordinatorNotFound: coordinator,
  DEPTH_ZERO_SELF_SIGNED_CERT: certificate,
  SELF_SIGNED_CERT_IN_CHAIN: certificate,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: certificate,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: certificate,
  CERT_HAS_EXPIRED: expired,
  ERR_TLS_CERT_ALTNAME_INVALID: otherName
}
/** 90 is PRODUCER_FENCED, which kafkajs does not know by name. */
const fencingErrors: ReadonlySet<unknown> = new Set(["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", 90])
const sizeErrors: ReadonlySet<unknown> = new Set(["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"])

/** Errors of a broker in the first seconds after its start. */
const startupErrors: ReadonlySet<unknown> = new Set([
  "GROUP_LOAD_IN_PROGRESS",
  "GROUP_COORDINATOR_NOT_AVAILABLE",
  "NOT_COORDINATOR_FOR_GROUP",
  "COORDINATOR_LOAD_IN_PROGRESS",
  "COORDINATOR_NOT_AVAILABLE",
  "NOT_COORDINATOR",
  "LEADER_NOT_AVAILABLE",
  "NOT_CONTROLLER",
  "UNKNOWN_TOPIC_OR_PARTITION",
  // if there are enough brokers for the copies of a topic; otherwise the error means `Refused`
  "INVALID_REPLICATION_FACTOR"
])

interface ErrorLike {
  readonly name?: unknown
  readonly type?: unknown
  readonly apiId?: unknown
  readonly code?: unknown
  readonly cause?: unknown
  readonly errors?: unknown
}

/** The error and all errors it wraps, outermost first. */
const chainOf = (error: unknown, depth = 0): ReadonlyArray<ErrorLike> => {
  if (typeof error !== "object" || error === null || depth > 8) return []
  const fault: ErrorLike = error
  const members = Array.isArray(fault.errors) ? fault.errors : []
  return [fault, ...[fault.cause, ...members].flatMap((inner) => chainOf(inner, depth + 1))]
}

/** The name of the broker's error. */
const typeOf = ({ apiId, type }: ErrorLike): unknown => type ?? apiId

/** The alerts with which a broker ends the TLS handshake; they depend on the version of TLS and on the mistake. */
const rejectsCertificate = /ALERT_(BAD_CERTIFICATE|CERTIFICATE_|UNSUPPORTED_CERTIFICATE|UNKNOWN_CA)/

const adviceFor = ({ code, name }: ErrorLike): string | undefined =>
  transientErrorHints[String(code)] ?? transientErrorHints[String(name)] ??
    (rejectsCertificate.test(String(code)) ? clientCertificate : undefined)

/** The message of an error. For an error of OpenSSL, only the part that is meant for people. */
const messageOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error))
    .replace(/[0-9A-F]+:error:[0-9A-F]+:[^:]*:[^:]*:([^:]*):\S*:\d+:[^\n]*\n?/, "$1")

/** `doing` describes the failed operation; the message starts with it. */
export const toSinkError = (doing: string, error: unknown): SinkError => {
  const chain = chainOf(error)
  const own = chain.find((fault) => fault instanceof SinkError)
  if (own instanceof SinkError) return own
  const message = `${doing}: ${messageOf(error)}`
  if (chain.some((fault) => fencingErrors.has(typeOf(fault)) || fencingErrors.has(fault.code))) {
    return new SinkError({ reason: new Fenced({ message }) })
  }
  for (const fault of chain) {
    const hint = permanentErrorHints[String(typeOf(fault))] ?? permanentErrorHints[String(fault.name)] ??
      permanentErrorHints[String(fault.code)]
    if (hint !== undefined) return refused(message, hint)
  }
  return unreachable(message, error, chain.map(adviceFor).find(Boolean))
}

/** The connection was closed before use: the broker is shutting down, or it speaks another protocol. */
export const isConnectionClosed = ({ cause }: Unreachable): boolean =>
  chainOf(cause).some(({ code, name }) =>
    name === "KafkaJSConnectionClosedError" || (name === "KafkaJSConnectionError" && code !== "ECONNREFUSED")
  )

/** True if the broker rejected the batch because of its size, and may accept a smaller batch. */
export const isBatchTooLarge = ({ cause }: Unreachable): boolean =>
  chainOf(cause).some((fault) => sizeErrors.has(typeOf(fault)))

/** The cluster has too few brokers for the copies of a topic, or one of its brokers takes no copies at the moment. */
export const isReplicationRefused = (error: unknown): boolean =>
  chainOf(error).some((fault) => typeOf(fault) === "INVALID_REPLICATION_FACTOR")

/** The broker is reachable but still starting. */
export const isBrokerStarting = ({ reason }: SinkError): boolean =>
  reason._tag === "Unreachable" && chainOf(reason.cause).some((fault) => startupErrors.has(typeOf(fault)))
