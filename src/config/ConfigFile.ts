/**
 * The functions and types that a `rollcall.config.ts` imports from "rollcall". Every property is optional unless its
 * comment says "Required". `npm run docs:reference` makes docs/reference/settings.md from the comments.
 *
 * Gotchas
 * - The types only help while the file is written. At start the exported value is checked, and every fault names its path.
 */
import type { BuiltInModel } from "../domain/BuiltInModels.ts"
import type { AnyList } from "../domain/DefinedList.ts"
import type { DurationText } from "../domain/DurationText.ts"
import type { Model } from "../domain/Model.ts"
import type { Plugin } from "../plugin/Plugin.ts"

/** Names a value that is kept outside the configuration file: in a variable, or in the file that `<variable>_FILE` names. */
export interface Secret {
  readonly secret: string
}

/** Refers to the secret in a variable. If `<variable>_FILE` is set instead, the secret is read from the file that it names. */
export const secret = (variable: string): Secret => ({ secret: variable })

export const isSecret = (value: unknown): value is Secret =>
  typeof value === "object" && value !== null && "secret" in value && typeof value.secret === "string" &&
  Object.keys(value).length === 1

/** A base address of the API and its key. The variables set the account `default`. */
export interface AccountConfig {
  /** Required. The API's base address, which ends in `/v1`. */
  readonly url: string
  /** Required. The key of the account. */
  readonly key: Secret
  /** Name of the cursor parameter of this API's lists. Default: `cursor`. */
  readonly cursorParameter?: string
  /** Largest number of rows on a page, 1 to 250; fewer are requested if a page is too large or takes too long. Default: `250`. */
  readonly pageSize?: number
  /**
   * Longest time for one request including its response, 1 second to 10 minutes. In a fleet, the request slots of a killed process stay
   * taken 15 seconds longer than this. Default: `1 minute`.
   */
  readonly requestTimeout?: DurationText
  /**
   * Requests in flight at once, of all processes on the database, 1 to 1000. One integration uses at most half of them, but always one. A
   * rate-limit response halves the number, and successful requests raise it again. Default: `8`.
   */
  readonly concurrency?: number
  /** Address of the proxy for this account, or `none`; a secret if it contains a login. Default: the proxy for all requests. */
  readonly proxy?: string | Secret
}

/** A connected system. The variables apply to all integrations. */
export interface IntegrationConfig {
  /** Required. `<tool>:<identifier>`, such as `greenhouse:acme`. */
  readonly id: string
  /** Name of an account. Default: the only account, or `default`. */
  readonly account?: string
  /** Names of models, or `auto`: those that the integration's tool may support. Default: `auto`. */
  readonly models?: "auto" | ReadonlyArray<BuiltInModel | Model & {}>
  /** Time between polls of a stream. Default: `1 minute`. */
  readonly interval?: DurationText
  /** Time between sweeps, which read all records and find changes that polls cannot find. Default: `6 hours`. */
  readonly sweepInterval?: DurationText
  /**
   * `publish`: existing records are published as `created` with `origin: backfill`. `fill`: they are stored as version 1, which
   * `GET /v1/records` shows, and only their later changes are published. Default: `publish`.
   */
  readonly backfill?: "publish" | "fill"
  /** As for accounts, for this integration. Default: those of its account. */
  readonly pageSize?: number
  readonly requestTimeout?: DurationText
}

export interface ModelConfig {
  /**
   * The third-party system's raw data: `drop` (null), `carry` (published, but causes no event alone) or `track` (treated like every other
   * field). Default: `drop`.
   */
  readonly remoteData?: "drop" | "carry" | "track"
  /**
   * By JSON Pointer: `drop` (removed) or `hash` (replaced by a keyed hash; equal values stay equal). A pointer applies to every member of
   * an array: `/email_addresses/email_address`. A value of another structure than the pointer names is removed too.
   */
  readonly redact?: Readonly<Record<`/${string}`, "drop" | "hash">>
}

