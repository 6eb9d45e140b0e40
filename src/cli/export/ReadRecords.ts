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
import { type Model, streamName } from "../../domain/Model.ts"
import { type ApiClient, ApiClientError, type EventPage, pagesOf } from "../client/ApiClient.ts"
import { CommandError } from "../terminal/Process.ts"
import { formatPlural } from "../terminal/Tables.ts"
import type { HeldStream, RecordTables } from "./RecordTables.ts"

export interface Selection {
  readonly models: ReadonlyArray<Model>
  /** Ids of integrations; all if empty. */
  readonly integrations: ReadonlyArray<string>
}

type Report = (progress: string) => Effect.Effect<void>

const hasStatus = (status: number) => (error: unknown): boolean =>
  error instanceof ApiClientError && error.status === status

/** Replaces the records of a stream. A model that the integration does not have has no stream. */
const readStream = Effect.fnUntraced(function*(
  client: ApiClient,
  tables: RecordTables,
  stream: HeldStream,
  report: Report
) {
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

/** The position of the tables, after this and in them. */
export const readRecords = (
  client: ApiClient,
  tables: RecordTables,
  selection: Selection,
  report: Report
): Effect.Effect<string, Effect.Error<ReturnType<typeof readStream>> | CommandError> =>
  Effect.gen(function*() {
    const { items } = yield* client.integrations.list()
    const ids = items.map(({ id }) => id)
    const unknown = selection.integrations.find((id) => !ids.includes(id))
    if (unknown !== undefined) {
      return yield* new CommandError({
        message: `there is no integration ${unknown}`,
        hint: ids.length === 0 ? "No integration is configured." : `Did you mean ${closestName(unknown, ids)}?`
      })
    }
    const models = new Set([...selection.models, ...[...tables.streams.values()].map(({ model }) => model)])
    for (const model of models) tables.tableOf(model)
    const held = new Map(tables.streams)
    const listed = items.filter(({ state }) => state !== "erasing").flatMap(({ backfill, generation, id }) =>
      [...models].map((model) => ({ backfill, stream: { integration: id, model, generation } }))
    )
    const wanted = listed.filter(({ stream }) =>
      held.has(streamName(stream)) ||
      selection.models.includes(stream.model) &&
        (selection.integrations.length === 0 || selection.integrations.includes(stream.integration))
    )
    let position = tables.position
    for (const { backfill, stream } of wanted) {
      const own = held.get(streamName(stream))
      held.delete(streamName(stream))
      if (own?.generation === stream.generation && backfill !== "fill" && position !== null) continue
      const first = yield* readStream(client, tables, stream, report)
      position ??= first
    }
    for (const stream of held.values()) tables.clear(stream)
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
  }).pipe(
    Effect.catchIf((error) => hasStatus(410)(error) && tables.position !== null, () => {
      for (const stream of tables.streams.values()) tables.clear(stream)
      tables.position = null
      return readRecords(client, tables, selection, report)
    })
  )
