/** `rollcall holds list | show | approve | reject`: the changes that the guard holds, and the operator's decision about them. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { HoldView } from "../http/holds/HoldApi.ts"
import { oneLine } from "../telemetry/TerminalText.ts"
import { clientCommand } from "./ClientCommand.ts"
import { numberArgument, switchFlag } from "./Flags.ts"
import { formatCount, holdTable, table } from "./terminal/Terminal.ts"

const id = numberArgument("hold", "hold", "Number of the hold, as `rollcall holds list` shows it")

const maxRecordsShown = 20

const decisionText = ({ id, records, released, state, waiting_reason }: HoldView): string =>
  state === "rejected"
    ? `hold ${id} is rejected: ${records} records stay unpublished and cause no new hold until their content ` +
      `changes again`
    : waiting_reason !== null
    ? `hold ${id} is approved and will be released later: ${oneLine(waiting_reason)}`
    : `hold ${id} is approved: ${released} records are released${records === 0 ? "" : `, ${records} follow`}`

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
    const page = (after: { readonly after?: string }) =>
      Effect.map(
        client.holds.show({ params: { id }, query: { ...after, limit: 1000 } }),
        (page) => [[page], Option.map(Option.fromNullOr(page.next), (after) => ({ after }))] as const
      )
    const pages = Stream.paginate({}, page)
    return Effect.map(
      Stream.runCollect(json ? pages : Stream.take(pages, 1)),
      ([...pages]) => ({ ...pages[0]!.hold, held: pages.flatMap(({ records }) => records) })
    )
  },
  text: ({ held, ...hold }) => {
    const shown = held.slice(0, maxRecordsShown)
    const records = table(shown, {
      RECORD: ({ id }) => id,
      WHY: ({ reason }) => reason ?? "changed",
      CHANGED: ({ changed_at }) => changed_at ?? "–"
    })
    const rest = hold.records - shown.length
    return [
      holdTable([hold]),
      ...(hold.paths.length > 0 ? [`\npaths that keep their published value: ${oneLine(hold.paths.join(", "))}`] : []),
      ...(shown.length > 0 ? [`\n${records}`] : []),
      ...(shown.length > 0 && rest > 0 ? [`and ${formatCount(rest)} more; --json lists all`] : [])
    ].join("\n")
  }
})

const approve = clientCommand("approve", {
  description: "Approve the hold; its changes are published",
  flags: {
    id,
    asBackfill: switchFlag(
      "as-backfill",
      "Publish the events with origin backfill, which handlers skip unless they ask for it"
    ),
    silent: switchFlag("silent", "Scope holds only: accept the new content without publishing events")
  },
  request: (client, { asBackfill, id, silent }) =>
    client.holds.approve({
      params: { id },
      query: { ...(asBackfill && { origin: "backfill" }), ...(silent && { silent: "true" }) }
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
    "Approve or reject unusually many deletes, restores or emptied fields, which the guard holds before they are published"
  ),
  Command.withSubcommands([list, show, approve, reject])
)
