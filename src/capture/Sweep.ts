/**
 * One full reading of a stream, which finds what polls cannot: records that vanished, changes the API does not announce.
 * The first one is the backfill.
 *
 * Invariants
 * 1. An unfinished or unreadable sweep infers nothing   (I7, D4, D14)
 * 2. A record is a candidate only if no reading met it since the sweep began; it counts as absent only when a confirm with
 *    controls says so, and is staged as deleted when a second one, spaced in time, agrees   (D2, D3, D15)
 *
 * Gotchas
 * - A sweep is resumed after a restart: all it needs stands in the stream's state and in the heads' marks. What slid past the
 *   cursor meanwhile is met by the pass that follows (`Seams.ts`).
 * - The first answer of the backfill sets the watermark, so polls run between its pages.
 * - A list that only ever comes whole is never asked for named records: its complete readings, spaced, are the confirms;
 *   they move its watermark, since it has no polls.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Open } from "../domain/Expectation.ts"
import { readClock } from "../domain/Watermark.ts"
import type { Page, Source } from "../source/Source.ts"
import type { Pending, Reading, StreamState } from "../store/State.ts"
import { Store, type StoreError, type StreamTx } from "../store/Store.ts"
import { unconfirmed } from "./Attribution.ts"
import * as Gauges from "./Gauges.ts"
import {
  commitPage,
  concludeWith,
  counted,
  isBalanced,
  isWhole,
  newReading,
  type ReadingError,
  readPages,
  type Stream
} from "./Pages.ts"
import { controlsFor, eachPending, isAskable, mostAsked, pointRead, settleDisputes } from "./PointRead.ts"
import { release } from "./Release.ts"
import { following, hiding, isOvertaken, joined, settled } from "./Seams.ts"
import { healthy, ReadingAborted } from "./StreamState.ts"

export interface SweepOptions {
  /** Spacing of the two confirms of an absence. */
  readonly confirmInterval: Duration.Duration
  /** Asked between pages: true leaves the sweep open, to be resumed. */
  readonly yieldTurn: Effect.Effect<boolean>
}

/** Begins or resumes the stream's sweep, one pass over its list; false = it gave way and is still open. */
export const sweep = Effect.fn("Sweep.run")(function*(
  stream: Stream,
  options: SweepOptions
): Effect.fn.Return<boolean, ReadingError, Store | Source> {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  if (state === null) return yield* new ReadingAborted({ message: "the stream is not registered in the store" })
  const open = state.sweep ?? (yield* begin(stream))
  const read = open.phase === "confirm"
    ? { reading: open, done: true }
    : yield* readAll(stream, open, options, state.lastSweep?.balance.read ?? null)
  if (!read.done) return false
  if (!(yield* confirmCandidates(stream, read.reading, options))) return false
  yield* finish(stream, read.reading)
  yield* settleDisputes(stream, read.reading.id)
  return true
})

/** It will meet every record: what refreshes were owed until now, it does. */
const begin = Effect.fnUntraced(function*(stream: Stream) {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  return yield* store.transact(
    stream.owner,
    stream.key,
    Effect.fnUntraced(function*({ forgiveOwed, save, state }) {
      if (state.sweep !== null) return state.sweep
      const details = { from: null, startedAt: now, backfill: state.backfilledAt === null }
      const reading = { ...newReading(state, "sweep", details), ...following(state) }
      if ((yield* forgiveOwed) > 0) yield* save({ ...state, reading: reading.id, sweep: reading })
      return reading
    })
  )
})

/** Gives up the open sweep, if it still is this one; what it staged passes to the next (X17). */
const abandon = Effect.fnUntraced(function*(
  stream: Stream,
  reading: Reading
): Effect.fn.Return<void, StoreError, Store> {
  const store = yield* Store
  yield* store.transact(
    stream.owner,
    stream.key,
    (tx) => isSuperseded(tx.state, reading) ? Effect.void : tx.save({ ...tx.state, sweep: null })
  )
})

const progressEvery = 10_000

