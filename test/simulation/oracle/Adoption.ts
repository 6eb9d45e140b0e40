/** The rule for an adoption of the store: exactly the live records are published again, with the same content (X11). */
import type { LogEntry } from "../../../src/domain/ChangeEvent.ts"
import type { JsonObject } from "../world/Table.ts"
import { type Candidates, model as candidateModel } from "./Candidates.ts"
import { contentOf } from "./Content.ts"
import type { Forgettings } from "./Forgettings.ts"
import { nameOf, type ObservedStream, type ReportViolation } from "./ObservedStream.ts"

/** `log`: the whole log after the adoption. `candidates`: by integration. Updates what is published. */
export const checkAdoption = (
  log: ReadonlyArray<LogEntry>,
  streams: Iterable<ObservedStream>,
  candidates: ReadonlyMap<string, Candidates>,
  forgettings: Forgettings,
  report: ReportViolation
): void => {
  const unmatched = new Map(log.map((entry) => [`${entry.integration}/${entry.model}/${entry.id}`, entry]))
  if (unmatched.size !== log.length) report("X11", "an adoption published a record twice")
  const checkAdopted = (key: string, expected: JsonObject | null, text: string | null) => {
    const entry = unmatched.get(key)
    unmatched.delete(key)
    if (
      expected === null
        ? entry === undefined
        : entry?.version === 1 && entry.origin === "backfill" && (entry.after === text ||
          (entry.after !== null && contentOf(JSON.parse(entry.after)) === contentOf(expected)))
    ) return
    report("X11", `${key} has other content or another version after the adoption than before`)
  }
  for (const { records, table } of streams) {
    const { integration, model } = table
    for (const [id, known] of records) {
      // the removal of a forgotten record may be incomplete
      const isHidden = known.after === null || forgettings.hides({ integration, model, id })
      const after = isHidden ? null : forgettings.shown(integration, known.after!)
      const afterText = after === known.after ? known.afterText : JSON.stringify(after)
      checkAdopted(`${nameOf(table)}/${id}`, after, after === known.after ? known.afterText : null)
      records.set(id, { ...known, after, afterText, version: after === null ? 0 : 1 })
    }
  }
  for (const [integration, own] of candidates) {
    own.adopted((id) => forgettings.hides({ integration, model: candidateModel, id }))
    for (const [id, { after, afterText }] of own.published) {
      checkAdopted(`${integration}/${candidateModel}/${id}`, after, afterText)
    }
  }
  for (const key of unmatched.keys()) report("X11", `${key} was adopted but never published before`)
}
