/**
 * Processes a model's records before they are compared, stored or published: keeps `remote_data` or sets it to null, and removes or
 * hashes personal data.
 *
 * Invariants
 * 1. Stored content can be processed again by other rules, if the rules that were applied to it are known   (V1)
 *
 * Gotchas
 * - The fingerprint covers everything that determines hashes and stored content, except the redaction key. If it differs from
 *   the fingerprint of a stored head, both sides are processed by the same rules before they are compared, so that a
 *   configuration change republishes nothing (S3, V1, V2).
 * - If only `changed_at` or `remote_updated_at` differ, the record is unchanged. The same applies to `remote_data`, unless it is tracked.
 * - Records of a derived model are read from stored records of its source, to which the source's rules are already applied.
 */
import { createHmac, hash } from "node:crypto"
import { builtInModels } from "./BuiltInModels.ts"
import { isArray, isObject, type JsonObject, type JsonValue, type Shape } from "./Canonical.ts"
import { identityOf, type Model, type Models, perModels, type RecordEntry, recordEntryOf } from "./Model.ts"
import {
  type AppliedRules,
  appliedRules,
  combine,
  missingRules,
  redact,
  type RedactionRules,
  rulesBelow
} from "./Redaction.ts"

/**
 * What happens to the property `remote_data`. `drop`: its value becomes null (unlike the `drop` of a redaction rule, which removes the
 * property). `carry`: it is published, but is not compared, so it never causes an event alone. `track`: it is treated like any other
 * property.
 */
export type RemoteData = "drop" | "carry" | "track"

/** The configured rules, without secrets. */
export interface ProcessingRules {
  readonly remoteData: RemoteData
  readonly redact: RedactionRules
}

export interface ProcessingOptions extends ProcessingRules {
  /** Key of the hashes. Without a key, personal data could be guessed from its hash. */
  readonly key: string
  /** For a derived model: the rules of its source. */
  readonly source?: ProcessingRules
}

export interface Processing {
  readonly model: Model
  readonly models: Models
  readonly entry: RecordEntry
  readonly shape: Shape
  readonly fingerprint: string
  readonly rules: ProcessingRules
  /** All rules that the result of `apply` satisfies. For a derived model, these include the rules of its source. */
  readonly applied: AppliedRules
  /** Processing of the same model with the same key and other rules. */
  readonly withRules: (rules: ProcessingRules) => Processing
  /** Returns the content to store and publish, for a record of the API or a derived record from a stored source record. */
  readonly apply: (record: JsonObject) => JsonObject
  /** Applies the rules of `target` (default: `applied`) to stored content to which `before` was applied. */
  readonly reapply: (content: JsonObject, before: AppliedRules, target?: AppliedRules) => JsonObject
  /**
   * Hash of a record's bytes and of all rules by which content is made from them, so that equal hashes mean equal content. `removal`:
   * see `Removal.id`. The hash is keyed if values are hashed, so that redacted values cannot be guessed from it.
   */
  readonly textHash: (bytes: Uint8Array, removal?: string) => string
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

/** The same object if nothing changes: copies of every embedded record cost more than the check. */
const clearRemoteData = (value: JsonObject, shape: Shape): JsonObject => {
  const changed: Record<string, JsonValue> = {}
  if (shape.masked.size > 0 && (value["remote_data"] ?? null) !== null) changed["remote_data"] = null
  for (const key in shape.children) {
    const nested = value[key]
    const cleared = nested === undefined ? nested : clearIn(nested, shape.children[key]!)
    if (cleared !== undefined && cleared !== nested) changed[key] = cleared
  }
  return Object.keys(changed).length === 0 ? value : { ...value, ...changed }
}

const clearIn = (value: JsonValue, shape: Shape): JsonValue => {
  if (!isArray(value)) return isObject(value) ? clearRemoteData(value, shape) : value
  const cleared = value.map((member) => clearIn(member, shape))
  return cleared.every((member, index) => member === value[index]) ? value : cleared
}

/**
 * A reused buffer for the prefix and the bytes: one call of the hash function takes less time than three calls of a hash object. It is
 * larger than most records.
 */
const joined = Buffer.alloc(65_536)

const hashOf = (prefix: string, bytes: Uint8Array): string => {
  const start = Buffer.byteLength(prefix)
  const size = start + bytes.byteLength
  const whole = size > joined.length ? Buffer.alloc(size) : joined.subarray(0, size)
  whole.write(prefix)
  whole.set(bytes, start)
  return hash("sha256", whole, "base64url")
}

/** The rules that were applied to a derived record as a part of its stored source record. */
const appliedBefore = (models: Models, model: Model, source: ProcessingRules | undefined): AppliedRules => {
  const derived = models.derivedOf(model)
  return derived !== undefined && source !== undefined
    ? appliedRules(source.remoteData === "drop", rulesBelow(source.redact, derived.property))
    : appliedRules(false, {})
}

export const make = (model: Model, options: ProcessingOptions, models = builtInModels): Processing => {
  const { key, remoteData, source } = options
  const entry = recordEntryOf(models, model)
  const shape = shapeOf(entry, new Set(remoteData === "carry" ? [...volatile, "remote_data"] : volatile))
  const before = appliedBefore(models, model, source)
  const applied = combine(before, appliedRules(remoteData === "drop", options.redact))
  const rules = { remoteData, redact: applied.redact }
  // raise `normalizer` with a change after which `apply` returns other results
  const identity = JSON.stringify({ normalizer: 1, ...rules, ...identityOf(entry) })
  const fingerprint = hash("sha256", identity, "base64url").slice(0, 12)
  const secret = key === "" ? "" : createHmac("sha256", key).update("text hash").digest("base64url")
  const reapply: Processing["reapply"] = (content, before, target = applied) => {
    const missing = missingRules(before, target)
    const kept = target.dropsRemoteData && !before.dropsRemoteData ? clearRemoteData(content, shape) : content
    return redact(kept, missing, key)
  }
  return {
    model,
    models,
    entry,
    shape,
    fingerprint,
    rules,
    applied,
    withRules: (rules) => make(model, { ...options, ...rules }, models),
    apply: (record) => reapply(record, before),
    reapply,
    textHash: (bytes, removal = "") => hashOf(secret + fingerprint + removal, bytes)
  }
}

/** With the rules of a configuration. A list in place of a derived model hides in its records what the rules of the source hide there. */
export const configured = (
  model: Model,
  rulesOf: (model: Model) => ProcessingRules,
  key: string,
  models: Models
): Processing => {
  const { redact, remoteData } = rulesOf(model)
  const derived = builtInModels.derivedOf(model)
  if (derived === undefined) return make(model, { remoteData, redact, key }, models)
  const source = rulesOf(derived.from)
  const copied = rulesBelow(source.redact, derived.property)
  return make(model, { remoteData, redact: { ...copied, ...redact }, source, key }, models)
}

/** Leaves stored content as it is. For a model that only the store knows: its rules, and the places of other records in it, are unknown. */
export const unchanging = (model: Model, models: Models): Processing =>
  make(model, { remoteData: "carry", redact: {}, key: "" }, models)

const byDefault = perModels((): Map<Model, Processing> => new Map())
/** Processing that sets `remote_data` to null and redacts nothing. */
export const defaultProcessing = (model: Model, models = builtInModels): Processing => {
  const known = byDefault(models).get(model) ?? make(model, { remoteData: "drop", redact: {}, key: "" }, models)
  byDefault(models).set(model, known)
  return known
}
