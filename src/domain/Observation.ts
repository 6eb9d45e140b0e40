/**
 * One record as an API response showed it, ready to be compared with its published content.
 *
 * Gotchas
 * - The bytes are hashed for every row. The row is parsed, and its content processed, only if that hash differs from the stored hash.
 *   Different bytes may be the same content with different white space or property order.
 * - Redaction may remove a field from the content, so the id and the timestamps are read from the raw record. The remote id, which is only
 *   published, is read from the content.
 * - A record is deleted if `remote_deleted_at` has a value, even one that is not a readable time. An empty text or `false` is treated as
 *   no value (I7).
 * - A record that does not match our schema is still observed: a mistake in our schema must not stop a stream (S1).
 */
import { hash } from "node:crypto"
import { canonicalHash, isArray, isDeeper, isObject, type JsonObject, maxDepth } from "./Canonical.ts"
import { nothingRemoved, type Removal } from "./Forgotten.ts"
import type { Processing } from "./Processing.ts"
import type { RawRow } from "./RawRow.ts"
import { parseTime } from "./Watermark.ts"

/** A row with an id and the hash that shows whether its text changed. */
export interface Row {
  readonly id: string
  readonly textHash: string
  /** The record, without copies of forgotten records. It is parsed at its first use. */
  readonly raw: JsonObject
}

class ListedRow implements Row {
  readonly id: string
  readonly textHash: string
  readonly #source: RawRow
  readonly #removal: Removal
  #raw: JsonObject | null = null

  constructor(id: string, textHash: string, source: RawRow, removal: Removal) {
    this.id = id
    this.textHash = textHash
    this.#source = source
    this.#removal = removal
  }

  get raw(): JsonObject {
    return this.#raw ??= this.#removal.withoutCopies(this.#source.value as JsonObject)
  }
}

export interface Observation {
  readonly id: string
  readonly remoteId: string | null
  readonly textHash: string
  /** Hash of the content's canonical form, computed at the first call: a record that is read for the first time needs none. */
  readonly canonicalHash: () => string
  /** Processed content, as it is stored and published. */
  readonly content: JsonObject
  readonly deleted: boolean
  /** The record has no content left (`isBlank`): the API erased its personal data (D11, D23). */
  readonly blank: boolean
  readonly changedAt: string | null
  /** Milliseconds; null if the field is missing or not a time. */
  readonly changedAtMs: number | null
  readonly createdAtMs: number | null
  readonly deletedAtMs: number | null
}

/**
 * JSON escapes can express texts that a store cannot return unchanged: PostgreSQL rejects null characters, and UTF-8 cannot
 * encode half a surrogate pair. A record whose stored id differs from its id in the API would look new in every run.
 */
export const isStorable = (text: string): boolean => !text.includes("\0") && text.isWellFormed()

/** The value if it is a text that a store can keep, else null. */
export const storableText = (value: unknown): string | null =>
  typeof value === "string" && isStorable(value) ? value : null

/** An index entry of PostgreSQL has at most 2,700 bytes, and one index has two ids per entry. A longer id would block its page forever. */
const maxIdBytes = 1_000

/** A row that must be quarantined. */
export interface UnreadableRow {
  readonly unreadable: string
  /**
   * The processed record without properties that are nested too deeply. A row that is not an object is replaced by `[]` if any path of
   * the model is redacted, or if the row is nested too deeply.
   */
  readonly text: string
}

/** Why a record with this id cannot be stored; null if it can. */
const problemOf = (id: unknown): string | null => {
  if (typeof id !== "string" || id === "") return "no string id"
  if (!isStorable(id)) return "an id with a null character or half a surrogate pair"
  return Buffer.byteLength(id) > maxIdBytes ? `an id of more than ${maxIdBytes} bytes` : null
}

/** The id if a store can keep records under it, else null. */
export const storableId = (id: unknown): string | null => typeof id === "string" && problemOf(id) === null ? id : null

export const parseRow = (processing: Processing, row: RawRow, removal = nothingRemoved): Row | UnreadableRow => {
  const isTooDeep = row.depth > maxDepth && isDeeper(row.value, maxDepth)
  const { id } = row
  const problem = isTooDeep ? `nested deeper than ${maxDepth} levels` : problemOf(id)
  if (problem === null) return new ListedRow(id as string, processing.textHash(row.bytes, removal.id), row, removal)
  const { value } = row
  if (isObject(value)) {
    const record = removal.withoutCopies(shallow(value))
    return { unreadable: problem, text: JSON.stringify(processing.apply(record)) }
  }
  const redacts = Object.keys(processing.applied.redact).length > 0
  return { unreadable: "not an object", text: JSON.stringify(redacts || isTooDeep ? [] : value) }
}

/**
 * A record that is embedded in another record; null if the value is not a record that can be stored. It has no text hash, because its
 * bytes are not compared.
 */
export const embeddedRow = (value: unknown): Row | null => {
  const id = isObject(value) ? value["id"] : undefined
  return isObject(value) && typeof id === "string" && problemOf(id) === null ? { id, textHash: "", raw: value } : null
}

/** Identifies a quarantined row by its text. Volatile properties are left out, so a row in which only they change is still the same row. */
export const quarantineHash = ({ shape }: Processing, text: string): string => {
  const value: unknown = JSON.parse(text)
  return isObject(value) ? canonicalHash(shape, value) : hash("sha256", text, "base64url")
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

/** True if every field is null or an empty list. Ids, times and `remote_data` do not count. */
export const isBlank = (record: JsonObject): boolean =>
  Object.keys(record).every((key) => {
    const value = record[key]
    return identifying.has(key) || value === null || (isArray(value) && value.length === 0)
  })

export const observe = (processing: Processing, row: Row): Observation => {
  const { raw } = row
  const content = processing.apply(raw)
  let known: string | null = null
  return {
    id: row.id,
    remoteId: storableText(content["remote_id"]),
    textHash: row.textHash,
    canonicalHash: () => known ??= canonicalHash(processing.shape, content),
    content,
    deleted: Boolean(raw["remote_deleted_at"]),
    blank: isBlank(raw),
    changedAt: storableText(raw["changed_at"]),
    changedAtMs: parseTime(raw["changed_at"]),
    createdAtMs: parseTime(raw["remote_created_at"]),
    deletedAtMs: parseTime(raw["remote_deleted_at"])
  }
}
