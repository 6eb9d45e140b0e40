/** `rollcall integrations …`: lists, adds and removes the integrations of the running process. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { IntegrationView } from "../http/contract/Api.ts"
import { clientCommand } from "./client/ClientCommand.ts"
import { given, nameArgument, textFlag, yes } from "./terminal/Flags.ts"
import { confirm } from "./terminal/Process.ts"
import { formatPlural, integrationTable } from "./terminal/Tables.ts"

const id = nameArgument("id", "<tool>:<identifier>, such as greenhouse:acme")

const modelsOf = (text: string): string | ReadonlyArray<string> =>
  text === "auto" ? text : text.split(",").map((model) => model.trim())

const list = clientCommand("list", {
  description: "List all integrations, including removed ones whose data is kept",
  flags: {},
  request: (client) => Effect.map(client.integrations.list(), ({ items }) => items),
  text: integrationTable
})

const add = clientCommand("add", {
  description: "Start reading another integration; it stays across restarts",
  examples: [{ command: "rollcall integrations add greenhouse:acme", description: "Use the configured defaults" }],
  flags: {
    id,
    optional: {
      account: textFlag("account", "Name of its account; required if several are configured", "name"),
      models: Flag.map(textFlag("models", "Model names separated by commas, or auto", "names"), Option.map(modelsOf)),
      interval: textFlag("interval", 'Time between polls, such as "10 minutes"', "duration"),
      sweepInterval: textFlag("sweep-interval", "Time between sweeps", "duration"),
      backfill: Flag.Literals("backfill", ["publish", "fill"]).pipe(
        Flag.withDescription("Whether the first sweep publishes existing records, or only stores them"),
        Flag.optional
      )
    }
  },
  request: (client, { id, optional }) => client.addIntegration({ id, ...given(optional) }),
  text: (view) => integrationTable([view])
})

const remove = clientCommand("remove", {
  description: "Stop reading an integration that was added at run time; asks for confirmation before it erases data",
  flags: {
    id,
    data: Flag.Literals("data", ["keep", "erase"]).pipe(
      Flag.withDescription("Required. Keep its records in case it is added again, or erase them")
    ),
    yes
  },
  request: Effect.fnUntraced(function*(client, { data, id, yes }, { json }) {
    const { items } = yield* client.integrations.list()
    const integration = items.find((one) => one.id === id)
    if (data === "erase" && integration !== undefined) {
      yield* confirm({
        yes,
        json,
        shown: integrationTable([integration]),
        question: `Erase ${formatPlural(integration.records_live, "record")} of ${id}, with their history?`,
        hint: "Pass --yes to erase its data, or --data keep."
      })
    }
    return yield* client.integrations.remove({ params: { id }, payload: { data } })
  }),
  text: (view: IntegrationView) => integrationTable([view])
})

export const integrations = Command.make("integrations").pipe(
  Command.withDescription("List, add and remove the integrations of the running process"),
  Command.withSubcommands([list, add, remove])
)
