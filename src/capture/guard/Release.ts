/**
 * The end of a reading: judges the waves among what was staged, and publishes it or holds it.
 *
 * Invariants
 * 1. What an unfinished reading staged stays pending until one of its kind is complete   (X17, D21)
 * 2. Nothing of a wave is published before all of it was counted   (D19)
 * 3. A person, a sighting or, below the threshold, a complete sweep ends a hold; time never does   (D17, C8)
 *
 * Gotchas
 * - Rows are walked twice, 250 at a time, inside the one transaction: memory does not grow with the size of a wave (I9).
 * - What is held, and what is absent but not yet for certain, counts with what is staged: a wave that comes in parts is one
 *   wave. An absence that is certain belongs to the next complete poll or sweep, whichever ends first (D2).
 */
import * as Effect from "effect/Effect"
import { diff } from "../../domain/Diff.ts"
import * as Guard from "../../domain/Guard.ts"
import type { StreamKey } from "../../domain/Model.ts"
import { findScopeChanges, type ScopeChange } from "../../domain/ScopeChange.ts"
import type { Hold, Pending, StreamState } from "../../store/State.ts"
import type { RecordWrite, StoreError, StreamTx } from "../../store/Store.ts"
import type { PageContext } from "../commit/Ingest.ts"
import { appendEvents } from "../derived/Candidates.ts"
import { applyMasks, maskingHolds, pendingStatusFor } from "./FieldMask.ts"
import {
  type DetectedEvent,
  loadStagedChanges,
  published,
  releaseAsObserved,
  type StagedChange
} from "./StagedChanges.ts"

const chunk = 250
/** Distinct paths counted in one reading; more are no field switched off. */
const mostPaths = 1_000

/** What the end of a reading made of the stream. */
export interface ReleaseResult {
  readonly state: StreamState
  readonly events: ReadonlyArray<DetectedEvent>
  /** Opened, widened or cancelled here. */
  readonly holds: ReadonlyArray<Hold>
}

/** Polls release what polls, refreshes and re-reads staged; sweeps their own. */
const isReleasedBy = (context: PageContext) => (row: Pending): boolean =>
  (context.origin === "sweep") === (row.origin === "sweep") || row.reason === "absent"

/** Every staged row that this reading releases, chunk by chunk; `each` may change the rows' status. */
const forEachStaged = Effect.fnUntraced(function*(
  tx: StreamTx,
  context: PageContext,
  each: (rows: ReadonlyArray<StagedChange>, all: ReadonlyArray<Pending>) => Effect.Effect<void, StoreError>
): Effect.fn.Return<void, StoreError> {
  let after: string | null = null
  for (;;) {
    const page: ReadonlyArray<Pending> = yield* tx.pendingWithStatus("staged", after, chunk)
    const rows = page.filter(isReleasedBy(context))
    if (rows.length > 0) yield* each(yield* loadStagedChanges(tx, rows, context), rows)
    if (page.length < chunk) return
    after = page.at(-1)!.id
  }
})

interface Tally extends Record<Guard.Wave, number> {
  rows: number
  readonly switched: Map<string, ScopeChange & { readonly records: number }>
}

const countStaged = Effect.fnUntraced(function*(tx: StreamTx, context: PageContext) {
  const tally: Tally = { rows: 0, deletes: 0, restores: 0, switched: new Map() }
  yield* forEachStaged(tx, context, (rows, all) =>
    Effect.sync(() => {
      tally.rows += all.length
      for (const { kind, observed, published } of rows) {
        if (kind === "deletes" || kind === "restores") tally[kind]++
        if (kind !== "update" || published === null) continue
        const changes = diff(context.processing.shape, published, observed)
        for (const one of findScopeChanges(published, observed, changes)) {
          const key = `${one.to} ${one.path}`
          const known = tally.switched.get(key)
          if (known === undefined && tally.switched.size >= mostPaths) continue
          tally.switched.set(key, { ...one, records: (known?.records ?? 0) + 1 })
        }
      }
    }))
  return tally
})

const newHold = (
  kind: Hold["kind"],
  reason: string,
  paths: ReadonlyArray<string>,
  context: PageContext
): Omit<Hold, "id"> => ({
  kind,
  state: "open",
  reason,
  paths,
  openedAt: context.now,
  decidedAt: null,
  released: 0,
  release: null
})

