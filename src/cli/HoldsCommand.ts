/** `rollcall holds list | show | approve | reject`: the changes that the guard holds, and the operator's decision about them. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { HoldView } from "../http/contract/HoldApi.ts"
import { oneLine, paint } from "../telemetry/TerminalText.ts"
import { type ApiClient, pagesOf } from "./client/ApiClient.ts"
import { clientCommand } from "./client/ClientCommand.ts"
import { numberArgument, switchFlag, textFlag, yes } from "./terminal/Flags.ts"
import { confirm, type ConfirmationOptions } from "./terminal/Process.ts"
import { formatCount, formatMinute, formatPlural, holdTable, table } from "./terminal/Tables.ts"

const id = numberArgument("hold", "hold", "Number of the hold, as `rollcall holds list` shows it")

const maxRecordsShown = 20

const decisionText = ({ id, records, released, state, waiting_reason }: HoldView): string =>
  state === "rejected"
    ? `hold ${id} is rejected: ${records} records stay unpublished and cause no new hold until their content ` +
      `changes again`
    : waiting_reason !== null
    ? `hold ${id} is approved and will be released later: ${oneLine(waiting_reason)}`
    : `hold ${id} is approved: ${released} records are released${records === 0 ? "" : `, ${records} follow`}`

/** Returns the given plan, or shows the plan and asks for confirmation. */
const confirmPlan = Effect.fnUntraced(function*(
  client: ApiClient,
  id: number,
  given: Option.Option<string>,
  confirmation: Pick<ConfirmationOptions, "yes" | "json">,
  decision: string
) {
  if (Option.isSome(given)) return given.value
  const { hold, plan } = yield* client.holds.plan({ params: { id } })
  const changes = `${formatPlural(hold.records, "record")} (${hold.kind})`
  yield* confirm({
    ...confirmation,
    shown: `${holdTable([hold])}\n\nplan ${paint("bold", plan)}: ${changes}`,
    question: `${decision}: the changes of ${formatPlural(hold.records, "record")}? This cannot be undone.`,
    hint: `\`rollcall holds show ${id}\` names the records. Pass --plan ${plan} to confirm exactly this plan, or --yes.`
  })
  return plan
})

const list = clientCommand("list", {
  description: "List the holds that wait for a decision or for their release, and rejected ones",
  flags: {},
  request: (client) => Effect.map(client.holds.list({ query: { limit: 1000 } }), ({ items }) => items),
  text: (holds) => holds.length === 0 ? "no holds" : holdTable(holds)
})

const show = clientCommand("show", {
  description: "Show one hold and its records",
  flags: { id },
  request: (client, { id }, { json }) => {
    const pages = pagesOf((after) => client.holds.show({ params: { id }, query: { ...after, limit: 1000 } }))
    return Effect.map(
      Effect.all([
        Stream.runCollect(json ? pages : Stream.take(pages, 1)),
        client.holds.patterns({ params: { id } })
      ]),
      ([[...pages], { counted, patterns }]) => ({
        ...pages[0]!.hold,
        decision: pages[0]!.decision,
        counted,
        patterns,
        held: pages.flatMap(({ records }) => records)
      })
    )
  },
  text: ({ counted, decision, held, patterns, ...hold }) => {
    const shown = held.slice(0, maxRecordsShown)
    const records = table(shown, {
      RECORD: ({ id }) => id,
      VENDOR: ({ remote_id }) => remote_id ?? "–",
      WHY: ({ paths, reason }) => reason ?? (oneLine(paths.join(", ")) || "comes back"),
      CHANGED: ({ changed_at }) => changed_at ?? "–"
    })
    const rest = hold.records - shown.length
    return [
      holdTable([hold]),
      ...decision === null
        ? []
        : [
          "",
          oneLine(
            `decided at ${formatMinute(decision.at)} by ${decision.actor} from ${decision.address ?? "no address"}`
          )
        ],
      ...patterns.length === 0 ? [] : [""],
      ...patterns.map(({ records, what }) => `  ${formatCount(records)} of ${formatCount(counted)} ${oneLine(what)}`),
      ...(hold.paths.length > 0 ? [`\npaths that keep their published value: ${oneLine(hold.paths.join(", "))}`] : []),
      ...(shown.length > 0 ? [`\n${records}`] : []),
      ...(shown.length > 0 && rest > 0 ? [`and ${formatCount(rest)} more; --json lists all`] : [])
    ].join("\n")
  }
})

const approve = clientCommand("approve", {
  description: "Approve the hold; shows how many records it has, asks for confirmation, and publishes their changes",
  examples: [{
    command: "rollcall holds approve 3 --plan 5c1f0a9e2b7d4e63",
    description: "Approve only what the plan counted; without --plan the command shows the plan"
  }],
  flags: {
    id,
    plan: textFlag(
      "plan",
      "Plan that this command printed for the hold; the command then does not ask for confirmation, and refuses if " +
        "the records of the hold have changed",
      "plan"
    ),
    asBackfill: switchFlag(
      "as-backfill",
      "Publish the events with origin backfill, which handlers skip unless they ask for it"
    ),
    silent: switchFlag("silent", "Scope holds only: accept the new content without publishing events"),
    yes
  },
  request: Effect.fnUntraced(function*(client, { asBackfill, id, plan, silent, yes }, { json }) {
    const effect = silent ? "Accept without publishing events" : "Publish"
    const confirmed = yield* confirmPlan(client, id, plan, { yes, json }, effect)
    const mode = { ...(asBackfill && { origin: "backfill" } as const), ...(silent && { silent: "true" } as const) }
    return yield* client.holds.approve({ params: { id }, query: { plan: confirmed, ...mode } })
  }),
  text: decisionText
})

const reject = clientCommand("reject", {
  description: "Reject the hold; its changes stay unpublished",
  flags: { id },
  request: (client, { id }) => client.holds.reject({ params: { id } }),
  text: decisionText
})

export const holds = Command.make("holds").pipe(
  Command.withDescription(
    "Approve or reject what the guard holds: unusually many deletes, restores or emptied fields"
  ),
  Command.withSubcommands([list, show, approve, reject])
)
