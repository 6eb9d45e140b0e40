/**
 * Loads the configuration before any check: variables, secrets and the file.
 *
 * Invariants
 * 1. Secrets leave this module only as `Redacted`   (I11)
 *
 * Gotchas
 * - An empty variable is treated as not set, because compose files turn a missing variable into an empty one.
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
import { dirname, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { display, withoutSecrets } from "../domain/Quote.ts"
import { isSecret, type Secret, secret } from "./ConfigFile.ts"
import { isSecretVariable, type Variable, variableDefinitions, variableNames } from "./Variables.ts"

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
  /** Reads the current value. While the file cannot be read, returns the previous value. */
  readonly current: Effect.Effect<Redacted.Redacted>
  /** Null if the secret is in a variable, which does not change. */
  readonly file: {
    /** The variable that names the file. */
    readonly variable: string
    /** The content now; null while the file is missing, empty or unreadable. */
    readonly read: Effect.Effect<Redacted.Redacted | null>
  } | null
}

/** The configuration before it is checked. An absent entry is not set. */
export interface RawConfig {
  /** Each in the form that a property of the file has: a text, a list of texts, or a reference to a secret. */
  readonly variables: { readonly [name in Variable]?: string | ReadonlyArray<string> | Secret | undefined }
  /** By variable: the secret, or the reason why there is none. */
  readonly secrets: ReadonlyMap<string, SecretValue | string>
  readonly file: { readonly name: string; readonly value: unknown } | null
  /** Why the file could not be loaded. */
  readonly faults: ReadonlyArray<Fault>
}

// ---- variables ----------------------------------------------------------------------------------------------------

const nonEmpty = (text: string | undefined): string | undefined => text?.trim() || undefined

const loadText = (name: string): Effect.Effect<string | undefined> =>
  Effect.map(
    Effect.orDie(EffectConfig.option(EffectConfig.String(name))),
    (text) => nonEmpty(Option.getOrUndefined(text))
  )

const loadList = (name: string): Effect.Effect<ReadonlyArray<string> | undefined> =>
  Effect.map(loadText(name), (text) => {
    const items = text?.split(",").flatMap((item) => nonEmpty(item) ?? [])
    return items?.length === 0 ? undefined : items
  })

const readSecretFile = (path: string): Effect.Effect<string | undefined> =>
  Effect.tryPromise(() => readFile(path, "utf8")).pipe(
    Effect.orElseSucceed(() => undefined),
    Effect.map(nonEmpty)
  )

const fromFile = (variable: string, path: string, first: string): SecretValue => {
  let last = Redacted.make(first)
  return {
    initial: last,
    file: {
      variable,
      read: Effect.map(readSecretFile(path), (text) => text === undefined ? null : Redacted.make(text))
    },
    current: Effect.map(readSecretFile(path), (text) => {
      if (text !== undefined && text !== Redacted.value(last)) last = Redacted.make(text)
      return last
    })
  }
}

/** Whether a text names a file or a file in an existing folder, and so is not a secret that was set by mistake. */
const isPath = (text: string): boolean =>
  existsSync(text) || (!["/", "."].includes(dirname(text)) && existsSync(dirname(text)))

/** The secret in `NAME`, or in the file that `NAME_FILE` names; undefined if neither is set, a message if the secret cannot be read. */
const loadSecret = Effect.fnUntraced(function*(name: string) {
  const own = yield* loadText(name)
  const path = yield* loadText(`${name}_FILE`)
  if (own !== undefined && path !== undefined) return `${name} and ${name}_FILE are both set`
  if (own !== undefined) {
    const initial = Redacted.make(own)
    return { initial, current: Effect.succeed(initial), file: null }
  }
  if (path === undefined) return undefined
  const text = yield* readSecretFile(path)
  return text === undefined
    ? `${name}_FILE names ${isPath(path) ? path : display(path)}, and that file is empty or cannot be read`
    : fromFile(`${name}_FILE`, path, text)
})

// ---- the file -----------------------------------------------------------------------------------------------------

export const defaultFile = "rollcall.config.ts"

/**
 * Where loading failed: `rollcall.config.ts:3`. The stack of a syntax error starts with the file name and the line; that of another error
 * has the calls, of which those of packages do not count.
 */
const lineOf = (cause: unknown): string | undefined => {
  if (!(cause instanceof Error)) return undefined
  const { stack = "" } = cause
  if (cause instanceof SyntaxError) return /^[^\n]*?([^/\\\n]+:\d+)\n/.exec(stack)?.[1]
  const call = stack.split("\n").find((line) => line.includes("file://") && !line.includes("/node_modules/"))
  return /([^/\\]+:\d+):\d+\)?$/.exec(call ?? "")?.[1]
}

/** Whether an import names a file or a package that does not exist. */
const isUnresolved = (cause: unknown): boolean =>
  cause instanceof Error && "code" in cause &&
  (cause.code === "ERR_MODULE_NOT_FOUND" || cause.code === "ERR_UNSUPPORTED_DIR_IMPORT")

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
    const [firstLine = ""] = (cause instanceof Error ? cause.message : String(cause)).split("\n", 1)
    // the message may quote a secret that was written into the file without quotes
    const reason = withoutSecrets(firstLine, (token) => isPath(token.replace(/^file:\/\/|[,:]$/g, "")))
    const line = lineOf(cause)
    return failed(
      `cannot be loaded: ${reason}${line === undefined ? "" : `, at ${line}`}`,
      isUnresolved(cause)
        ? "Correct the import: the path of a file has its ending, such as ./plugins/my-plugin/plugin.ts, and a package is installed"
        : "Correct the file; Node.js strips its types and runs it without a build"
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
    const secrets = new Map<string, SecretValue | string>()
    for (const name of new Set([...variableNames.filter(isSecretVariable), ...secretsIn(file?.value)])) {
      const loaded = yield* loadSecret(name)
      if (loaded !== undefined) secrets.set(name, loaded)
    }
    const variables: Record<string, RawConfig["variables"][Variable]> = {}
    for (const name of variableNames) {
      const { kind } = variableDefinitions[name]
      if (kind === "secret") variables[name] = secrets.has(name) ? secret(name) : undefined
      else variables[name] = yield* kind === "list" ? loadList(name) : loadText(name)
    }
    return { variables, secrets, file, faults }
  }
)

/** Loads the environment and the given file, or `rollcall.config.ts` if the working directory has one. */
export const loadRawConfig = (file: Option.Option<string>): Effect.Effect<RawConfig> =>
  Effect.flatMap(loadFile(file), collect)

/** Loads the environment only. */
export const loadEnvironment: Effect.Effect<RawConfig> = collect({ file: null, faults: [] })
