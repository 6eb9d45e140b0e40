/**
 * Compares the content of records without the service's code: keys in any order, set-like arrays in any
 * order, volatile timestamps and raw data ignored.
 *
 * Gotchas
 * - `changed_at` is volatile on a record and on an embedded record, but is content inside custom fields.
 */
import type { Json } from "../world/Table.ts"

const volatile: ReadonlySet<string> = new Set(["changed_at", "remote_updated_at", "remote_data"])
/** The properties at which the simulated models embed whole records. */
const records: ReadonlySet<string> = new Set([
  "",
  "candidate",
  "job",
  "current_stage",
  "interviews",
  "owner",
  "proficiency_scale"
])

const text = (value: Json | undefined, name: string, isRecord: boolean): string => {
  if (Array.isArray(value)) {
    const members = (value as ReadonlyArray<Json>).map((member) => text(member, name, isRecord))
    return `[${(name === "ordered_options" || name === "name" ? members : members.sort()).join()}]`
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value ?? null)
  return `{${
    Object.entries(value)
      .filter(([key]) => !(isRecord && volatile.has(key)))
      .map(([key, member]) => `${JSON.stringify(key)}:${text(member as Json, key, records.has(key))}`)
      .sort().join()
  }}`
}

const cache = new WeakMap<object, string>()

/** A text that is equal exactly for equal content. */
export const contentOf = (record: { readonly [key: string]: Json }): string => {
  const known = cache.get(record)
  if (known !== undefined) return known
  const fresh = text(record, "", true)
  cache.set(record, fresh)
  return fresh
}
