/**
 * `rollcall deadletters list | show | plan | redrive | discard | resolve`. Hides that what is sent again, given up or
 * answered for is shown and confirmed first, unless it is named by its plan or outcome.
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

/** It was not said that this is meant. */
export class NotConfirmed extends Schema.TaggedError<NotConfirmed>()("NotConfirmed", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** The answer is not one answer, or not JSON, or it is unclear for which outcome it is. */
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
  plugin: textFlag("plugin", "Only of this plugin", "name"),
  handler: textFlag("handler", "Only of this handler", "name"),
  integration: textFlag("integration", "Only of this integration", "id"),
  reason: Flag.Literals("reason", failureReasons).pipe(
    Flag.withDescription("Only what died for this reason"),
    Flag.optional
  ),
  since: instantFlag("since", "Only what died from then on"),
  until: instantFlag("until", "Only what died before")
}
type Query = { readonly [K in keyof typeof query]: Option.Option<string | Date> }

const filter = {
  ...query,
  id: Flag.Int("id").pipe(
    Flag.withDescription("Only this one; may be given several times"),
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
    "Do what `rollcall deadletters plan` counted under this name, with the same filter, and do not ask"
  ),
  Flag.withMetavar("plan"),
  Flag.optional
)
const idArgument = Argument.Int("id").pipe(
  Argument.filter((value) => value > 0, (value) => `Expected the number of a dead letter, got ${value}`),
  Argument.withDescription("Its number, as `rollcall deadletters list` shows it")
)
const askConfirmation = (message: string) =>
  Prompt.run(Prompt.Confirm({ message, initial: false })).pipe(Effect.catch(() => Effect.succeed(false)))
const yes = Flag.Boolean("yes").pipe(Flag.withDescription("Do not ask"), Flag.withDefault(false))

