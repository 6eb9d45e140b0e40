/**
 * Finds properties that were switched off or on in the third-party system, and keeps their published values until an operator decides.
 *
 * Invariants
 * 1. After `keepPublished` with all paths that `findScopeChanges` returned, `findScopeChanges` returns nothing
 *
 * Gotchas
 * - In a scope path `*` stands for every member of an array, so `/interviews/<id>/title` is the same path in every record.
 * - An empty array is treated as empty, like null, because some fields become an empty array when they are switched off. An empty array
 *   that gets its first members is a separate kind (`members`), because ordinary work looks the same.
 * - The published value is kept only if exactly one side is empty. A value that returns with different content is a change (C8).
 */
import { isArray, isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import { byId, type PathChange, segments } from "./Diff.ts"

export interface ScopeChange {
  readonly path: string
  /** `members`: an empty array got members. */
  readonly to: "nothing" | "value" | "members"
}

/** The verb for records whose path changed like this: `lose title` */
export const scopeVerbs: Readonly<Record<ScopeChange["to"], string>> = {
  nothing: "lose",
  value: "get",
  members: "get members of"
}

type Value = JsonValue | undefined

/** No value, null, or an empty array. */
export const isNothing = (value: Value): boolean =>
  value === undefined || value === null || (isArray(value) && value.length === 0)

const property = (value: Value, name: string): Value =>
  isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined

type Members = ReadonlyMap<string, JsonValue>

/** Members of the array `name` before and after, with the same keys in both: ids as in paths, else indexes. */
const membersOf = (name: string, before: Value, after: Value): readonly [Members, Members] => {
  const [a, b] = [isArray(before) ? before : [], isArray(after) ? after : []]
  const [known, now] = [byId(name, a), byId(name, b)]
  if (known !== undefined && now !== undefined) return [known, now]
  const byPlace = (array: ReadonlyArray<JsonValue>) => new Map(array.map((member, place) => [String(place), member]))
  return [byPlace(a), byPlace(b)]
}

const scopeChangeOf = (before: JsonObject, after: JsonObject, { path }: PathChange): ScopeChange | null => {
  const names = path.slice(1).split("/")
  const values = segments(path)
  const scopePath: Array<string> = []
  let [a, b]: readonly [Value, Value] = [before, after]
  for (const [index, name] of values.entries()) {
    if (!isArray(a) && !isArray(b)) {
      scopePath.push(names[index]!)
      a = property(a, name)
      b = property(b, name)
      continue
    }
    // A member was added or removed: only the array as a whole can have been switched off or on.
    if (index === values.length - 1) break
    scopePath.push("*")
    const [known, now] = membersOf(values[index - 1] ?? "", a, b)
    a = known.get(name)
    b = now.get(name)
  }
  if (isNothing(a) === isNothing(b)) return null
  return { path: `/${scopePath.join("/")}`, to: isNothing(b) ? "nothing" : isArray(a) ? "members" : "value" }
}

/** The paths in `changes` (from `before` to `after`) that became empty or stopped being empty, each path once. */
export const findScopeChanges = (
  before: JsonObject,
  after: JsonObject,
  changes: ReadonlyArray<PathChange>
): ReadonlyArray<ScopeChange> => {
  const found = changes.flatMap((change) => scopeChangeOf(before, after, change) ?? [])
  return [...new Map(found.map((one) => [`${one.to} ${one.path}`, one])).values()]
}

const keepPublishedAt = (before: Value, after: Value, path: ReadonlyArray<string>, under = ""): Value => {
  const [name, ...rest] = path
  if (name === undefined) return isNothing(before) === isNothing(after) ? after : before
  if (isArray(after)) {
    const [known, now] = membersOf(under, before, after)
    const members = [...now].map(([key, value]) => keepPublishedAt(known.get(key), value, rest) ?? value)
    return members.every((value, place) => value === after[place]) ? after : members
  }
  if (!isObject(after) || !isObject(before)) return after
  const at = property(after, name)
  const kept = keepPublishedAt(property(before, name), at, rest, name)
  if (kept === at) return after
  const { [name]: _, ...others } = after
  return kept === undefined ? others : { ...after, [name]: kept }
}

/** Returns `observed` with the published value at each of `paths` that was switched off or on; `observed` itself if none was. */
export const keepPublished = (published: JsonObject, observed: JsonObject, paths: ReadonlyArray<string>): JsonObject =>
  paths.reduce((content, path) => {
    const kept = keepPublishedAt(published, content, segments(path))
    return isObject(kept) ? kept : content
  }, observed)
