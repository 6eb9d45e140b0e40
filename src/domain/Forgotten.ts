/**
 * Removes forgotten records from what the API shows: the records themselves, and their copies inside other records.
 *
 * Invariants
 * 1. If there is nothing to remove, the functions return the same object, so that it need not be serialized again
 *
 * Gotchas
 * - Employees and users have no stream, but other records repeat their names, so they can be forgotten too.
 * - The id of a forgotten record stays in other records, for example as `candidate_id`: outside the API, an id alone does not identify a
 *   person.
 */
import { hash } from "node:crypto"
import { isArray, isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import { type PathChange, segments } from "./Diff.ts"
import { kindsOf, type Model, type Models, type NestedReference, perModels, type RecordEntry } from "./Model.ts"

/** Kinds of people that appear only inside other records, by the name under which they can be forgotten. */
const embeddedOnly = { "hris.employee": "employee", "ats.user": "user" } as const
/** The models whose records can be forgotten. */
export const forgettableModels = ({ names }: Models): ReadonlyArray<Model> => [
  ...new Set<Model>([...names, ...Object.keys(embeddedOnly) as ReadonlyArray<keyof typeof embeddedOnly>])
]

/** The forgotten ids of one integration, by model. */
export type Forgotten = ReadonlyMap<string, ReadonlySet<string>>
export const nothingForgotten: Forgotten = new Map()

/** A record that an operator names. */
export interface ForgettableRecord {
  readonly integration: string
  readonly model: Model
  readonly id: string
}

/** The model of each kind of embedded record that can be forgotten. */
const modelsOfKinds = ({ lists }: Models): ReadonlyMap<string, Model> =>
  new Map<string, Model>([
    ["candidate", "ats.candidate"],
    ...lists.flatMap((entry) => kindsOf(entry).map((kind): [string, Model] => [kind, entry.model])),
    ...Object.entries(embeddedOnly).map(([model, kind]): [string, Model] => [kind, model as Model])
  ])

interface Place extends Pick<NestedReference, "path"> {
  /** The model of the record that is repeated here. */
  readonly of: Model
  /**
   * A property of the record that contains the copy: `candidate_id` of an application with a copy of its candidate. It has the same id as the
   * copy, and identifies the copy if the copy's own id is missing or redacted.
   */
  readonly idProperty?: string
}

const placesIn = ({ model, nested }: RecordEntry, modelOfKind: ReadonlyMap<string, Model>): ReadonlyArray<Place> => [
  ...nested.flatMap(({ kind, path }) => {
    const of = modelOfKind.get(kind)
    if (of === undefined) return []
    return [{
      path,
      of,
      ...(model === "ats.application" && of === "ats.candidate" ? { idProperty: "candidate_id" } : {})
    }]
  }),
  ...model === "ats.offer"
    ? [{ path: ["application"], of: "ats.application", idProperty: "application_id" } as const]
    : []
]
const placesOf = perModels((models): ReadonlyMap<string, ReadonlyArray<Place>> => {
  const modelOfKind = modelsOfKinds(models)
  return new Map(models.entries.map((entry) => [entry.model, placesIn(entry, modelOfKind)]))
})

/** The models whose records may repeat a record of this model. */
export const embeddingModels = (models: Models, model: Model): ReadonlyArray<Model> =>
  models.names.filter((name) => placesOf(models).get(name)?.some(({ of }) => of === model))

/** Returns the value without copies of forgotten records; undefined if the value itself is such a copy. */
const cut = (
  value: JsonValue,
  path: ReadonlyArray<string>,
  isForgotten: (copy: JsonObject) => boolean
): JsonValue | undefined => {
  if (isArray(value)) {
    const members = value.map((member) => cut(member, path, isForgotten))
    if (members.every((member, index) => member === value[index])) return value
    return members.flatMap((member) => member === undefined ? [] : [member])
  }
  if (!isObject(value)) return value
  const [name, ...rest] = path
  if (name === undefined) return isForgotten(value) ? undefined : value
  const inner = Object.hasOwn(value, name) ? value[name] : undefined
  if (inner === undefined) return value
  const kept = cut(inner, rest, isForgotten)
  return kept === inner ? value : { ...value, [name]: kept ?? null }
}

const has = (ids: ReadonlySet<string>, id: JsonValue | undefined): boolean => typeof id === "string" && ids.has(id)

/** Removes the copies of forgotten records from a record: a copy becomes null, a copy in an array is removed. */
export const withoutCopies = (models: Models, model: Model, record: JsonObject, forgotten: Forgotten): JsonObject =>
  (placesOf(models).get(model) ?? []).reduce<JsonObject>((kept, { idProperty, of, path }) => {
    const ids = forgotten.get(of)
    if (ids === undefined) return kept
    const rest = cut(
      kept,
      path,
      (copy) => has(ids, copy["id"]) || (idProperty !== undefined && has(ids, record[idProperty]))
    )
    return isObject(rest) ? rest : kept
  }, record)

/** Whether a stored record, or a change that led to it, contains a copy of one of the forgotten records. */
export const repeats = (
  models: Models,
  model: Model,
  record: JsonObject | null,
  changes: ReadonlyArray<PathChange>,
  forgotten: Forgotten
): boolean => {
  if (record !== null && withoutCopies(models, model, record, forgotten) !== record) return true
  return (placesOf(models).get(model) ?? []).some(({ of, path }) => {
    const ids = forgotten.get(of)
    return ids !== undefined && changes.some((change) => {
      if (segments(change.path)[0] !== path[0]) return false
      const text = JSON.stringify(change)
      return [...ids].some((id) => text.includes(idAsJson(id)))
    })
  })
}

/** Whether a record contains an object with this id: perhaps a copy, although no entry says that records of its model repeat others there. */
export const mentions = (record: JsonObject | null, id: string): boolean => {
  const hasObject = (value: JsonValue): boolean =>
    isArray(value)
      ? value.some(hasObject)
      : isObject(value) && (value["id"] === id || Object.values(value).some(hasObject))
  return record !== null && Object.values(record).some(hasObject)
}

/** How forgotten records are removed from the list of one model. */
export interface Removal {
  /** Identifies the copies that are removed; "" if none are. */
  readonly id: string
  /** True if the record with this id is itself forgotten. */
  readonly isForgotten: (id: unknown) => boolean
  readonly withoutCopies: (record: JsonObject) => JsonObject
}

export const nothingRemoved: Removal = { id: "", isForgotten: () => false, withoutCopies: (record) => record }

/** `nothingRemoved` if no forgotten record can be in a list of this model. */
export const removalOf = (models: Models, model: Model, forgotten: Forgotten): Removal => {
  const own = forgotten.get(model)
  const repeated = [...new Set((placesOf(models).get(model) ?? []).map(({ of }) => of))].sort().flatMap((of) => {
    const ids = forgotten.get(of)
    return ids === undefined ? [] : [[of, [...ids].sort()]]
  })
  if (repeated.length === 0 && own === undefined) return nothingRemoved
  return {
    id: repeated.length === 0 ? "" : hash("sha256", JSON.stringify(repeated), "base64url"),
    isForgotten: (id) => own !== undefined && typeof id === "string" && own.has(id),
    withoutCopies: (record) => withoutCopies(models, model, record, forgotten)
  }
}

/** The id as it appears in a serialized record, to search for it. */
export const idAsJson = (id: string): string => JSON.stringify(id)

/** Whether the text of an unreadable row contains one of the forgotten ids. */
export const containsForgottenId = (text: string, forgotten: Forgotten): boolean =>
  [...forgotten.values()].some((ids) => [...ids].some((id) => text.includes(idAsJson(id))))
