/**
 * Finds out whether records that a sweep did not read are deleted (D2, D3: a record vanishes, or only moves out of sight).
 *
 * | a record that is published as live is | if | then |
 * |---|---|---|
 * | missing | no run has read it since the sweep started | the sweep confirms it: it requests the record by id, with controls (`Refetch.ts`) |
 * | absent | one confirmation did not find it | after `confirmInterval`, the next poll or sweep confirms it again |
 * | staged | two confirmations did not find it | the end of a complete run publishes its delete |
 *
 * Gotchas
 * - Some lists can only be read as a whole, so their records cannot be requested by id. For these, each complete sweep is a confirmation.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Source } from "../../source/Source.ts"
import { type PageRead, type Pending, queryFor } from "../../store/Records.ts"
import type { Run } from "../../store/Run.ts"
import { Store } from "../../store/Store.ts"
import { commitPage } from "../commit/PageCommit.ts"
import * as Metrics from "../Metrics.ts"
import { annotate, isSweepOnly, isUnpaged, type RunError, type Stream, transact } from "../Stream.ts"
import { findControls, forEachPending, isQueryable, maxRefetchIds, refetch } from "./Refetch.ts"
import { markHiddenRecords } from "./SweepPasses.ts"

/**
 * True if the next sweep is already due. If the requests of a sweep for confirmations keep failing, the sweep then ends without them, so
 * that its changes are released (D12: a confirmation is refused). A list without polls is not read until then, so one interval is enough.
 */
const isOverdue = (stream: Stream, { startedAt }: Run, now: number): boolean => {
  const { interval, sweepInterval } = stream.settings
  return now - startedAt >= Duration.toMillis(isSweepOnly(stream) ? interval : sweepInterval)
}

/** Confirms the records that the sweep `run` did not read, if their confirmation is due. Returns false if it yielded before the end. */
export const confirmMissing = Effect.fnUntraced(function*(
  stream: Stream,
  run: Run,
  shouldYield: Effect.Effect<boolean>
): Effect.fn.Return<boolean, RunError, Store | Source> {
  if (run.rowCounts.quarantined > 0) {
    yield* Effect.logWarning("sweep contained unreadable rows; no deletes are inferred from it").pipe(
      annotate(stream.key)
    )
    return true
  }
  const store = yield* Store
  let after: string | null = run.confirmedTo ?? null
  for (;;) {
    const missing: ReadonlyArray<string> = yield* store.liveNotSeenSince(stream.key, run.id, after, maxRefetchIds)
    if (missing.length === 0) return true
    const now = yield* Clock.currentTimeMillis
    const query = queryFor(missing, null)
    const due = yield* transact(
      stream,
      Effect.fnUntraced(function*(tx) {
        const read = yield* tx.read(query)
        const due = missing.filter((id) => isDue(stream, read.pending.get(id), now))
        if (isUnpaged(stream)) yield* tx.putPending(absencesOf(read, due, run.id, now, 1))
        return due
      }),
      () => query
    )
    after = missing.at(-1)!
    if (due.length > 0 && !isUnpaged(stream)) {
      const isComplete = yield* Effect.as(requestById(stream, run, due, after), true).pipe(
        Effect.catchIf(
          (error) => error._tag === "SourceError" && isOverdue(stream, run, now),
          (error) =>
            Effect.logWarning("requests for confirmations keep failing; no more deletes are inferred from this sweep")
              .pipe(
                annotate(stream.key, { why: error.message }),
                Effect.as(false)
              )
        )
      )
      if (!isComplete) return true
    }
    // Yields only after a request: the sweep then continues after the requested records, because `confirmedTo` is stored. If it yielded
    // without progress, a sweep would never end while polls are always due.
    if (due.length > 0 && (yield* shouldYield)) return false
  }
})

/** Confirms the absent records again whose confirmation is due. */
export const reconfirmAbsent = Effect.fn("Absence.confirm")(function*(
  stream: Stream
): Effect.fn.Return<void, RunError, Store | Source> {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  const runId = state?.lastSweep?.id
  if (runId === undefined) return
  yield* forEachPending(
    stream,
    "absent",
    Effect.fnUntraced(function*(rows) {
      const now = yield* Clock.currentTimeMillis
      const due = rows.filter((row) => isDue(stream, row, now)).map((row) => row.id)
      // With the kind `poll`, the next poll releases the changes that the response shows. The next sweep may be hours away.
      if (due.length > 0) yield* requestById(stream, { id: runId, kind: "poll" }, due, null)
    })
  )
})

/** Conclusive confirmations that must not find a record before its delete is staged. */
const confirmationsNeeded = 2

