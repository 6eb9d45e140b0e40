/** `rollcall integrations …`: which integrations a running process reads, and adding and removing them. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { IntegrationView } from "../http/Api.ts"
import { type ConfigFlag, type ConnectClient, json, print, runClientCommand } from "./Flags.ts"
import { integrationTable } from "./terminal/Terminal.ts"

const path = "/v1/integrations"
const IntegrationList = Schema.Struct({ items: Schema.Array(IntegrationView) })

const id = Argument.String("id").pipe(Argument.withDescription("<tool>:<identifier>, such as greenhouse:acme"))

const text = (name: string, description: string, metavar: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.withMetavar(metavar), Flag.optional)

/** What was not said is left out: the running process knows what is usual. */
const optionalField = <A extends Schema.Json>(name: string, value: Option.Option<A>): Readonly<Record<string, A>> =>
  Option.isSome(value) ? { [name]: value.value } : {}

const modelsOf = (text: string): string | ReadonlyArray<string> =>
  text === "auto" ? text : text.split(",").map((model) => model.trim())

export const integrations = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) => {
  const show = (view: IntegrationView, json: boolean) => print(json ? JSON.stringify(view) : integrationTable([view]))

  const list = Command.make("list", { json, config }, ({ config, json }) =>
    Effect.gen(function*() {
      const { get } = yield* connect(config)
      const { items } = yield* get(path, IntegrationList)
      yield* print(json ? JSON.stringify(items) : integrationTable(items))
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Show every integration, those that were removed and kept too")
    )

  const add = Command.make("add", {
    id,
    account: text("account", "Its account, where there are several", "name"),
    models: text("models", "Model names with commas between, or auto", "names"),
    interval: text("interval", 'Time between polls, such as "10 minutes"', "duration"),
    sweepInterval: text("sweep-interval", "Time between full readings", "duration"),
    backfill: Flag.Literals("backfill", ["publish", "fill"]).pipe(
      Flag.withDescription("Whether old records are published, or only taken in"),
      Flag.optional
    ),
    json,
    config
  }, ({ account, backfill, config, id, interval, json, models, sweepInterval }) =>
    Effect.gen(function*() {
      const { post } = yield* connect(config)
      const body = {
        id,
        ...optionalField("account", account),
        ...optionalField("models", Option.map(models, modelsOf)),
        ...optionalField("interval", interval),
        ...optionalField("sweepInterval", sweepInterval),
        ...optionalField("backfill", backfill)
      }
      yield* show(yield* post(path, body, IntegrationView), json)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Read one more integration from now on; it stays over restarts"),
      Command.withExamples([
        { command: "rollcall integrations add greenhouse:acme", description: "As is configured for all" }
      ])
    )

  const remove = Command.make("remove", {
    id,
    data: Flag.Literals("data", ["keep", "erase"]).pipe(
      Flag.withDescription("Must be said. What becomes of its records: kept for when it is added again, or erased")
    ),
    json,
    config
  }, ({ config, data, id, json }) =>
    Effect.gen(function*() {
      const { post } = yield* connect(config)
      yield* show(yield* post(`${path}/${encodeURIComponent(id)}/remove`, { data }, IntegrationView), json)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Read an integration no more that was added at run time")
    )

  return Command.make("integrations").pipe(
    Command.withDescription("See the integrations of the running process, add and remove them"),
    Command.withSubcommands([list, add, remove])
  )
}
