/** The stored states of the streams that are assigned to be read. Streams that are not assigned any longer are retired. */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { type Models, type StreamKey, streamName } from "../../domain/Model.ts"
import { completeTo, completeToOf } from "../../domain/Watermark.ts"
import type { StreamState } from "../../store/State.ts"
import type { Store, StreamTx } from "../../store/Store.ts"
import { type Ended, replaceRun } from "../commit/RunHistory.ts"
import { sourceModel } from "../derived/ApplicationChanges.ts"
import { notBackfilled } from "../derived/CandidateBackfill.ts"
import { annotate, type Ownership } from "../Stream.ts"
import { initialState, isReadable, type StreamSettings } from "../StreamLifecycle.ts"
import { openSweep } from "./StreamCommands.ts"

/** The streams that are read, by integration. */
export type Assigned = ReadonlyMap<string, ReadonlyArray<StreamSettings>>

/**
 * The stream in another account. Cursors are positions in a list of the account that returned them, so an open sweep is replaced by one from
 * the first page.
 */
const withAccount = (state: StreamState, account: string, now: number): Ended => {
  const moved = { ...state, account }
  return state.account === account || state.sweep === null
    ? { state: moved, entry: null }
    : replaceRun(openSweep(moved, now, state.sweep.backfill), state.sweep, now)
}

/** True if the stream was derived until now: a stream that is read has a watermark from its first page on. */
const wasDerived = ({ backfilledAt, sweep, watermark }: StreamState): boolean =>
  watermark === null && (backfilledAt !== null || (sweep?.cursor ?? null) !== null)

/**
 * A stream that was derived until now and is read from now on, or the reverse, starts again: the records that it has are compared with
 * those that its backfill finds. `newestRun`: the newest run of all streams of the integration, because the heads of a derived stream have
 * the runs of its source. `reportedTo`: how far the stream was reported as complete; null if it was not reported.
 */
const restart = (
  state: StreamState,
  { account, newestRun, reportedTo }: {
    readonly account: string
    readonly newestRun: number
    readonly reportedTo: number | null
  },
  now: number
): Ended => {
  const next: StreamState = {
    ...state,
    ...reportedTo === null ? {} : { reportedTo },
    account,
    phase: "starting",
    paused: false,
    blocked: null,
    failing: null,
    watermark: null,
    previousWatermark: null,
    backfillStartedAt: null,
    backfilledAt: null,
    lastRunId: newestRun,
    sweep: null,
    lastPoll: null,
    lastSweep: null
  }
  // the sweep of a derived stream is its progress in the stored applications
  return state.sweep === null || wasDerived(state) ? { state: next, entry: null } : replaceRun(next, state.sweep, now)
}

/** Pending rows that are dropped at once. */
const batch = 1000

/** Drops what the stream has not published: as a derived stream, it can neither confirm nor release anything. */
const dropUnpublished = Effect.fnUntraced(function*(tx: StreamTx, now: number) {
  yield* tx.clearStale
  for (let ids: ReadonlyArray<string> = [""]; ids.length > 0;) {
    ids = (yield* tx.allPending(null, batch)).map(({ id }) => id)
    yield* tx.dropPending(ids)
  }
  for (const hold of yield* tx.holds) {
    yield* tx.saveHold({ ...hold, state: "canceled", decidedAt: hold.decidedAt ?? now })
  }
})

const noteRestart = (stream: StreamKey, isList: boolean) =>
  Effect.logInfo("stream starts again; records that do not differ get no event").pipe(
    annotate(stream, { why: isList ? "it was derived, and is a list now" : "it was a list, and is derived now" })
  )

const warnOfUnknown = (stream: StreamKey) =>
  Effect.logWarning("stream is no longer read: the configuration of this process defines no such list").pipe(
    annotate(stream, {
      hint: "its records are kept; if it should be read, define the list in the configuration of every process"
    })
  )

export const make = (
  store: Store["Service"],
  { minOverlap, models, ownerOf }: Pick<Ownership, "ownerOf"> & {
    readonly minOverlap: Duration.Duration
    readonly models: Models
  }
) => {
  const isRead = isReadable(models)
  const retire = ({ integration, model }: StreamKey) =>
    store.transact(
      ownerOf(integration),
      { integration, model },
      (tx) => tx.saveState({ ...tx.state, retired: true })
    )

  /**
   * Creates the streams that are not stored yet, and retires all other streams of these integrations. A stream that is assigned again is no
   * longer retired. Returns the states of the assigned streams, as they were before.
   */
  const save = Effect.fnUntraced(function*(assigned: Assigned) {
    const rows = [...assigned.values()].flat().flatMap(({ derivedProcessing, ...settings }) =>
      derivedProcessing === undefined ? [settings] : [settings, { ...settings, model: derivedProcessing.model }]
    )
    yield* store.ensureStreams(rows.map((settings) => ({
      ...initialState(settings, minOverlap),
      generation: Math.max(settings.generation ?? 1, store.identity.generation),
      ...store.encryptionKey === null ? {} : { encryptedWith: store.encryptionKey }
    })))
    const settingsOf = new Map(rows.map((settings) => [streamName(settings), settings]))
    const [first] = assigned.keys()
    const states = assigned.size === 1 && first !== undefined
      ? yield* store.streamsOf(first)
      : (yield* store.streams).filter(({ integration }) => assigned.has(integration))
    const now = yield* Clock.currentTimeMillis
    const newestRunOf = (integration: string): number =>
      Math.max(...states.flatMap((state) => state.integration === integration ? [state.lastRunId] : []))
    for (const state of states) {
      const settings = settingsOf.get(streamName(state))
      if (settings === undefined) {
        if (state.retired === true) continue
        yield* retire(state)
        if (models.entryOf(state.model) === undefined) yield* warnOfUnknown(state)
        continue
      }
      const { account } = settings
      const silentBackfill = settings.backfill === "fill"
      const isContinued = state.retired !== true && (state.silentBackfill ?? false) === silentBackfill
      const restarts = isRead(state) ? wasDerived(state) : state.watermark !== null
      if (isContinued && !restarts && state.account === account) continue
      const newestRun = newestRunOf(state.integration)
      const condition = isContinued
        ? {}
        : { retired: false, silentBackfill, ...isRead(state) ? {} : { ...notBackfilled, lastRunId: newestRun } }
      const reportedTo = isRead(state) ? completeToOf(state, sourceModel, states) : completeTo(state)
      yield* store.transact(
        ownerOf(state.integration),
        state,
        Effect.fnUntraced(function*(tx) {
          if (restarts && tx.state.watermark !== null) yield* dropUnpublished(tx, now)
          const { entry, state: next } = restarts
            ? restart(tx.state, { account, newestRun, reportedTo }, now)
            : withAccount(tx.state, account, now)
          if (entry !== null) yield* tx.recordRun(entry)
          yield* tx.saveState({ ...next, ...condition })
        })
      )
      if (restarts) yield* noteRestart(state, isRead(state))
    }
    return states.filter((state) => settingsOf.has(streamName(state)))
  })

  return { save, retire }
}
