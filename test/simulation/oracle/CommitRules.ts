/** The rules for one commit that need no more than the commit and its stream: guard, absences, holds and blocked streams. */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { Pending } from "../../../src/store/Records.ts"
import type { FaultKind } from "../plan/Plan.ts"
import type { CommittedTransaction } from "../service/CommittedTransaction.ts"
import type { ObservedStream, ReportViolation } from "./ObservedStream.ts"
import type { PublishedChange } from "./Waves.ts"

export const isConcluded = ({ after, before }: CommittedTransaction): boolean =>
  after.lastPoll?.id !== before.lastPoll?.id || after.lastSweep?.id !== before.lastSweep?.id

/** Deletes and restores wait for the end of their run, where the guard can judge them together (D4, D19, I7). */
export const checkUnfinishedRun = (events: ReadonlyArray<NewEvent>, report: ReportViolation): void => {
  for (const { id, kind, reason, restored } of events) {
    // Both kinds at once are one fact about a record that was never published (D8).
    if (reason === "unseen") continue
    if (kind === "deleted" || restored) report("I7", `${kind} of ${id} before its run was complete`)
  }
}

/** Waves wait for an operator's approval (C2, C3, D6). */
export const checkWaves = (
  stream: ObservedStream,
  changes: ReadonlyArray<PublishedChange>,
  report: ReportViolation
): void => {
  const live = [...stream.records.values()].filter(({ after }) => after !== null).length
  const absent = [...stream.pending.values()].filter(({ confirmations, status }) =>
    status === "absent" && confirmations > 0
  )
  for (const what of stream.waves.findUnheld(changes, live, absent.length)) report("D6", what)
}

/**
 * An absence is an inference even before it is published: it must not concern a record that existed all the time (I7). An older copy
 * of the store can contain an absence that ended since; only a further confirmation counts against it.
 */
export const checkAbsence = (stream: ObservedStream, pending: Pending, report: ReportViolation): void => {
  if (pending.status !== "absent" || pending.confirmations <= (stream.pending.get(pending.id)?.confirmations ?? 0)) {
    return
  }
  const row = stream.table.byId.get(pending.id)
  const seen = stream.newestLiveState.get(pending.id)
  if (row === undefined || seen === undefined) return
  if (row.history.slice(seen.state).every(({ live }) => live)) {
    report("I7", `${pending.id} counts as absent but existed all the time`)
  }
}

/** Only changes that an operator approved are released with a hold (D17). */
export const checkReleased = (
  stream: ObservedStream,
  events: ReadonlyArray<NewEvent>,
  holds: ReadonlyArray<number>,
  approved: ReadonlySet<number>,
  report: ReportViolation
): void => {
  for (const hold of holds) if (!approved.has(hold)) report("D17", `hold ${hold} was released without approval`)
  for (const { id, kind } of events) {
    const hold = stream.pending.get(id)?.hold ?? null
    if (hold === null || !holds.includes(hold)) {
      report("D17", `${kind} of ${id} was published with a hold that does not contain it`)
    }
  }
}

/** The fault with which the API itself gives each reason of a blocked stream. */
const apiReasons: Readonly<Record<string, FaultKind>> = {
  key: "unauthorized",
  permission: "permission",
  unsupported: "unsupported",
  inactive: "inactive",
  not_ready: "notReady"
}

/** Only the API itself blocks a stream: nothing else knows whether the key, the permission and the model are right. */
export const checkBlocked = (
  { faults }: ObservedStream,
  { blocked }: CommittedTransaction["after"],
  report: ReportViolation
): void => {
  const reason = blocked === null ? undefined : apiReasons[blocked.reason]
  if (reason !== undefined && !faults.has(reason)) {
    report("C1", `the stream is blocked (${blocked?.reason}), which the API itself never said`)
  }
}
