/** Finds the records that the records of a list repeat. Pure, and without values of records in the result (I11). */
import type { JsonObject } from "../../domain/Canonical.ts"
import type { ListDefinition } from "../../domain/DefinedList.ts"
import type { Fields } from "./InferSchema.ts"

/** `employees` → `employee`. A proposal, for English words. */
export const singularOf = (word: string): string =>
  word.replace(/ies$/, "y").replace(/(ss|x|ch|sh|us)es$/, "$1").replace(/([^su])s$/, "$1")

interface Nested {
  readonly path: string
  readonly fields: Fields
  readonly objects: ReadonlyArray<JsonObject>
}

/** The objects with an id inside the records, by path. */
export const findNested = (fields: Fields, above = ""): ReadonlyArray<Nested> =>
  [...fields].flatMap(([name, { shape }]) => {
    const inner = shape.kind === "array" ? shape.member.shape : shape
    if (inner.kind !== "struct") return []
    const { fields, objects } = inner
    const path = above + name
    const records = objects.filter(({ id }) => typeof id === "string")
    const own = records.length === 0 ? [] : [{ path, fields, objects: records }]
    return [...own, ...findNested(fields, `${path}.`)]
  })

const notShared: ReadonlySet<string> = new Set(["id", "remote_id", "changed_at"])

/** The properties that all objects have, and that are equal in all objects with the same id. */
const sharedOf = ({ fields, objects }: Nested): ReadonlyArray<string> => {
  const copies = [...Map.groupBy(objects, ({ id }) => id).values()]
  return [...fields].flatMap(([name, { isOptional, shape }]) => {
    const isShared = !isOptional && shape.kind === "scalar" && !notShared.has(name) &&
      copies.every((same) => new Set(same.map((object) => object[name])).size === 1)
    return isShared ? [name] : []
  })
}

const idsOf = (records: ReadonlyArray<JsonObject>) => new Set(records.map(({ id }) => id))

/**
 * The paths at which the same record appears more than once. `own`: the kind of the list's own records. Two paths have the same kind if they
 * share an id and properties.
 */
export const inferReferences = (
  fields: Fields,
  records: ReadonlyArray<JsonObject>,
  own: string
): NonNullable<ListDefinition["references"]> => {
  const known = [{ kind: own, fields, ids: idsOf(records) }]
  return findNested(fields).flatMap((nested) => {
    const { objects, path } = nested
    const shared = sharedOf(nested)
    const ids = idsOf(objects)
    const same = known.find(({ fields, ids: others }) =>
      shared.every((name) => fields.has(name)) && [...ids].some((id) => others.has(id))
    )
    const kind = same?.kind ?? singularOf(path.replace(/^.*\./, ""))
    known.push({ kind, fields: nested.fields, ids })
    return shared.length > 0 && (same !== undefined || ids.size < objects.length) ? [{ path, kind, shared }] : []
  })
}
