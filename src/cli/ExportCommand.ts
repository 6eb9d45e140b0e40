/** `rollcall export`: the current records as a file, for people and programs without Kafka. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { checkModels } from "../config/Config.ts"
import { loadRawConfig } from "../config/RawConfig.ts"
import { isModelName, makeModels, type Model, type Models, recordEntryOf } from "../domain/Model.ts"
import { connect, runClientCommand } from "./client/ClientCommand.ts"
import { showEvents } from "./client/Following.ts"
import { checkModel, config, json, switchFlag, textFlag } from "./terminal/Flags.ts"
import { awaitShutdownSignal, print, printAside, refuse } from "./terminal/Process.ts"

const namesOf = Option.match({ onNone: () => [], onSome: (text: string) => [...new Set(text.split(","))] })

const target = {
  format: Flag.Literals("format", ["jsonl", "csv"]).pipe(
    Flag.withDescription(
      "jsonl: JSON Lines, a record in each line (default). csv: one model, with a column for each field"
    ),
    Flag.optional
  ),
  output: textFlag("output", "Write to this file instead of standard output", "file"),
  sqlite: textFlag("sqlite", "Write to this SQLite database, with a table for each model, or update it", "file"),
  follow: switchFlag("follow", "Continue with later events, as JSON Lines, until the command is stopped")
}

const checkCombination = (
  { follow, format, output, sqlite }: Command.Command.Config.InferValue<typeof target>,
  named: ReadonlyArray<string>
) => {
  if (Option.isSome(sqlite) && (follow || Option.isSome(format) || Option.isSome(output))) {
    return refuse(
      "--sqlite cannot be combined with --format, --output and --follow",
      "Run the command again to update the database."
    )
  }
  if (Option.getOrNull(format) !== "csv") return Effect.void
  if (follow) return refuse("--follow needs JSON Lines", "Remove --format csv.")
  return named.length === 1
    ? Effect.void
    : refuse("CSV has the columns of one model", "Name it, for example with --model ats.application.")
}

const warnOfColumns = (configured: Models, models: ReadonlyArray<Model>) => {
  const open = models.filter((model) => configured.entryOf(model) === undefined)
  return open.length === 0 ? Effect.void : printAside(
    `the configuration of this command does not define ${
      open.join(", ")
    }: all fields are in the column unknown_fields. ` +
      "For a column for each field, run the command with the configuration of the process."
  )
}

export const exportRecords = Command.make("export", {
  config,
  json: json.pipe(Flag.withDescription("Print the position and the numbers of records as JSON")),
  filter: {
    model: textFlag("model", "Only records of these models, comma-separated (default: all models)", "names"),
    integration: textFlag("integration", "Only records of these integrations, comma-separated", "ids")
  },
  target
}, ({ config, filter, json, target }) =>
  Effect.gen(function*() {
    const named = namesOf(filter.model)
    yield* checkCombination(target, named)
    const configured = yield* Effect.fromResult(checkModels(yield* loadRawConfig(config)))
    const client = yield* connect(config)
    const names = (yield* client.schemas.schemas()).items.map(({ name }) => name).filter(isModelName)
    // those that this configuration defines have columns for their fields
    const known = makeModels(names.map((name) => recordEntryOf(configured, name)))
    const models = named.length === 0 ? known.names : yield* Effect.forEach(named, (name) => checkModel(known, name))
    if (Option.isSome(target.sqlite) || Option.getOrNull(target.format) === "csv") {
      yield* warnOfColumns(configured, models)
    }
    const selection = { known, models, integrations: namesOf(filter.integration) }
    const { fileOutput, standardOutput } = yield* Effect.promise(() => import("./export/Output.ts"))
    const { summaryText, writeDatabase, writeText } = yield* Effect.promise(() => import("./export/WriteExport.ts"))
    /** The output that --follow continues; a database has none. */
    const write = Effect.gen(function*() {
      if (Option.isSome(target.sqlite)) {
        return { output: null, summary: yield* writeDatabase(client, target.sqlite.value, selection) }
      }
      const output = Option.isSome(target.output) ? yield* fileOutput(target.output.value) : standardOutput
      const format = Option.getOrElse(target.format, () => "jsonl" as const)
      return { output, summary: yield* writeText(client, output, format, selection) }
    })
    // so that no part of a file stays
    const stop = refuse("the export was stopped before it was complete", "No file was changed.")
    const { output, summary } = yield* Effect.raceFirst(write, Effect.andThen(awaitShutdownSignal, stop))
    const show = output === standardOutput ? printAside : print
    yield* show(json ? JSON.stringify(summary) : summaryText(summary))
    if (output === null || !target.follow) return
    const query = {
      after: summary.position,
      model: models.join(),
      ...selection.integrations.length > 0 && { integration: selection.integrations.join() }
    }
    yield* showEvents(client, query, true, (events) => Stream.runForEach(events, (event) => output.write(`${event}\n`)))
  }).pipe(Effect.scoped, runClientCommand)).pipe(
    Command.withDescription(
      "Write the current records to a file, as they are at one position of the event log. Only its owner can read the file. " +
        "`rollcall forget` does not reach exported files"
    ),
    Command.withExamples([
      { command: "rollcall export > records.jsonl", description: "All records as JSON Lines" },
      {
        command: "rollcall export --model ats.application --format csv --output applications.csv",
        description: "One model as a table"
      },
      { command: "rollcall export --sqlite records.db", description: "A database; the next call updates it" }
    ])
  )
