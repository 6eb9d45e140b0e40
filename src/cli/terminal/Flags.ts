/** Flags and arguments that several commands share. */
import * as Argument from "effect/cli/Argument"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { defaultFile } from "../../config/RawConfig.ts"
import { closestName } from "../../domain/ClosestName.ts"
import { isModel, type Model, type Models } from "../../domain/Model.ts"
import { parseInstant } from "../../domain/Watermark.ts"
import { type CommandError, refuse } from "./Process.ts"

/** A flag that is off unless it is given. */
export const switchFlag = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

/** An optional flag with a value. */
export const textFlag = (name: string, description: string, metavar: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.withMetavar(metavar), Flag.optional)

/** A flag with a time, in ms. */
export const instantFlag = (name: string, description: string) =>
  Flag.String(name).pipe(
    Flag.filterMap(
      (text) => Option.fromNullOr(parseInstant(text)),
      (text) => `"${text}" is not a time with a zone; write it like 2026-03-01T12:00:00Z`
    ),
    Flag.withDescription(`${description}, such as 2026-03-01T12:00:00Z`),
    Flag.withMetavar("instant")
  )

/** The path of the file that configures the running process. */
export const config = textFlag(
  "config",
  `Path of the configuration file (default: ${defaultFile}, if it exists)`,
  "file"
)
export const json = switchFlag("json", "Print JSON")
export const yes = switchFlag("yes", "Do not ask for confirmation")

/** A flag with a default value, which its description names. */
export const withFallback = <const A>(flag: Flag.Flag<A>, description: string, fallback: NoInfer<A>) =>
  flag.pipe(Flag.withDescription(`${description} (default: ${fallback})`), Flag.withDefault(fallback))

export const seed = withFallback(
  Flag.Int("seed"),
  "Seed of the simulated world; the same seed gives the same world",
  1
)

/** A name that becomes a segment of a path; `.` and `..` would change the path. */
export const nameArgument = (name: string, description: string) =>
  Argument.String(name).pipe(
    Argument.filter((text) => !/^\.\.?$/.test(text), (text) => `Expected a name, got ${text}`),
    Argument.withDescription(description)
  )

/** The number of a hold or a dead letter. */
export const numberArgument = (name: string, thing: string, description: string) =>
  Argument.Int(name).pipe(
    Argument.filter((value) => value > 0, (value) => `Expected the number of a ${thing}, got ${value}`),
    Argument.withDescription(description)
  )

type Given<Flags> = { readonly [Name in keyof Flags]?: Flags[Name] extends Option.Option<infer A> ? A : never }

/** The values of the optional flags that were given. The running process uses its defaults for the others. */
export const given = <Flags extends Readonly<Record<string, Option.Option<unknown>>>>(flags: Flags): Given<Flags> =>
  Object.fromEntries(
    Object.entries(flags).flatMap(([name, flag]) => flag._tag === "Some" ? [[name, flag.value]] : [])
  ) as Given<Flags>

/** The model of this name. */
export const checkModel = (models: Models, name: string): Effect.Effect<Model, CommandError> =>
  isModel(models, name)
    ? Effect.succeed(name)
    : refuse(`there is no model ${name}`, `Did you mean ${closestName(name, models.names)}?`)
