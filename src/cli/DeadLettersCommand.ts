/**
 * `rollcall deadletters list | show | plan | redrive | discard | resolve`. Hides that redriving, discarding and resolving
 * first show what is affected and ask for confirmation, unless the plan or the outcome is given.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Prompt from "effect/cli/Prompt"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import {
  DeadLetterDetailView,
  DeadLetterView,
  DiscardView,
  PlanView,
  RedriveView,
  ResolveView
} from "../http/deadletters/DeadLetterApi.ts"
import { page } from "../http/Schemas.ts"
import { failureReasons } from "../store/Deliveries.ts"
import type { ApiClient } from "./ApiClient.ts"
import { type ConfigFlag, type ConnectClient, json, print, runClientCommand } from "./Flags.ts"
import { deadLetterDetailText, deadLetterTable, outcomeText, planText } from "./terminal/PluginText.ts"

const root = "/v1/deadletters"
const DeadLetterPage = page(DeadLetterView)

/** Not confirmed: neither --yes nor a plan or an outcome was passed, and the prompt was not answered with yes. */
export class NotConfirmed extends Schema.TaggedError<NotConfirmed>()("NotConfirmed", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** The resolution is contradictory or not JSON, or it is unclear which outcome it is for. */
export class ResolutionUnclear extends Schema.TaggedError<ResolutionUnclear>()("ResolutionUnclear", {
  message: Schema.String,
  hint: Schema.String
}) {}

const textFlag = (name: string, description: string, metavar: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.withMetavar(metavar), Flag.optional)

const instantFlag = (name: string, description: string) =>
  Flag.Date(name).pipe(
    Flag.withDescription(`${description}, such as 2026-03-01T12:00:00Z`),
    Flag.withMetavar("instant"),
    Flag.optional
  )

const query = {
  plugin: textFlag("plugin", "Only dead letters of this plugin", "name"),
  handler: textFlag("handler", "Only dead letters of this handler", "name"),
  integration: textFlag("integration", "Only dead letters of this integration", "id"),
  reason: Flag.Literals("reason", failureReasons).pipe(
    Flag.withDescription("Only dead letters with this failure reason"),
    Flag.optional
  ),
  since: instantFlag("since", "Only deliveries that failed at or after this time"),
  until: instantFlag("until", "Only deliveries that failed before this time")
}
type Query = { readonly [K in keyof typeof query]: Option.Option<string | Date> }

const filter = {
  ...query,
  id: Flag.Int("id").pipe(
    Flag.withDescription("Only this dead letter; can be repeated"),
    Flag.withMetavar("number"),
    Flag.atLeast(0)
  )
}

const queryOf = ({ handler, integration, plugin, reason, since, until }: Query): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries({ plugin, handler, integration, reason, since, until }).flatMap(([name, value]) =>
      Option.isSome(value) ? [[name, value.value instanceof Date ? value.value.toISOString() : value.value]] : []
    )
  )

const filterOf = ({ id, ...query }: Query & { readonly id: ReadonlyArray<number> }) => ({
  ...queryOf(query),
  ...(id.length === 0 ? {} : { ids: [...id] })
})

const planFlag = Flag.String("plan").pipe(
  Flag.withDescription(
    "Plan that `rollcall deadletters plan` printed for the same filter; the command then does not ask for confirmation"
  ),
  Flag.withMetavar("plan"),
  Flag.optional
)
const idArgument = Argument.Int("id").pipe(
  Argument.filter((value) => value > 0, (value) => `Expected the number of a dead letter, got ${value}`),
  Argument.withDescription("Number of the dead letter, as `rollcall deadletters list` shows it")
)
const askConfirmation = (message: string) =>
  Prompt.run(Prompt.Confirm({ message, initial: false })).pipe(Effect.catch(() => Effect.succeed(false)))
const yes = Flag.Boolean("yes").pipe(Flag.withDescription("Do not ask for confirmation"), Flag.withDefault(false))

