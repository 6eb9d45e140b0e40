/**
 * Stored content as it is compared and published now: redacted by the current rules, even if it was stored under other rules.
 *
 * Gotchas
 * - The rules of rows that this transaction has written may not be in the stream's state yet. They are the current ones.
 */
import { canonicalHash, type JsonObject } from "../../domain/Canonical.ts"
import type { Processing } from "../../domain/Processing.ts"
import { type AppliedRules, appliedRules } from "../../domain/Redaction.ts"
import { type Head, type StoredContent, unhashed } from "../../store/Records.ts"
import type { StreamState } from "../../store/State.ts"
import { parseContent } from "./RecordWrite.ts"

type Rules = Pick<StreamState, "redactions">

const none = appliedRules(false, {})

/** The rules with this id. If the stream does not know them, no rule counts as applied, so that all current rules are. */
export const rulesOf = ({ redactions }: Rules, id: string | null): AppliedRules =>
  redactions.find((rules) => rules.id === id) ?? none

/** Notes in the state that content is stored under these rules from now on. */
export const withRedaction = <S extends Rules>(stream: S, applied: AppliedRules): S =>
  stream.redactions.some(({ id }) => id === applied.id)
    ? stream
    : { ...stream, redactions: [...stream.redactions, applied] }

const maxProcessings = 8

/**
 * Adds `processing` to those that the state lists, at most `maxProcessings`. With them, hashes and content that were made with an earlier
 * processing can still be compared (V1).
 */
export const withProcessing = (stream: StreamState, { applied, fingerprint, rules }: Processing): StreamState => {
  const state = withRedaction(stream, applied)
  const { processings = [] } = state
  if (processings.at(-1)?.fingerprint === fingerprint) return state
  const others = processings.filter((known) => known.fingerprint !== fingerprint)
  return { ...state, processings: [...others, { fingerprint, ...rules }].slice(-maxProcessings) }
}

/**
 * Returns the processing with this fingerprint if the state lists it, else the current one. Only the rules of an earlier processing are known;
 * its registry entry, its key and the rules of its source are taken from the current one. If one of these changed too, hashes are equal only
 * if the contents are.
 */
export const earlierProcessings = (processing: Processing, { processings = [] }: StreamState) => {
  const others = processings.filter(({ fingerprint }) => fingerprint !== processing.fingerprint)
  const earlier = new Map(others.map((known) => [known.fingerprint, processing.withRules(known)]))
  return (fingerprint: string): Processing => earlier.get(fingerprint) ?? processing
}

/** The canonical hash of a head. `stored`: the content of its row. `shape`: of the processing with which its hashes were made. */
export const hashOfHead = (
  { canonicalHash: hash }: Head,
  stored: StoredContent | null | undefined,
  { shape }: Processing
): string => {
  const content = hash === unhashed ? parseContent(stored?.content) : null
  return content === null ? hash : canonicalHash(shape, content)
}

export const currentContent = (
  processing: Processing,
  stream: Rules,
  stored: StoredContent | null | undefined
): JsonObject | null => {
  const content = parseContent(stored?.content)
  if (content === null || stored?.redaction === processing.applied.id) return content
  return processing.reapply(content, rulesOf(stream, stored?.redaction ?? null))
}
