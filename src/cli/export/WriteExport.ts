/** Writes the current records as text, or to a SQLite database. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { DatabaseSync } from "node:sqlite"
import { type Model, recordEntryOf } from "../../domain/Model.ts"
import type { ApiClient } from "../client/ApiClient.ts"
import { formatPlural } from "../terminal/Tables.ts"
import { cannotWrite, type Output, prepareDatabaseFile } from "./Output.ts"
import { readRecords, type Selection } from "./ReadRecords.ts"
import { columnLayout, contentLayout, openTables, type RecordTables } from "./RecordTables.ts"
import { linesOf, type TextFormat } from "./RecordText.ts"

/** The lines that are written together. */
const linesPerWrite = 100

/** Opens the tables and reads the records into them. `file`: empty for a temporary database. */
const readInto = Effect.fnUntraced(function*(
  client: ApiClient,
  file: string,
  layoutOf: Parameters<typeof openTables>[2],
  selection: Selection
) {
  const attempt = <A>(run: () => A) =>
    Effect.try({
      try: run,
      catch: (error) => cannotWrite(file, error instanceof Error ? error.message : "unknown cause")
    })
  const database = yield* Effect.acquireRelease(
    attempt(() => new DatabaseSync(file, { timeout: 5000 })),
    (database) => Effect.sync(() => database.close())
  )
  const tables = yield* attempt(() => openTables(database, selection.known, layoutOf))
  return { tables, position: yield* readRecords(client, tables, selection) }
})

const summaryOf = (tables: RecordTables, models: ReadonlyArray<Model>, position: string) => ({
  position,
  records: Object.fromEntries(models.map((model) => [model, tables.count(model)]))
})

export const summaryText = ({ position, records }: ReturnType<typeof summaryOf>): string => {
  const counts = Object.values(records)
  const sum = counts.reduce((sum, count) => sum + count, 0)
  return `${formatPlural(sum, "record")} of ${formatPlural(counts.length, "model")} at position ${position}`
}

export const writeText = Effect.fnUntraced(function*(
  client: ApiClient,
  output: Output,
  format: TextFormat,
  selection: Selection
) {
  const { position, tables } = yield* readInto(client, "", () => contentLayout, selection)
  yield* Stream.fromIterable(selection.models).pipe(
    Stream.map((model) => linesOf[format](recordEntryOf(selection.known, model), tables.contents(model))),
    Stream.flatMap((lines) => Stream.fromIterable(lines, { chunkSize: linesPerWrite })),
    Stream.runForEachArray((lines) => output.write(`${lines.join("\n")}\n`))
  )
  yield* output.complete
  return summaryOf(tables, selection.models, position)
}, Effect.scoped)

export const writeDatabase = Effect.fnUntraced(function*(client: ApiClient, path: string, selection: Selection) {
  const file = yield* prepareDatabaseFile(path)
  const { position, tables } = yield* readInto(client, file, columnLayout, selection)
  tables.commit(position, yield* Clock.currentTimeMillis)
  const models = [...new Set([...tables.streams.values()].map(({ model }) => model))]
  return summaryOf(tables, models, position)
}, Effect.scoped)
