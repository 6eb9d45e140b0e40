/** The rules for transactions that remove a forgotten record, or see one (I11). */
import type { CommittedTransaction } from "../service/CommittedTransaction.ts"
import { candidateIn, type Candidates, model as candidateModel } from "./Candidates.ts"
import { contentOf } from "./Content.ts"
import { checkEvent, checkSequence } from "./EventRules.ts"
import { isIn, withoutForgotten } from "./Forgettings.ts"
import { type ObservedStream, type PublishedRecord, type ReportViolation, unpublished } from "./ObservedStream.ts"
import type { Publishing } from "./Publishing.ts"

/** A transaction that sees a record as forgotten publishes only its delete, and stages no change of the record. */
export const checkHidden = (
  stream: ObservedStream,
  { forgotten, log, pending }: CommittedTransaction,
  report: ReportViolation
): void => {
  const { integration, model: own } = stream.table
  // a change that waited when the command was given is still held or released; the removal comes later
  const mayWait = (model: string, id: string) =>
    stream.forgettings.stateOf({ integration, model, id }) === "erasing" &&
    (model === candidateModel || stream.pending.has(id))
  for (const { event, model } of log) {
    const { after, id, kind } = event
    const waited = mayWait(model, id)
    if (isIn(forgotten, model, id) && kind !== "deleted" && !waited) {
      report("I11", `${kind} ${event.version} of ${id}, which is forgotten`)
    }
    if (event.reason === "forgotten" && (after !== null || event.changes !== "[]")) {
      report("I11", `the delete of ${id} has content, although it is forgotten`)
    }
  }
  for (const [id, row] of pending) {
    if (row !== null && row.content !== null && isIn(forgotten, own, id) && !mayWait(own, id)) {
      report("I11", `${id} is ${row.status}, although it is forgotten`)
    }
  }
}

/** A forgotten record is deleted. A record that repeats it is deleted, and created again without it. */
export const checkRemoval = (
  stream: ObservedStream,
  candidates: Candidates,
  publishing: Publishing,
  { forgotten, key, log, pending }: CommittedTransaction,
  now: number,
  report: ReportViolation
): void => {
  const { records, table: { integration } } = stream
  /** The records that were deleted and must be created again, with their content. */
  const again = new Map<string, PublishedRecord>()
  const erased = new Set<string>()
  for (const { event, model } of log) {
    publishing.appended(event, integration, model, report)
    const isOwn = isIn(forgotten, model, event.id)
    if (model === candidateModel) {
      candidates.checkEvent(stream, event, erased, report)
      continue
    }
    if (model === "ats.application") candidates.applicationPublished(event)
    const known = records.get(event.id) ?? unpublished
    const deleted = again.get(event.id)
    if (deleted === undefined) {
      if (event.reason !== "forgotten") report("I11", `${event.kind} of ${event.id} in the removal of another record`)
      checkEvent(stream, event, now, report)
      if (!isOwn) again.set(event.id, known)
      else if (candidateIn(known.after) !== null) erased.add(candidateIn(known.after)!.id)
      continue
    }
    again.delete(event.id)
    checkSequence(event, known, report)
    const after = event.after === null ? null : JSON.parse(event.after)
    const expected = deleted.after === null ? null : withoutForgotten(forgotten, deleted.after)
    if (after === null || expected === null || contentOf(after) !== contentOf(expected)) {
      report("I8", `${event.id} was created again with other content than it had`)
    }
    if (event.origin !== "backfill" || !event.restored) report("I11", `${event.id} was created again as new`)
    records.set(event.id, { ...deleted, version: event.version, after, afterText: event.after })
  }
  for (const id of again.keys()) report("I1", `${id} is deleted as forgotten, but only repeats a forgotten record`)
  if (key.model === candidateModel) return
  for (const [id, row] of pending) {
    if (row === null) stream.pending.delete(id)
    else stream.pending.set(id, row)
  }
}