const describeScopeChanges = (
  switched: ReadonlyArray<ScopeChange & { readonly records: number }>,
  live: number
): string => {
  const [first, ...others] = switched
  const more = others.length === 0 ? "" : `, and ${others.length} more ${others.length === 1 ? "path" : "paths"}`
  const went = { nothing: "to null", value: "from null", members: "from empty to filled" }[first?.to ?? "nothing"]
  return `${first?.path} went ${went} on ${first?.records} of ${live} records${more}`
}

/** What the thresholds say of everything pending together, and the holds that follow from it. */
const evaluateGuard = Effect.fnUntraced(function*(
  tx: StreamTx,
  state: StreamState,
  context: PageContext,
  tally: Tally,
  undecided: ReadonlyArray<Hold>
) {
  const { guard, now } = context
  const live = yield* tx.liveCount
  const recent = Guard.countRecent(guard, state.guardHistory ?? [], now)
  const absences = yield* tx.absentCount
  const opened: Array<Hold> = []
  const openOf = (wave: Guard.Wave) => undecided.find((hold) => hold.kind === wave && hold.state === "open")
  const deletes = openOf("deletes")
  const deletesHeld = deletes === undefined ? 0 : yield* tx.holdSize(deletes.id)
  const findOrOpenHold = Effect.fnUntraced(function*(wave: Guard.Wave) {
    const open = openOf(wave)
    const waiting = tally[wave] + (open === undefined ? 0 : yield* tx.holdSize(open.id)) +
      (wave === "deletes" ? absences : 0)
    // what is held as deleted may be released with this reading: it is no record that restores are a share of
    const records = live + (wave === "deletes" ? recent.deletes : waiting - tally.deletes - deletesHeld)
    const reason = Guard.holdReason(guard, wave, recent[wave] + waiting, records)
    if (reason === null) return null
    if (open !== undefined && open.reason !== reason) yield* tx.saveHold({ ...open, reason })
    if (open !== undefined || tally[wave] === 0) return open ?? null
    const hold = yield* tx.openHold(newHold(wave, reason, [], context))
    opened.push(hold)
    return hold
  })
  const waves = { deletes: yield* findOrOpenHold("deletes"), restores: yield* findOrOpenHold("restores") }
  const masked = new Set(maskingHolds(undecided).flatMap((hold) => hold.paths))
  const switched = [...tally.switched.values()].filter(({ path, records, to }) =>
    !masked.has(path) && Guard.isScopeChange(guard, to, records, live)
  )
  const scope = undecided.find((hold) => hold.kind === "scope" && hold.state === "open")
  if (switched.length > 0) {
    const paths = [...new Set([...scope?.paths ?? [], ...switched.map(({ path }) => path)])]
    const details = newHold("scope", describeScopeChanges(switched, live), paths, context)
    // More fields of a scope that is held already: one decision for all of them.
    if (scope === undefined) opened.push(yield* tx.openHold(details))
    else {
      const wider: Hold = { ...scope, paths, reason: details.reason }
      yield* tx.saveHold(wider)
      opened.push(wider)
    }
  }
  const holds = [...undecided.filter(({ id }) => !opened.some((hold) => hold.id === id)), ...opened]
  return { live, waves, opened, holds, masks: maskingHolds(holds) }
})

type Verdict = Effect.Success<ReturnType<typeof evaluateGuard>>

/** Publishes rows that are pending no more, or leaves them to a hold. */
const appendOrHold = Effect.fnUntraced(function*(
  tx: StreamTx,
  rows: ReadonlyArray<StagedChange>,
  context: PageContext,
  verdict: Pick<Verdict, "waves" | "masks">
) {
  const writes: Array<RecordWrite> = []
  const kept: Array<Pending> = []
  const leave = (row: Pending, hold: Hold) => kept.push({ ...row, status: pendingStatusFor(hold), hold: hold.id })
  for (const staged of rows) {
    const { kind, observed, published: before, row } = staged
    const wave = kind === "deletes" || kind === "restores" ? verdict.waves[kind] : null
    if (wave !== null) {
      leave(row, wave)
      continue
    }
    const publishable = kind === "update" && before !== null
      ? applyMasks(before, observed, verdict.masks)
      : { content: observed, hold: null }
    if (publishable.hold !== null) leave(row, publishable.hold)
    const write = published(staged, context, releaseAsObserved, publishable.content)
    if (publishable.hold === null || write.events.length > 0) writes.push(write)
  }
  yield* tx.putPending(kept)
  return yield* appendEvents(tx, writes, context)
})