/** A line every ten seconds of a long sweep; the time left is known only where an earlier sweep told the size. */
const reportProgress = (stream: Stream, expected: number | null, since: number) => {
  let reported = since
  let before: number | null = null
  return Effect.fnUntraced(function*(reading: Reading) {
    const now = yield* Clock.currentTimeMillis
    before ??= reading.balance.read
    if (now - reported < progressEvery) return
    reported = now
    const rate = (reading.balance.read - before) / ((now - since) / 1000)
    const left = expected === null || rate <= 0 ? null : Math.max(0, expected - reading.balance.read) / rate
    yield* Effect.logInfo(reading.backfill ? "backfilling" : "sweeping").pipe(Effect.annotateLogs({
      stream: stream.key.integration,
      model: stream.key.model,
      records: reading.balance.read,
      perSecond: Math.round(rate),
      ...(left === null ? {} : { left: Duration.format(Duration.seconds(Math.ceil(left))) })
    }))
  })
}

const readAll = Effect.fnUntraced(function*(
  stream: Stream,
  start: Reading,
  options: SweepOptions,
  expected: number | null
) {
  const report = reportProgress(stream, expected, yield* Clock.currentTimeMillis)
  const commit = Effect.fnUntraced(function*(reading: Reading, page: Page) {
    const last = page.next === null
    const now = yield* Clock.currentTimeMillis
    let read = reading
    yield* commitPage(stream, page.results, reading, {
      decisive: false,
      begin: (state) => begun(healthy(state), reading, page),
      conclude: (tx, state, occasion, committed) =>
        concludeWith((state) => {
          const complete = state.sweep?.complete ?? readClock(state.offsets, page).complete
          read = joined(counted(reading, committed), page, {
            complete,
            newest: state.reading,
            now,
            owner: stream.owner
          })
          if (isSuperseded(state, reading)) return state
          const isBackfilled = last && reading.backfill && read.again !== true
          return {
            ...state,
            backfilledAt: isBackfilled ? readClock(state.offsets, page).complete : state.backfilledAt,
            sweep: { ...read, complete, phase: last ? "confirm" : "pages" }
          }
        })(tx, state, occasion, committed)
    })
    yield* report(read)
    return read
  })
  return yield* readPages(stream, start, {
    priority: isWhole(stream) ? "poll" : start.backfill ? "backfill" : "sweep",
    commit,
    yieldTurn: options.yieldTurn
  }).pipe(
    // P5, P4: an expired cursor or a list that leads in a circle: the next attempt begins at the first page.
    Effect.tapError((error) =>
      error._tag === "ReadingAborted" || (error._tag === "SourceError" && error.reason._tag === "Rejected")
        ? abandon(stream, start)
        : Effect.void
    )
  )
})

/** An operator asked for another sweep meanwhile: this one's pages count, its progress does not. */
const isSuperseded = ({ sweep }: StreamState, { id }: Pick<Reading, "id">): boolean => sweep !== null && sweep.id !== id

/** The backfill's first answer says from when on polls are responsible. */
const begun = (state: StreamState, reading: Reading, page: Page): StreamState => {
  if (isSuperseded(state, reading) || (state.sweep?.complete ?? null) !== null) return state
  const { complete, offsets } = readClock(state.offsets, page)
  const first = { ...state, offsets, sweep: { ...reading, complete } }
  const began = reading.backfill ? { ...first, backfillStartedAt: state.backfillStartedAt ?? complete } : first
  if (state.watermark !== null) return began
  return { ...began, phase: reading.backfill ? "backfilling" : state.phase, watermark: complete, previous: complete }
}

