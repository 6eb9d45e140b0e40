/**
 * Redacts one stored row: of the log, pending or quarantined. The result is the row that would have been stored under the current
 * rules.
 *
 * Gotchas
 * - If a rule is removed, the values that it removed do not return.
 * - Event ids and the hashes of heads do not change. A head's hash is replaced when its record is read again. The redactor calculates a hash
 *   that a head lacks before it redacts the row.
 * - The changes of a row whose previous row is past retention are removed: no reader gets them.
 * - A transition at a redacted path is removed, because its name can reveal the value, as `hired` does.
 */
import { canonicalHash, isObject, type JsonObject } from "../../domain/Canonical.ts"
import { diff } from "../../domain/Diff.ts"
import { quarantineHash, storableText } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import {
  type AppliedRules,
  combine,
  concerns,
  missingRules,
  type RedactionRules,
  satisfies
} from "../../domain/Redaction.ts"
import { type Transition, transitionPath } from "../../domain/Transition.ts"
import type { LogContent, Pending, QuarantinedRow, RewrittenContent, StoredContent } from "../../store/Records.ts"
import type { StreamState } from "../../store/State.ts"
import { parseContent } from "../record/RecordWrite.ts"
import { rulesOf } from "../record/StoredContent.ts"

/** The rules that are missing in a row, and all rules that the row has afterwards; null if no rule is missing. */
const missingIn = ({ applied }: Processing, stream: StreamState, redaction: string | null) => {
  const before = rulesOf(stream, redaction)
  return satisfies(before, applied)
    ? null
    : { rules: missingRules(before, applied), all: combine(before, applied) }
}

const redacted = (
  processing: Processing,
  stream: StreamState,
  stored: StoredContent | null,
  rules: AppliedRules
): JsonObject | null => {
  const content = parseContent(stored?.content)
  return content && processing.reapply(content, rulesOf(stream, stored?.redaction ?? null), rules)
}

const remoteIdOf = (
  content: Readonly<Record<string, unknown>> | null,
  remoteId: string | null,
  rules: RedactionRules
) => concerns(rules, ["remote_id"]) ? storableText(content?.["remote_id"]) : remoteId

const transitionsOf = ({ entry }: Processing, text: string, rules: RedactionRules): string =>
  text === "[]" ? text : JSON.stringify(
    (JSON.parse(text) as ReadonlyArray<Transition>).filter(({ name }) => !concerns(rules, transitionPath(entry, name)))
  )

/** Null if the row stays as it is. */
export const redactLogRow = (
  processing: Processing,
  stream: StreamState,
  { after, before, changes, kind, position, redaction, remoteId, transitions }: LogContent
): RewrittenContent | null => {
  const missing = missingIn(processing, stream, redaction)
  if (missing === null) return null
  const content = redacted(processing, stream, after, missing.all)
  // by all rules of this row, because older rules may not have been applied to the previous row yet
  const previous = redacted(processing, stream, before, missing.all)
  const isKnown = content !== null && previous !== null
  return {
    position,
    redaction: missing.all.id,
    after: content && JSON.stringify(content),
    remoteId: remoteIdOf(content, remoteId, missing.rules),
    changes: kind !== "updated" ? changes : isKnown ? JSON.stringify(diff(processing.shape, previous, content)) : "[]",
    transitions: transitionsOf(processing, transitions, missing.rules)
  }
}

/** Null if the row stays as it is. The row's new hash is that of the redacted content: the next observation is compared with it. */
export const redactPending = (processing: Processing, stream: StreamState, row: Pending): Pending | null => {
  const missing = missingIn(processing, stream, row.redaction)
  if (missing === null || row.content === null) return null
  const stored = { content: row.content, redaction: row.redaction }
  const content = redacted(processing, stream, stored, missing.all) ?? {}
  return {
    ...row,
    content: JSON.stringify(content),
    canonicalHash: canonicalHash(processing.shape, content),
    remoteId: remoteIdOf(content, row.remoteId, missing.rules),
    redaction: missing.all.id
  }
}

/** Null if the row stays as it is. */
export const redactQuarantined = (
  processing: Processing,
  stream: StreamState,
  row: QuarantinedRow
): QuarantinedRow | null => {
  const missing = missingIn(processing, stream, row.redaction)
  if (missing === null) return null
  const value: unknown = JSON.parse(row.content)
  const content = JSON.stringify(isObject(value) ? processing.reapply(value, rulesOf(stream, row.redaction)) : [])
  return { ...row, content, hash: quarantineHash(processing, content), redaction: missing.all.id }
}
