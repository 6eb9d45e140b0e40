/** Writes the current records as text, or to a SQLite database. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { type Model, type Models, recordEntryOf } from "../../domain/Model.ts"
import type { ApiClient } from "../client/ApiClient.ts"
import { progressPrinter } from "../terminal/Process.ts"
import { formatPlural } from "../terminal/Tables.ts"
import { cannotWrite, type Output, prepareDatabaseFile } from "./Output.ts"
import { readRecords, type Selection } from "./ReadRecords.ts"
import { columnLayout, contentLayout, RecordTables } from "./RecordTables.ts"
import { linesOf, type TextFormat } from "./RecordText.ts"

/** A text is written when it has this length. */
const chunkLength = 64 * 1024

/** Opens the tables and reads the records into them. `file`: empty for a temporary database. */
const readInto = Effect.fnUntraced(function*(
  client: ApiClient,
  file: string,
  layoutOf: ConstructorParameters<typeof RecordTables>[2],
  selection: Selection
) {
  const report = progressPrinter(false)
  const models = yield* CurrentModels
  const tables = yield* Effect.acquireRelease(
    Effect.try({
      try: () => new RecordTables(file, models, layoutOf),
      catch: (error) => cannotWrite(file, error instanceof Error ? error.message : "unknown cause")
    }),
    (tables) => Effect.sync(() => tables.close())
  )
  const position = yield* Effect.ensuring(readRecords(client, tables, selection, report), report(""))
  return { position, tables }
})

/** The text of the whole export, in parts. */
function* textOf(
  format: TextFormat,
  tables: RecordTables,
  models: Models,
  chosen: ReadonlyArray<Model>
): Generator<string> {
  let text = ""
  for (const model of chosen) {
    const { header, line } = linesOf(format, recordEntryOf(models, model))
    if (header !== null) text += `${header}\n`
    for (const row of tables.contents(model)) {
      text += `${line(row)}\n`
      if (text.length < chunkLength) continue
      yield text
      text = ""
    }
  }
  yield text
}

interface Summary {
  readonly position: string
  readonly records: Readonly<Record<string, number>>
}

const summaryOf = (tables: RecordTables, models: ReadonlyArray<Model>, position: string): Summary => ({
  position,
  records: Object.fromEntries(models.map((model) => [model, tables.count(model)]))
})

export const summaryText = ({ position, records }: Summary, asJson: boolean): string => {
  if (asJson) return JSON.stringify({ position, records })
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
  const { position, tables } = yield* readInto(client, "", contentLayout, selection)
  yield* Effect.forEach(textOf(format, tables, yield* CurrentModels, selection.models), output.write, { discard: true })
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
