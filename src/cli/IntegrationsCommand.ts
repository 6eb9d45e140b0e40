/** `rollcall integrations …`: lists, adds and removes the integrations of the running process. */
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

/** Leaves out a flag that is not given, because the running process knows the default. */
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
      Command.withDescription("List all integrations, including removed ones whose data is kept")
    )

  const add = Command.make("add", {
    id,
    account: text("account", "Name of its account; required if several are configured", "name"),
    models: text("models", "Model names separated by commas, or auto", "names"),
    interval: text("interval", 'Time between polls, such as "10 minutes"', "duration"),
    sweepInterval: text("sweep-interval", "Time between sweeps", "duration"),
    backfill: Flag.Literals("backfill", ["publish", "fill"]).pipe(
      Flag.withDescription("Whether the first sweep publishes existing records, or only stores them"),
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
      Command.withDescription("Start reading another integration; it stays across restarts"),
      Command.withExamples([
        { command: "rollcall integrations add greenhouse:acme", description: "Use the configured defaults" }
      ])
    )

  const remove = Command.make("remove", {
    id,
    data: Flag.Literals("data", ["keep", "erase"]).pipe(
      Flag.withDescription("Required. Keep its records in case it is added again, or erase them")
    ),
    json,
    config
  }, ({ config, data, id, json }) =>
    Effect.gen(function*() {
      const { post } = yield* connect(config)
      yield* show(yield* post(`${path}/${encodeURIComponent(id)}/remove`, { data }, IntegrationView), json)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Stop reading an integration that was added at run time")
    )

  return Command.make("integrations").pipe(
    Command.withDescription("List, add and remove the integrations of the running process"),
    Command.withSubcommands([list, add, remove])
  )
}
