/** What may be told of one record: kinds, versions, states of the world in their order, age and transitions (I3 to I5, I7, I8). */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { JsonObject, Row } from "../world/World.ts"
import { contentOf } from "./Content.ts"
import {
  isUndetectablyOld,
  type ObservedStream,
  type PublishedRecord,
  type ReportViolation,
  statesOf,
  unpublished
} from "./ObservedStream.ts"
import { expectedTransitions } from "./Transitions.ts"

const day = 86_400_000
/** When the backfill began is found out from two clocks and one `Date`, which may be wrong by half a minute unnoticed. */
const clockTolerance = 60_000

/** Takes an event for what is published from now on. */
export const checkEvent = (stream: ObservedStream, event: NewEvent, now: number, reportAll: ReportViolation): void => {
  const report: ReportViolation = (invariant, what) =>
    reportAll(
      invariant,
      `${event.kind} ${event.version}${event.reason === null ? "" : ` (${event.reason})`} of ${event.id}: ${what}`
    )
  const row = stream.table.byId.get(event.id)
  if (row === undefined) return report("I7", "the world never had it")
  const known = stream.records.get(event.id) ?? unpublished
  checkSequence(event, known, report)
  const after: JsonObject | null = event.after === null ? null : JSON.parse(event.after)
  const state = after === null
    ? deletedState(stream, row, known, event, now, report)
    : liveState(stream, row, known, after, report)
  const isGone = state !== undefined && !row.history[state]!.live
  if (event.kind === "updated" && isGone) report("I3", "an update to nothing")
  checkAgeAndTransitions(stream, event, known, after, report)
  stream.records.set(event.id, {
    version: event.version,
    after,
    afterText: event.after,
    state: state ?? known.state,
    createdEmpty: event.kind === "created" ? isGone : known.createdEmpty
  })
}

/** I3 and I4, of whatever is told: kinds in turn, versions without gaps, and an update changes something. */
export const checkSequence = (
  event: NewEvent,
  known: Pick<PublishedRecord, "version" | "after">,
  report: ReportViolation
): void => {
  if (event.version !== known.version + 1) report("I4", `follows version ${known.version}`)
  if ((event.kind === "created") !== (known.after === null)) report("I3", "out of turn")
  if ((event.kind === "deleted") !== (event.after === null)) report("I3", "wrong `after`")
  if (event.kind !== "updated" || known.after === null || event.after === null) return
  if (contentOf(known.after) === contentOf(JSON.parse(event.after))) report("I3", "nothing changed")
}

/** The state in which a record may be called deleted: one that was handed out, or one that nobody can hand out (I7). */
const deletedState = (
  stream: ObservedStream,
  row: Row,
  known: PublishedRecord,
  event: NewEvent,
  now: number,
  report: ReportViolation
): number | undefined => {
  // `unseen`: created and deleted before anybody looked; both are told at once
  if (event.reason === "flagged" || event.reason === "unseen" || event.reason === "erased") {
    const shown = stream.newestDeletedState.get(event.id) ?? -1
    if (shown < 0) report("I7", "never shown as deleted")
    else if (shown < known.state && !isUndetectablyOld(stream, row, shown, known.state)) {
      report("I5", "deleted before that")
    }
    return Math.max(shown, known.state)
  }
  const seen = stream.newestLiveState.get(event.id)
  const since = row.history.findIndex(({ at, live }, index) => index > (seen?.state ?? -1) && !live && at <= now)
  if (since < 0) return void report("I7", "alive ever since it was last seen")
  return Math.max(since, known.state)
}

/** The state that a published content was: none the record never had, and none out of order. */
const liveState = (
  stream: ObservedStream,
  row: Row,
  known: PublishedRecord,
  after: JsonObject,
  report: ReportViolation
): number | undefined => {
  const states = statesOf(stream, row, known.after, after)
  // an old copy that nothing tells from a newer state, also where the record comes to look like it again
  const copied = states.findLast((state) => row.history[state]!.record["changed_at"] === after["changed_at"])
  if (copied !== undefined && copied < known.state && isUndetectablyOld(stream, row, copied, known.state)) return copied
  const next = states.find((state) => state >= known.state)
  if (next !== undefined) return next
  const back = states.at(-1)
  if (back === undefined) return void report("I8", `was never so: ${contentOf(after)}`)
  const disguised = states.findLast((state) => isUndetectablyOld(stream, row, state, known.state))
  if (disguised === undefined) report("I5", "an older state after a newer one")
  return disguised ?? back
}

/** Age, origin and transitions (B1–B4, T1, T2). */
const checkAgeAndTransitions = (
  { since, table }: ObservedStream,
  event: NewEvent,
  known: PublishedRecord,
  after: JsonObject | null,
  report: ReportViolation
): void => {
  const transitions = JSON.parse(event.transitions).map(({ name }: { name: string }) => name)
  if (event.kind === "created" && !event.restored && after !== null) {
    const started = since ?? 0
    const born = typeof after["remote_created_at"] === "string" ? Date.parse(after["remote_created_at"]) : null
    if (born !== null && born < started - day && event.origin !== "backfill") report("B1", "old, told as new")
    if (born !== null && born > started + clockTolerance && event.origin === "backfill") {
      report("B2", "new, told as old")
    }
    if (event.origin === "backfill" && transitions.length > 0) report("B1", `old, and ${transitions.join()}`)
    if (event.origin === "backfill" || event.reason === "unseen") return
  }
  if (after === null || event.restored) return
  const expected = expectedTransitions(table.model, known.after, after)
  if (expected.join() === transitions.join()) return
  report("T1", `transitions ${transitions.join()} instead of ${expected.join()}`)
}
