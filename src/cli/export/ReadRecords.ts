/**
 * Reads the current records of the running process into tables, so that they are the records of one position of the event log.
 *
 * Invariants
 * 1. The tables have every change up to the position, and no later one: the records are read first, and then the events that were appended
 *    before or meanwhile are applied, until none is left   (I1)
 * 2. If the log no longer continues the position of the tables, all records are read again
 *
 * Gotchas
 * - Records that a backfill in `fill` mode stored have no events, so all records of such an integration are read in each export.
 * - An erased integration has no events about that either. Its generation rises.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { closestName } from "../../domain/ClosestName.ts"
import { type Model, type Models, streamName } from "../../domain/Model.ts"
import { type ApiClient, ApiClientError, type EventPage, pagesOf } from "../client/ApiClient.ts"
import { progressPrinter, refuse } from "../terminal/Process.ts"
import { formatPlural } from "../terminal/Tables.ts"
import type { HeldStream, RecordTables } from "./RecordTables.ts"

export interface Selection {
  /** Those of the running process. */
  readonly known: Models
  readonly models: ReadonlyArray<Model>
  /** Ids of integrations; all if empty. */
  readonly integrations: ReadonlyArray<string>
}

const report = progressPrinter(false)

const hasStatus = (status: number) => (error: unknown): boolean =>
  error instanceof ApiClientError && error.status === status

/** Replaces the records of a stream. A model that the integration does not have has no stream. */
const readStream = Effect.fnUntraced(function*(client: ApiClient, tables: RecordTables, stream: HeldStream) {
  const { integration, model } = stream
  tables.clear(stream)
  let count = 0
  let first: string | null = null
  yield* pagesOf((after) => client.feed.records({ query: { integration, model, limit: 1000, ...after } })).pipe(
    Stream.runForEach((page) => {
      first ??= page.position
      for (const record of page.records) tables.write(model, record)
      count += page.records.length
      return report(`${model} of ${integration}: ${formatPlural(count, "record")}`)
    }),
    Effect.catchIf(hasStatus(404), () => Effect.void)
  )
  if (first !== null) tables.hold(stream)
  return first
})

/** `held`: the streams that the file had. `start`: the position of the tables; null if all records are to be read. */
const readFrom = Effect.fnUntraced(function*(
  client: ApiClient,
  tables: RecordTables,
  { integrations, models: chosen }: Selection,
  held: RecordTables["streams"],
  start: string | null
) {
  const { items } = yield* client.integrations.list()
  const ids = items.map(({ id }) => id)
  const unknown = integrations.find((id) => !ids.includes(id))
  if (unknown !== undefined) {
    const hint = ids.length === 0 ? "No integration is configured." : `Did you mean ${closestName(unknown, ids)}?`
    return yield* refuse(`there is no integration ${unknown}`, hint)
  }
  const models = new Set([...chosen, ...[...held.values()].map(({ model }) => model)])
  // a table that is replaced loses its streams
  for (const model of models) tables.tableOf(model)
  const gone = new Map(held)
  const listed = items.filter(({ state }) => state !== "erasing").flatMap(({ backfill, generation, id }) =>
    [...models].map((model) => ({ backfill, stream: { integration: id, model, generation } }))
  )
  let position = start
  for (const { backfill, stream } of listed) {
    const name = streamName(stream)
    const own = held.get(name)
    gone.delete(name)
    const isSelected = chosen.includes(stream.model) &&
      (integrations.length === 0 || integrations.includes(stream.integration))
    const isCurrent = tables.streams.get(name)?.generation === stream.generation && backfill !== "fill" &&
      start !== null
    if (isCurrent || (own === undefined && !isSelected)) continue
    const first = yield* readStream(client, tables, stream)
    position ??= first
  }
  for (const stream of gone.values()) tables.clear(stream)
  if (position === null) return yield* client.newestPosition

  let count = 0
  let end: string = position
  for (;;) {
    const page: EventPage = yield* client.eventPage({ after: end, model: [...models], limit: 1000 })
    end = page.next
    if (page.events.length === 0) return end
    for (const { data } of page.events) {
      const stream = tables.streams.get(`${data.integration}/${data.model}`)
      if (stream !== undefined) tables.write(stream.model, data)
    }
    count += page.events.length
    yield* report(`changes since then: ${formatPlural(count, "event")}`)
  }
})

/** The position of the tables, after this and in them. */
export const readRecords = (client: ApiClient, tables: RecordTables, selection: Selection) => {
  const held = new Map(tables.streams)
  return readFrom(client, tables, selection, held, tables.position).pipe(
    Effect.catchIf(
      (error) => hasStatus(410)(error) && tables.position !== null,
      () => readFrom(client, tables, selection, held, null)
    ),
    Effect.ensuring(report(""))
  )
}
