/** Streams of many records, waves of changes, and the events that were published. */
import * as Effect from "effect/Effect"
import type { Source } from "../../../src/source/Source.ts"
import { Store } from "../../../src/store/Store.ts"
import { type Rig, scenario } from "./Rig.ts"

export const named = (from: number, to: number): ReadonlyArray<string> =>
  Array.from({ length: to - from }, (_, index) => `r${String(from + index).padStart(4, "0")}`)
export const each = <E, R>(ids: ReadonlyArray<string>, change: (id: string) => Effect.Effect<void, E, R>) =>
  Effect.forEach(ids, change, { discard: true })
export const row = (id: string, details: Record<string, unknown> = {}) => ({
  id,
  title: `t-${id}`,
  source: "s",
  outcome: "PENDING",
  ...details
})

/** Runs `test` on a stream that is backfilled with records r0000 … */
export const filled = <A>(
  count: number,
  test: (rig: Rig, ids: ReadonlyArray<string>) => Effect.fn.Return<A, unknown, Store | Source>
) =>
  scenario(function*(rig) {
    const ids = named(0, count)
    yield* each(ids, (id) => rig.put(row(id)))
    yield* rig.sweep
    yield* rig.wait("1 hour")
    return yield* test(rig, ids)
  })

/** Backfills a stream with these records; returns an hour later. */
export const backfilled = (rig: Rig, ids: ReadonlyArray<string>) =>
  Effect.andThen(rig.backfill(...ids.map((id) => ({ id, title: id }))), rig.wait("59 minutes"))

/** Number of events after the backfill, by kind. */
export const published = (rig: Rig) =>
  Effect.map(rig.events, (entries) => {
    const later = entries.filter((entry) =>
      entry.origin !== "backfill" || entry.kind !== "created" || entry.version > 1
    )
    return Object.fromEntries([...Map.groupBy(later, (entry) => entry.kind)].map(([kind, all]) => [kind, all.length]))
  })

export const hold = (rig: Rig) => Effect.map(rig.holds, ([hold]) => hold!)
export const after = (rig: Rig, id: string) =>
  Effect.map(rig.events, (entries) => {
    const entry = entries.findLast((entry) => entry.id === id)!
    return entry.after === null ? null : JSON.parse(entry.after)
  })

/** Flags these records as deleted, and polls. */
export const flagged = (rig: Rig, ids: ReadonlyArray<string>) => Effect.andThen(each(ids, rig.flag), rig.poll)

/** Makes records vanish, confirms their absence twice, and polls. The result brings the records back. */
export const vanished = Effect.fnUntraced(function*(rig: Rig, ids: ReadonlyArray<string>) {
  const rows = ids.map((id) => [id, rig.api.rows.get(id)!] as const)
  for (const id of ids) rig.api.vanish(id)
  yield* rig.sweep
  yield* rig.wait("11 minutes")
  yield* rig.confirm
  yield* rig.poll
  return () => {
    for (const [id, held] of rows) rig.api.rows.set(id, held)
  }
})
