/**
 * Turns the environment into one checked value. Hides which variables there are, their defaults and their syntax.
 *
 * Invariants
 * 1. Every fault is reported, not only the first; each says what is wrong, where, and what to do.
 * 2. Secrets leave this module only as `Redacted`; no fault quotes one   (I11)
 *
 * Gotchas
 * - A variable that is set and empty counts as not set: that is what compose files make of a missing one.
 */
import * as EffectConfig from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isModel, type ModelEntry, registry } from "./domain/Model.ts"

export interface Account {
  /** Ends in `/v1`. */
  readonly url: string
  readonly key: Redacted.Redacted
}

export interface Integration {
  /** `<tool>:<identifier>` */
  readonly id: string
  readonly account: string
  readonly models: ReadonlyArray<ModelEntry["model"]>
  readonly interval: Duration.Duration
  readonly sweepInterval: Duration.Duration
  readonly backfill: "publish" | "fill"
}

export interface Http {
  readonly host: string
  readonly port: number
  /** Demanded from every caller when present. */
  readonly token: Redacted.Redacted | null
}

export const saslMechanisms = ["plain", "scram-sha-256", "scram-sha-512"] as const

export interface Kafka {
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
  readonly transactions: boolean
}

export const logLevels = ["trace", "debug", "info", "warn", "error"] as const
export type LogFormat = "pretty" | "json"

export interface Log {
  readonly level: (typeof logLevels)[number]
  /** null: pretty on a terminal, JSON elsewhere. */
  readonly format: LogFormat | null
}

export interface Settings {
  readonly accounts: Readonly<Record<string, Account>>
  readonly integrations: ReadonlyArray<Integration>
  readonly confirmInterval: Duration.Duration
  readonly overlapMin: Duration.Duration
  readonly retryBase: Duration.Duration
  /** SQLite file. */
  readonly store: { readonly file: string }
  /** How long the event log is kept. */
  readonly retention: Duration.Duration
  readonly http: Http
  readonly kafka: Kafka | null
  readonly log: Log
}

/** One thing that is wrong with the configuration. */
export interface Fault {
  readonly variable: string
  /** What is wrong. */
  readonly message: string
  /** What to do about it. */
  readonly hint: string
}

export class ConfigFaults extends Schema.TaggedError<ConfigFaults>()("ConfigFaults", {
  faults: Schema.Array(Schema.Struct({ variable: Schema.String, message: Schema.String, hint: Schema.String }))
}) {
  override get message(): string {
    const lines = this.faults.map((fault) => `  ${fault.variable}: ${fault.message}. ${fault.hint}.`)
    return [`the configuration has ${lines.length === 1 ? "a fault" : `${lines.length} faults`}:`, ...lines].join("\n")
  }
}

/** The variables that are read; those of `secrets` arrive `Redacted`. */
const variables = [
  "ROLLCALL_API_URL",
  "ROLLCALL_INTEGRATIONS",
  "ROLLCALL_MODELS",
  "ROLLCALL_STORE",
  "ROLLCALL_INTERVAL",
  "ROLLCALL_SWEEP_INTERVAL",
  "ROLLCALL_CONFIRM_INTERVAL",
  "ROLLCALL_OVERLAP_MIN",
  "ROLLCALL_RETRY_BASE",
  "ROLLCALL_HTTP_HOST",
  "ROLLCALL_HTTP_PORT",
  "ROLLCALL_TOPIC",
  "ROLLCALL_KAFKA_TRANSACTIONS",
  "ROLLCALL_LOG_LEVEL",
  "ROLLCALL_LOG_FORMAT",
  "KAFKA_BROKERS",
  "KAFKA_SSL",
  "KAFKA_SASL_MECHANISM",
  "KAFKA_SASL_USERNAME"
] as const
/** `DATABASE_URL` is one because a URL of a database holds its password. */
const secrets = ["ROLLCALL_API_KEY", "ROLLCALL_HTTP_TOKEN", "KAFKA_SASL_PASSWORD", "DATABASE_URL"] as const

