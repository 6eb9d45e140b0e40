/**
 * What people write today to notice changes behind a list with `updated_after`: each poller small, as in its blog post, and
 * honest. Hides how they page.
 *
 * Gotchas
 * - All of them keep what they last saw of each record and tell only what differs: better than most, so that what they
 *   get wrong is their idea and not their carelessness. Nobody kills them, and what they remember is never lost.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Page, Source, SourceError } from "../../src/source/Source.ts"
import type { WorldSettings } from "../../test/simulation/plan/Plan.ts"

/** A row of the API, as far as a poller looks into it. */
export interface Listed {
  readonly id: string
  readonly changed_at: string | null
  readonly remote_deleted_at: string | null
}

/** One list read to its end. */
interface ListRead {
  readonly rows: ReadonlyArray<Listed>
  /** When its first request left: our clock; and the server's, by the `Date` of the first answer, if it has one. */
  readonly ours: number
  readonly theirs: number
}

/** What a poller of one stream has to work with. */
export interface PollerContext {
  readonly setting: WorldSettings
  /** The whole list, or what changed after a time, ms. */
  readonly read: (updatedAfter: number | null) => Effect.Effect<ListRead, SourceError>
  /** Takes a row for what its record now is. */
  readonly see: (row: Listed) => void
  /** Whatever is known and not among these rows is deleted. */
  readonly deleteAbsent: (rows: ReadonlyArray<Listed>) => void
}

export interface Poller {
  readonly name: string
  /** What is done at every interval; a failed turn is left to the next one. */
  readonly poll: (desk: PollerContext) => Effect.Effect<void, SourceError>
}

// ---- reading ------------------------------------------------------------------------------------------------------

/** A list that never ends is given up. */
const mostPages = 1_000

const isListed = (row: unknown): row is Listed =>
  typeof row === "object" && row !== null && "id" in row && typeof row.id === "string"

export const readerOf = (source: Source["Service"], stream: WorldSettings["streams"][number]): PollerContext["read"] =>
  Effect.fnUntraced(function*(updatedAfter) {
    const ours = yield* Clock.currentTimeMillis
    const pages: Array<Page> = []
    let cursor: string | null = null
    do {
      const asked = { ...stream, account: "default", priority: "poll", cursor, updatedAfter, ids: null } as const
      const page: Page = yield* source.page(asked)
      pages.push(page)
      cursor = page.next
    } while (cursor !== null && pages.length < mostPages)
    const date = pages[0]!.serverTime
    return {
      rows: pages.flatMap(({ results }) => results.filter(isListed)),
      ours,
      theirs: date === null ? ours : date - pages[0]!.duration
    }
  })

// ---- pollers ------------------------------------------------------------------------------------------------------

const seeAll = ({ see }: PollerContext, rows: ReadonlyArray<Listed>) => rows.forEach(see)

const newestTimestamp: Poller = {
  name: "newest timestamp",
  poll: (desk) => {
    let newest: number | null = null
    return Effect.gen(function*() {
      const { rows } = yield* desk.read(newest)
      seeAll(desk, rows)
      for (const { changed_at } of rows) {
        if (changed_at !== null) newest = Math.max(newest ?? 0, Date.parse(changed_at))
      }
    })
  }
}

const lastRun: Poller = {
  name: "start of the last run",
  poll: (desk) => {
    let last: number | null = null
    return Effect.gen(function*() {
      const { ours, rows } = yield* desk.read(last)
      seeAll(desk, rows)
      last = ours
    })
  }
}

/** By the server's clock and with an overlap; all else only in the full reading that comes every `fullEvery` ms. */
const overlapping = (name: string, fullEvery: (setting: WorldSettings) => number, complete: boolean): Poller => ({
  name,
  poll: (desk) => {
    let last: number | null = null
    let fullAt = -Infinity
    return Effect.gen(function*() {
      const isFull = (yield* Clock.currentTimeMillis) >= fullAt
      const { ours, rows, theirs } = yield* desk.read(isFull || last === null ? null : last - desk.setting.overlapMin)
      seeAll(desk, rows)
      last = theirs
      if (!isFull) return
      if (complete) desk.deleteAbsent(rows)
      fullAt = ours + fullEvery(desk.setting)
    })
  }
})

const snapshots = (name: string, every: (setting: WorldSettings) => number): Poller => ({
  name,
  poll: (desk) => {
    let dueAt = -Infinity
    return Effect.gen(function*() {
      if ((yield* Clock.currentTimeMillis) < dueAt) return
      const { ours, rows } = yield* desk.read(null)
      seeAll(desk, rows)
      desk.deleteAbsent(rows)
      dueAt = ours + every(desk.setting)
    })
  }
})

/** A day of these worlds: sweeps come every six hours unless told otherwise. */
export const day = ({ sweepInterval }: WorldSettings): number => 4 * sweepInterval
const atEachSweep = ({ sweepInterval }: WorldSettings): number => sweepInterval

export const pollers: ReadonlyArray<Poller> = [
  newestTimestamp,
  lastRun,
  overlapping("server's `Date`, overlap", () => Infinity, false),
  overlapping("overlap, full read a day", day, false),
  overlapping("overlap, full reads, delete what is absent", atEachSweep, true),
  snapshots("full read at each interval", () => 0),
  snapshots("full read at each sweep interval", atEachSweep)
]