/** What is left of a wave and was met again by this sweep is no wave any more (C8). */
const releaseRemainder = Effect.fnUntraced(function*(
  tx: StreamTx,
  hold: Hold,
  context: PageContext,
  others: ReadonlyArray<Hold>
) {
  const events: Array<DetectedEvent> = []
  let after: string | null = null
  for (;;) {
    const page: ReadonlyArray<Pending> = yield* tx.pendingOfHold(hold.id, after, chunk)
    const rows = page.filter((row) => row.runId >= context.runId)
    const verdict = { waves: { deletes: null, restores: null }, masks: others }
    const staged = yield* loadStagedChanges(tx, rows, context)
    yield* tx.dropPending(rows.map((row) => row.id))
    events.push(...yield* appendOrHold(tx, staged, context, verdict))
    if (page.length < chunk) return events
    after = page.at(-1)!.id
  }
})

/** Ends holds of which nothing is left, and lets small remainders go; gives what ended. */
const endHolds = Effect.fnUntraced(function*(
  tx: StreamTx,
  context: PageContext,
  verdict: Verdict,
  events: Array<DetectedEvent>
) {
  const ended: Array<Hold> = []
  for (const hold of verdict.holds.filter(({ state }) => state !== "approving")) {
    const isSmall = hold.kind === "scope"
      ? !Guard.isScopeChange(context.guard, "value", yield* tx.holdSize(hold.id), verdict.live)
      : verdict.waves[hold.kind] === null
    if (context.origin === "sweep" && hold.state === "open" && isSmall) {
      const others = verdict.masks.filter(({ id }) => id !== hold.id)
      events.push(...yield* releaseRemainder(tx, hold, context, others))
    }
    if ((yield* tx.holdSize(hold.id)) > 0) continue
    const over: Hold = { ...hold, state: "cancelled", decidedAt: context.now }
    yield* tx.saveHold(over)
    ended.push(over)
  }
  return ended
})

/** Runs in the last transaction of a reading. `occasion.origin` says which kind of reading is complete. */
export const releaseStaged = Effect.fnUntraced(function*(
  tx: StreamTx,
  state: StreamState,
  context: PageContext
): Effect.fn.Return<ReleaseResult, StoreError> {
  const undecided = yield* tx.holds
  const tally = yield* countStaged(tx, context)
  if (tally.rows === 0 && undecided.length === 0) return { state, events: [], holds: [] }
  const verdict = yield* evaluateGuard(tx, state, context, tally, undecided)
  const events: Array<DetectedEvent> = []
  yield* forEachStaged(
    tx,
    context,
    Effect.fnUntraced(function*(rows, all) {
      yield* tx.dropPending(all.map((row) => row.id))
      events.push(...yield* appendOrHold(tx, rows, context, verdict))
    })
  )
  const ended = yield* endHolds(tx, context, verdict, events)
  const own = events.filter(({ model }) => model === context.stream.model)
  const passed = {
    deletes: own.filter(({ kind }) => kind === "deleted").length,
    restores: own.filter(({ restored }) => restored).length
  }
  return {
    events,
    holds: [...verdict.opened, ...ended],
    state: { ...state, guardHistory: Guard.addToHistory(context.guard, state.guardHistory ?? [], context.now, passed) }
  }
})

/** One line a hold when it opens, one when nothing is left of it (C2). */
export const logHolds = (key: StreamKey, holds: ReadonlyArray<Hold>): Effect.Effect<void> =>
  Effect.forEach(
    holds,
    ({ id, kind, reason, state }) =>
      (state === "open" ? Effect.logWarning("changes are held") : Effect.logInfo("hold ended by itself")).pipe(
        Effect.annotateLogs({
          integration: key.integration,
          model: key.model,
          hold: id,
          kind,
          reason,
          ...(state === "open" ? { hint: `rollcall holds show ${id}` } : {})
        })
      ),
    { discard: true }
  )
