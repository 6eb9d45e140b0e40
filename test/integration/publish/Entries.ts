/**
 * Handmade log entries, for tests of publishing.
 */
import { chainOf, genesis, type Kind, type LogEntry } from "../../../src/domain/ChangeEvent.ts"
import type { Model } from "../../../src/domain/Model.ts"

export interface Hand {
  readonly position: number
  readonly id?: string
  readonly version?: number
  readonly kind?: Kind
  readonly model?: Model
  readonly integration?: string
  readonly after?: string | null
  readonly before?: string | null
  readonly detectedAt?: number
  readonly eventId?: string
  readonly traceparent?: string
}

const chains = [genesis]
/** The chain at a position of a log with the event ids that `entry` assigns. */
const chainAt = (position: number): string => {
  for (let next = chains.length; next <= position; next++) chains.push(chainOf(chains[next - 1]!, `event-${next}`))
  return chains[position]!
}

/** Missing fields are derived from the position; record ids repeat every ten positions. */
export const entry = (hand: Hand): LogEntry => {
  const version = hand.version ?? Math.ceil(hand.position / 10)
  const kind = hand.kind ?? (version === 1 ? "created" : "updated")
  const id = hand.id ?? `r${(hand.position - 1) % 10}`
  const content = (version: number) => JSON.stringify({ id, version, name: "Ada Łovelace" })
  return {
    position: hand.position,
    chain: chainAt(hand.position),
    integration: hand.integration ?? "greenhouse:acme",
    model: hand.model ?? "ats.tag",
    id,
    remoteId: null,
    generation: 1,
    version,
    kind,
    origin: "poll",
    traceparent: hand.traceparent ?? null,
    before: hand.before !== undefined ? hand.before : kind === "created" ? null : content(version - 1),
    after: hand.after !== undefined ? hand.after : kind === "deleted" ? null : content(version),
    changes: kind === "updated" ? JSON.stringify([{ path: "/version", before: version - 1, after: version }]) : "[]",
    transitions: "[]",
    reason: kind === "deleted" ? "flagged" : null,
    restored: false,
    changedAt: "2025-11-21T10:00:00.000Z",
    detectedAt: hand.detectedAt ?? Date.parse("2025-11-21T10:00:01.000Z"),
    cause: null,
    eventId: hand.eventId ?? `event-${hand.position}`
  }
}

/** The entries at positions `first` to `last`. */
export const entries = (first: number, last: number, hand: Omit<Hand, "position"> = {}): ReadonlyArray<LogEntry> =>
  Array.from({ length: last - first + 1 }, (_, index) => entry({ ...hand, position: first + index }))
