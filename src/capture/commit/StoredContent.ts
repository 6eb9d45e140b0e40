/**
 * Stored content as it is compared and published now: redacted by the current rules, even if it was stored under other rules.
 *
 * Gotchas
 * - The rules of rows that this transaction has written may not be in the stream's state yet. They are the current ones.
 */
import type { JsonObject } from "../../domain/Canonical.ts"
import type { Processing } from "../../domain/Processing.ts"
import { type AppliedRules, unknownRules } from "../../domain/Redaction.ts"
import type { StreamState } from "../../store/State.ts"
import type { StoredContent } from "../../store/StreamRecords.ts"
import { parseContent } from "./RecordWrite.ts"

type Rules = Pick<StreamState, "redactions" | "processings">

/** The assumption for content that an earlier version stored: only values that look redacted are redacted. */
const unknownOf = ({ processings = [] }: Rules): AppliedRules => ({
  id: unknownRules,
  dropsRemoteData: processings.every(({ remoteData }) => remoteData === "drop"),
  redact: {}
})

/** All rules that were applied to stored content of the stream. */
export const redactionsOf = (stream: Rules): ReadonlyArray<AppliedRules> => stream.redactions ?? [unknownOf(stream)]

/** The rules with this id; null if not known. */
export const rulesOf = (stream: Rules, id: string | null): AppliedRules =>
  redactionsOf(stream).find((rules) => rules.id === (id ?? unknownRules)) ?? unknownOf(stream)

/** Notes in the state that content is stored under these rules from now on. */
export const withRedaction = <S extends Rules>(stream: S, applied: AppliedRules): S => {
  const known = redactionsOf(stream)
  return known.some(({ id }) => id === applied.id) && stream.redactions !== undefined
    ? stream
    : { ...stream, redactions: [...known.filter(({ id }) => id !== applied.id), applied] }
}

export const currentContent = (
  processing: Processing,
  stream: Rules,
  stored: StoredContent | null | undefined
): JsonObject | null => {
  const content = parseContent(stored?.content)
  const redaction = stored?.redaction ?? unknownRules
  if (content === null || redaction === processing.applied.id) return content
  return processing.reapply(content, rulesOf(stream, redaction))
}