/**
 * True if the record's next confirmation is due. `row`: its pending row.
 *
 * | pending row | due |
 * |---|---|
 * | absent | once `confirmInterval` has passed; at once if `confirmedAt` is in the future, because our clock was then set back |
 * | rejected delete | never: an operator rejected it, and the record has not been observed since (D17: it would come back with every sweep) |
 * | another row, or none | at once |
 */
const isDue = ({ confirmInterval }: Stream, row: Pending | undefined, now: number): boolean => {
  if (row?.status !== "absent") return !(row?.status === "rejected" && row.deleted)
  const age = now - (row.confirmedAt ?? 0)
  return age < 0 || age >= Duration.toMillis(confirmInterval)
}

/** One confirmation: requests these records, and saves what the response shows. `confirmedTo`: see `Run`; null outside a sweep. */
const requestById = Effect.fnUntraced(function*(
  stream: Stream,
  run: Pick<Run, "id" | "kind">,
  ids: ReadonlyArray<string>,
  confirmedTo: string | null
): Effect.fn.Return<void, RunError, Store | Source> {
  const controls = yield* findControls(stream, run.id, ids)
  const { absent, inconclusiveReason, rows, shownBy } = yield* refetch(stream, ids, controls, "confirm")
  if (inconclusiveReason !== null) {
    yield* Effect.logWarning("a confirmation was inconclusive; no deletes are inferred from it").pipe(
      annotate(stream.key, { requested: ids.length, why: inconclusiveReason })
    )
  }
  const now = yield* Clock.currentTimeMillis
  yield* Metrics.recordsMissed(stream.key, rows.length)
  yield* commitPage(stream, {
    results: rows,
    shownBy,
    run: { ...run, backfill: false },
    isRefetch: true,
    after: (state) => {
      const { sweep } = state
      if (sweep?.id !== run.id || confirmedTo === null) return state
      // the confirmation returned more records than all pages of the list together
      const isHiding = rows.length > sweep.rowCounts.read && sweep.possibleGap !== "hidden"
      return { ...state, sweep: { ...(isHiding ? markHiddenRecords(sweep) : sweep), confirmedTo } }
    },
    also: Effect.fnUntraced(function*(tx) {
      const read = yield* tx.read(queryFor(ids, null))
      yield* tx.putPending(absencesOf(read, absent, run.id, now, inconclusiveReason === null ? 1 : 0))
      // An id that contains a comma cannot be requested. Its record is shown as absent, and its absence is never confirmed.
      yield* tx.putPending(absencesOf(read, ids.filter((id) => !isQueryable(id)), run.id, now, 0))
    })
  })
})

/**
 * The pending rows of these records, which a confirmation did not find. A record that is no longer live is left out: it may have been
 * forgotten since the request. `confirmations`: 1, or 0 if the confirmation was inconclusive or the records were not requested.
 *
 * | pending row | confirmed (1) | inconclusive or not requested (0) |
 * |---|---|---|
 * | none | a new row, absent | the same |
 * | absent | counted; the second one stages the delete | only the time is noted |
 * | staged, or a held or rejected delete | stays; in a hold, it gets the id of this run | unchanged |
 * | disputed, in a rejected hold of deletes | a rejected delete again | unchanged |
 * | disputed | a new row, absent | unchanged |
 * | another | a new row, absent | unchanged |
 *
 * The id of this run in a held row means that this run too found the record absent. When a sweep ends a hold, it releases only such rows
 * (C8: most records of a held wave come back). A rejected delete became disputed because an old copy of the record was read. An old copy does not undo the
 * decision (D17).
 */
const absencesOf = (
  { heads, holds, pending }: PageRead,
  ids: ReadonlyArray<string>,
  runId: number,
  now: number,
  confirmations: 0 | 1
): ReadonlyArray<Pending> => {
  const rejected = holds.filter(({ kind, state }) => kind === "deletes" && state === "rejected")
  return ids.flatMap((id): ReadonlyArray<Pending> => {
    if (heads.get(id)?.live !== true) return []
    const row = pending.get(id)
    if (row?.status === "absent") {
      const total = row.confirmations + confirmations
      return [{
        ...row,
        status: total < confirmationsNeeded ? "absent" : "staged",
        confirmations: total,
        confirmedAt: now
      }]
    }
    if (row !== undefined && confirmations === 0) return []
    if (row !== undefined && (row.deleted || row.status === "staged") && row.status !== "disputed") {
      return row.hold === null ? [] : [{ ...row, runId: Math.max(row.runId, runId) }]
    }
    const hold = rejected.find(({ id }) => id === row?.hold)
    return [{
      id,
      status: hold === undefined ? "absent" : "rejected",
      runId,
      origin: "sweep",
      content: null,
      deleted: true,
      reason: "absent",
      textHash: "",
      canonicalHash: "",
      remoteId: null,
      changedAt: null,
      detectedAt: now,
      confirmations,
      confirmedAt: now,
      redaction: null,
      hold: hold?.id ?? null
    }]
  })
}
