/**
 * A list of the unified API under the full control of a test: rows, their visibility, page sizes and failures.
 * It shares no code with the sandbox's world, so that a mistake there cannot hide a mistake here.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type PageRequest, Source, SourceError } from "../../../src/source/Source.ts"
import { listsOnly, type ParsedPage, toPage } from "../source/Doubles.ts"

export type Row = { readonly id: string } & Record<string, unknown>

interface Held {
  row: Row
  /** Server time (ms): `updated_after` matches the row with this time … */
  matchedAt: number
  /** … and only once the record is visible at all. */
  visibleAt: number
}

export interface ScriptedApi {
  /** Returned in the order in which they were first put, not newest first. */
  readonly rows: Map<string, Held>
  readonly requests: Array<PageRequest>
  pageSize: number
  /** Server clock − our clock, in ms. */
  skew: number
  /** May replace the response to a request, or fail the request. */
  intercept: (request: PageRequest, answer: ParsedPage) => ParsedPage | Effect.Effect<ParsedPage, SourceError>
  /** Called before each response: a test changes the rows between the pages of a run. */
  meanwhile: (request: PageRequest, count: number) => void
  readonly put: (now: number, row: Row, options?: { readonly visibleAfter?: number; readonly silent?: boolean }) => void
  readonly flag: (now: number, id: string) => void
  readonly vanish: (id: string) => void
}

export const make = (): ScriptedApi => {
  const rows = new Map<string, Held>()
  return {
    rows,
    requests: [],
    pageSize: 250,
    skew: 0,
    intercept: (_, answer) => answer,
    meanwhile: () => {},
    put: (now, row, options = {}) => {
      const before = rows.get(row.id)
      const changedAt = options.silent === true ? before?.row["changed_at"] : new Date(now).toISOString()
      rows.set(row.id, {
        row: {
          remote_id: `r-${row.id}`,
          remote_deleted_at: null,
          remote_created_at: "2020-01-01T00:00:00.000Z",
          ...row,
          changed_at: "changed_at" in row ? row["changed_at"] : changedAt
        },
        matchedAt: options.silent === true ? before?.matchedAt ?? now : now,
        visibleAt: now + (options.visibleAfter ?? 0)
      })
    },
    flag: (now, id) => {
      const held = rows.get(id)!
      const at = new Date(now).toISOString()
      rows.set(id, { ...held, row: { ...held.row, remote_deleted_at: at, changed_at: at }, matchedAt: now })
    },
    vanish: (id) => {
      rows.delete(id)
    }
  }
}

const answer = (api: ScriptedApi, request: PageRequest, now: number): ParsedPage => {
  const ids = request.ids === null ? null : new Set(request.ids)
  const matching = [...api.rows.values()].filter((held) =>
    held.visibleAt <= now &&
    (request.updatedAfter === null || held.matchedAt >= request.updatedAfter) &&
    (ids === null || ids.has(held.row.id))
  )
  const offset = request.cursor === null ? 0 : Number(request.cursor)
  const end = offset + api.pageSize
  return {
    results: structuredClone(matching.slice(offset, end).map((held) => held.row)),
    next: end < matching.length ? String(end) : null,
    serverTime: Math.floor(now / 1000) * 1000,
    requestedAt: now - api.skew,
    duration: 0
  }
}

const serve = Effect.fnUntraced(function*(api: ScriptedApi, request: PageRequest) {
  const now = (yield* Clock.currentTimeMillis) + api.skew
  api.requests.push(request)
  api.meanwhile(request, api.requests.length)
  const shown = api.intercept(request, answer(api, request, now))
  return toPage(Effect.isEffect(shown) ? yield* shown : shown)
})

/** The same list for every model. */
export const layer = (api: ScriptedApi): Layer.Layer<Source> =>
  Layer.succeed(Source)(listsOnly((request) => serve(api, request)))

/** A list for each model. */
export const layerOf = (apis: Readonly<Partial<Record<PageRequest["model"], ScriptedApi>>>): Layer.Layer<Source> =>
  Layer.succeed(Source)(listsOnly((request) => serve(apis[request.model]!, request)))

export const refuse = (reason: SourceError["reason"]): Effect.Effect<never, SourceError> =>
  Effect.fail(new SourceError({ reason }))
