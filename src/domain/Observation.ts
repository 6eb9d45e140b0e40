/**
 * One record as the API showed it once, ready to be compared with what was published.
 *
 * Gotchas
 * - Only the serialized text is made for every record; parsing and hashing of the content waits until the text differs.
 * - A record our schema does not fit is still observed: our schema must never become their outage (S1).
 */
import type { IncrementalModel } from "../api/Lists.ts"
import { canonicalHash, isArray, isObject, type JsonObject, process as processed, textHash } from "./Canonical.ts"
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

/** A row, or the reason why it must be set aside, with the text that stands for it. */
export const readRow = (
  model: IncrementalModel,
  value: unknown
): Row | { readonly unreadable: string; readonly text: string } => {
  const text = JSON.stringify(value) ?? "null"
  if (!isObject(value)) return { unreadable: "not an object", text }
  const id = value["id"]
  if (typeof id !== "string" || id === "") return { unreadable: "no string id", text }
  return { id, textHash: textHash(model, text), raw: value }
}

const identifying: ReadonlySet<string> = new Set([
  "id",
  "remote_id",
  "changed_at",
  "remote_deleted_at",
  "remote_created_at",
  "remote_updated_at"
])

const isBlank = (record: JsonObject): boolean =>
  Object.entries(record).every(([key, value]) =>
    identifying.has(key) || value === null || (isArray(value) && value.length === 0)
  )

export const observe = (model: IncrementalModel, row: Row): Observation => {
  const content = processed(model, row.raw)
  const text = (key: string): string | null => typeof content[key] === "string" ? content[key] : null
  return {
    id: row.id,
    remoteId: text("remote_id"),
    textHash: row.textHash,
    canonicalHash: canonicalHash(model, content),
    content,
    deleted: content["remote_deleted_at"] !== null && content["remote_deleted_at"] !== undefined,
    blank: isBlank(content),
    changedAt: text("changed_at"),
    changedAtMs: parseTime(content["changed_at"]),
    createdAtMs: parseTime(content["remote_created_at"]),
    deletedAtMs: parseTime(content["remote_deleted_at"])
  }
}