type Variable = (typeof variables)[number]
type Secret = (typeof secrets)[number]

/** What was found, before any check. Absent = not set. */
export type Input = { readonly [name in Variable]?: string } & { readonly [name in Secret]?: Redacted.Redacted }

/** Reads every variable from the current `ConfigProvider`; empty ones are left out. */
export const input: Effect.Effect<Input> = Effect.orDie(Effect.gen(function*() {
  const plain = yield* Effect.forEach(
    variables,
    (name) =>
      Effect.map(
        EffectConfig.option(EffectConfig.String(name)),
        (value) => Option.isSome(value) && value.value.trim() !== "" ? [[name, value.value.trim()] as const] : []
      )
  )
  const secret = yield* Effect.forEach(
    secrets,
    (name) =>
      Effect.map(
        EffectConfig.option(EffectConfig.Redacted(name)),
        (value) => Option.isSome(value) && Redacted.value(value.value) !== "" ? [[name, value.value] as const] : []
      )
  )
  return Object.fromEntries([...plain.flat(), ...secret.flat()])
}))

type Report = (variable: Variable | Secret, message: string, hint: string) => void

/** Everything `start` needs. Pure. */
export const check = (given: Input): Result.Result<Settings, ConfigFaults> =>
  reporting((report) => {
    const account: Account = { url: url(given, report), key: key(given, report) }
    const models = checkModels(given, report)
    const interval = duration(given, report, "ROLLCALL_INTERVAL", "1 minute")
    const sweepInterval = duration(given, report, "ROLLCALL_SWEEP_INTERVAL", "6 hours")
    return {
      accounts: { default: account },
      integrations: integrationIds(given, report).map((id) => (
        { id, account: "default", models, interval, sweepInterval, backfill: "publish" }
      )),
      confirmInterval: duration(given, report, "ROLLCALL_CONFIRM_INTERVAL", "10 minutes"),
      overlapMin: duration(given, report, "ROLLCALL_OVERLAP_MIN", "5 minutes"),
      retryBase: duration(given, report, "ROLLCALL_RETRY_BASE", "1 second"),
      store: store(given, report),
      retention: Duration.days(7),
      http: http(given, report),
      kafka: kafka(given, report),
      log: log(given, report)
    }
  })

/** What `status` and `tail` need: where the operating API of the running process is. Pure. */
export const checkHttp = (given: Input): Result.Result<Http, ConfigFaults> => reporting((report) => http(given, report))

/** The log settings, faults ignored: they are reported by `check`, and faults must be printable before that. */
export const logOf = (given: Input): Log => log(given, () => undefined)

const reporting = <A>(build: (report: Report) => A): Result.Result<A, ConfigFaults> => {
  const faults: Array<Fault> = []
  const value = build((variable, message, hint) => faults.push({ variable, message, hint }))
  return faults.length === 0 ? Result.succeed(value) : Result.fail(new ConfigFaults({ faults }))
}

// ---- the account --------------------------------------------------------------------------------------------------

const url = (given: Input, report: Report): string => {
  const hint = "Set it to the API's base address, which ends in /v1, such as https://api.example.com/v1"
  const text = given.ROLLCALL_API_URL
  if (text === undefined) {
    report("ROLLCALL_API_URL", "is not set", hint)
    return ""
  }
  const parsed = URL.parse(text)
  if (parsed === null || (parsed.protocol !== "http:" && parsed.protocol !== "https:")) {
    report("ROLLCALL_API_URL", "is no http or https address", hint)
  } else if (parsed.username !== "" || parsed.password !== "" || parsed.search !== "" || parsed.hash !== "") {
    report("ROLLCALL_API_URL", "holds more than an address (a login, `?` or `#`)", hint)
  } else if (!/\/v1\/?$/.test(parsed.pathname)) {
    report("ROLLCALL_API_URL", "does not end in /v1", hint)
  }
  return text.replace(/\/$/, "")
}

