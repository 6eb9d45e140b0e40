/**
 * Finds the other records whose content a record embeds, and represents each of them and its embedded content as numbers.
 *
 * Invariants
 * 1. Two records that embed the same content of the same referenced record give equal numbers   (N7)
 *
 * Gotchas
 * - Only embedded content that can become stale is found. A kind of record is skipped if each change of such a record makes
 *   `updated_after` match all records that embed it.
 * - Two numbers collide with a probability of 2⁻⁴⁸. A collision costs a needless refetch, or leaves a stale record until the
 *   next sweep.
 */
import { builtInModels } from "./BuiltInModels.ts"
import { canonical, isArray, isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import { kindsOf, type Model, type NestedKind, type NestedReference, perModels, type StreamKey } from "./Model.ts"
import type { Processing } from "./Processing.ts"

export interface Reference {
  /** Hash of the shared properties. */
  readonly content: number
  /**
   * True if `updated_after` does not match the embedding record when this content changes, so that the embedding record must be
   * refetched.
   */
  readonly unannounced: boolean
}

/** References by referenced record. The key is a hash of the referenced record's integration, kind and id. */
export type References = ReadonlyMap<number, Reference>

export const noReferences: References = new Map()

interface ReferencePath extends NestedReference {
  readonly unannounced: boolean
  /** Names the kind among those with the same shared properties: content of other properties cannot be compared. */
  readonly group: string
}

/** By kind: the properties that its copies share in the first built-in list with such copies. */
const builtInShared = new Map(
  builtInModels.lists.flatMap(({ nested, self }) => [...self === null ? [] : [self], ...nested])
    .toReversed().map(({ kind, shared }) => [kind, shared.join()])
)

/** Groups are stored as a part of each reference, so they must not depend on which other lists are defined. */
const groupOf = (kind: string, shared: string): string =>
  builtInShared.get(kind) === shared ? kind : `${kind}\n${shared}`

const referencePaths = perModels(({ lists }): ReadonlyMap<Model, ReadonlyArray<ReferencePath>> => {
  /** By kind: the sets of properties that its copies share, by their names. */
  const sharedBy = new Map<string, Map<string, NestedKind & { readonly group: string }>>()
  const grouped = ({ kind, shared }: NestedKind) => {
    const known = sharedBy.get(kind) ?? new Map<string, NestedKind & { readonly group: string }>()
    sharedBy.set(kind, known)
    const names = shared.join()
    const one = known.get(names) ?? { kind, shared, group: groupOf(kind, names) }
    known.set(names, one)
    return one
  }
  const repeated = lists.map(({ nested, propagation, self }) => {
    if (self !== null) grouped(self)
    return nested.map((reference): ReferencePath => ({
      ...grouped(reference),
      path: reference.path,
      unannounced: propagation[reference.path.join(".")]?.linked !== true
    }))
  })
  const unannouncedGroups = new Set(
    repeated.flat().filter(({ unannounced }) => unannounced).map(({ group }) => group)
  )
  const all = lists.map((entry, index): readonly [Model, ReadonlyArray<ReferencePath>] => {
    // the record has the properties of every set, so it is compared with every copy
    const own = kindsOf(entry).flatMap((kind) => [...sharedBy.get(kind)?.values() ?? []])
    return [entry.model, [...own.map((one) => ({ ...one, path: [], unannounced: false })), ...repeated[index]!]]
  })
  return new Map(all.map(([model, places]) => [model, places.filter(({ group }) => unannouncedGroups.has(group))]))
})

/**
 * A hash of 48 bits, which every database and JSON represent as an exact integer. It combines two 32-bit multiply-xor hashes.
 * It must not be used for secrets. For short texts, it takes a twentieth of the time of a cryptographic hash.
 */
const numberOf = (text: string): number => {
  let high = 0x811c9dc5
  let low = 0x5bd1e995
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    high = Math.imul(high ^ code, 0x01000193)
    low = Math.imul(low ^ code, 0x9e3779b1)
  }
  return (mixed(high) >>> 16) * 2 ** 32 + (mixed(low ^ high) >>> 0)
}
const mixed = (bits: number): number => {
  const once = Math.imul(bits ^ (bits >>> 15), 0x2c1b3c6d)
  return once ^ (once >>> 13)
}

/** `content` is processed, so redacted properties are not compared. */
export const findReferences = (
  { integration }: StreamKey,
  { model, models, shape }: Processing,
  content: JsonObject
): References => {
  const references = new Map<number, Reference>()
  for (const { group, path, shared, unannounced } of referencePaths(models).get(model) ?? []) {
    for (const value of valuesAt(content, path, 0)) {
      const id = value["id"]
      if (typeof id !== "string") continue
      const referencedRecord = numberOf(`${integration}\n${group}\n${id}`)
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