export const deadLetters = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) => {
  /** Returns the given plan, or makes a plan and asks for confirmation; null if no dead letter matches. */
  const confirmPlan = Effect.fnUntraced(function*(
    client: ApiClient,
    filter: ReturnType<typeof filterOf>,
    options: {
      readonly plan: Option.Option<string>
      readonly yes: boolean
      readonly json: boolean
      readonly question: string
    }
  ) {
    if (Option.isSome(options.plan)) return options.plan.value
    const planned = yield* client.post(`${root}/plan`, filter, PlanView)
    if (!options.json) yield* print(planText(planned))
    if (planned.count === 0) return null
    if (options.yes) return planned.plan
    if (!options.json && process.stdin.isTTY && (yield* askConfirmation(options.question))) return planned.plan
    return yield* new NotConfirmed({
      message: "not confirmed, so nothing was changed",
      hint: `Pass --plan ${planned.plan} to confirm exactly this plan, or --yes.`
    })
  })

  const list = Command.make("list", { ...query, json, config }, ({ config, json, ...query }) =>
    Effect.gen(function*() {
      const { get } = yield* connect(config)
      const letters: Array<DeadLetterView> = []
      for (let after: string | null = "";;) {
        const search = new URLSearchParams({ ...queryOf(query), limit: "1000", ...(after === "" ? {} : { after }) })
        const { items, next } = yield* get(`${root}?${search}`, DeadLetterPage)
        letters.push(...items)
        after = next
        if (after === null) break
      }
      if (json) return yield* print(JSON.stringify(letters))
      yield* print(letters.length === 0 ? "no dead letters" : deadLetterTable(letters))
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("List dead letters: deliveries that failed for good, and why"),
      Command.withExamples([{
        command: "rollcall deadletters list --plugin webhook --reason Transient",
        description: "List the deliveries that failed while a receiver was down"
      }])
    )

  const show = Command.make("show", {
    id: idArgument,
    json,
    config
  }, ({ config, id, json }) =>
    Effect.gen(function*() {
      const detail = yield* (yield* connect(config)).get(`${root}/${id}`, DeadLetterDetailView)
      yield* print(json ? JSON.stringify(detail) : deadLetterDetailText(detail))
    }).pipe(runClientCommand)).pipe(
      Command.withDescription(
        "Show one dead letter: its attempts, their requests, its journal, and its unknown outcomes"
      )
    )

  const plan = Command.make(
    "plan",
    { ...filter, json, config },
    ({ config, json, ...filter }) =>
      Effect.gen(function*() {
        const planned = yield* (yield* connect(config)).post(`${root}/plan`, filterOf(filter), PlanView)
        yield* print(json ? JSON.stringify(planned) : planText(planned))
      }).pipe(runClientCommand)
  ).pipe(
    Command.withDescription("Count the dead letters that match a filter, and print a plan for `redrive` and `discard`")
  )

  const redrive = Command.make("redrive", {
    ...filter,
    plan: planFlag,
    over: Flag.String("over").pipe(
      Flag.withDescription(
        'Spread the deliveries over this duration, such as "10 minutes"; at most a week (default: all at once)'
      ),
      Flag.withMetavar("duration"),
      Flag.optional
    ),
    fresh: Flag.Boolean("fresh").pipe(
      Flag.withDescription(
        "Use a new journal: steps that are already done for these events are done again, except those done once per " +
          "record. Refused while the outcome of a write or step is unknown: resolve it first"
      ),
      Flag.withDefault(false)
    ),
    yes,
    json,
    config
  }, ({ config, fresh, json, over, plan, yes, ...filter }) =>
    Effect.gen(function*() {
      const running = yield* connect(config)
      const filters = filterOf(filter)
      const question = fresh
        ? "Send these dead letters again, without their journal?"
        : "Send these dead letters again?"
      const planned = yield* confirmPlan(running, filters, { plan, yes, json, question })
      if (planned === null) return json ? yield* print(`{"count":0}`) : undefined
      const body = { ...filters, plan: planned, fresh, ...(Option.isSome(over) ? { over: over.value } : {}) }
      const { count, from, to } = yield* running.post(`${root}/redrive`, body, RedriveView)
      const when = from === to ? "sent again" : `sent again between ${from} and ${to}`
      yield* print(json ? JSON.stringify({ count, from, to }) : `${count.toLocaleString("en")} ${when}`)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Send dead letters again; steps that are already done are not repeated"),
      Command.withExamples([
        { command: "rollcall deadletters redrive --id 17", description: "Send one again after its cause is fixed" },
        {
          command: 'rollcall deadletters redrive --plugin webhook --reason Transient --over "10 minutes"',
          description: "Send many again, spread over time; shows the plan and asks for confirmation"
        }
      ])
    )

  const discard = Command.make(
    "discard",
    { ...filter, plan: planFlag, yes, json, config },
    (input) =>
      Effect.gen(function*() {
        const { config, json, plan, yes, ...filter } = input
        const running = yield* connect(config)
        const filters = filterOf(filter)
        const question = "Discard these dead letters for good?"
        const planned = yield* confirmPlan(running, filters, { plan, yes, json, question })
        if (planned === null) return json ? yield* print(`{"count":0}`) : undefined
        const { count } = yield* running.post(`${root}/discard`, { ...filters, plan: planned }, DiscardView)
        yield* print(
          json
            ? JSON.stringify({ count })
            : `${count.toLocaleString("en")} discarded; deliveries that waited behind them continue`
        )
      }).pipe(runClientCommand)
  ).pipe(Command.withDescription("Discard dead letters for good; deliveries that wait behind them continue"))

  /** Returns the given outcome, or shows the only unknown outcome and asks for confirmation. */
  const chooseOutcome = Effect.fnUntraced(function*(
    { get }: ApiClient,
    id: number,
    options: {
      readonly outcome: Option.Option<string>
      readonly yes: boolean
      readonly json: boolean
      readonly question: string
    }
  ) {
    if (Option.isSome(options.outcome)) return options.outcome.value
    const { outcomes } = yield* get(`${root}/${id}`, DeadLetterDetailView)
    const unknown = outcomes.filter(({ state }) => state !== "answered")
    const [one, ...others] = unknown.length === 0 ? outcomes : unknown
    if (one === undefined) {
      return yield* new ResolutionUnclear({
        message: `dead letter ${id} has no unknown outcome`,
        hint: `\`rollcall deadletters show ${id}\` shows why it failed; redrive or discard it.`
      })
    }
    if (others.length > 0) {
      return yield* new ResolutionUnclear({
        message: `dead letter ${id} has ${others.length + 1} unknown outcomes`,
        hint: `Choose one: ${
          [one, ...others].map(({ outcome, write }) => `--outcome ${outcome} (${write ?? "a step"})`).join(", ")
        }.`
      })
    }
    if (!options.json) yield* print(outcomeText(one))
    if (options.yes || (!options.json && process.stdin.isTTY && (yield* askConfirmation(options.question)))) {
      return one.outcome
    }
    return yield* new NotConfirmed({
      message: "not confirmed, so nothing was changed",
      hint: `Pass --outcome ${one.outcome} to confirm exactly this outcome, or --yes.`
    })
  })

  const resolve = Command.make("resolve", {
    id: idArgument,
    happened: Flag.Boolean("happened").pipe(
      Flag.withDescription("The write or step happened: the handler continues after it and does not repeat it"),
      Flag.withDefault(false)
    ),
    didNotHappen: Flag.Boolean("did-not-happen").pipe(
      Flag.withDescription("The write or step did not happen: the handler does it again"),
      Flag.withDefault(false)
    ),
    created: Flag.String("id").pipe(
      Flag.withDescription(
        "With --happened: the unified API's id of the object that the write created, if the write returns an id"
      ),
      Flag.withMetavar("id"),
      Flag.optional
    ),
    result: Flag.String("result").pipe(
      Flag.withDescription("With --happened: the complete result of the write or step, in place of --id"),
      Flag.withMetavar("json"),
      Flag.optional
    ),
    outcome: Flag.String("outcome").pipe(
      Flag.withDescription(
        "Outcome to resolve, as `rollcall deadletters show` prints it; the command then does not ask for confirmation"
      ),
      Flag.withMetavar("outcome"),
      Flag.optional
    ),
    yes,
    json,
    config
  }, ({ config, created, didNotHappen, happened, id, json, outcome, result, yes }) =>
    Effect.gen(function*() {
      if (happened === didNotHappen) {
        return yield* new ResolutionUnclear({
          message: "it is unclear whether the write or step happened",
          hint: "Pass either --happened or --did-not-happen."
        })
      }
      const value = yield* Effect.fromResult(
        Result.try({
          try: (): Schema.Json | undefined => Option.isSome(result) ? JSON.parse(result.value) : undefined,
          catch: () =>
            new ResolutionUnclear({ message: "--result is not JSON", hint: `Write it like --result '{"id":"…"}'.` })
        })
      )
      const running = yield* connect(config)
      const question = happened
        ? "Record that it happened, so that it is not done again?"
        : "Record that it did not happen, so that it is done again?"
      const chosen = yield* chooseOutcome(running, id, { outcome, yes, json, question })
      const body = {
        outcome: chosen,
        happened,
        ...(Option.isSome(created) && { id: created.value }),
        ...(value !== undefined && { result: value })
      }
      const resolved = yield* running.post(`${root}/${id}/resolve`, body, ResolveView)
      const next = resolved.redriven
        ? `dead letter ${id} is sent again`
        : `dead letter ${id} is sent again once its other unknown outcomes are resolved (${resolved.remaining} left)`
      yield* print(json ? JSON.stringify(resolved) : `${happened ? "it happened" : "it did not happen"}: ${next}`)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription(
        "Record whether a write or step of unknown outcome happened, and send the dead letter again"
      ),
      Command.withExamples([
        {
          command: "rollcall deadletters resolve 17 --happened --id 8Xi6iZrwusZqJmDGXs49GBmJ",
          description: "The other system has the employee; shows what was sent, and asks for confirmation"
        },
        {
          command: "rollcall deadletters resolve 17 --did-not-happen",
          description: "The other system does not have the employee: send the write again"
        }
      ])
    )

  return Command.make("deadletters").pipe(
    Command.withDescription(
      "List deliveries that failed for good, resolve their unknown outcomes, send them again or discard them"
    ),
    Command.withSubcommands([list, show, plan, redrive, discard, resolve])
  )
}
