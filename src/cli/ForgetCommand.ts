/** `rollcall forget`: removes a record for good, lists the forgotten records, and allows a record to be stored again. */
import * as Argument from "effect/cli/Argument"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { ForgettableRecord } from "../domain/Forgotten.ts"
import { isModelName } from "../domain/Model.ts"
import type { ForgetPlanView, ForgottenView } from "../http/contract/ForgetApi.ts"
import { oneLine } from "../telemetry/TerminalText.ts"
import { type ApiClient, ApiClientError } from "./client/ApiClient.ts"
import { clientCommand } from "./client/ClientCommand.ts"
import { removalWork } from "./client/WaitedWork.ts"
import { checkWaitFlags, startAndWait, waitFlags, waitFor, type WaitInput, withElapsed } from "./client/Waiting.ts"
import { switchFlag, textFlag, yes } from "./terminal/Flags.ts"
import { CommandError, confirm, progressPrinter, refuse } from "./terminal/Process.ts"
import { formatCount, formatMinute, formatPlural, table } from "./terminal/Tables.ts"

const form = "<integration>/<model>/<id>, such as greenhouse:acme/ats.candidate/8Xi6iZrwusZqJmDGXs49GBmJ"

/** The first model name in the text separates the integration from the id. */
const parse = (text: string): Effect.Effect<ForgettableRecord, CommandError> => {
  const found = [...text.matchAll(/\/([^/]+)(?=\/)/g)].flatMap(({ 1: model = "", index: at }) => {
    if (!isModelName(model)) return []
    const id = text.slice(at + model.length + 2)
    return at > 0 && id !== "" ? [{ at, record: { integration: text.slice(0, at), model, id } }] : []
  })[0]
  return found === undefined
    ? refuse("the argument is not the name of a record", `Write ${form}.`)
    : Effect.succeed(found.record)
}

const recordsText = ({ ids, model, records }: ForgetPlanView["copies"][number]): string =>
  `${formatPlural(records, "record")} of ${model}: ${ids.slice(0, 5).join(", ")}${records > 5 ? ", …" : ""}`

const planText = (plan: ForgetPlanView): string =>
  [
    plan.versions === 0
      ? "record        only in other records"
      : `record        ${plan.live ? "live" : "not live"}, ${formatPlural(plan.versions, "row")} in the log`,
    `pending       ${formatCount(plan.pending)}`,
    `deliveries    ${formatCount(plan.deliveries)}, dead letters included`,
    `journal       ${formatPlural(plan.steps, "step")}`,
    ...plan.copies.map((copies) => `repeated in   ${recordsText(copies)}`),
    ...plan.mentions.map((mentions) => `mentioned in  ${recordsText(mentions)}`),
    ...plan.unreadable.map(({ id, model, position }) =>
      `unreadable    ${model} ${id}, ${position === null ? "a pending change" : `row ${position} of the log`}`
    ),
    "",
    ...plan.mentions.length === 0 ? [] : [
      "Records that mention it have an object with its id, where their list names no reference. They are not changed: forget",
      "them too, or first name the place in the references of the list."
    ],
    ...plan.unreadable.length === 0 ? [] : [
      "The unreadable rows are damaged, so it is not known whether they repeat the record. They are not changed: forget their",
      "records too, and pass --allow for each of them afterwards, so that the next sweep reads it again."
    ],
    "Only the repeated part is removed from other records: forget them too if more of their content is personal.",
    "Copies in Kafka, in backups and in other systems stay there.",
    `plan ${plan.plan}`
  ].map(oneLine).join("\n")

const listText = (records: ReadonlyArray<ForgottenView>): string =>
  records.length === 0 ? "no record is forgotten" : table(records, {
    INTEGRATION: ({ integration }) => integration,
    MODEL: ({ model }) => model,
    ID: ({ id }) => id,
    STATE: ({ state }) => state,
    REQUESTED: ({ requested_at }) => formatMinute(requested_at),
    DONE: ({ done_at }) => formatMinute(done_at)
  })

type Result =
  | { readonly _tag: "list"; readonly items: ReadonlyArray<ForgottenView> }
  | { readonly _tag: "allowed" }
  | { readonly _tag: "forgotten"; readonly record: ForgottenView }

const resultText = (result: Result): string => {
  switch (result._tag) {
    case "list":
      return listText(result.items)
    case "allowed":
      return "allowed: its next change or the next sweep stores it again"
    case "forgotten":
      return result.record.state === "forgotten"
        ? "forgotten: the store no longer has any of its content, and no run stores the record again"
        : "being forgotten: no run stores the record again; `rollcall forget --list` shows when its removal is complete"
  }
}

