/**
 * Finds all values that a plugin's configuration lacks. Reading a configuration reports only the first one.
 *
 * Gotchas
 * - To find the next missing value, the configuration is read again with a sample in place of the one before. So functions of a
 *   configuration, such as those of `Config.map`, may get samples; what they return or throw then is ignored.
 * - If no sample suits a value, those after it are not found.
 */
import type * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as SchemaAST from "effect/SchemaAST"
import type * as SchemaIssue from "effect/SchemaIssue"

/** Each type of configuration value, except a choice, accepts one of these. */
const samples = ["1", "https://localhost", "1 second", "1 kB"] as const

interface Rejected {
  readonly path: ConfigProvider.Path
  /** The values of a choice; empty for other types. */
  readonly choices: ReadonlyArray<string>
}

const keyOf = (path: ConfigProvider.Path): string => JSON.stringify(path)

const choicesOf = (issue: SchemaIssue.Issue): ReadonlyArray<string> =>
  "issue" in issue
    ? choicesOf(issue.issue)
    : issue._tag === "AnyOf" && SchemaAST.isUnion(issue.ast)
    ? issue.ast.types.flatMap((type) => SchemaAST.isLiteral(type) ? [String(type.literal)] : [])
    : []

/** The value that an error is about; null if it is not about one value. */
const rejectedBy = ({ cause }: Config.ConfigError): Rejected | null =>
  cause._tag === "SchemaError" && cause.issue._tag === "Pointer"
    ? { path: cause.issue.path.map(String), choices: choicesOf(cause.issue) }
    : null

/**
 * The paths of all missing values, in the order in which the configuration reads them. Empty if `error`, with which the configuration was
 * read before, is not about a missing value.
 */
export const missingValues = Effect.fnUntraced(function*(
  config: Config.Config<unknown>,
  provider: ConfigProvider.ConfigProvider,
  error: Config.ConfigError
): Effect.fn.Return<ReadonlyArray<ConfigProvider.Path>> {
  /** The paths that the configuration reads without samples: a sample may be a choice that needs further values. */
  const read = new Set<string>()
  let given: ReadonlyMap<string, string> = new Map()
  const isMissing = ({ path }: Rejected) =>
    read.has(keyOf(path)) && !given.has(keyOf(path))
      ? Effect.map(Effect.option(provider.load(path)), (node) => node._tag === "Some" && node.value === undefined)
      : Effect.succeed(false)
  const rejectedWith = (values: ReadonlyMap<string, string>) =>
    config.parse(ConfigProvider.make((path) => {
      if (values.size === 0) read.add(keyOf(path))
      const sample = values.get(keyOf(path))
      return sample === undefined ? provider.load(path) : Effect.succeed(ConfigProvider.makeValue(sample))
    })).pipe(
      Effect.as(null),
      Effect.catch((failure) => Effect.succeed(rejectedBy(failure))),
      Effect.catchDefect(() => Effect.succeed(null))
    )
  if (rejectedBy(error) === null) return []
  const missing: Array<ConfigProvider.Path> = []
  let next = yield* rejectedWith(given)
  while (next !== null && (yield* isMissing(next))) {
    const { choices, path }: Rejected = next
    missing.push(path)
    next = null
    for (const sample of [...choices, ...samples]) {
      const more = new Map([...given, [keyOf(path), sample]])
      const rejected = yield* rejectedWith(more)
      // a choice that needs further values is not taken if there is another one
      if (rejected === null || keyOf(rejected.path) === keyOf(path) || !(yield* isMissing(rejected))) continue
      given = more
      next = rejected
      break
    }
  }
  return missing
})
