/** How commands with large effects are confirmed: with --yes, or with a prompt on a terminal. */
import * as Prompt from "effect/cli/Prompt"
import * as Effect from "effect/Effect"
import { CommandError } from "./Process.ts"

export interface ConfirmationOptions {
  readonly yes: boolean
  /** With --json there is no prompt, because a program reads the output. */
  readonly json: boolean
  readonly question: string
  /** How the command is confirmed without a prompt. */
  readonly hint: string
}

/** Returns once the operator has confirmed; fails otherwise. */
export const confirm = Effect.fnUntraced(function*({ hint, json, question, yes }: ConfirmationOptions) {
  if (yes) return
  const ask = Prompt.run(Prompt.Confirm({ message: question, initial: false }))
  const confirmed = !json && process.stdin.isTTY && (yield* Effect.catch(ask, () => Effect.succeed(false)))
  if (!confirmed) return yield* new CommandError({ message: "not confirmed, so nothing was changed", hint })
})
