/** The stored states of the streams that are assigned to be read. Streams that are not assigned any longer are retired. */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { isDerived, type StreamKey, streamName } from "../../domain/Model.ts"
import type { Store } from "../../store/Store.ts"
import { notBackfilled } from "../derived/CandidateBackfill.ts"
import type { Ownership } from "../Stream.ts"
import { initialState, type StreamSettings } from "./StreamLifecycle.ts"

/** The streams that are read, by integration. */
export type Assigned = ReadonlyMap<string, ReadonlyArray<StreamSettings>>

export const make = (
  store: Store["Service"],
  { minOverlap, ownerOf }: Pick<Ownership, "ownerOf"> & { readonly minOverlap: Duration.Duration }
) => ({
  /**
   * Creates the streams that are not stored yet, and retires all other streams of these integrations. A stream that is assigned again is no
   * longer retired. Returns the states of the assigned streams, as they were before.
   */
  save: Effect.fnUntraced(function*(assigned: Assigned) {
    const rows = [...assigned.values()].flat().flatMap(({ derivedProcessing, ...settings }) =>
      derivedProcessing === undefined ? [settings] : [settings, { ...settings, model: derivedProcessing.model }]
    )
    yield* store.ensureStreams(rows.map((settings) => ({
      ...initialState(settings, minOverlap),
      generation: Math.max(settings.generation ?? 1, store.identity.generation),
      ...store.encryptionKey === null ? {} : { encryptedWith: store.encryptionKey }
    })))
    const fills = new Map(rows.map((settings) => [streamName(settings), settings.backfill === "fill"]))
    const [first] = assigned.keys()
    const states = assigned.size === 1 && first !== undefined
      ? yield* store.streamsOf(first)
      : (yield* store.streams).filter(({ integration }) => assigned.has(integration))
    for (const state of states) {
      const fill = fills.get(streamName(state))
      const retired = fill === undefined
      if ((state.retired ?? false) === retired && (retired || (state.silentBackfill ?? false) === fill)) continue
      const condition = retired
        ? { retired }
        : { retired, silentBackfill: fill, ...isDerived(state.model) ? notBackfilled : {} }
      yield* store.transact(ownerOf(state.integration), state, (tx) => tx.saveState({ ...tx.state, ...condition }))
    }
    return states.filter((state) => fills.has(streamName(state)))
  }),

  retire: ({ integration, model }: StreamKey) =>
    store.transact(
      ownerOf(integration),
      { integration, model },
      (tx) => tx.saveState({ ...tx.state, retired: true })
    )
})
