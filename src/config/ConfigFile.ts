/**
 * The functions and types that a `rollcall.config.ts` imports from "rollcall". Every property is optional unless its
 * comment says "Required"; docs/configuration.md lists the defaults.
 *
 * Gotchas
 * - The types only help while the file is written. At start the exported value is checked, and every fault names its path.
 */
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

export interface AccountConfig {
  /** Required. The base URL of the API; it ends in `/v1`. */
  readonly url: string
  /** Required. */
  readonly key: Secret
  /** Name of the query parameter that carries the cursor of lists, if the API does not call it `cursor`. */
  readonly cursorParameter?: string
  /** Largest number of rows on a page of a list, from 1 to 250. */
  readonly pageSize?: number
  /** Longest time for one request including its response, from 1 second to 10 minutes. */
  readonly requestTimeout?: DurationText
  /** How many requests may be in flight at once, of all processes on the same database; 8 by default. */
  readonly concurrency?: number
  /** The address of the proxy for this account, instead of the one in the environment; a secret if it contains a login. */
  readonly proxy?: string | Secret
}

export interface IntegrationConfig {
  /** Required. `<tool>:<identifier>` */
  readonly id: string
  /** Name of an account. */
  readonly account?: string
  /** `auto`: every model that the integration's tool may support. */
  readonly models?: "auto" | ReadonlyArray<Model>
  /** Time between polls of a stream. */
  readonly interval?: DurationText
  /** Time between sweeps, which find the changes that polls cannot see. */
  readonly sweepInterval?: DurationText
  /** Whether the first sweep publishes the records that it finds, or only stores them. */
  readonly backfill?: "publish" | "fill"
  /** As `pageSize` and `requestTimeout` of the account, for this integration. */
  readonly pageSize?: number
  readonly requestTimeout?: DurationText
}

export interface ModelConfig {
  /**
   * The property `remote_data`, the raw data of the third-party system: `drop` sets it to null, `carry` publishes it without making its
   * changes events, `track` treats it like other properties.
   */
  readonly remoteData?: "drop" | "carry" | "track"
  /** By JSON Pointer: the property is removed, or its value is replaced by a keyed hash. A pointer applies to every item of an array. */
  readonly redact?: Readonly<Record<`/${string}`, "drop" | "hash">>
}

/** A user name and a password; a token; or an endpoint that issues tokens (OAuth 2.0, client credentials). */
export type KafkaLogin =
  | {
    readonly mechanism: "plain" | "scram-sha-256" | "scram-sha-512"
    readonly username: string
    readonly password: Secret
  }
  | { readonly mechanism: "oauthbearer"; readonly token: Secret }
  | {
    readonly mechanism: "oauthbearer"
    readonly tokenUrl: string
    readonly clientId: string
    readonly clientSecret: Secret
    readonly scope?: string
  }

export interface KafkaConfig {
  /** `host:port` */
  readonly brokers?: ReadonlyArray<string>
  /** Whether connections are encrypted; an object also sets the certificates. Every file is a PEM file, read again for each connection. */
  readonly ssl?: boolean | {
    /** Certificates of the authorities that may sign a broker's certificate, instead of the public ones. */
    readonly caFile?: string
    /** The client's own certificate and its private key, if the brokers require one. */
    readonly certFile?: string
    readonly keyFile?: string
    /** The name in the brokers' certificates, if it is not the one in their address. */
    readonly serverName?: string
  }
  readonly sasl?: KafkaLogin
  /** Template with `{model}` and `{integration}`. */
  readonly topic?: string
  /** Whether the latest content of each record also goes to a compacted topic, `<topic>.state`. */
  readonly state?: boolean
  /** Partitions of the event and state topics that Rollcall creates. */
  readonly partitions?: number
  /** Copies of each partition of the topics that Rollcall creates. */
  readonly replicationFactor?: number
  /** The library that sends the messages: kafkajs, or `platformatic` (@platformatic/kafka). */
  readonly driver?: "kafkajs" | "platformatic"
  /** How messages are compressed on the way to the brokers and on their disks. */
  readonly compression?: "none" | "gzip" | "snappy" | "lz4" | "zstd"
  /** The form of the values of events: CloudEvents in binary mode, or the envelope of Debezium's connectors. */
  readonly format?: "cloudevents" | "debezium"
  /** With `debezium`: whether each delete is followed by a message without a value, so that compaction removes the key. */
  readonly tombstones?: boolean
  /** A registry with Confluent's API, in which the JSON Schemas of the values are registered. The topic needs `{model}`. */
  readonly schemaRegistry?: { readonly url: string; readonly username?: string; readonly password?: Secret }
  /** `false` for brokers that do not support transactions: an event can then appear twice, with the same id. */
  readonly transactions?: boolean
}