const finish = Effect.fnUntraced(function*(stream: Stream, reading: Reading) {
  const now = yield* Clock.currentTimeMillis
  let deaf = false
  let unseen: ReadonlyArray<Open> = []
  let whole = reading
  yield* commitPage(stream, [], reading, {
    decisive: false,
    conclude: Effect.fnUntraced(function*(tx, state, occasion) {
      // C6: [] may mean "no change" or "not supported"; a sweep that meets what polls should have shown tells which
      deaf = state.polls !== "nothing" && (reading.unheard ?? 0) > 0
      // confirms may have found since that it hid records
      if (state.sweep?.id === reading.id) whole = state.sweep
      const ended = { ...whole, complete: state.sweep?.complete ?? null, endedAt: now }
      const swept: StreamState = {
        ...state,
        backfilledAt: whole.backfill && whole.again === true ? null : state.backfilledAt,
        sweep: isSuperseded(state, reading) ? state.sweep : null,
        lastSweep: ended,
        ...deaf ? { polls: "nothing" } : {}
      }
      const read = isWhole(stream) ? polled(swept, ended) : swept
      const released = yield* release(tx, isOvertaken(reading, state) ? settled(read) : read, occasion)
      unseen = yield* unconfirmed(tx, reading.id, stream.derives === null ? [] : [stream.derives.model])
      return released
    })
  })
  if (deaf) yield* Gauges.pollsAnswered(stream.key, "nothing")
  yield* Gauges.writesUnconfirmed(stream.key, unseen)
  const kind = reading.backfill ? "backfill" : "sweep"
  yield* Gauges.readingEnded(stream.key, kind, whole.again === true ? "repeated" : "complete")
  if (!isBalanced(reading.balance)) yield* Gauges.readingUnbalanced(stream.key)
  const log = isWhole(stream) && !reading.backfill ? Effect.logDebug : Effect.logInfo
  const what = whole.again === true ? `${kind} may have skipped records, the list is read again` : `${kind} complete`
  yield* log(what).pipe(Effect.annotateLogs({
    stream: stream.key.integration,
    model: stream.key.model,
    records: reading.balance.read,
    pages: reading.pages,
    took: Duration.format(Duration.millis(Math.max(0, now - reading.startedAt))),
    ...whole.again === true && whole.seam !== undefined ? { why: seams[whole.seam] } : {}
  }))
})

const seams: Record<NonNullable<Reading["seam"]>, string> = {
  change: "records changed while it was read",
  pause: "there was a long pause between two of its pages",
  hidden: "it did not show records that are there",
  restart: "another process had read the first of its pages"
}

/** What the end of a poll does, for the list that has none. */
const polled = (state: StreamState, ended: NonNullable<StreamState["lastSweep"]>): StreamState => ({
  ...state,
  lastPoll: ended,
  previous: state.watermark,
  watermark: Math.max(state.watermark ?? 0, ended.complete ?? 0)
})

/** The next one is due: who waits on for what this one cannot learn keeps back what it found (D12). */
const isOverdue = ({ settings }: Stream, { startedAt }: Reading, now: number): boolean =>
  now - startedAt >= Duration.toMillis(settings.sweepInterval)

/** Asks for every record that no reading met since the sweep began; false = it gave way before the end. */
const confirmCandidates = Effect.fnUntraced(function*(
  stream: Stream,
  reading: Reading,
  options: SweepOptions
): Effect.fn.Return<boolean, ReadingError, Store | Source> {
  if (reading.balance.quarantined > 0) {
    yield* Effect.logWarning("sweep held unreadable rows; nothing is inferred from it").pipe(
      Effect.annotateLogs({ stream: stream.key.integration, model: stream.key.model })
    )
    return true
  }
  const store = yield* Store
  let after: string | null = null
  for (;;) {
    const candidates: ReadonlyArray<string> = yield* store.unseen(stream.key, reading.id, after, mostAsked)
    if (candidates.length === 0) return true
    const rows = yield* store.transact(stream.owner, stream.key, (tx) => tx.pending(candidates))
    const now = yield* Clock.currentTimeMillis
    const due = candidates.filter((id) => isDue(rows.get(id), now, options.confirmInterval))
    if (due.length > 0 && isWhole(stream)) yield* countAbsent(stream, due, reading.id)
    else if (due.length > 0) {
      const answered = yield* Effect.as(confirm(stream, reading, due), true).pipe(
        Effect.catchIf(
          (error) => error._tag === "SourceError" && isOverdue(stream, reading, now),
          (error) =>
            Effect.logWarning("confirms keep failing; nothing more is inferred from this sweep").pipe(
              Effect.annotateLogs({ stream: stream.key.integration, model: stream.key.model, why: error.message }),
              Effect.as(false)
            )
        )
      )
      if (!answered) return true
    }
    after = candidates.at(-1)!
    // who asked nobody gives way to nobody: in a turn of no length no sweep would ever end
    if (due.length > 0 && (yield* options.yieldTurn)) return false
  }
})

