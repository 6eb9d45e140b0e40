/** `rollcall holds list | show | approve | reject`: the changes that the guard holds, and the operator's decision about them. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { HoldPage, HoldView } from "../http/holds/HoldApi.ts"
import { type ConfigFlag, type ConnectClient, json, print, runClientCommand } from "./Flags.ts"
import { holdTable, table } from "./terminal/Terminal.ts"

const id = Argument.Int("hold").pipe(
  Argument.filter((value) => value > 0, (value) => `Expected the number of a hold, got ${value}`),
  Argument.withDescription("Number of the hold, as `rollcall holds list` shows it")
)

const maxRecordsShown = 20

const decisionText = ({ id, records, released, state, waiting_reason }: HoldView): string =>
  state === "rejected"
    ? `hold ${id} is rejected: ${records} records stay unpublished and cause no new hold until their content ` +
      `changes again`
    : waiting_reason !== null
    ? `hold ${id} is approved and will be released later: ${waiting_reason}`
    : `hold ${id} is approved: ${released} records are released${records === 0 ? "" : `, ${records} follow`}`

export const holds = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) => {
  const list = Command.make("list", { json, config }, ({ config, json }) =>
    Effect.gen(function*() {
      const holds = yield* (yield* connect(config)).holds
      if (json) return yield* print(JSON.stringify(holds))
      yield* print(holds.length === 0 ? "no holds" : holdTable(holds))
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("List the holds that wait for a decision or for their release, and rejected ones")
    )

  const show = Command.make("show", { id, json, config }, ({ config, id, json }) =>
    Effect.gen(function*() {
      const { get } = yield* connect(config)
      const page = (after: string | null) =>
        get(`/v1/holds/${id}?limit=1000${after === null ? "" : `&after=${encodeURIComponent(after)}`}`, HoldPage)
      const first = yield* page(null)
      if (json) {
        const records = [...first.records]
        for (let next = first.next; next !== null;) {
          const more = yield* page(next)
          records.push(...more.records)
          next = more.next
        }
        return yield* print(JSON.stringify({ ...first.hold, held: records }))
      }
      yield* print(holdTable([first.hold]))
      if (first.hold.paths.length > 0) {
        yield* print(`\npaths that keep their published value: ${first.hold.paths.join(", ")}`)
      }
      const shown = first.records.slice(0, maxRecordsShown)
      if (shown.length === 0) return
      const rows = shown.map((record) => [record.id, record.reason ?? "changed", record.changed_at ?? "–"])
      yield* print(`\n${table(["RECORD", "WHY", "CHANGED"], rows)}`)
      const rest = first.hold.records - shown.length
      if (rest > 0) yield* print(`and ${rest.toLocaleString("en")} more; --json lists all`)
    }).pipe(runClientCommand)).pipe(Command.withDescription("Show one hold and its records"))

  const approve = Command.make("approve", {
    id,
    asBackfill: Flag.Boolean("as-backfill").pipe(
      Flag.withDescription("Publish the events with origin backfill, which handlers skip unless they ask for it"),
      Flag.withDefault(false)
    ),
    silent: Flag.Boolean("silent").pipe(
      Flag.withDescription("Scope holds only: accept the new content without publishing events"),
      Flag.withDefault(false)
    ),
    json,
    config
  }, ({ asBackfill, config, id, json, silent }) =>
    Effect.gen(function*() {
      const query = new URLSearchParams({
        ...(asBackfill ? { origin: "backfill" } : {}),
        ...(silent ? { silent: "true" } : {})
      })
      const hold = yield* (yield* connect(config)).post(`/v1/holds/${id}/approve?${query}`, {}, HoldView)
      yield* print(json ? JSON.stringify(hold) : decisionText(hold))
    }).pipe(runClientCommand)).pipe(Command.withDescription("Approve the hold; its changes are published"))

  const reject = Command.make("reject", { id, json, config }, ({ config, id, json }) =>
    Effect.gen(function*() {
      const hold = yield* (yield* connect(config)).post(`/v1/holds/${id}/reject`, {}, HoldView)
      yield* print(json ? JSON.stringify(hold) : decisionText(hold))
    }).pipe(runClientCommand)).pipe(Command.withDescription("Reject the hold; its changes stay unpublished"))

  return Command.make("holds").pipe(
    Command.withDescription(
      "Approve or reject unusually many deletes, restores or emptied fields, which the guard holds before they " +
        "are published"
    ),
    Command.withSubcommands([list, show, approve, reject])
  )
}