/** The numbers of deletes, restores and switched-off fields above which the guard holds them; see docs/guard.md. */
export interface GuardConfig {
  /** Deletes within this time are one wave; restores within it are another. */
  readonly window?: DurationText
  /** A wave is held if it exceeds both this count and this share of the stream's live records … */
  readonly count?: number
  readonly share?: number
  /** … or if they reach both of these. */
  readonly smallCount?: number
  readonly smallShare?: number
  /**
   * A path that changes to or from null is held if it does so in at least `scopeCount` records and in more than `scopeShare` of the live
   * records.
   */
  readonly scopeCount?: number
  readonly scopeShare?: number
}

/** The operating API. */
export interface HttpConfig {
  readonly host?: string
  readonly port?: number
  /** Required on any address but loopback; allows everything. */
  readonly token?: Secret
  /** Allows GET and HEAD only. The responses contain personal data. */
  readonly readToken?: Secret
  /** Names under which clients reach the API, such as `rollcall.example.com`; with `https://` if a proxy terminates TLS. */
  readonly hosts?: ReadonlyArray<string>
  /** Paths of PEM files. New files are used within a minute. */
  readonly tls?: {
    /** The server's certificate, followed by those of its intermediate authorities, and its private key. */
    readonly certFile?: string
    readonly keyFile?: string
    /** For commands: the certificates of the authorities that may sign the server's certificate. */
    readonly caFile?: string
    /** The authorities of the certificates that every client must present. */
    readonly clientCaFile?: string
    /** For commands: the certificate that they present, and its private key. */
    readonly clientCertFile?: string
    readonly clientKeyFile?: string
  }
}

export interface ConfigFile {
  readonly accounts?: Readonly<Record<string, AccountConfig>>
  readonly integrations?: ReadonlyArray<IntegrationConfig>
  readonly models?: { readonly [name in Model]?: ModelConfig }
  /** Key of the hashes with which `redact` replaces values. */
  readonly redactKey?: Secret
  /** Keys that encrypt content in the store, one per line, the newest first. */
  readonly encryptionKey?: Secret
  readonly confirmInterval?: DurationText
  readonly overlapMin?: DurationText
  readonly retryBase?: DurationText
  /** Connections to other machines that may be unencrypted. By default, none may. */
  readonly allowPlaintext?: ReadonlyArray<"api" | "kafka" | "postgres" | "http" | "otlp">
  /** `sqlite:<file>` or `postgres://<user>@<host>/<database>` */
  readonly store?: string
  /** How long the event log is kept. */
  readonly retention?: DurationText
  readonly http?: HttpConfig
  readonly kafka?: KafkaConfig
  readonly log?: {
    readonly level?: "trace" | "debug" | "info" | "warn" | "error"
    readonly format?: "pretty" | "json"
  }
  readonly guard?: GuardConfig
  /** Each is the result of `Plugin.make`, or of `with` on such a plugin. */
  readonly plugins?: ReadonlyArray<Plugin<unknown>>
}

/** Returns the configuration with its type. Export the result as default. */
export const defineConfig = (config: ConfigFile): ConfigFile => config
