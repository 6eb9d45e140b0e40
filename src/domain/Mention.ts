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

export interface Mention {
  /** Of its shared properties. */
  readonly content: number
  /** `updated_after` does not react when it changes here: to be re-read once it is seen changed elsewhere. */
  readonly silent: boolean
}

/** By subject: integration, kind and id of what is repeated, as one number. */
export type Mentions = ReadonlyMap<number, Mention>

export const none: Mentions = new Map()

interface Place extends NestedReference {
  readonly silent: boolean
}

const placesOf = (entry: ModelEntry): ReadonlyArray<Place> => [
  ...entry.self === null ? [] : [{ ...entry.self, path: [], silent: false }],
  ...entry.nested.map((reference) => ({
    ...reference,
    silent: entry.propagation[reference.path.join(".")]?.linked !== true
  }))
]

const silentKinds: ReadonlySet<string> = new Set(
  Object.values(registry).flatMap(placesOf).filter((place) => place.silent).map((place) => place.kind)
)
const places: ReadonlyMap<Model, ReadonlyArray<Place>> = new Map(
  Object.values(registry).map((entry) => [
    entry.model,
    placesOf(entry).filter((place) => silentKinds.has(place.kind))
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
export const mentionsOf = ({ integration }: StreamKey, { model, shape }: Processing, content: JsonObject): Mentions => {
  const mentions = new Map<number, Mention>()
  for (const { kind, path, shared, silent } of places.get(model) ?? []) {
    for (const value of valuesAt(content, path, 0)) {
      const id = value["id"]
      if (typeof id !== "string") continue
      const subject = numberOf(`${integration}\n${kind}\n${id}`)
      if (!silent && mentions.get(subject)?.silent === true) continue
      const texts = shared.map((name) => canonical(value[name] ?? null, shape, name))
      mentions.set(subject, { content: numberOf(texts.join()), silent })
    }
  }
  return mentions
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
