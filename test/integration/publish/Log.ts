/**
 * Appends events to a store's log the way capture does: one transaction on one stream.
 */
import * as Effect from "effect/Effect"
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { StreamKey } from "../../../src/domain/Model.ts"
import { appliedRules } from "../../../src/domain/Redaction.ts"
import type { Head } from "../../../src/store/Records.ts"
import type { StreamState } from "../../../src/store/State.ts"
import { Store, type StoreError } from "../../../src/store/Store.ts"
import { headsOf } from "../../conformance/StoreSamples.ts"
import { entries, type Hand } from "./Entries.ts"

export const key: StreamKey = { integration: "greenhouse:acme", model: "ats.tag" }

const stream: StreamState = {
  ...key,
  account: "default",
  generation: 1,
  phase: "live",
  paused: false,
  blocked: null,
  watermark: null,
  previousWatermark: null,
  overlap: 300_000,
  clockOffsets: [],
  backfillStartedAt: null,
  backfilledAt: null,
  lastRunId: 1,
  sweep: null,
  lastPoll: null,
  lastSweep: null,
  redactions: [appliedRules(false, {})],
  failing: null
}

const headOf = (event: NewEvent, position: number | null): Head => ({
  id: event.id,
  version: event.version,
  live: event.kind !== "deleted",
  position,
  textHash: event.eventId,
  canonicalHash: event.eventId,
  fingerprint: "test",
  changedAt: null,
  lastSeenRunId: 1
})

/**
 * Appends `count` events: ten records, created and then updated in turn. Event ids contain `mark`; `silent`: no reader gets them;
 * `hand`: fields of all of them.
 */
export const append = Effect.fnUntraced(
  function*(
    count: number,
    mark = "event",
    silent = false,
    hand: Omit<Hand, "position"> = {}
  ): Effect.fn.Return<void, StoreError, Store> {
    const store = yield* Store
    yield* store.ensureStreams([stream])
    const owner = yield* store.takeOwnership("capture")
    const { newest } = yield* store.logRange
    for (let first = newest + 1; first <= newest + count; first += 10) {
      const batch = entries(first, Math.min(first + 9, newest + count), hand)
      yield* store.transact(owner, key, (tx) =>
        Effect.gen(function*() {
          const heads = yield* headsOf(tx, batch.map((one) => one.id))
          yield* tx.write(batch.map((one) => {
            const own = { ...one, eventId: `${mark}-${one.position}` }
            return { head: headOf(own, heads.get(own.id)?.position ?? null), events: [own], silent }
          }))
        }))
    }
  }
)