const key = (given: Input, report: Report): Redacted.Redacted => {
  if (given.ROLLCALL_API_KEY !== undefined) return given.ROLLCALL_API_KEY
  report("ROLLCALL_API_KEY", "is not set", "Set it to the API key of the account that ROLLCALL_API_URL belongs to")
  return Redacted.make("")
}

// ---- what is read -------------------------------------------------------------------------------------------------

const list = (text: string | undefined): ReadonlyArray<string> =>
  (text ?? "").split(",").map((item) => item.trim()).filter((item) => item !== "")

const integrationIds = (given: Input, report: Report): ReadonlyArray<string> => {
  const ids = list(given.ROLLCALL_INTEGRATIONS)
  for (const id of ids) {
    if (!/^[^\s:/]+:[^\s/]+$/.test(id)) {
      report(
        "ROLLCALL_INTEGRATIONS",
        `"${id}" is no integration id`,
        "An id is <tool>:<identifier>, such as greenhouse:acme"
      )
    }
  }
  for (const id of new Set(ids.filter((id, index) => ids.indexOf(id) !== index))) {
    report("ROLLCALL_INTEGRATIONS", `"${id}" stands there more than once`, "Leave one of them")
  }
  return ids
}

const checkModels = (given: Input, report: Report): ReadonlyArray<ModelEntry["model"]> => {
  const models = Object.values(registry).map((entry) => entry.model)
  const names = list(given.ROLLCALL_MODELS)
  if (names.length === 0 || (names.length === 1 && names[0] === "auto")) return models
  const known = new Set<string>(models)
  for (const name of names.filter((name) => !known.has(name))) {
    if (isModel(name)) {
      report("ROLLCALL_MODELS", `"${name}" is not available in this version`, "Leave it out")
    } else {
      report(
        "ROLLCALL_MODELS",
        `"${name}" is no model`,
        `Did you mean "${nearest(name, models)}"? The models are ${models.join(", ")}; auto reads all`
      )
    }
  }
  return models.filter((model) => names.includes(model))
}

