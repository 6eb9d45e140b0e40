/** Rules for the events of one record: kinds, versions, states of the world in order, age and transitions (I3 to I5, I7, I8). */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { JsonObject, Row } from "../world/Table.ts"
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
/** The start of the backfill is estimated from two clocks and one `Date`, which may be wrong by half a minute without detection. */
const clockTolerance = 60_000
/** A time that is at most this far in the future counts as past, because `Date` may come from a cache. */
const soonMillis = 660_000

/** Checks an event and records its content as published. */
export const checkEvent = (stream: ObservedStream, event: NewEvent, now: number, reportAll: ReportViolation): void => {
  const report: ReportViolation = (invariant, what) =>
    reportAll(
      invariant,
      `${event.kind} ${event.version}${event.reason === null ? "" : ` (${event.reason})`} of ${event.id}: ${what}`
    )
  const row = stream.table.byId.get(event.id)
  if (row === undefined) return report("I7", "the record never existed")
  const previous = stream.records.get(event.id) ?? unpublished
  checkSequence(event, previous, report)
  const after: JsonObject | null = event.after === null ? null : JSON.parse(event.after)
  const state = after === null
    ? deletedState(stream, row, previous, event, now, report)
    : liveState(stream, row, previous, after, report)
  const isGone = state !== undefined && !row.history[state]!.live
  if (event.kind === "updated" && isGone) report("I3", "an update to an empty or deleted record")
  checkAgeAndTransitions(stream, event, previous, after, now, report)
  stream.records.set(event.id, {
    version: event.version,
    after,
    afterText: event.after,
    state: state ?? previous.state,
    createdEmpty: event.kind === "created" ? isGone : previous.createdEmpty
  })
}

/** I3 and I4, for every event: the order of kinds, versions without gaps, and an update changes something. */
export const checkSequence = (
  event: NewEvent,
  previous: Pick<PublishedRecord, "version" | "after">,
  report: ReportViolation
): void => {
  if (event.version !== previous.version + 1) report("I4", `follows version ${previous.version}`)
  if ((event.kind === "created") !== (previous.after === null)) {
    report("I3", "the kind does not follow the previous event")
  }
  if ((event.kind === "deleted") !== (event.after === null)) report("I3", "wrong `after`")
  if (event.kind !== "updated" || previous.after === null || event.after === null) return
  if (contentOf(previous.after) === contentOf(JSON.parse(event.after))) report("I3", "nothing changed")
}

/** The state in which a record may be published as deleted: a served one, or one that can no longer be served (I7). */
const deletedState = (
  stream: ObservedStream,
  row: Row,
  previous: PublishedRecord,
  event: NewEvent,
  now: number,
  report: ReportViolation
): number | undefined => {
  // `unseen`: created and deleted between two runs; both are published at once
  if (event.reason === "forgotten") return previous.state
  if (event.reason === "flagged" || event.reason === "unseen" || event.reason === "erased") {
    const shown = stream.newestDeletedState.get(event.id) ?? -1
    if (shown < 0) report("I7", "never shown as deleted")
    else if (
      shown < previous.state &&
      !row.history.some(({ live }, state) => !live && isUndetectablyOld(stream, row, state, previous.state))
    ) {
      report("I5", "an older deleted state after a newer state")
    }
    return Math.max(shown, previous.state)
  }
  const seen = stream.newestLiveState.get(event.id)
  const since = row.history.findIndex(({ at, live }, index) => index > (seen?.state ?? -1) && !live && at <= now)
  if (since < 0) return void report("I7", "the record was live ever since it was last seen")
  return Math.max(since, previous.state)
}

/** The state that a published content was: one that the record really had, and in order. */
const liveState = (
  stream: ObservedStream,
  row: Row,
  previous: PublishedRecord,
  after: JsonObject,
  report: ReportViolation
): number | undefined => {
  const states = statesOf(stream, row, previous.after, after)
  // an old copy that no timestamp distinguishes from a newer state, even if the record looks like it again later
  const copied = states.findLast((state) => row.history[state]!.record["changed_at"] === after["changed_at"])
  if (copied !== undefined && copied < previous.state && isUndetectablyOld(stream, row, copied, previous.state)) {
    return copied
  }
  const following = states.filter((state) => state >= previous.state)
  // a record that was absent and came back may have the same content in both states
  const next = following.find((state) => row.history[state]!.live) ?? following[0]
  if (next !== undefined) return next
  const older = states.at(-1)
  if (older === undefined) return void report("I8", `the record never had this content: ${contentOf(after)}`)
  const undetectable = states.findLast((state) => isUndetectablyOld(stream, row, state, previous.state))
  if (undetectable === undefined) report("I5", "an older state after a newer one")
  return undetectable ?? older
}

/** Age, origin and transitions (B1–B4, T1, T2). A time that has not come yet says nothing about the age of a record. */
const checkAgeAndTransitions = (
  { backfilledAt, since, table }: ObservedStream,
  event: NewEvent,
  previous: PublishedRecord,
  after: JsonObject | null,
  now: number,
  report: ReportViolation
): void => {
  const transitions = JSON.parse(event.transitions).map(({ name }: { name: string }) => name)
  if (event.kind === "created" && !event.restored && after !== null) {
    const started = since ?? 0
    const bornBy = (latest: number): number | null => {
      const times = [after["remote_created_at"], after["changed_at"]].map((text) =>
        typeof text === "string" ? Date.parse(text) : Infinity
      )
      return times.find((time) => time <= latest) ?? null
    }
    const born = bornBy(now)
    // the service cannot tell a time that comes within minutes from a past one
    const soon = bornBy(now + soonMillis)
    if (soon === null && backfilledAt === null && event.origin !== "backfill") {
      report("B1", "a record without a past time, which the backfill found, was published as new")
    }
    if (soon !== null && soon < started - day && event.origin !== "backfill") {
      report("B1", "an old record was published as new")
    }
    if (born !== null && born > started + clockTolerance && event.origin === "backfill") {
      report("B2", "a new record was published as old")
    }
    if (event.origin === "backfill" && transitions.length > 0) {
      report("B1", `an old record has the transitions ${transitions.join()}`)
    }
    if (event.origin === "backfill" || event.reason === "unseen") return
  }
  if (after === null || event.restored) return
  const expected = expectedTransitions(table.model, previous.after, after)
  if (expected.join() === transitions.join()) return
  report("T1", `transitions ${transitions.join()} instead of ${expected.join()}`)
}
