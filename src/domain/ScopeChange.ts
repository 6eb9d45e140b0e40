/**
 * Finds the properties that were switched off or on at the other end, and keeps their published values while someone
 * decides. Hides how a property inside an array is named alike in every record.
 *
 * Invariants
 * 1. Kept for all the paths that `switches` finds, nothing is switched any more
 *
 * Gotchas
 * - In a scope path `*` stands for every member of an array: `/interviews/<id>/title` of each record is one path.
 * - An empty array is nothing, as null is: that is what some fields turn into. One that gets its first members is told
 *   apart: that is what ordinary work looks like too.
 * - A path is kept only where one side is nothing. A value that came back changed is a change (C8).
 */
import { isArray, isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import { byId, type PathChange, segments } from "./Diff.ts"

export interface ScopeChange {
  readonly path: string
  /** `members`: of an array that was there and empty. */
  readonly to: "nothing" | "value" | "members"
}

type Value = JsonValue | undefined

const isNothing = (value: Value): boolean =>
  value === undefined || value === null || (isArray(value) && value.length === 0)

const property = (value: Value, name: string): Value =>
  isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined

type Members = ReadonlyMap<string, JsonValue>

/** Members of what stands under `name` before and after, called alike in both: by id as in paths, else by place. */
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
  const alike: Array<string> = []
  let [a, b]: readonly [Value, Value] = [before, after]
  for (const [index, name] of values.entries()) {
    if (!isArray(a) && !isArray(b)) {
      alike.push(names[index]!)
      a = property(a, name)
      b = property(b, name)
      continue
    }
    // A member that came or went: only the array as a whole can have been switched.
    if (index === values.length - 1) break
    alike.push("*")
    const [known, now] = membersOf(values[index - 1] ?? "", a, b)
    a = known.get(name)
    b = now.get(name)
  }
  if (isNothing(a) === isNothing(b)) return null
  return { path: `/${alike.join("/")}`, to: isNothing(b) ? "nothing" : isArray(a) ? "members" : "value" }
}

/** What of `changes`, from `before` to `after`, went to or from nothing; each once. */
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

/** `observed` with the published values at `paths` where those were switched; `observed` itself where none was. */
export const keepPublished = (published: JsonObject, observed: JsonObject, paths: ReadonlyArray<string>): JsonObject =>
  paths.reduce((content, path) => {
    const kept = keepPublishedAt(published, content, segments(path))
    return isObject(kept) ? kept : content
  }, observed)