/** The candidate with the fewest edits. */
const nearest = (name: string, candidates: ReadonlyArray<string>): string => {
  const edits = (a: string, b: string): number => {
    let row = Array.from({ length: b.length + 1 }, (_, column) => column)
    for (let i = 1; i <= a.length; i++) {
      const next = [i]
      for (let j = 1; j <= b.length; j++) {
        next.push(Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
      }
      row = next
    }
    return row[b.length]!
  }
  return candidates.reduce((best, candidate) => edits(name, candidate) < edits(name, best) ? candidate : best)
}

/** A length of time as Effect spells it: `30 seconds`. */
export const parseDuration = (text: string): Option.Option<Duration.Duration> =>
  Option.filter(
    Duration.fromInput(text as Duration.Input),
    (value) => Duration.isFinite(value) && Duration.toMillis(value) > 0
  )

/** The same, and its short spelling for the command line: `20s`. */
export const parseLength = (text: string): Option.Option<Duration.Duration> => {
  const units: Readonly<Record<string, string>> = {
    ms: "millis",
    s: "seconds",
    m: "minutes",
    min: "minutes",
    h: "hours"
  }
  const match = /^(\d+(?:\.\d+)?)([a-z]+)$/.exec(text)
  const unit = units[match?.[2] ?? ""]
  return parseDuration(match === null || unit === undefined ? text : `${match[1]} ${unit}`)
}

const duration = (given: Input, report: Report, name: Variable, otherwise: Duration.Input): Duration.Duration => {
  const text = given[name]
  if (text === undefined) return Duration.fromInputUnsafe(otherwise)
  const value = parseDuration(text)
  if (Option.isSome(value)) return value.value
  report(name, `"${text}" is no length of time`, "Write a number and a unit, such as 30 seconds, 5 minutes or 6 hours")
  return Duration.zero
}

// ---- where it goes ------------------------------------------------------------------------------------------------

const store = (given: Input, report: Report): Settings["store"] => {
  const [variable, text] = given.ROLLCALL_STORE === undefined && given.DATABASE_URL !== undefined
    ? ["DATABASE_URL" as const, Redacted.value(given.DATABASE_URL)]
    : ["ROLLCALL_STORE" as const, given.ROLLCALL_STORE ?? "sqlite:./rollcall.db"]
  if (/^postgres(ql)?:\/\//.test(text)) {
    report(variable, "PostgreSQL is not available in this version", "Use sqlite:<file>, such as sqlite:./rollcall.db")
  } else if (!/^sqlite:./.test(text)) {
    report(variable, "names no store", "Use sqlite:<file>, such as sqlite:./rollcall.db")
  }
  return { file: text.replace(/^sqlite:/, "") }
}

/** Whether only this machine can reach an address. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d+){3}$/.test(host)

const http = (given: Input, report: Report): Http => {
  const host = given.ROLLCALL_HTTP_HOST ?? "127.0.0.1"
  const port = given.ROLLCALL_HTTP_PORT ?? "8477"
  const token = given.ROLLCALL_HTTP_TOKEN ?? null
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    report("ROLLCALL_HTTP_PORT", `"${port}" is no port`, "Use a number from 1 to 65535, or 0 for any free one")
  }
  if (!isLoopback(host) && token === null) {
    report(
      "ROLLCALL_HTTP_TOKEN",
      `is not set, and ROLLCALL_HTTP_HOST is ${host}, which others can reach`,
      "Set a long random token, or bind to 127.0.0.1"
    )
  }
  return { host, port: Number(port), token }
}

const oneOf = <const A extends string>(
  given: Input,
  report: Report,
  name: Variable,
  values: ReadonlyArray<A>
): A | undefined => {
  const text = given[name]?.toLowerCase()
  const value = values.find((value) => value === text)
  if (text !== undefined && value === undefined) {
    report(name, `"${text}" is not known`, `Use one of ${values.join(", ")}`)
  }
  return value
}

const kafka = (given: Input, report: Report): Kafka | null => {
  const brokers = list(given.KAFKA_BROKERS)
  for (const broker of brokers.filter((broker) => !/^[^\s:/]+:\d{1,5}$|^\[[0-9a-fA-F:]+\]:\d{1,5}$/.test(broker))) {
    report("KAFKA_BROKERS", `"${broker}" is no broker`, "Write host:port, several with commas between")
  }
  const ssl = oneOf(given, report, "KAFKA_SSL", ["true", "false"]) === "true"
  const mechanism = oneOf(given, report, "KAFKA_SASL_MECHANISM", saslMechanisms)
  const username = given.KAFKA_SASL_USERNAME
  const password = given.KAFKA_SASL_PASSWORD
  const hint = "KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD are set together or not at all"
  if (given.KAFKA_SASL_MECHANISM !== undefined || username !== undefined || password !== undefined) {
    if (given.KAFKA_SASL_MECHANISM === undefined) report("KAFKA_SASL_MECHANISM", "is not set", hint)
    if (username === undefined) report("KAFKA_SASL_USERNAME", "is not set", hint)
    if (password === undefined) report("KAFKA_SASL_PASSWORD", "is not set", hint)
  }
  const topic = given.ROLLCALL_TOPIC ?? "rollcall.{model}"
  if (!/^[A-Za-z0-9._-]+$/.test(topic.replaceAll("{model}", "m").replaceAll("{integration}", "i"))) {
    report(
      "ROLLCALL_TOPIC",
      `"${topic}" is no topic template`,
      "Use letters, digits, `.`, `_`, `-` and the places {model} and {integration}"
    )
  }
  const transactions = oneOf(given, report, "ROLLCALL_KAFKA_TRANSACTIONS", ["on", "off"]) !== "off"
  if (brokers.length === 0) return null
  const sasl = mechanism !== undefined && username !== undefined && password !== undefined
    ? { mechanism, username, password }
    : null
  return { brokers, ssl, sasl, topic, transactions }
}

const log = (given: Input, report: Report): Log => ({
  level: oneOf(given, report, "ROLLCALL_LOG_LEVEL", logLevels) ?? "info",
  format: oneOf(given, report, "ROLLCALL_LOG_FORMAT", ["pretty", "json"]) ?? null
})
