/** The environment variables: the kind of each value, and a description for the help of `rollcall start`. */

interface Definition {
  /** The items of a list are separated by commas. A secret may be in the file that `<NAME>_FILE` names. */
  readonly kind: "text" | "list" | "secret"
  /**
   * One line, short enough for the help on 100 columns, except for those of OpenTelemetry. The default value is in parentheses at the end.
   * "the same": the variable is like the one before, on the page of settings too.
   */
  readonly description: string
}

/** Every variable. */
const definitions = {
  ROLLCALL_API_URL: { kind: "text", description: "base address of the API; it ends in /v1" },
  ROLLCALL_API_KEY: { kind: "secret", description: "key of the API" },
  ROLLCALL_CURSOR_PARAMETER: { kind: "text", description: "name of the cursor parameter of the lists (cursor)" },
  ROLLCALL_PAGE_SIZE: { kind: "text", description: "largest number of rows on a page, 1 to 250 (250)" },
  ROLLCALL_REQUEST_TIMEOUT: { kind: "text", description: "longest time for one request (1 minute)" },
  /** A secret, like the other addresses of proxies, because it may contain a login. */
  ROLLCALL_API_PROXY: { kind: "secret", description: "address of the proxy to the API, or none" },
  ROLLCALL_INTEGRATIONS: { kind: "list", description: "ids of the integrations, such as greenhouse:acme" },
  ROLLCALL_LISTS: { kind: "list", description: "further lists, such as hris.employee=/hris/employees" },
  ROLLCALL_MODELS: { kind: "list", description: "names of the models that are read, or auto (auto)" },
  ROLLCALL_ALLOW_PLAINTEXT: { kind: "list", description: "unencrypted connections: api, kafka, postgres, http, otlp" },
  ROLLCALL_STORE: { kind: "text", description: "sqlite:<file> or postgres://… (sqlite:./rollcall.db)" },
  /** A secret because the URL contains the password of the database. */
  DATABASE_URL: { kind: "secret", description: "address of the database without ROLLCALL_STORE" },
  ROLLCALL_INTERVAL: { kind: "text", description: "time between two polls of a stream (1 minute)" },
  ROLLCALL_SWEEP_INTERVAL: { kind: "text", description: "time between two sweeps of a stream (6 hours)" },
  ROLLCALL_CONFIRM_INTERVAL: { kind: "text", description: "time between two checks of an absent record (10 minutes)" },
  ROLLCALL_OVERLAP_MIN: { kind: "text", description: "smallest overlap of two polls (5 minutes)" },
  ROLLCALL_RETRY_BASE: { kind: "text", description: "first delay of retries (1 second)" },
  ROLLCALL_REDACT_KEY: { kind: "secret", description: "key of the hashes that replace redacted values" },
  ROLLCALL_ENCRYPTION_KEY: { kind: "secret", description: "keys that encrypt the stored content" },
  ROLLCALL_HTTP_HOST: { kind: "text", description: "address of the operating API and the console (127.0.0.1)" },
  ROLLCALL_HTTP_PORT: { kind: "text", description: "port of the operating API; 0 for any free port (8477)" },
  ROLLCALL_HTTP_TOKEN: { kind: "secret", description: "token that allows everything" },
  ROLLCALL_HTTP_READ_TOKEN: { kind: "secret", description: "token that allows GET only" },
  ROLLCALL_HTTP_HOSTS: { kind: "list", description: "further names under which clients reach the API" },
  ROLLCALL_HTTP_TLS_CERT_FILE: { kind: "text", description: "PEM file with the server's certificate" },
  ROLLCALL_HTTP_TLS_KEY_FILE: { kind: "text", description: "PEM file with the server's private key" },
  ROLLCALL_HTTP_TLS_CA_FILE: { kind: "text", description: "for commands: PEM file of the server's authority" },
  ROLLCALL_HTTP_TLS_CLIENT_CA_FILE: {
    kind: "text",
    description: "PEM file of the authorities of clients' certificates"
  },
  ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE: { kind: "text", description: "for commands: PEM file with their certificate" },
  ROLLCALL_HTTP_TLS_CLIENT_KEY_FILE: { kind: "text", description: "for commands: PEM file with their private key" },
  ROLLCALL_TOPIC: { kind: "text", description: "template of the topics' names (rollcall.{model})" },
  ROLLCALL_KAFKA_DRIVER: { kind: "text", description: "kafkajs or platformatic (kafkajs)" },
  ROLLCALL_KAFKA_TRANSACTIONS: { kind: "text", description: "on, or off for brokers without transactions (on)" },
  ROLLCALL_LOG_LEVEL: { kind: "text", description: "trace, debug, info, warn or error (info)" },
  ROLLCALL_LOG_FORMAT: { kind: "text", description: "pretty or json (pretty on a terminal)" },
  KAFKA_BROKERS: { kind: "list", description: "host:port of the brokers; none: events stay in the store" },
  KAFKA_SSL: { kind: "text", description: "whether connections are encrypted: true or false (false)" },
  KAFKA_SSL_CA_FILE: { kind: "text", description: "PEM file of the authorities of brokers' certificates" },
  KAFKA_SSL_CERT_FILE: { kind: "text", description: "PEM file with the certificate of this client" },
  KAFKA_SSL_KEY_FILE: { kind: "text", description: "PEM file with the private key of this client" },
  KAFKA_SSL_SERVER_NAME: { kind: "text", description: "name in the brokers' certificates" },
  KAFKA_SASL_MECHANISM: { kind: "text", description: "plain, scram-sha-256, scram-sha-512 or oauthbearer" },
  KAFKA_SASL_USERNAME: { kind: "text", description: "name for the login" },
  KAFKA_SASL_PASSWORD: { kind: "secret", description: "password for the login" },
  KAFKA_SASL_TOKEN: { kind: "secret", description: "for oauthbearer: the token" },
  KAFKA_SASL_TOKEN_URL: { kind: "text", description: "for oauthbearer: the endpoint that issues tokens" },
  KAFKA_SASL_CLIENT_ID: { kind: "text", description: "name for the login at that endpoint" },
  KAFKA_SASL_CLIENT_SECRET: { kind: "secret", description: "password for the login at that endpoint" },
  KAFKA_SASL_SCOPE: { kind: "text", description: "scope of the tokens" },
  HTTP_PROXY: { kind: "secret", description: "address of the proxy for servers with http" },
  http_proxy: { kind: "secret", description: "the same" },
  HTTPS_PROXY: { kind: "secret", description: "address of the proxy for servers with https" },
  https_proxy: { kind: "secret", description: "the same" },
  NO_PROXY: { kind: "list", description: "servers that are reached without a proxy" },
  no_proxy: { kind: "list", description: "the same" },
  OTEL_SDK_DISABLED: { kind: "text", description: "true switches the export off, whatever else is set (false)" },
  OTEL_SERVICE_NAME: {
    kind: "text",
    description: "service.name of the resource; takes precedence over the attributes (rollcall)"
  },
  OTEL_RESOURCE_ATTRIBUTES: {
    kind: "text",
    description:
      "attributes of the resource: name=value,name=value with percent-encoded values. Rollcall adds service.version, and service.instance.id, which is new at each start"
  },
  OTEL_TRACES_EXPORTER: {
    kind: "text",
    description: "otlp switches the signal on (without an address, to http://localhost:4318), none switches it off"
  },
  OTEL_METRICS_EXPORTER: { kind: "text", description: "the same for metrics" },
  OTEL_TRACES_SAMPLER: {
    kind: "text",
    description:
      "which traces are recorded: always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or parentbased_traceidratio (parentbased_always_on)"
  },
  OTEL_TRACES_SAMPLER_ARG: {
    kind: "text",
    description: "for the two traceidratio samplers: the share of traces that is recorded, 0 to 1 (1)"
  },
  OTEL_BSP_SCHEDULE_DELAY: {
    kind: "text",
    description: "longest time between two exports of spans, in ms; 1,000 spans are exported at once (5000)"
  },
  OTEL_METRIC_EXPORT_INTERVAL: { kind: "text", description: "time between two exports of metrics, in ms (60000)" },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    kind: "text",
    description: "address of a collector, to which /v1/traces and /v1/metrics are appended; switches both signals on"
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: { kind: "text", description: "the whole address for one signal; switches it on" },
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: { kind: "text", description: "the same for metrics" },
  OTEL_EXPORTER_OTLP_HEADERS: {
    kind: "secret",
    description:
      "headers of the requests: name=value,name=value with percent-encoded values. A file is read for each export"
  },
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: { kind: "secret", description: "the same for traces" },
  OTEL_EXPORTER_OTLP_METRICS_HEADERS: { kind: "secret", description: "the same for metrics" },
  OTEL_EXPORTER_OTLP_PROTOCOL: {
    kind: "text",
    description: "http/protobuf or http/json; with grpc nothing is exported (http/protobuf)"
  },
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: { kind: "text", description: "the same for traces" },
  OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: { kind: "text", description: "the same for metrics" },
  OTEL_EXPORTER_OTLP_TIMEOUT: { kind: "text", description: "limit of one export with its retries, in ms (10000)" },
  OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: { kind: "text", description: "the same for traces" },
  OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: { kind: "text", description: "the same for metrics" }
} as const satisfies Readonly<Record<string, Definition>>

export type Variable = keyof typeof definitions
export const variableNames = Object.keys(definitions) as ReadonlyArray<Variable>
export const variableDefinitions: Readonly<Record<Variable, Definition>> = definitions
export const isSecretVariable = (name: Variable): boolean => definitions[name].kind === "secret"

/** The variables with one line each; those of OpenTelemetry, which other programs share, have one line together. */
const helpLines = (): ReadonlyArray<readonly [name: string, description: string]> => [
  ...variableNames.filter((name) => !name.startsWith("OTEL_")).map((name) =>
    [name, `${definitions[name].description}${isSecretVariable(name) ? "; a secret" : ""}`] as const
  ),
  ["OTEL_…", "standard variables of OpenTelemetry"]
]

/** The part of the help of `rollcall start` that lists the variables. */
export const variablesHelp = (): string => {
  const lines = helpLines()
  const width = Math.max(...lines.map(([name]) => name.length)) + 2
  return [
    "ENVIRONMENT VARIABLES (docs/reference/settings.md has more; <NAME>_FILE names a file with a secret)",
    ...lines.map(([name, description]) => `  ${name.padEnd(width)}${description}`)
  ].join("\n")
}
