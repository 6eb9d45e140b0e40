/**
 * What a `rollcall.config.ts` imports from "rollcall", and the shape of what it exports. Every property is optional unless
 * it says otherwise; docs/configuration.md has the defaults.
 *
 * Gotchas
 * - Types are a help while writing. What a file really exports is checked at start, every fault with its path.
 */
import type { Model } from "../domain/Model.ts"
import type { Plugin } from "../plugin/Plugin.ts"

/** A value that stands in a variable, or in the file that `<variable>_FILE` names, and never in the configuration. */
export interface Secret {
  readonly secret: string
}

/** Names the variable that holds a secret. The file that `<variable>_FILE` names is read where that is set instead. */
export const secret = (variable: string): Secret => ({ secret: variable })

export const isSecret = (value: unknown): value is Secret =>
  typeof value === "object" && value !== null && "secret" in value && typeof value.secret === "string" &&
  Object.keys(value).length === 1

type Unit = "milli" | "second" | "minute" | "hour" | "day" | "week"
/** A length of time: `30 seconds`, `1 hour`. */
export type DurationText = `${number} ${Unit | `${Unit}s`}`

export interface AccountConfig {
  /** Required. The API's base address, ends in `/v1`. */
  readonly url: string
  /** Required. */
  readonly key: Secret
  /** Query name of the cursor of lists, for an API that calls it otherwise than `cursor`. */
  readonly cursorParameter?: string
}

export interface IntegrationConfig {
  /** Required. `<tool>:<identifier>` */
  readonly id: string
  /** Name of an account. */
  readonly account?: string
  /** `auto`: all that the integration's tool is not known to lack. */
  readonly models?: "auto" | ReadonlyArray<Model>
  /** Time between polls of a stream. */
  readonly interval?: DurationText
  /** Time between full readings, which find what polls cannot. */
  readonly sweepInterval?: DurationText
  /** Whether the first full reading publishes what it finds. */
  readonly backfill?: "publish" | "fill"
}

export interface ModelConfig {
  /** What becomes of the third-party system's raw data: dropped, published but no reason for a change, or like all else. */
  readonly remoteData?: "drop" | "carry" | "track"
  /** JSON Pointer → the property is left out, or replaced by a keyed hash. Arrays are walked through. */
  readonly redact?: Readonly<Record<`/${string}`, "drop" | "hash">>
}

export interface KafkaConfig {
  /** `host:port` */
  readonly brokers?: ReadonlyArray<string>
  readonly ssl?: boolean
  readonly sasl?: {
    readonly mechanism: "plain" | "scram-sha-256" | "scram-sha-512"
    readonly username: string
    readonly password: Secret
  }
  /** Template with `{model}` and `{integration}`. */
  readonly topic?: string
  /** Whether the latest content of each record also goes to a compacted topic, `<topic>.state`. */
  readonly state?: boolean
  /** `false` for brokers without transactions: events can then appear twice, with the same id. */
  readonly transactions?: boolean
}

/** From where on deletes, restores and switched-off fields are held until someone decides; docs/guard.md. */
export interface GuardConfig {
  /** Deletes, and restores, of this long are counted together. */
  readonly window?: DurationText
  /** Held beyond this many and, at once, beyond this share of the stream's live records … */
  readonly count?: number
  readonly share?: number
  /** … or from both of these on. */
  readonly smallCount?: number
  readonly smallShare?: number
  /** A path that goes to or from null: held from this many records on and beyond this share. */
  readonly scopeCount?: number
  readonly scopeShare?: number
}

export interface ConfigFile {
  readonly accounts?: Readonly<Record<string, AccountConfig>>
  readonly integrations?: ReadonlyArray<IntegrationConfig>
  readonly models?: { readonly [name in Model]?: ModelConfig }
  /** Key of the hashes that `redact` makes. */
  readonly redactKey?: Secret
  readonly confirmInterval?: DurationText
  readonly overlapMin?: DurationText
  readonly retryBase?: DurationText
  /** `sqlite:<file>` */
  readonly store?: string
  /** How long the event log is kept. */
  readonly retention?: DurationText
  readonly http?: { readonly host?: string; readonly port?: number; readonly token?: Secret }
  readonly kafka?: KafkaConfig
  readonly log?: {
    readonly level?: "trace" | "debug" | "info" | "warn" | "error"
    readonly format?: "pretty" | "json"
  }
  readonly guard?: GuardConfig
  /** Each as `Plugin.make` made it, or as `with` has it used. */
  readonly plugins?: ReadonlyArray<Plugin<unknown>>
}

/** Gives the configuration its type; export the result as default. */
export const defineConfig = (config: ConfigFile): ConfigFile => config