export interface KafkaConfig {
  /** `host:port`, an IPv6 address in brackets: `[fd00::1]:9092`. Without brokers, events are only in the event log. */
  readonly brokers?: ReadonlyArray<string>
  /** Whether connections are encrypted: `true`, `false`, or an object with the next properties, which encrypts too. Default: `false`. */
  readonly ssl?: boolean | {
    /** Authorities that may sign a broker's certificate. Default: the public ones and those in `NODE_EXTRA_CA_CERTS`. */
    readonly caFile?: string
    /** The client's certificate and its unencrypted private key, for brokers that require one. */
    readonly certFile?: string
    readonly keyFile?: string
    /** The name in the brokers' certificates. Default: the host of their address. */
    readonly serverName?: string
  }
  /** The login. Default: none. */
  readonly sasl?: KafkaLogin
  /** Template of the topics' names, with `{model}` and `{integration}`. Default: `rollcall.{model}`. */
  readonly topic?: string
  /** Whether each record's latest content also goes to a compacted topic, `<topic>.state`. Default: `false`. */
  readonly state?: boolean
  /** Partitions of the event and state topics that Rollcall creates. Default: `6`. */
  readonly partitions?: number
  /**
   * Copies of each partition of the topics that Rollcall creates; with three or more, at least two must be in sync for a write. Default: 3,
   * or one per broker if there are fewer.
   */
  readonly replicationFactor?: number
  /** The library that sends the messages: `kafkajs` or `platformatic`. Default: `kafkajs`. */
  readonly driver?: "kafkajs" | "platformatic"
  /** `none`, `gzip`, `snappy`, `lz4` or `zstd`. Default: `none`. */
  readonly compression?: "none" | "gzip" | "snappy" | "lz4" | "zstd"
  /** The form of the values of events: `cloudevents`, or `debezium`, the envelope of Debezium's connectors. Default: `cloudevents`. */
  readonly format?: "cloudevents" | "debezium"
  /**
   * `connect`, with `debezium` and without a registry: keys and values are structs with the schemas of Kafka Connect, for sinks that make
   * tables. Default: none.
   */
  readonly schemas?: "connect"
  /** With `debezium`: whether a message without a value follows a deleted event, so that compaction removes the key. Default: `true`. */
  readonly tombstones?: boolean
  /** A registry with Confluent's API for the schemas of the values; the topic needs `{model}`. Default: none. */
  readonly schemaRegistry?: {
    /** Required. Its address. */
    readonly url: string
    /** The login at the registry. */
    readonly username?: string
    readonly password?: Secret
  }
  /** `false` (in the variable `off`) for brokers without transactions: at least once instead of exactly once. Default: `true`. */
  readonly transactions?: boolean
}

/** A user name and a password; a token; or an endpoint that issues tokens (OAuth 2.0, grant `client_credentials`). */
export type KafkaLogin =
  | {
    /** Required. `plain`, `scram-sha-256` or `scram-sha-512` with a user name and a password; or `oauthbearer`. */
    readonly mechanism: "plain" | "scram-sha-256" | "scram-sha-512"
    /** For `plain`, `scram-sha-256` and `scram-sha-512`. */
    readonly username: string
    readonly password: Secret
  }
  | {
    readonly mechanism: "oauthbearer"
    /** For `oauthbearer`. Name a file that another program renews, because a token in a variable expires. */
    readonly token: Secret
  }
  | {
    readonly mechanism: "oauthbearer"
    /** For `oauthbearer` instead of a token: the endpoint that issues tokens, `https` beyond this machine. */
    readonly tokenUrl: string
    /** The login at that endpoint. */
    readonly clientId: string
    readonly clientSecret: Secret
    /** The scope of the tokens. */
    readonly scope?: string
  }

/** The numbers of changes above which a stream's changes are held. Shares are fractions of its live records, 0 to 1. */
export interface GuardConfig {
  /** Deletes, and restores, of this period are counted together. Default: `24 hours`. */
  readonly window?: DurationText
  /** Deletes, or restores, are held if both are exceeded. Default: `100`, `0.2`. */
  readonly count?: number
  readonly share?: number
  /**
   * Deletes, or restores, are also held if both of these are reached, or if they are all of a stream's records, and at least two.
   * Default: `5`, `0.5`.
   */
  readonly smallCount?: number
  readonly smallShare?: number
  /**
   * A path that changes to or from null is held if at least this many records change, and this share is exceeded, which is at least 0.9 for
   * an empty array that gets members. Default: `5`, `0.3`.
   */
  readonly scopeCount?: number
  readonly scopeShare?: number
}