const isInterrupted = (error: Error) => error instanceof ApiClientError && error.reason === "interrupted"
const isMissing = (error: Error) => error instanceof ApiClientError && error.status === 404

const howToContinue =
  "`rollcall forget --list` shows whether it has: the removal then continues. Otherwise run the command again."
const maybeSaved = new CommandError({
  message: "the connection to the process ended before it answered; it may have saved the request",
  hint: howToContinue
})
const notSaved = new CommandError({
  message: "the connection to the process ended, and the request is not saved",
  hint:
    "Another process of a fleet may still save it: `rollcall forget --list` shows that. Otherwise run the command again."
})

/** Sends the request, and with `--wait` waits until the removal is complete. `searchSeconds`: see `removalWork`. */
const forgetRecord = Effect.fnUntraced(function*(
  client: ApiClient,
  { plan, record }: { readonly record: ForgettableRecord; readonly plan: string },
  { json, searchSeconds, timeout, wait }: WaitInput & {
    readonly json: boolean
    readonly searchSeconds: number | null
  }
) {
  const show = progressPrinter(json)
  /** Null: the connection ended, and the process may have saved the request. */
  const send = withElapsed(client.forget.forget({ payload: { ...record, plan } }), show, searchSeconds).pipe(
    Effect.catchIf(isInterrupted, () => wait ? Effect.succeed(null) : Effect.fail(maybeSaved))
  )
  return yield* startAndWait(
    { hint: `It may have saved the request. ${howToContinue}`, timeout },
    send,
    (sent, limit) => {
      if (sent !== null && (!wait || sent.state === "forgotten")) return Effect.succeed(sent)
      const read = client.forget.progress({ payload: record }).pipe(
        Effect.mapError((error) => sent === null && isMissing(error) ? notSaved : error)
      )
      return Effect.flatMap(
        Clock.currentTimeMillis,
        (now) => waitFor(removalWork(now, searchSeconds), { limit, read, show })
      )
    }
  )
})

export const forget = clientCommand("forget", {
  description: "Remove a person's record for good: it is not stored again until it is allowed",
  examples: [
    {
      command: "rollcall forget greenhouse:acme/ats.candidate/8Xi6iZrwusZqJmDGXs49GBmJ",
      description: "Show what would be removed, and ask for confirmation"
    },
    {
      command: "rollcall forget greenhouse:acme/ats.candidate/8Xi6iZrwusZqJmDGXs49GBmJ --plan 5c1f0a9e2b7d4e63 --wait",
      description: "Forget it as planned, show the progress, and return when the removal is complete"
    },
    { command: "rollcall forget --list", description: "List the forgotten records" }
  ],
  flags: {
    record: Argument.String("record").pipe(Argument.withDescription(form), Argument.optional),
    list: switchFlag("list", "List the forgotten records"),
    allow: switchFlag("allow", "Let Rollcall store a forgotten record again"),
    plan: textFlag(
      "plan",
      "Plan that the command printed for this record; the command then does not ask for confirmation",
      "plan"
    ),
    wait: waitFlags,
    yes
  },
  request: Effect.fnUntraced(function*(client, { allow, list, plan, record, wait, yes }, { json }) {
    if (
      list && (allow || Option.isSome(record) || Option.isSome(plan)) || allow && Option.isSome(plan) ||
      wait.wait && (list || allow)
    ) {
      return yield* refuse(
        "these arguments cannot be combined",
        "Pass --list alone, --allow with a record, or --plan or --wait with a record to forget."
      )
    }
    yield* checkWaitFlags(wait)
    if (list) return { _tag: "list", items: (yield* client.forget.list()).items } as Result
    if (Option.isNone(record)) {
      return yield* refuse("no record is named", `Write ${form}, or pass --list.`)
    }
    const payload = yield* parse(record.value)
    if (allow) return yield* Effect.as(client.forget.allow({ payload }), { _tag: "allowed" } as Result)
    let confirmed = Option.getOrNull(plan)
    let searchSeconds: number | null = null
    if (confirmed === null) {
      const show = progressPrinter(json)
      const [search, planned] = yield* Effect.timed(withElapsed(client.forget.plan({ payload }), show))
      searchSeconds = Duration.toSeconds(search)
      yield* confirm({
        yes,
        json,
        shown: planText(planned),
        question: "Forget this record for good?",
        hint: `Pass --plan ${planned.plan} to confirm exactly this plan, or --yes.`
      })
      confirmed = planned.plan
    }
    const forgotten = yield* forgetRecord(client, { record: payload, plan: confirmed }, {
      ...wait,
      json,
      searchSeconds
    })
    return { _tag: "forgotten", record: forgotten } as Result
  }),
  json: (result) =>
    result._tag === "list" ? result.items : result._tag === "forgotten" ? result.record : { allowed: true },
  text: resultText
})
