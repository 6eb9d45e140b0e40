/**
 * Finds out whether records that a sweep did not read are deleted.
 *
 * A record is *missing* if it is published as live and no run has read it since the sweep started. A *confirmation* requests missing
 * records by id, together with controls (`Refetch.ts`). A record that the confirmation does not find is *absent*: it gets a pending row.
 * If a second confirmation, at least `confirmInterval` later, does not find it either, the record is staged as deleted   (D2, D3, D15)
 *
 * Gotchas
 * - A list that the API only returns as a whole cannot be queried by id. For such a list, complete sweeps, spaced in time, are the
 *   confirmations.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Source } from "../../source/Source.ts"
import type { Pending } from "../../store/Records.ts"
import type { Run } from "../../store/Run.ts"
import { Store, type StreamTx } from "../../store/Store.ts"
import { commitPage } from "../commit/PageCommit.ts"
import * as Metrics from "../Metrics.ts"
import { annotate, isSweepOnly, type RunError, type Stream, transact } from "../Stream.ts"
import { findControls, forEachPending, isQueryable, maxRefetchIds, refetch } from "./Refetch.ts"
import { markHiddenRecords } from "./SweepPasses.ts"

/**
 * True if the next sweep is already due. Then a sweep whose requests for confirmations keep failing is ended, so that its changes
 * are released (D12).
 */
const isOverdue = ({ settings }: Stream, { startedAt }: Run, now: number): boolean =>
  now - startedAt >= Duration.toMillis(settings.sweepInterval)

/**
 * Confirms the missing records whose confirmation is due (`isDue`): refetches them, or counts this sweep as a confirmation if they cannot
 * be queried by id. Returns false if it yielded before the end.
 */
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
    const rows = yield* transact(stream, (tx) => tx.pending(missing))
    const now = yield* Clock.currentTimeMillis
    const due = missing.filter((id) => isDue(stream, rows.get(id), now))
    after = missing.at(-1)!
    if (due.length > 0 && isSweepOnly(stream)) yield* countAbsent(stream, due, run.id)
    else if (due.length > 0) {
      const isComplete = yield* Effect.as(confirmAbsent(stream, run, due, after), true).pipe(
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
    // Yield only after at least one request, which the stored sweep remembers: if polls were always due, it would otherwise never end.
    if (due.length > 0 && (yield* shouldYield)) return false
  }
})

/** Requests absent records again if their last confirmation was at least the confirm interval ago. */
export const confirmAbsences = Effect.fn("Sweep.confirm")(function*(
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
      // The next sweep may be hours away. With the kind `poll`, the next poll releases the changes that the response shows.
      if (due.length > 0) yield* confirmAbsent(stream, { id: runId, kind: "poll" }, due, null)
    })
  )
})

/** A record's delete is staged after this number of conclusive confirmations, spaced in time, that did not find the record. */
const confirmationsNeeded = 2

/**
 * True if the record's next confirmation is due. A delete that an operator rejected is not confirmed again until the record is observed
 * (D17). If `confirmedAt` is in the future, our clock was set back, and the confirmation is due at once.
 */
const isDue = ({ confirmInterval }: Stream, row: Pending | undefined, now: number): boolean => {
  if (row?.status !== "absent") return !(row?.status === "rejected" && row.deleted)
  const age = now - (row.confirmedAt ?? 0)
  return age < 0 || age >= Duration.toMillis(confirmInterval)
}

/** `confirmedTo`: see `Run`; null if the records are not those that a sweep has not read. */
const confirmAbsent = Effect.fnUntraced(function*(
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
      yield* markAbsent(tx, absent, run.id, now, inconclusiveReason === null ? 1 : 0)
      // Ids that contain a comma cannot be queried, so these records are shown as absent, but their absence is never confirmed.
      yield* markAbsent(tx, ids.filter((id) => !isQueryable(id)), run.id, now, 0)
    })
  })
})

const countAbsent = Effect.fnUntraced(function*(stream: Stream, ids: ReadonlyArray<string>, runId: number) {
  const now = yield* Clock.currentTimeMillis
  yield* transact(stream, (tx) => markAbsent(tx, ids, runId, now, 1))
})

/**
 * Adds `absent` rows, or counts this confirmation in existing ones. Only records that are still live are marked, because a record may
 * have been forgotten since the request. A row that is already staged or held as deleted is not replaced. A held row gets the id of this
 * run: a sweep that releases a hold releases only the rows that it observed again, and this absence is such an observation (C8). A disputed
 * row in a hold of rejected deletes is a rejected delete again: an old copy of the record does not undo the decision (D17).
 * `confirmations`: 0 if this confirmation was inconclusive, or if the records cannot be queried by id, else 1.
 */
const markAbsent = Effect.fnUntraced(function*(
  tx: StreamTx,
  ids: ReadonlyArray<string>,
  runId: number,
  now: number,
  confirmations: 0 | 1
) {
  const heads = yield* tx.heads(ids)
  const pending = yield* tx.pending(ids)
  const isHeld = [...pending.values()].some(({ hold }) => hold !== null)
  const rejected = isHeld
    ? (yield* tx.holds).filter(({ kind, state }) => kind === "deletes" && state === "rejected")
    : []
  yield* tx.putPending(ids.flatMap((id): ReadonlyArray<Pending> => {
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
  }))
})
