/**
 * What one record shows of others, as numbers to compare: whose content is repeated, and what that content is.
 *
 * Invariants
 * 1. Two places that show the same content of one thing give equal numbers, whatever else either shows   (N7)
 *
 * Gotchas
 * - Only what can grow stale unnoticed is of interest: a kind is left out where `updated_after` announces its changes at
 *   every place.
 * - Numbers may collide, once in 2⁴⁸: it costs a needless re-read, or waits for the sweep.
 */
import { canonical, isArray, isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import { type Model, type ModelEntry, type NestedReference, registry, type StreamKey } from "./Model.ts"
import type { Processing } from "./Processing.ts"

export interface Reference {
  /** Of its shared properties. */
  readonly content: number
  /** `updated_after` does not react when it changes here: to be re-read once it is seen changed elsewhere. */
  readonly unannounced: boolean
}

/** By subject: integration, kind and id of what is repeated, as one number. */
export type References = ReadonlyMap<number, Reference>

export const noReferences: References = new Map()

interface ReferencePath extends NestedReference {
  readonly unannounced: boolean
}

const referencePathsOf = (entry: ModelEntry): ReadonlyArray<ReferencePath> => [
  ...entry.self === null ? [] : [{ ...entry.self, path: [], unannounced: false }],
  ...entry.nested.map((reference) => ({
    ...reference,
    unannounced: entry.propagation[reference.path.join(".")]?.linked !== true
  }))
]

const unannouncedKinds: ReadonlySet<string> = new Set(
  Object.values(registry).flatMap(referencePathsOf).filter((place) => place.unannounced).map((place) => place.kind)
)
const referencePaths: ReadonlyMap<Model, ReadonlyArray<ReferencePath>> = new Map(
  Object.values(registry).map((entry) => [
    entry.model,
    referencePathsOf(entry).filter((place) => unannouncedKinds.has(place.kind))
  ])
)

/**
 * 48 bits: a whole number in every database and in JSON. Two lanes of multiply and xor, each stirred at the end: nothing
 * secret depends on it, and it costs a twentieth of a cryptographic hash of so short a text.
 */
const numberOf = (text: string): number => {
  let high = 0x811c9dc5
  let low = 0x5bd1e995
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    high = Math.imul(high ^ code, 0x01000193)
    low = Math.imul(low ^ code, 0x9e3779b1)
  }
  return (stirred(high) >>> 16) * 2 ** 32 + (stirred(low ^ high) >>> 0)
}
const stirred = (lane: number): number => {
  const once = Math.imul(lane ^ (lane >>> 15), 0x2c1b3c6d)
  return once ^ (once >>> 13)
}

/** Of processed content: what is redacted is not compared. */
export const findReferences = (
  { integration }: StreamKey,
  { model, shape }: Processing,
  content: JsonObject
): References => {
  const references = new Map<number, Reference>()
  for (const { kind, path, shared, unannounced } of referencePaths.get(model) ?? []) {
    for (const value of valuesAt(content, path, 0)) {
      const id = value["id"]
      if (typeof id !== "string") continue
      const referencedRecord = numberOf(`${integration}\n${kind}\n${id}`)
      if (!unannounced && references.get(referencedRecord)?.unannounced === true) continue
      const texts = shared.map((name) => canonical(value[name] ?? null, shape, name))
      references.set(referencedRecord, { content: numberOf(texts.join()), unannounced })
    }
  }
  return references
}

const valuesAt = (
  value: JsonValue | undefined,
  path: ReadonlyArray<string>,
  from: number
): ReadonlyArray<JsonObject> => {
  if (isArray(value)) return value.flatMap((member) => valuesAt(member, path, from))
  if (!isObject(value)) return []
  const name = path[from]
  return name === undefined ? [value] : valuesAt(value[name], path, from + 1)
}