export const deadLetters = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) => {
  /** The plan that was given, or one that is made now and confirmed; null if there is nothing to do. */
  const confirmPlan = Effect.fnUntraced(function*(
    client: ApiClient,
    filter: ReturnType<typeof filterOf>,
    how: {
      readonly plan: Option.Option<string>
      readonly yes: boolean
      readonly json: boolean
      readonly question: string
    }
  ) {
    if (Option.isSome(how.plan)) return how.plan.value
    const found = yield* client.post(`${root}/plan`, filter, PlanView)
    if (!how.json) yield* print(planText(found))
    if (found.count === 0) return null
    if (how.yes) return found.plan
    if (!how.json && process.stdin.isTTY && (yield* askConfirmation(how.question))) return found.plan
    return yield* new NotConfirmed({
      message: "nothing was changed",
      hint: `Say --plan ${found.plan} to do exactly this, or --yes.`
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
      Command.withDescription("List deliveries that were given up, and why"),
      Command.withExamples([{
        command: "rollcall deadletters list --plugin webhook --reason Transient",
        description: "What a receiver that was down left behind"
      }])
    )

  const show = Command.make("show", {
    id: idArgument,
    json,
    config
  }, ({ config, id, json }) =>
    Effect.gen(function*() {
      const story = yield* (yield* connect(config)).get(`${root}/${id}`, DeadLetterDetailView)
      yield* print(json ? JSON.stringify(story) : deadLetterDetailText(story))
    }).pipe(runClientCommand)).pipe(
      Command.withDescription(
        "Show the whole story of one: attempts, requests, what is journaled, and which outcomes are unknown"
      )
    )

  const plan = Command.make(
    "plan",
    { ...filter, json, config },
    ({ config, json, ...filter }) =>
      Effect.gen(function*() {
        const found = yield* (yield* connect(config)).post(`${root}/plan`, filterOf(filter), PlanView)
        yield* print(json ? JSON.stringify(found) : planText(found))
      }).pipe(runClientCommand)
  ).pipe(
    Command.withDescription("Count what a filter means, and name exactly that, for `redrive` and `discard`")
  )

  const redrive = Command.make("redrive", {
    ...filter,
    plan: planFlag,
    over: Flag.String("over").pipe(
      Flag.withDescription('Spread over this long, such as "10 minutes", a week at most; else at once'),
      Flag.withMetavar("duration"),
      Flag.optional
    ),
    fresh: Flag.Boolean("fresh").pipe(
      Flag.withDescription(
        "Forget what was journaled for these events: it is done again; what is done once per record for ever is not. " +
          "Refused while the outcome of a write or step is unknown: resolve it first"
      ),
      Flag.withDefault(false)
    ),
    yes,
    json,
    config
  }, ({ config, fresh, json, over, plan, yes, ...filter }) =>
    Effect.gen(function*() {
      const running = yield* connect(config)
      const which = filterOf(filter)
      const question = fresh ? "Send these again, without their journal?" : "Send these again?"
      const planned = yield* confirmPlan(running, which, { plan, yes, json, question })
      if (planned === null) return json ? yield* print(`{"count":0}`) : undefined
      const body = { ...which, plan: planned, fresh, ...(Option.isSome(over) ? { over: over.value } : {}) }
      const { count, from, to } = yield* running.post(`${root}/redrive`, body, RedriveView)
      const said = from === to ? "sent again" : `sent again from ${from} to ${to}`
      yield* print(json ? JSON.stringify({ count, from, to }) : `${count.toLocaleString("en")} ${said}`)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Send dead letters again; what was journaled is not done twice"),
      Command.withExamples([
        { command: "rollcall deadletters redrive --id 17", description: "One, after its cause is mended" },
        {
          command: 'rollcall deadletters redrive --plugin webhook --reason Transient --over "10 minutes"',
          description: "Many, gently; shows what it means and asks"
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
        const which = filterOf(filter)
        const planned = yield* confirmPlan(running, which, { plan, yes, json, question: "Give these up for good?" })
        if (planned === null) return json ? yield* print(`{"count":0}`) : undefined
        const { count } = yield* running.post(`${root}/discard`, { ...which, plan: planned }, DiscardView)
        yield* print(
          json ? JSON.stringify({ count }) : `${count.toLocaleString("en")} given up; what was parked goes on`
        )
      }).pipe(runClientCommand)
  ).pipe(Command.withDescription("Give dead letters up for good; what is parked behind them goes on"))

  /** The outcome that was named, or the only one there is, shown and confirmed. */
  const chooseOutcome = Effect.fnUntraced(function*(
    { get }: ApiClient,
    id: number,
    how: {
      readonly outcome: Option.Option<string>
      readonly yes: boolean
      readonly json: boolean
      readonly question: string
    }
  ) {
    if (Option.isSome(how.outcome)) return how.outcome.value
    const { outcomes } = yield* get(`${root}/${id}`, DeadLetterDetailView)
    const unknown = outcomes.filter(({ state }) => state !== "answered")
    const [one, ...others] = unknown.length === 0 ? outcomes : unknown
    if (one === undefined) {
      return yield* new ResolutionUnclear({
        message: `dead letter ${id} has no unknown outcome`,
        hint: `rollcall deadletters show ${id} says why it died; redrive or discard it.`
      })
    }
    if (others.length > 0) {
      return yield* new ResolutionUnclear({
        message: `dead letter ${id} has ${others.length + 1} unknown outcomes`,
        hint: `Say which one: ${
          [one, ...others].map(({ outcome, write }) => `--outcome ${outcome} (${write ?? "a step"})`).join(", ")
        }.`
      })
    }
    if (!how.json) yield* print(outcomeText(one))
    if (how.yes || (!how.json && process.stdin.isTTY && (yield* askConfirmation(how.question)))) return one.outcome
    return yield* new NotConfirmed({
      message: "nothing was changed",
      hint: `Say --outcome ${one.outcome} to answer for exactly this, or --yes.`
    })
  })

  const resolve = Command.make("resolve", {
    id: idArgument,
    happened: Flag.Boolean("happened").pipe(
      Flag.withDescription("It happened: the handler goes on behind it and does not do it again"),
      Flag.withDefault(false)
    ),
    didNotHappen: Flag.Boolean("did-not-happen").pipe(
      Flag.withDescription("It did not happen: it is done again"),
      Flag.withDefault(false)
    ),
    created: Flag.String("id").pipe(
      Flag.withDescription(
        "With --happened: the unified API's id of what the write created, where it answers with one"
      ),
      Flag.withMetavar("id"),
      Flag.optional
    ),
    result: Flag.String("result").pipe(
      Flag.withDescription("With --happened: all that the write answered, or the step gave back, in place of --id"),
      Flag.withMetavar("json"),
      Flag.optional
    ),
    outcome: Flag.String("outcome").pipe(
      Flag.withDescription("Answer for what `rollcall deadletters show` shows under this name, and do not ask"),
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
          message: "say whether it happened",
          hint: "Give one of --happened and --did-not-happen."
        })
      }
      const value = yield* Effect.fromResult(
        Result.try({
          try: (): Schema.Json | undefined => Option.isSome(result) ? JSON.parse(result.value) : undefined,
          catch: () =>
            new ResolutionUnclear({ message: "--result is not JSON", hint: `Such as --result '{"id":"…"}'.` })
        })
      )
      const running = yield* connect(config)
      const question = happened
        ? "It happened, and is not to be done again?"
        : "It did not happen, and is to be done again?"
      const named = yield* chooseOutcome(running, id, { outcome, yes, json, question })
      const body = {
        outcome: named,
        happened,
        ...(Option.isSome(created) && { id: created.value }),
        ...(value !== undefined && { result: value })
      }
      const resolved = yield* running.post(`${root}/${id}/resolve`, body, ResolveView)
      const next = resolved.redriven
        ? `dead letter ${id} is sent again`
        : `${resolved.remaining} more to be answered for before dead letter ${id} is sent again`
      yield* print(json ? JSON.stringify(resolved) : `${happened ? "it happened" : "it did not happen"}: ${next}`)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription(
        "Say whether a write or step of unknown outcome happened, and send the dead letter again"
      ),
      Command.withExamples([
        {
          command: "rollcall deadletters resolve 17 --happened --id 8Xi6iZrwusZqJmDGXs49GBmJ",
          description: "The other system shows the employee; shows what was sent, and asks"
        },
        { command: "rollcall deadletters resolve 17 --did-not-happen", description: "It is nowhere: send it again" }
      ])
    )

  return Command.make("deadletters").pipe(
    Command.withDescription(
      "Look at deliveries that plugins could not make, answer for unknown outcomes, send them again or give them up"
    ),
    Command.withSubcommands([list, show, plan, redrive, discard, resolve])
  )
}
