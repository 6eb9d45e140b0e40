/** `rollcall deadletters list | show | plan | redrive | discard | resolve`. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { DeliveryProgress } from "../domain/DeliveryProgress.ts"
import type { DiscardView, RedriveView } from "../http/contract/DeadLetterApi.ts"
import { failureReasons } from "../store/Delivery.ts"
import { allItems, type ApiClient } from "./client/ApiClient.ts"
import { clientCommand } from "./client/ClientCommand.ts"
import { sendAgain, verifySent } from "./client/WaitedWork.ts"
import { checkWaitFlags, waitFlags } from "./client/Waiting.ts"
import { deadLetter, resolve } from "./ResolveCommand.ts"
import { given, instantFlag, switchFlag, textFlag, yes } from "./terminal/Flags.ts"
import { causesText, deadLetterDetailText, deadLetterTable, noneMatches, planText } from "./terminal/PluginText.ts"
import { confirm, type ConfirmationOptions } from "./terminal/Process.ts"
import { formatPlural } from "./terminal/Tables.ts"

const query = {
  plugin: textFlag("plugin", "Only dead letters of this plugin", "name"),
  handler: textFlag("handler", "Only dead letters of this handler", "name"),
  integration: textFlag("integration", "Only dead letters of this integration", "id"),
  reason: Flag.Literals("reason", failureReasons).pipe(
    Flag.withDescription("Only dead letters with this failure reason"),
    Flag.optional
  ),
  cause: textFlag("cause", "Only dead letters with this cause, as `rollcall deadletters causes` names it", "cause"),
  since: Flag.optional(instantFlag("since", "Only deliveries that failed at or after this time")),
  until: Flag.optional(instantFlag("until", "Only deliveries that failed before this time"))
}

const filter = {
  ...query,
  ids: Flag.Int("id").pipe(
    Flag.withDescription("Only this dead letter; can be repeated"),
    Flag.withMetavar("number"),
    Flag.atLeast(0),
    Flag.map((ids) => ids.length === 0 ? Option.none() : Option.some(ids))
  )
}
type Filter = Command.Command.Config.Infer<typeof filter>

const plan = textFlag(
  "plan",
  "Plan that `rollcall deadletters plan` printed for the same filter; the command then does not ask for confirmation",
  "plan"
)

/** Returns the given plan, or shows a plan and asks for confirmation; null if no dead letter matches. */
const confirmPlan = Effect.fnUntraced(function*(
  client: ApiClient,
  filter: Filter,
  plan: Option.Option<string>,
  confirmation: Omit<ConfirmationOptions, "shown" | "hint">
) {
  if (Option.isSome(plan)) return plan.value
  const planned = yield* client.deadletters.plan({ payload: given(filter) })
  if (planned.count === 0) return null
  yield* confirm({
    ...confirmation,
    shown: planText(planned),
    hint: `Pass --plan ${planned.plan} to confirm exactly this plan, or --yes.`
  })
  return planned.plan
})

/** The output of a command that executes a plan. */
const orNoneMatched = <A>(text: (result: A) => string) => ({
  json: (result: A | null) => result ?? { count: 0 },
  text: (result: A | null) => result === null ? noneMatches : text(result)
})

// ---- the commands -------------------------------------------------------------------------------------------------

const list = clientCommand("list", {
  description: "List dead letters: deliveries that failed for good, and why",
  examples: [{
    command: "rollcall deadletters list --plugin webhook --reason Transient",
    description: "List the deliveries that failed while a receiver was down"
  }],
  flags: query,
  request: (client, query) =>
    allItems(({ after }) =>
      client.deadletters.list({
        query: { ...given(query), ...(after !== undefined && { after: Number(after) }), limit: 1000 }
      })
    ),
  text: (letters) => letters.length === 0 ? "no dead letters" : deadLetterTable(letters)
})

