/**
 * Loads the configuration before any check: variables, secrets and the file. Hides where each of them comes from.
 *
 * Invariants
 * 1. Secrets leave this module only as `Redacted`   (I11)
 *
 * Gotchas
 * - A variable that is set but empty counts as not set, because compose files turn a missing variable into an empty one.
 * - The file of a secret is read again on each use, so a rotated secret takes effect at once. While the file is being
 *   replaced it may be missing or empty; the previous secret is used then.
 */
import * as EffectConfig from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { isSecret } from "./ConfigFile.ts"

const variables = [
  "ROLLCALL_API_URL",
  "ROLLCALL_CURSOR_PARAMETER",
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
/** `DATABASE_URL` is a secret because the URL contains the password of the database. */
const secretVariables = [
  "ROLLCALL_API_KEY",
  "ROLLCALL_HTTP_TOKEN",
  "ROLLCALL_REDACT_KEY",
  "KAFKA_SASL_PASSWORD",
  "DATABASE_URL"
] as const

export type Variable = (typeof variables)[number]
export type SecretVariable = (typeof secretVariables)[number]
export const isVariable = (name: string): name is Variable => variables.some((variable) => variable === name)

const Fault = Schema.Struct({
  /** `ROLLCALL_API_URL`, or `rollcall.config.ts, accounts.eu.url` */
  where: Schema.String,
  /** The problem, as a clause whose subject is `where`. */
  message: Schema.String,
  /** How to fix the problem. */
  hint: Schema.String
})
/** One error in the configuration. */
export type Fault = typeof Fault.Type

export class ConfigFaults extends Schema.TaggedError<ConfigFaults>()("ConfigFaults", { faults: Schema.Array(Fault) }) {
  override get message(): string {
    const lines = this.faults.map((fault) => `  ${fault.where}: ${fault.message}. ${fault.hint}.`)
    return [`the configuration has ${lines.length === 1 ? "an error" : `${lines.length} errors`}:`, ...lines].join("\n")
  }
}

export interface SecretValue {
  /** The value at start. */
  readonly initial: Redacted.Redacted
  /** Reads the current value. */
  readonly current: Effect.Effect<Redacted.Redacted>
}

/** Everything that is configured, not yet checked. An absent entry is not set. */
export interface RawConfig {
  readonly variables: { readonly [name in Variable]?: string }
  /** Variable → its secret, or the reason why it has none. */
  readonly secrets: ReadonlyMap<string, SecretValue | string>
  readonly file: { readonly name: string; readonly value: unknown } | null
  /** Why the file could not be loaded. */
  readonly faults: ReadonlyArray<Fault>
}

// ---- variables ----------------------------------------------------------------------------------------------------

const variable = (name: string): Effect.Effect<Option.Option<string>> =>
  EffectConfig.option(EffectConfig.String(name)).pipe(
    Effect.orDie,
    Effect.map((value) => Option.filter(Option.map(value, (text) => text.trim()), (text) => text !== ""))
  )

const readSecretFile = (path: string): Effect.Effect<Option.Option<string>> =>
  Effect.option(Effect.tryPromise(() => readFile(path, "utf8"))).pipe(
    Effect.map((value) => Option.filter(Option.map(value, (text) => text.trim()), (text) => text !== ""))
  )

const fromFile = (path: string, first: string): SecretValue => {
  let last = Redacted.make(first)
  return {
    initial: last,
    current: Effect.map(readSecretFile(path), (text) => {
      if (Option.isSome(text) && text.value !== Redacted.value(last)) last = Redacted.make(text.value)
      return last
    })
  }
}

/** The secret in `NAME`, or in the file that `NAME_FILE` names; undefined if neither is set; a string says why it failed. */
const loadSecret = Effect.fnUntraced(function*(name: string) {
  const own = Option.getOrUndefined(yield* variable(name))
  const path = Option.getOrUndefined(yield* variable(`${name}_FILE`))
  if (own !== undefined && path !== undefined) return `${name} and ${name}_FILE are both set`
  if (own !== undefined) {
    const initial = Redacted.make(own)
    return { initial, current: Effect.succeed(initial) }
  }
  if (path === undefined) return undefined
  const text = yield* readSecretFile(path)
  return Option.isSome(text)
    ? fromFile(path, text.value)
    : `${name}_FILE names ${path}, and that file is empty or cannot be read`
})

// ---- the file -----------------------------------------------------------------------------------------------------

export const defaultFile = "rollcall.config.ts"

const loadFile = Effect.fnUntraced(function*(requested: Option.Option<string>) {
  const name = Option.getOrElse(requested, () => defaultFile)
  const path = resolve(name)
  const failed = (message: string, hint: string) => ({ file: null, faults: [{ where: name, message, hint }] })
  if (!existsSync(path)) {
    return Option.isNone(requested)
      ? { file: null, faults: [] }
      : failed("does not exist", "Pass the path of the configuration file, or omit --config")
  }
  if (name.endsWith(".json")) {
    return failed("is not a module", "Write `export default defineConfig({ … })` in a file that ends in .ts or .js")
  }
  const module = yield* Effect.result(Effect.tryPromise(() => import(pathToFileURL(path).href)))
  if (module._tag === "Failure") {
    const { cause } = module.failure
    const reason = (cause instanceof Error ? cause.message : String(cause)).split("\n", 1)[0]
    // the stack of a syntax error begins with the file name and the line
    const [line] = cause instanceof SyntaxError
      ? /^[^\n]*?([^/\\\n]+:\d+)\n/.exec(cause.stack ?? "")?.slice(1) ?? []
      : []
    return failed(
      `cannot be loaded: ${reason}${line === undefined ? "" : `, at ${line}`}`,
      "Correct the file; Node.js strips its types and runs it without a build"
    )
  }
  const value: unknown = module.success.default
  return value === undefined
    ? failed("has no default export", "Write `export default defineConfig({ … })`")
    : { file: { name, value }, faults: [] }
})

/** The variables that a file names as secrets. Deeper values belong to plugins and may contain cycles. */
const secretsIn = (value: unknown, depth = 4): ReadonlyArray<string> => {
  if (isSecret(value)) return [value.secret]
  if (depth === 0 || typeof value !== "object" || value === null) return []
  return Object.values(value).flatMap((inner) => secretsIn(inner, depth - 1))
}

// ---- both ---------------------------------------------------------------------------------------------------------

const collect = Effect.fnUntraced(
  function*({ faults, file }: Pick<RawConfig, "file" | "faults">): Effect.fn.Return<RawConfig> {
    const set = yield* Effect.forEach(
      variables,
      (name) =>
        Effect.map(variable(name), Option.match({ onNone: () => [], onSome: (value) => [[name, value] as const] }))
    )
    const secrets = yield* Effect.forEach(
      new Set([...secretVariables, ...secretsIn(file?.value)]),
      (name) => Effect.map(loadSecret(name), (value) => value === undefined ? [] : [[name, value] as const])
    )
    return { variables: Object.fromEntries(set.flat()), secrets: new Map(secrets.flat()), file, faults }
  }
)

/** Loads the environment and the given file, or `rollcall.config.ts` if the working directory has one. */
export const loadRawConfig = (file: Option.Option<string>): Effect.Effect<RawConfig> =>
  Effect.flatMap(loadFile(file), collect)

/** Loads the environment only. */
export const loadEnvironment: Effect.Effect<RawConfig> = collect({ file: null, faults: [] })
