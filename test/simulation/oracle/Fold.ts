/** The rule for the end of a world: the fold of the log equals the world, and what is still pending is stored as committed. */
import { contentOf } from "./Content.ts"
import { nameOf, type ObservedStream, type ReportViolation } from "./ObservedStream.ts"

/** The fold of the log equals the world (I8). */
export const checkFold = (
  stream: ObservedStream,
  pendingInStore: ReadonlySet<string>,
  report: ReportViolation
): void => {
  const { forgettings, table } = stream
  const { integration, model } = table
  // In a list that is empty, or has only forgotten records, no record can serve as a control: absent and disputed ones stay pending.
  const isUnanswerable = table.rows.every(({ history, id }) =>
    !history.at(-1)!.live || forgettings.hides({ integration, model, id })
  )
  for (const row of stream.table.byId.values()) {
    const truth = row.history.at(-1)!
    const published = stream.records.get(row.id)
    const pending = stream.pending.get(row.id)
    if ((pending !== undefined) !== pendingInStore.has(`${nameOf(stream.table)}/${row.id}`)) {
      report("I2", `the stored pending row of ${row.id} differs from the committed one`)
    }
    const isShown = truth.live && !forgettings.hides({ integration, model, id: row.id })
    const current = isShown ? contentOf(forgettings.shown(integration, truth.record)) : null
    const shown = published?.after == null ? null : contentOf(published.after)
    if (isUnanswerable && current === null && (pending?.status === "absent" || pending?.status === "disputed")) continue
    if (current === shown) {
      if (pending !== undefined) {
        report("I1", `${row.id} is published with its current content but still ${pending.status}`)
      }
      continue
    }
    // D23: a record without a value counts as gone, except if it had none when it was published first.
    if (published?.createdEmpty === true && shown === contentOf(forgettings.shown(integration, truth.record))) continue
    report(
      "I8",
      `${row.id} is ${current ?? "gone"}, published as ${shown ?? "gone"}, ${pending?.status ?? "not pending"}`
    )
  }
  if (stream.quarantined > stream.rowsWithoutId) report("I1", "readable rows were quarantined")
}