const causes = clientCommand("causes", {
  description: "List the causes of dead letters, each with its number of dead letters",
  flags: query,
  request: (client, query) => client.deadletters.groups({ query: given(query) }),
  text: ({ items }) => items.length === 0 ? "no dead letters" : causesText(items)
})

const show = clientCommand("show", {
  description: "Show one dead letter: its attempts, their requests, its journal, and its unknown outcomes",
  flags: { id: deadLetter },
  request: (client, params) => client.deadletters.show({ params }),
  text: deadLetterDetailText
})

const planCommand = clientCommand("plan", {
  description: "Count the dead letters that match a filter, and print a plan for `redrive` and `discard`",
  flags: filter,
  request: (client, filter) => client.deadletters.plan({ payload: given(filter) }),
  text: planText
})

interface Redriven extends RedriveView {
  /** With --wait. */
  readonly progress: DeliveryProgress | undefined
}

const redrivenText = ({ count, from, progress, to }: Redriven): string =>
  progress === undefined
    ? `${formatPlural(count, "dead letter")} due again ${from === to ? "now" : `between ${from} and ${to}`}`
    : `${formatPlural(count, "dead letter")} sent again: ${progress.done} done, ${progress.dead} failed again`

const redrive = clientCommand("redrive", {
  description: "Send dead letters again; steps that are already done are not repeated",
  examples: [
    { command: "rollcall deadletters redrive --id 17", description: "Send one again after its cause is fixed" },
    {
      command: 'rollcall deadletters redrive --plugin webhook --reason Transient --over "10 minutes" --wait',
      description: "Send many again, spread over time; shows the plan, asks for confirmation, and shows the progress"
    }
  ],
  flags: {
    filter,
    plan,
    spread: {
      over: textFlag(
        "over",
        'Spread the deliveries over this duration, such as "10 minutes"; at most a week (default: all at once)',
        "duration"
      )
    },
    fresh: switchFlag(
      "fresh",
      "Use a new journal: steps that are already done for these events are done again, except those done once per " +
        "record. Refused while the outcome of a write or step is unknown: resolve it first"
    ),
    wait: waitFlags,
    yes
  },
  request: Effect.fnUntraced(function*(client, { filter, fresh, plan, spread, wait, yes }, { json }) {
    yield* checkWaitFlags(wait)
    const question = fresh
      ? "Send these dead letters again, without their journal?"
      : "Send these dead letters again?"
    const planned = yield* confirmPlan(client, filter, plan, { yes, json, question })
    if (planned === null) return null
    const payload = { ...given(filter), plan: planned, fresh, ...given(spread) }
    const hint = "Some of them may have been sent again: `rollcall deadletters list` shows the others."
    const dueAt = ({ to }: RedriveView) => Date.parse(to)
    return yield* sendAgain(client, client.deadletters.redrive({ payload }), {
      kind: "redrive",
      hint,
      dueAt,
      wait,
      json
    })
  }),
  ...orNoneMatched(redrivenText),
  verify: (result) => verifySent(result?.progress, "failed again")
})

const discard = clientCommand("discard", {
  description: "Discard dead letters for good, so that later deliveries no longer wait for them",
  flags: { filter, plan, yes },
  request: Effect.fnUntraced(function*(client, { filter, plan, yes }, { json }) {
    const question = "Discard these dead letters for good?"
    const planned = yield* confirmPlan(client, filter, plan, { yes, json, question })
    return planned === null
      ? null
      : yield* client.deadletters.discard({ payload: { ...given(filter), plan: planned } })
  }),
  ...orNoneMatched(({ count }: typeof DiscardView.Type) =>
    `${formatPlural(count, "dead letter")} discarded; later deliveries no longer wait for them`
  )
})

export const deadLetters = Command.make("deadletters").pipe(
  Command.withDescription(
    "List deliveries that failed for good, resolve their unknown outcomes, send them again or discard them"
  ),
  Command.withSubcommands([list, causes, show, planCommand, redrive, discard, resolve])
)
