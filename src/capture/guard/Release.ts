/**
 * Releases staged changes at the end of a run: counts them, compares the waves with the guard's thresholds, and publishes or
 * holds each change.
 *
 * Invariants
 * 1. Changes staged by an unfinished run stay pending until a run of the same kind is complete   (X17, D21)
 * 2. No change of a wave is published before the whole wave is counted   (D19)
 * 3. A hold ends because an operator decides, because its records are observed with their published content again, or because a
 *    complete sweep finds it below the thresholds. It never ends because time passes   (D17, C8)
 *
 * Gotchas
 * - Staged rows are read twice, 250 at a time, in the same transaction, so memory does not grow with the size of a wave (I9).
 * - Rows that are already held, and absences that are not confirmed yet, are counted together with the staged rows, so that a
 *   wave that arrives in parts is judged as one. A confirmed absence is released by the next complete poll or sweep,
 *   whichever ends first (D2).
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
/** Distinct paths counted in one run. More changed paths than this do not come from switched-off fields. */
const maxPaths = 1_000

/** Result of releasing the staged changes at the end of a run. */
export interface ReleaseResult {
  readonly state: StreamState
  readonly events: ReadonlyArray<DetectedEvent>
  /** Holds that were opened, widened or canceled. */
  readonly holds: ReadonlyArray<Hold>
}

/** A poll releases changes staged by polls, refreshes and refetches; a sweep releases those staged by sweeps; both release absences. */
const isReleasedBy = (context: PageContext) => (row: Pending): boolean =>
  (context.origin === "sweep") === (row.origin === "sweep") || row.reason === "absent"

/** Calls `each` for every chunk of staged rows that this run releases. `each` may change the rows' status. */
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
          if (known === undefined && tally.switched.size >= maxPaths) continue
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

/** Compares the staged and held changes with the thresholds, and opens or widens holds accordingly. */
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
    // Held deletes may be released with this run, so these records do not count as live when restores are judged.
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
    // A scope hold is already open: it gets the additional paths, so that one decision covers all of them.
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

/** Publishes rows that are no longer pending, or puts them into a hold. */
const appendOrHold = Effect.fnUntraced(function*(
  tx: StreamTx,
  rows: ReadonlyArray<StagedChange>,
  context: PageContext,
  verdict: Pick<Verdict, "waves" | "masks">
) {
  const writes: Array<RecordWrite> = []
  const kept: Array<Pending> = []
  const keep = (row: Pending, hold: Hold) => kept.push({ ...row, status: pendingStatusFor(hold), hold: hold.id })
  for (const staged of rows) {
    const { kind, observed, published: before, row } = staged
    const wave = kind === "deletes" || kind === "restores" ? verdict.waves[kind] : null
    if (wave !== null) {
      keep(row, wave)
      continue
    }
    const publishable = kind === "update" && before !== null
      ? applyMasks(before, observed, verdict.masks)
      : { content: observed, hold: null }
    if (publishable.hold !== null) keep(row, publishable.hold)
    const write = published(staged, context, releaseAsObserved, publishable.content)
    if (publishable.hold === null || write.events.length > 0) writes.push(write)
  }
  yield* tx.putPending(kept)
  return yield* appendEvents(tx, writes, context)
})

/** Releases the rows of a hold that is now below the thresholds, if this sweep observed them again (C8). */
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

/** Releases holds that are now below the thresholds, cancels holds without rows, and returns the canceled holds. */
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

/** Runs in the last transaction of a run. `context.origin` is the kind of the completed run. */
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

/** Logs one line when a hold is opened or widened, and one when it is canceled because it has no rows left (C2). */
export const logHolds = (key: StreamKey, holds: ReadonlyArray<Hold>): Effect.Effect<void> =>
  Effect.forEach(
    holds,
    ({ id, kind, reason, state }) =>
      (state === "open"
        ? Effect.logWarning("changes are held")
        : Effect.logInfo("hold canceled: no changes left in it")).pipe(
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
