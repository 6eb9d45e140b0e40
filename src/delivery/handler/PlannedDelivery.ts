/** Deliveries that are tried without being created in the store: by a dry run, or by the test kit. */
import * as Arr from "effect/Array"
import { type LogEntry, partitionKey } from "../../domain/ChangeEvent.ts"
import type { PublishedEvent } from "../../plugin/EventMatching.ts"
import type { Claimed } from "../../store/DeliveryClaims.ts"
import type { Job } from "./Job.ts"
import type { Subscription } from "./Subscription.ts"

/** An event that the handler accepts. */
export interface MatchedEvent {
  readonly entry: LogEntry
  readonly event: PublishedEvent
}

/** One event, the events of a batch, or a tick, in one integration. */
export interface PlannedDelivery {
  readonly integration: string
  /** Empty for a tick. */
  readonly events: ReadonlyArray<PublishedEvent>
  /** The batch in which its events were last delivered; null if they were in no batch. */
  readonly batch: string | null
  /**
   * For a tick, its span: the positions after `from`, up to and including `to`. Otherwise the positions of the first and the last event.
   */
  readonly from: number
  readonly to: number
}

/**
 * Splits events into batches of at most `size`, with at most one event of each record in a batch. The events of a record are in later and
 * later batches.
 */
const splitIntoBatches = (found: ReadonlyArray<MatchedEvent>, size: number) => {
  const batches: Array<Arr.NonEmptyArray<MatchedEvent>> = []
  /** All batches before this one are full. */
  let firstOpen = 0
  /** The batch after the last one that has an event of the record. */
  const nextOf = new Map<string, number>()
  for (const one of found) {
    const record = partitionKey(one.entry)
    let index = Math.max(firstOpen, nextOf.get(record) ?? 0)
    while ((batches[index]?.length ?? 0) >= size) index++
    const batch = batches[index]
    if (batch === undefined) batches.push([one])
    else batch.push(one)
    nextOf.set(record, index + 1)
    while ((batches[firstOpen]?.length ?? 0) >= size) firstOpen++
  }
  return batches
}

/** The deliveries that the engine would make of these events. `batches`: the batch in which an event was last delivered, by position. */
export const plannedDeliveriesOf = (
  { handler: { activation } }: Subscription,
  found: ReadonlyArray<MatchedEvent>,
  batches: ReadonlyMap<number, string>
): ReadonlyArray<PlannedDelivery> => {
  const batchOf = ({ entry }: MatchedEvent) => batches.get(entry.position) ?? null
  return [...Map.groupBy(found, (one) => JSON.stringify([one.entry.integration, batchOf(one)])).values()]
    .flatMap((own) =>
      splitIntoBatches(own, activation._tag === "Batch" ? activation.size : 1).map((some): PlannedDelivery => ({
        integration: some[0].entry.integration,
        events: some.map(({ event }) => event),
        batch: batchOf(some[0]),
        from: some[0].entry.position,
        to: Arr.lastNonEmpty(some).entry.position
      }))
    )
}

/** The job of a delivery, as if it had been claimed at `now`. */
export const jobOf = (
  { key }: Subscription,
  { batch, events, from, integration, to }: PlannedDelivery,
  now: number,
  details: Partial<Pick<Claimed, "id" | "claim" | "fresh">> = {}
): Job => ({
  members: [{
    id: 0,
    claim: 0,
    crashes: 0,
    handler: key,
    integration,
    orderingKey: "",
    subject: events.length === 0
      ? { _tag: "Tick", scheduledAt: now, from, to }
      : { _tag: "Event", position: from },
    createdAt: now,
    attempts: 0,
    batch,
    fresh: null,
    ...details
  }],
  events
})
