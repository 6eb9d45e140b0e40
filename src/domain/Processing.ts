/**
 * Processes a model's records before they are compared, stored or published: drops or keeps `remote_data`, and drops or hashes
 * personal data.
 *
 * Invariants
 * 1. Processing is idempotent: stored content can be processed again   (V1)
 *
 * Gotchas
 * - The fingerprint covers everything that determines hashes and stored content, except the redaction key. If it differs from
 *   the fingerprint of a stored head, both sides are processed by the same rules before they are compared, so that a
 *   configuration change republishes nothing (S3, V1, V2).
 * - `changed_at` and `remote_updated_at` never count as a change alone; nor does `remote_data`, unless it is tracked.
 */
import { createHmac, hash } from "node:crypto"
import { canonical, isArray, isObject, type JsonObject, type JsonValue, type Shape } from "./Canonical.ts"
import { segments } from "./Diff.ts"
import { entryOf, type Model, type RecordEntry } from "./Model.ts"

/** `drop`: set to null. `carry`: published, but never counts as a change alone. `track`: treated like any other property. */
export type RemoteData = "drop" | "carry" | "track"
/** `drop`: the property is left out. `hash`: replaced by a keyed hash, so that equal values stay equal. */
export type Redaction = "drop" | "hash"

/** The configured rules, without secrets. */
export interface ProcessingRules {
  readonly remoteData: RemoteData
  /** Redaction by JSON Pointer; an array on the way means each of its members. */
  readonly redact: Readonly<Record<string, Redaction>>
}

export interface ProcessingOptions extends ProcessingRules {
  /** Key of the hashes. Without a key, personal data could be guessed from its hash. */
  readonly key: string
}

export interface Processing {
  readonly model: Model
  readonly shape: Shape
  readonly fingerprint: string
  readonly rules: ProcessingRules
  /** Processing of the same model with the same key and other rules. */
  readonly withRules: (rules: ProcessingRules) => Processing
  /** The record as it is stored and published. */
  readonly apply: (record: JsonObject) => JsonObject
}

const volatile = ["changed_at", "remote_updated_at"]
const nothing: ReadonlySet<string> = new Set()

const shapeOf = (entry: RecordEntry, masked: ReadonlySet<string>): Shape => {
  const unordered = new Set(entry.unordered)
  const build = (paths: ReadonlyArray<ReadonlyArray<string>>, record: boolean): Shape => {
    const names = new Set(paths.flatMap((path) => path.slice(0, 1)))
    return {
      masked: record ? masked : nothing,
      unordered,
      children: Object.fromEntries([...names].map((name) => {
        const below = paths.filter((path) => path[0] === name).map((path) => path.slice(1))
        return [name, build(below.filter((path) => path.length > 0), below.some((path) => path.length === 0))]
      }))
    }
  }
  return build(entry.nested.map((reference) => reference.path), true)
}

const dropRemoteData = (value: JsonObject, shape: Shape): JsonObject => {
  const result: Record<string, JsonValue> = { ...value }
  if (shape.masked.size > 0 && result["remote_data"] !== undefined) result["remote_data"] = null
  for (const [key, child] of Object.entries(shape.children)) {
    const nested = result[key]
    if (isArray(nested)) result[key] = nested.map((member) => isObject(member) ? dropRemoteData(member, child) : member)
    else if (isObject(nested)) result[key] = dropRemoteData(nested, child)
  }
  return result
}

const hashed = "redacted:"

const redactAt = (
  value: JsonValue,
  path: ReadonlyArray<string>,
  replace: (value: JsonValue) => JsonValue | undefined
): JsonValue => {
  if (isArray(value)) return value.map((member) => redactAt(member, path, replace))
  const [name, ...rest] = path
  if (name === undefined || !isObject(value) || !Object.hasOwn(value, name)) return value
  const { [name]: at = null, ...others } = value
  if (rest.length > 0) return { ...value, [name]: redactAt(at, rest, replace) }
  const replaced = replace(at)
  return replaced === undefined ? others : { ...value, [name]: replaced }
}

/** Null stays null, so that a change to or from null remains visible. A value that is already hashed is not hashed again. */
const keyedHash = (key: string) => (value: JsonValue): JsonValue =>
  value === null || (typeof value === "string" && value.startsWith(hashed))
    ? value
    : hashed + createHmac("sha256", key).update(canonical(value, undefined)).digest("base64url")

export const make = (model: Model, options: ProcessingOptions): Processing => {
  const { key, redact, remoteData } = options
  const entry = entryOf(model)
  const shape = shapeOf(entry, new Set(remoteData === "carry" ? [...volatile, "remote_data"] : volatile))
  const redactions = Object.entries(redact).map(([pointer, how]) => ({
    path: segments(pointer),
    replace: how === "hash" ? keyedHash(key) : () => undefined
  }))
  return {
    model,
    shape,
    fingerprint: hash("sha256", JSON.stringify({ normaliser: 2, remoteData, redact, ...entry }), "base64url").slice(
      0,
      12
    ),
    rules: { remoteData, redact },
    withRules: (rules) => make(model, { ...rules, key }),
    apply: (record) => {
      const kept = remoteData === "drop" ? dropRemoteData(record, shape) : record
      return redactions.reduce<JsonObject>((value, { path, replace }) => {
        const redacted = redactAt(value, path, replace)
        return isObject(redacted) ? redacted : value
      }, kept)
    }
  }
}

const byDefault = new Map<Model, Processing>()
/** Processing that drops `remote_data` and redacts nothing. */
export const defaultProcessing = (model: Model): Processing => {
  const known = byDefault.get(model) ?? make(model, { remoteData: "drop", redact: {}, key: "" })
  byDefault.set(model, known)
  return known
}
