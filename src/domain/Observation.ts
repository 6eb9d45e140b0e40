/**
 * One record as the API showed it once, ready to be compared with what was published.
 *
 * Gotchas
 * - Only the serialized text is made for every record; parsing and hashing of the content waits until the text differs.
 * - Redaction may take a field out of the content; what the observation itself needs is read from the raw record.
 * - Deleted is who says when, readable or not; an empty text or `false` says nothing, and deletes nobody (I7).
 * - A record our schema does not fit is still observed: our schema must never become their outage (S1).
 */
import { hash } from "node:crypto"
import { canonicalHash, isArray, isDeeper, isObject, type JsonObject, maxDepth } from "./Canonical.ts"
import type { Processing } from "./Processing.ts"
import { parseTime } from "./Watermark.ts"

/** A row with an id: enough to tell whether it is the one we know. */
export interface Row {
  readonly id: string
  readonly textHash: string
  readonly raw: JsonObject
}

export interface Observation {
  readonly id: string
  readonly remoteId: string | null
  readonly textHash: string
  readonly canonicalHash: string
  /** As it is stored and published. */
  readonly content: JsonObject
  readonly deleted: boolean
  /** Every field of content is null: the service's privacy erasure (D11, D23). */
  readonly blank: boolean
  readonly changedAt: string | null
  /** Milliseconds; null where the model has no such field or it cannot be read. */
  readonly changedAtMs: number | null
  readonly createdAtMs: number | null
  readonly deletedAtMs: number | null
}

/**
 * Escaped, JSON says what no store gives back: a null character is in no text of a PostgreSQL database, half a surrogate
 * pair in no UTF-8. An id that comes back as another is unknown at every reading.
 */
const isStorable = (text: string): boolean => !text.includes("\0") && text.isWellFormed()

/** What is kept of a value beside the content: a text as it is, of anything else nothing. */
export const storableText = (value: unknown): string | null =>
  typeof value === "string" && isStorable(value) ? value : null

/** Bytes: an index of PostgreSQL takes 2,700, and one holds two ids. A page of which it refuses a row is never committed. */
const maxIdBytes = 1_000

/** A row, or the reason why it must be set aside, with the text that stands for it: processed, without what is too deep. */
export const parseRow = (
  processing: Processing,
  value: unknown
): Row | { readonly unreadable: string; readonly text: string } => {
  if (!isObject(value)) {
    return { unreadable: "not an object", text: isDeeper(value, maxDepth) ? "[]" : JSON.stringify(value) ?? "null" }
  }
  const aside = (unreadable: string) => ({ unreadable, text: JSON.stringify(processing.apply(shallow(value))) })
  if (isDeeper(value, maxDepth)) return aside(`nested deeper than ${maxDepth} levels`)
  const { id } = value
  if (typeof id !== "string" || id === "") return aside("no string id")
  if (!isStorable(id)) return aside("an id with a null character or half a surrogate pair")
  if (Buffer.byteLength(id) > maxIdBytes) return aside(`an id of more than ${maxIdBytes} bytes`)
  return { id, textHash: hash("sha256", processing.fingerprint + JSON.stringify(value), "base64url"), raw: value }
}

const shallow = (record: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(record).filter(([, inner]) => !isDeeper(inner, maxDepth - 1)))

const identifying: ReadonlySet<string> = new Set([
  "id",
  "remote_id",
  "changed_at",
  "remote_deleted_at",
  "remote_created_at",
  "remote_updated_at",
  "remote_data"
])

/** Nothing is left of it but what it is and when. */
export const isBlank = (record: JsonObject): boolean =>
  Object.entries(record).every(([key, value]) =>
    identifying.has(key) || value === null || (isArray(value) && value.length === 0)
  )

export const observe = (processing: Processing, row: Row): Observation => {
  const { raw } = row
  const content = processing.apply(raw)
  return {
    id: row.id,
    remoteId: storableText(raw["remote_id"]),
    textHash: row.textHash,
    canonicalHash: canonicalHash(processing.shape, content),
    content,
    deleted: Boolean(raw["remote_deleted_at"]),
    blank: isBlank(raw),
    changedAt: storableText(raw["changed_at"]),
    changedAtMs: parseTime(raw["changed_at"]),
    createdAtMs: parseTime(raw["remote_created_at"]),
    deletedAtMs: parseTime(raw["remote_deleted_at"])
  }
}
