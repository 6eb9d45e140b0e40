/**
 * Counts the changes that a run releases, compares each wave with the guard's thresholds, and opens or widens a hold for each wave that
 * exceeds them.
 *
 * Invariants
 * 1. No change of a wave is published before the whole wave is counted   (D19)
 *
 * Gotchas
 * - A wave that arrives in parts is judged as one. A run counts its staged rows, the rows of the open hold, and the changes that were
 *   published within the guard's window. Of deletes, it also counts the records that one confirmation did not find.
 * - Scope changes are counted for each run alone.
 */
import * as Effect from "effect/Effect"
import { diff } from "../../domain/Diff.ts"
import * as Guard from "../../domain/Guard.ts"
import { findScopeChanges, type ScopeChange, scopeVerbs } from "../../domain/ScopeChange.ts"
import type { Hold, Pending } from "../../store/Records.ts"
import type { StreamState } from "../../store/State.ts"
import type { StoreError, StreamTx } from "../../store/Store.ts"
import type { PageContext } from "../record/PageContext.ts"
import { forEachPart, isSweepOnly } from "../Stream.ts"
import { maskingHolds } from "./FieldMask.ts"
import { loadStagedChanges } from "./StagedChanges.ts"

/** Maximum number of rows in memory at a time, however large a wave is (I9). */
export const chunk = 250
/** Maximum number of distinct paths that are counted in one run. If more paths changed, switched-off fields are not the reason. */
const maxPaths = 1_000

/**
 * A poll releases changes staged by polls, refreshes and refetches; a sweep releases those staged by sweeps; both release absences. Without
 * polls, a sweep releases all of them.
 */
const isReleasedBy = (context: PageContext) => (row: Pending): boolean =>
  (context.origin === "sweep") === (row.origin === "sweep") || row.reason === "absent" || isSweepOnly(context)

/** Calls `each` for every chunk of staged rows that this run releases. `each` may change the rows' status. */
export const forEachStaged = (
  tx: StreamTx,
  context: PageContext,
  each: (rows: ReadonlyArray<Pending>) => Effect.Effect<void, StoreError>
): Effect.Effect<void, StoreError> =>
  forEachPart(chunk, (after, limit) => tx.pendingWithStatus("staged", after, limit), (page) => {
    const rows = page.filter(isReleasedBy(context))
    return rows.length > 0 ? each(rows) : Effect.void
  })

interface Tally extends Record<Guard.Wave, number> {
  rows: number
  readonly switched: Map<string, ScopeChange & { readonly records: number }>
}

export const countStaged = Effect.fnUntraced(function*(tx: StreamTx, context: PageContext) {
  const tally: Tally = { rows: 0, deletes: 0, restores: 0, switched: new Map() }
  yield* forEachStaged(
    tx,
    context,
    Effect.fnUntraced(function*(rows) {
      tally.rows += rows.length
      for (const { kind, observed, published } of yield* loadStagedChanges(tx, rows, context)) {
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
    })
  )
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
  release: null,
  published: null
})

/** How many properties the reason of a scope hold names. */
const namedPaths = 3

const describeScopeChanges = (
  switched: ReadonlyArray<ScopeChange & { readonly records: number }>,
  live: number
): string => {
  const more = switched.length - namedPaths
  const named = switched.slice(0, namedPaths).map(({ path, to }, index) =>
    `${to === switched[index - 1]?.to ? "" : `${scopeVerbs[to]} `}${path.slice(1)}`
  )
  return `${switched[0]?.records} of ${live} records ${named.join(" or ")}${
    more > 0 ? `, or change in ${more} more properties` : ""
  }`
}

/** Compares the staged and held changes with the thresholds, and opens or widens holds accordingly. */
export const evaluateGuard = Effect.fnUntraced(function*(
  tx: StreamTx,
  state: StreamState,
  context: PageContext,
  tally: Tally,
  unended: ReadonlyArray<Hold>
) {
  const { guard, now } = context
  const live = yield* tx.liveCount
  const recent = Guard.countRecent(guard, state.guardHistory ?? [], now)
  const absences = yield* tx.absentCount
  const opened: Array<Hold> = []
  const openOf = (wave: Guard.Wave) => unended.find((hold) => hold.kind === wave && hold.state === "open")
  const deletes = openOf("deletes")
  const deletesHeld = deletes === undefined ? 0 : yield* tx.holdSize(deletes.id)
  const findOrOpenHold = Effect.fnUntraced(function*(wave: Guard.Wave) {
    const open = openOf(wave)
    const waiting = tally[wave] + (open === undefined ? 0 : yield* tx.holdSize(open.id)) +
      (wave === "deletes" ? absences : 0)
    // Restores are compared with the number of live records that there would be after all waiting restores and all staged and held deletes
    // were published.
    const records = live + (wave === "deletes" ? recent.deletes : waiting - tally.deletes - deletesHeld)
    const reason = Guard.holdReason(guard, wave, recent[wave] + waiting, records, recent[wave])
    if (reason === null) return null
    if (open !== undefined && open.reason !== reason) yield* tx.saveHold({ ...open, reason })
    if (open !== undefined || tally[wave] === 0) return open ?? null
    const hold = yield* tx.openHold(newHold(wave, reason, [], context))
    opened.push(hold)
    return hold
  })
  const waveHolds = { deletes: yield* findOrOpenHold("deletes"), restores: yield* findOrOpenHold("restores") }
  const masked = new Set(maskingHolds(unended).flatMap((hold) => hold.paths))
  const switched = [...tally.switched.values()].filter(({ path, records, to }) =>
    !masked.has(path) && Guard.isScopeChange(guard, to, records, live)
  )
  const scope = unended.find((hold) => hold.kind === "scope" && hold.state === "open")
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
  const holds = [...unended.filter(({ id }) => !opened.some((hold) => hold.id === id)), ...opened]
  return { live, waveHolds, opened, holds, masks: maskingHolds(holds) }
})

export type Verdict = Effect.Success<ReturnType<typeof evaluateGuard>>
