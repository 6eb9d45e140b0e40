/** `rollcall deadletters resolve`: records whether a write or step of unknown outcome happened. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { ApiClient } from "./client/ApiClient.ts"
import { clientCommand } from "./client/ClientCommand.ts"
import { given, numberArgument, switchFlag, textFlag, yes } from "./terminal/Flags.ts"
import { outcomeText } from "./terminal/PluginText.ts"
import { CommandError, confirm, type ConfirmationOptions, refuse } from "./terminal/Process.ts"

export const deadLetter = numberArgument(
  "id",
  "dead letter",
  "Number of the dead letter, as `rollcall deadletters list` shows it"
)

/** Returns the given outcome, or shows the only unknown outcome and asks for confirmation. */
const chooseOutcome = Effect.fnUntraced(function*(
  client: ApiClient,
  id: number,
  outcome: Option.Option<string>,
  confirmation: Omit<ConfirmationOptions, "shown" | "hint">
) {
  if (Option.isSome(outcome)) return outcome.value
  const { outcomes } = yield* client.deadletters.show({ params: { id } })
  const unknown = outcomes.filter(({ state }) => state !== "answered")
  const choices = unknown.length === 0 ? outcomes : unknown
  const [one] = choices
  if (one === undefined) {
    return yield* refuse(
      `dead letter ${id} has no unknown outcome`,
      `\`rollcall deadletters show ${id}\` shows why it failed; redrive or discard it.`
    )
  }
  if (choices.length > 1) {
    const named = choices.map(({ outcome, write }) => `--outcome ${outcome} (${write ?? "a step"})`)
    return yield* refuse(
      `dead letter ${id} has ${choices.length} unknown outcomes`,
      `Choose one: ${named.join(", ")}.`
    )
  }
  yield* confirm({
    ...confirmation,
    shown: outcomeText(one),
    hint: `Pass --outcome ${one.outcome} to confirm exactly this outcome, or --yes.`
  })
  return one.outcome
})

export const resolve = clientCommand("resolve", {
  description: "Record whether a write or step of unknown outcome happened, and send the dead letter again",
  examples: [
    {
      command: "rollcall deadletters resolve 17 --happened --id 8Xi6iZrwusZqJmDGXs49GBmJ",
      description: "The other system has the employee; shows what was sent, and asks for confirmation"
    },
    {
      command: "rollcall deadletters resolve 17 --did-not-happen",
      description: "The other system does not have the employee: send the write again"
    }
  ],
  flags: {
    id: deadLetter,
    happened: switchFlag(
      "happened",
      "The write or step happened: the handler continues after it and does not repeat it"
    ),
    didNotHappen: switchFlag("did-not-happen", "The write or step did not happen: the handler does it again"),
    created: {
      id: textFlag(
        "id",
        "With --happened: the unified API's id of the object that the write created, if the write returns an id",
        "id"
      )
    },
    result: textFlag(
      "result",
      "With --happened: the complete result of the write or step, in place of --id",
      "json"
    ),
    outcome: textFlag(
      "outcome",
      "Outcome to resolve, as `rollcall deadletters show` prints it; the command then does not ask for confirmation",
      "outcome"
    ),
    yes
  },
  request: (client, { created, didNotHappen, happened, id, outcome, result, yes }, { json }) =>
    Effect.gen(function*() {
      if (happened === didNotHappen) {
        return yield* refuse(
          "it is unclear whether the write or step happened",
          "Pass either --happened or --did-not-happen."
        )
      }
      const value = yield* Effect.fromResult(
        Result.try({
          try: (): Option.Option<Schema.Json> => Option.map(result, (text) => JSON.parse(text)),
          catch: () =>
            new CommandError({ message: "--result is not JSON", hint: `Write it like --result '{"id":"…"}'.` })
        })
      )
      const question = happened
        ? "Record that it happened, so that it is not done again?"
        : "Record that it did not happen, so that it is done again?"
      const chosen = yield* chooseOutcome(client, id, outcome, { yes, json, question })
      const payload = { outcome: chosen, happened, ...given(created), ...given({ result: value }) }
      return yield* client.deadletters.resolve({ params: { id }, payload })
    }),
  text: ({ happened, redriven, remaining }, { id }) => {
    const next = redriven
      ? `dead letter ${id} is due again`
      : `dead letter ${id} is due again once its other unknown outcomes are resolved (${remaining} left)`
    return `${happened ? "it happened" : "it did not happen"}: ${next}`
  }
})