/** Asks again for absences whose first confirm is long enough ago. */
export const confirmAbsences = Effect.fn("Sweep.confirm")(function*(
  stream: Stream,
  confirmInterval: Duration.Duration
): Effect.fn.Return<void, ReadingError, Store | Source> {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  const reading = state?.lastSweep?.id
  if (reading === undefined) return
  yield* eachPending(
    stream,
    "absent",
    Effect.fnUntraced(function*(rows) {
      const now = yield* Clock.currentTimeMillis
      const due = rows.filter((row) => isDue(row, now, confirmInterval)).map((row) => row.id)
      if (due.length > 0) yield* confirm(stream, { id: reading, kind: "poll" }, due)
    })
  )
})

const confirmsNeeded = 2

/**
 * Nobody is asked again about what a person rejected, until it is seen otherwise (D17). Confirmed in the future it was
 * before our clock was set back: nobody waits until that caught up.
 */
const isDue = (row: Pending | undefined, now: number, interval: Duration.Duration): boolean => {
  if (row?.status !== "absent") return !(row?.status === "disputed" && row.deleted)
  const age = now - (row.confirmedAt ?? 0)
  return age < 0 || age >= Duration.toMillis(interval)
}

const confirm = Effect.fnUntraced(function*(
  stream: Stream,
  reading: Pick<Reading, "id" | "kind">,
  ids: ReadonlyArray<string>
): Effect.fn.Return<void, ReadingError, Store | Source> {
  const controls = yield* controlsFor(stream, reading.id, ids)
  const { absent, doubt, rows } = yield* pointRead(stream, ids, controls, "confirm")
  if (doubt !== null) {
    yield* Effect.logWarning("confirm did not count; nothing is inferred").pipe(
      Effect.annotateLogs({
        stream: stream.key.integration,
        model: stream.key.model,
        asked: ids.length,
        why: doubt
      })
    )
  }
  const now = yield* Clock.currentTimeMillis
  yield* Gauges.driftFound(stream.key, rows.length)
  yield* commitPage(stream, rows, { ...reading, backfill: false }, {
    decisive: true,
    conclude: Effect.fnUntraced(function*(tx, state) {
      yield* markAbsent(tx, absent, reading.id, now, doubt === null ? 1 : 0)
      // Whom nobody can ask for, and of whom nobody says anything, is shown as absent and never confirmed.
      yield* markAbsent(tx, ids.filter((id) => !isAskable(id)), reading.id, now, 0)
      const { sweep } = state
      const hid = sweep?.id === reading.id && rows.length > sweep.balance.read && sweep.seam !== "hidden"
      return { state: hid ? { ...state, sweep: hiding(sweep) } : state, events: [], holds: [] }
    })
  })
})

const countAbsent = Effect.fnUntraced(function*(
  stream: Stream,
  ids: ReadonlyArray<string>,
  reading: number
) {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  yield* store.transact(stream.owner, stream.key, (tx) => markAbsent(tx, ids, reading, now, 1))
})

/** What is staged already says more than an absence, and so does what is held as deleted: that is confirmed by it (C8). */
const markAbsent = Effect.fnUntraced(function*(
  tx: StreamTx,
  ids: ReadonlyArray<string>,
  reading: number,
  now: number,
  confirms: 0 | 1
) {
  const pending = yield* tx.pending(ids)
  yield* tx.putPending(ids.flatMap((id): ReadonlyArray<Pending> => {
    const row = pending.get(id)
    if (row?.status === "absent") {
      const agreed = row.confirms + confirms
      return [{ ...row, status: agreed < confirmsNeeded ? "absent" : "staged", confirms: agreed, confirmedAt: now }]
    }
    if (row !== undefined && confirms === 0) return []
    if (row !== undefined && (row.deleted || row.status === "staged") && row.status !== "reread") {
      return row.hold === null ? [] : [{ ...row, reading: Math.max(row.reading, reading) }]
    }
    return [{
      id,
      status: "absent",
      reading,
      origin: "sweep",
      content: null,
      deleted: true,
      reason: "absent",
      textHash: "",
      canonicalHash: "",
      remoteId: null,
      changedAt: null,
      detectedAt: now,
      confirms,
      confirmedAt: now,
      hold: null
    }]
  }))
})

/** Begins a new sweep even where one is open. */
export const restartSweep = Effect.fnUntraced(function*(stream: Stream, options: SweepOptions) {
  const store = yield* Store
  yield* store.transact(stream.owner, stream.key, (tx) => tx.save({ ...tx.state, sweep: null }))
  return yield* sweep(stream, options)
})