/** The operating API. Certificates and keys are PEM files. */
export interface HttpConfig {
  /** Address to listen on. Default: `127.0.0.1`. */
  readonly host?: string
  /** Port; 0 for any free port. Default: `8477`. */
  readonly port?: number
  /** Token that allows everything; required on any address but loopback, and there of at least 32 characters. */
  readonly token?: Secret
  /** Token that allows GET and HEAD only; the responses contain personal data. */
  readonly readToken?: Secret
  /** Further names under which clients reach the API, such as `rollcall.example.com`; `https://<name>` if a proxy terminates TLS. */
  readonly hosts?: ReadonlyArray<string>
  /** Encryption with TLS. Rollcall uses a replaced file within a minute. */
  readonly tls?: {
    /** The server's certificate with its intermediate certificates, and its unencrypted private key. The API then speaks TLS 1.2 and 1.3 only. */
    readonly certFile?: string
    readonly keyFile?: string
    /**
     * For commands on another machine, which then use https: the authority of the server's certificate (for a public one,
     * `/etc/ssl/certs/ca-certificates.crt`).
     */
    readonly caFile?: string
    /** Authorities: every connection must present a certificate that one of them signed, besides the token. */
    readonly clientCaFile?: string
    /** For commands and the image's health check: the certificate that they present, and its unencrypted private key. */
    readonly clientCertFile?: string
    readonly clientKeyFile?: string
  }
}

export interface LogConfig {
  /** `trace`, `debug`, `info`, `warn` or `error`; `start --log-level` takes precedence. Default: `info`. */
  readonly level?: "trace" | "debug" | "info" | "warn" | "error"
  /** `pretty` or `json`. Default: on a terminal `pretty`, else `json`. */
  readonly format?: "pretty" | "json"
}

export interface ConfigFile {
  /** Base addresses of the API with their keys, by name. */
  readonly accounts?: Readonly<Record<string, AccountConfig>>
  /** The connected systems that are read. */
  readonly integrations?: ReadonlyArray<IntegrationConfig>
  /** Lists of the API beside the built-in models, each the result of `defineList`. The variable adds `<name>=<path>`. */
  readonly lists?: ReadonlyArray<AnyList>
  /** How records are stored and published, by model. */
  readonly models?: { readonly [name in BuiltInModel | Model]?: ModelConfig }
  /** Key of the hashes, required for `hash`. Keep it: with another key every hash changes. */
  readonly redactKey?: Secret
  /** Keys that encrypt content in the store: 32 bytes in base64 each, one per line, the newest first. Default: not encrypted. */
  readonly encryptionKey?: Secret
  /** Time between the two confirmations that a record is absent. Default: `10 minutes`. */
  readonly confirmInterval?: DurationText
  /** Smallest overlap of polls. Default: `5 minutes`. */
  readonly overlapMin?: DurationText
  /** First delay of retries. Default: `1 second`. */
  readonly retryBase?: DurationText
  /** Connections to other machines that may be unencrypted: `api`, `kafka`, `postgres`, `http` (the operating API), `otlp`. Default: none. */
  readonly allowPlaintext?: ReadonlyArray<"api" | "kafka" | "postgres" | "http" | "otlp">
  /**
   * `sqlite:<file>` or `postgres://<user>:<password>@<host>:<port>/<database>?sslmode=verify-full`. Default: `sqlite:./rollcall.db`.
   */
  readonly store?: string | Secret
  /**
   * How long the event log, the quarantine and the delivery journal are kept; for records that the source erased one day. Events that Kafka
   * or plugins have not read are kept longer, until no process has had Kafka or plugins for this time (at least an hour). Default: `7 days`.
   */
  readonly retention?: DurationText
  readonly http?: HttpConfig
  readonly kafka?: KafkaConfig
  readonly log?: LogConfig
  readonly guard?: GuardConfig
  /** Each is the result of `Plugin.make`, or of `with` on such a plugin. */
  readonly plugins?: ReadonlyArray<Plugin<unknown>>
}

export { type DefinedList, defineList, type ListDefinition } from "../domain/DefinedList.ts"

/** Returns the configuration with its type. Export the result as default. */
export const defineConfig = (config: ConfigFile): ConfigFile => config
