/**
 * Common ways to detect changes in a list with `updated_after`: each poller is as small as in a typical blog post, and correct in
 * itself.
 *
 * Gotchas
 * - All of them keep the last state of each record and report only differences: better than most, so that their
 *   errors come from their method and not from carelessness. They are never killed, and never lose what they remember.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Page, Source, SourceError } from "../../src/source/Source.ts"
import type { WorldSettings } from "../../test/simulation/plan/Plan.ts"

/** A row of the API, with the properties that a poller uses. */
export interface Listed {
  readonly id: string
  readonly changed_at: string | null
  readonly remote_deleted_at: string | null
}

/** One list, read to its end. */
interface ListRead {
  readonly rows: ReadonlyArray<Listed>
  /** When the first request was sent: by the poller's clock, and by the server's, from the `Date` of the first response if it has one. */
  readonly ours: number
  readonly theirs: number
}

/** The tools of a poller for one stream. */
export interface PollerContext {
  readonly setting: WorldSettings
  /** Reads the whole list, or the changes after a time, in ms. */
  readonly read: (updatedAfter: number | null) => Effect.Effect<ListRead, SourceError>
  /** Accepts a row as the current state of its record. */
  readonly accept: (row: Listed) => void
  /** Deletes every known record that is not among these rows. */
  readonly deleteAbsent: (rows: ReadonlyArray<Listed>) => void
}

export interface Poller {
  readonly name: string
  /** Runs once per interval; a failed poll is not repeated before the next interval. */
  readonly poll: (context: PollerContext) => Effect.Effect<void, SourceError>
}

// ---- reading ------------------------------------------------------------------------------------------------------

/** A list that never ends is abandoned. */
const maxPages = 1_000

const isListed = (row: unknown): row is Listed =>
  typeof row === "object" && row !== null && "id" in row && typeof row.id === "string"

export const readerOf = (source: Source["Service"], stream: WorldSettings["streams"][number]): PollerContext["read"] =>
  Effect.fnUntraced(function*(updatedAfter) {
    const ours = yield* Clock.currentTimeMillis
    const pages: Array<Page> = []
    let cursor: string | null = null
    do {
      const request = { ...stream, account: "default", priority: "poll", cursor, updatedAfter, ids: null } as const
      const page: Page = yield* source.page(request)
      pages.push(page)
      cursor = page.next
    } while (cursor !== null && pages.length < maxPages)
    const date = pages[0]!.serverTime
    return {
      rows: pages.flatMap(({ results }) => results.map(({ value }) => value).filter(isListed)),
      ours,
      theirs: date === null ? ours : date - pages[0]!.duration
    }
  })

// ---- pollers ------------------------------------------------------------------------------------------------------

const acceptAll = ({ accept }: PollerContext, rows: ReadonlyArray<Listed>) => rows.forEach(accept)

const newestTimestamp: Poller = {
  name: "newest timestamp",
  poll: (context) => {
    let newest: number | null = null
    return Effect.gen(function*() {
      const { rows } = yield* context.read(newest)
      acceptAll(context, rows)
      for (const { changed_at } of rows) {
        if (changed_at !== null) newest = Math.max(newest ?? 0, Date.parse(changed_at))
      }
    })
  }
}

/** Polls by the server's clock and with an overlap; reads the full list every `fullEvery` ms. */
const overlapping = (name: string, fullEvery: (setting: WorldSettings) => number, complete: boolean): Poller => ({
  name,
  poll: (context) => {
    let last: number | null = null
    let fullAt = -Infinity
    return Effect.gen(function*() {
      const isFull = (yield* Clock.currentTimeMillis) >= fullAt
      const { ours, rows, theirs } = yield* context.read(
        isFull || last === null ? null : last - context.setting.minOverlap
      )
      acceptAll(context, rows)
      last = theirs
      if (!isFull) return
      if (complete) context.deleteAbsent(rows)
      fullAt = ours + fullEvery(context.setting)
    })
  }
})

const fullRead: Poller = {
  name: "full read at each interval",
  poll: (context) =>
    Effect.gen(function*() {
      const { rows } = yield* context.read(null)
      acceptAll(context, rows)
      context.deleteAbsent(rows)
    })
}

/** A day of these worlds: by default a sweep comes every six hours. */
export const day = ({ sweepInterval }: WorldSettings): number => 4 * sweepInterval

export const pollers: ReadonlyArray<Poller> = [
  newestTimestamp,
  overlapping("server's `Date`, overlap", () => Infinity, false),
  overlapping("overlap, full read a day", day, false),
  overlapping("overlap, full reads, delete what is absent", ({ sweepInterval }) => sweepInterval, true),
  fullRead
]
