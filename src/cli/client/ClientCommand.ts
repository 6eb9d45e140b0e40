/** Commands that call the running process: how they find the process, print its responses and report errors. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Config from "../../config/Config.ts"
import { loadRawConfig } from "../../config/RawConfig.ts"
import { issuesOf } from "../../http/contract/RequestValidation.ts"
import { config, json } from "../terminal/Flags.ts"
import { print, withTerminalErrors } from "../terminal/Process.ts"
import * as ApiClient from "./ApiClient.ts"
import { connectTo } from "./Connection.ts"

/** A client of the process that listens at the configured address. */
export const connect = Effect.fnUntraced(function*(file: Option.Option<string>) {
  return yield* connectTo(yield* Effect.fromResult(Config.checkHttpClient(yield* loadRawConfig(file))))
})

/** Names each part of a request that the contract does not allow, such as the name of a model that does not exist. */
const explainInvalidRequest = <E>(error: E) =>
  Schema.isSchemaError(error)
    ? new ApiClient.ApiClientError({
      reason: "invalid",
      message: "the request is invalid",
      hint: issuesOf(error).map(({ keys, message }) => `${keys.join(".")}: ${message}`).join("; ")
    })
    : error

/** Reports errors on standard error. */
export const runClientCommand = <A, E extends Error, R>(command: Effect.Effect<A, E, R>) =>
  command.pipe(
    Effect.mapError(explainInvalidRequest),
    withTerminalErrors
  )

type Input<Flags extends Command.Command.Config> = Command.Command.Config.InferValue<Flags>

export interface ClientCommand<Flags extends Command.Command.Config, A, E, R, E2> {
  readonly description: string
  readonly examples?: ReadonlyArray<Command.Command.Example>
  readonly flags: Flags
  /** Sends the requests of the command. */
  readonly request: (
    client: ApiClient.ApiClient,
    input: Input<Flags>,
    options: { readonly json: boolean }
  ) => Effect.Effect<A, E, R>
  /** The output without --json. */
  readonly text: (result: A, input: Input<Flags>) => string
  /** The output with --json; by default the result. */
  readonly json?: (result: A) => unknown
  /** Whether the command succeeds, decided after the result is printed. */
  readonly verify?: (result: A) => Effect.Effect<void, E2>
}

/** A command of the running process, with the flags --json and --config. */
export const clientCommand = <
  const Flags extends Command.Command.Config,
  A,
  E extends Error,
  R,
  E2 extends Error = never
>(
  name: string,
  command: ClientCommand<Flags, A, E, R, E2>
) => {
  const { description, examples = [], flags, json: toJson = identity, request, text, verify = () => Effect.void } =
    command
  return Command.make(name, { input: flags, json, config }, ({ config, input, json }) =>
    Effect.gen(function*() {
      const result = yield* request(yield* connect(config), input, { json })
      yield* print(json ? JSON.stringify(toJson(result)) : text(result, input))
      yield* verify(result)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription(description),
      Command.withExamples(examples)
    )
}
