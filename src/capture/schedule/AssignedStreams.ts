/** The stored states of the streams that are assigned to be read. Streams that are not assigned any longer are retired. */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { type Models, type StreamKey, streamName } from "../../domain/Model.ts"
import type { StreamState } from "../../store/State.ts"
import type { Store } from "../../store/Store.ts"
import { type Ended, replaceRun } from "../commit/RunHistory.ts"
import { notBackfilled } from "../derived/CandidateBackfill.ts"
import type { Ownership } from "../Stream.ts"
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
    for (const state of states) {
      const settings = settingsOf.get(streamName(state))
      if (settings === undefined) {
        if (state.retired !== true) yield* retire(state)
        continue
      }
      const { account } = settings
      const silentBackfill = settings.backfill === "fill"
      const isContinued = state.retired !== true && (state.silentBackfill ?? false) === silentBackfill
      if (isContinued && state.account === account) continue
      const condition = isContinued
        ? {}
        : { retired: false, silentBackfill, ...isRead(state) ? {} : notBackfilled }
      yield* store.transact(
        ownerOf(state.integration),
        state,
        Effect.fnUntraced(function*(tx) {
          const { entry, state: moved } = withAccount(tx.state, account, now)
          if (entry !== null) yield* tx.recordRun(entry)
          yield* tx.saveState({ ...moved, ...condition })
        })
      )
    }
    return states.filter((state) => settingsOf.has(streamName(state)))
  })

  return { save, retire }
}
