/**
 * Attributes changes to plugin writes: compares an event with the expectations that earlier writes left, and names the write
 * that caused it.
 *
 * Invariants
 * 1. A path is attributed to a write only if an open expectation explains it; other paths of the same event are not   (L3, E1)
 * 2. If several writes explain one event, the write with the greatest depth is the cause, so the depth keeps rising while two
 *    plugins undo each other's work   (L9)
 *
 * Gotchas
 * - A created or deleted record is one change at the path "", so values that the server filled in are attributed to the write
 *   too.
 */
import { canonical, isArray, isObject, type JsonObject, type JsonValue, memberKeys } from "./Canonical.ts"
import type { Kind } from "./ChangeEvent.ts"
import { type PathChange, segments } from "./Diff.ts"
import {
  anyRecord,
  type Author,
  type Expectation,
  type Hash,
  keyOf,
  type Matcher,
  type OpenExpectation,
  type Pointer,
  valueHash
} from "./Expectation.ts"
import type { Model } from "./Model.ts"
import { storableText } from "./Observation.ts"

/** The write of a plugin that caused a change. */
export interface Cause extends Author {
  /** The changed paths that the plugin's writes explain; "" = the whole record. */
  readonly paths: ReadonlyArray<string>
}

/** Depth of a write made in reaction to events with these causes. */
export const nextDepth = (causes: ReadonlyArray<Pick<Cause, "depth"> | null>): number =>
  Math.max(0, ...causes.map((cause) => cause?.depth ?? 0)) + 1

/** True if writes of the plugin itself explain every change, so the plugin need not receive the event. */
export const isOwnChangeOnly = (
  { paths }: Pick<Cause, "paths">,
  changes: ReadonlyArray<Pick<PathChange, "path">>
): boolean => paths.includes("") || (changes.length > 0 && changes.every(({ path }) => paths.includes(path)))

const modelsShowingWrites: ReadonlySet<Model> = new Set([
  "ats.application",
  "ats.candidate",
  "ats.tag",
  "hris.employee",
  "hris.staffing_entity",
  "assessment.package"
])
/** True if records of this model can show plugin writes. */
export const canShowWrites = (model: Model): boolean => modelsShowingWrites.has(model)

const propertyOf = (value: JsonValue | undefined, name: string): JsonValue | undefined =>
  isObject(value) ? value[name] : undefined

/**
 * Keys under which expectations for a record are stored. A deleted record has no content. No write names an id that a store cannot hold, and
 * PostgreSQL rejects a statement with such an id.
 */
export const keysOf = (model: Model, id: string, content: JsonObject | null): ReadonlyArray<string> => {
  const keys = [keyOf(id)]
  const add = (prefix: string, value: string | null) => value === null || keys.push(prefix + value)
  if (model === "ats.application") {
    add("candidate:", storableText(content?.["candidate_id"]) ?? storableText(propertyOf(content?.["candidate"], "id")))
    add("job:", storableText(content?.["job_id"]) ?? storableText(propertyOf(content?.["job"], "id")))
  }
  if (model === "ats.candidate") {
    for (const leaf of leavesOf(content?.["email_addresses"])) add("email:", valueHash(leaf))
  }
  if (model === "ats.tag") add("name:", content === null ? null : valueHash(content["name"] ?? null))
  if (model === "assessment.package") keys.push(anyRecord)
  return keys
}

/** One event of a record. */
export interface RecordEvent {
  readonly id: string
  readonly kind: Kind
  readonly changes: ReadonlyArray<PathChange>
  readonly after: JsonObject | null
}

/** The value at a path; members of arrays with ids are addressed by id. */
const valueAt = (content: JsonObject | null, at: Pointer): JsonValue | undefined =>
  (at === "" ? [] : segments(at)).reduce<JsonValue | undefined>((value, name) => {
    if (!isArray(value)) return propertyOf(value, name)
    return value[memberKeys("", value)?.indexOf(name) ?? Number(name)]
  }, content ?? undefined)

const leavesOf = (value: JsonValue | undefined): ReadonlyArray<JsonValue> => {
  if (isArray(value)) return value.flatMap(leavesOf)
  if (isObject(value)) return Object.values(value).flatMap(leavesOf)
  return value == null ? [] : [value]
}

/** True if `value`, or any value nested in it, matches: the API may show a written value inside an object. */
const containsValue = (value: JsonValue | undefined, wanted: Hash | null): boolean =>
  wanted === null || leavesOf(value).some((leaf) => valueHash(leaf) === wanted)

const hasValueAt = (content: JsonObject | null, at: Pointer, wanted: Hash | null): boolean =>
  containsValue(valueAt(content, at), wanted)
const hasValues = (content: JsonObject | null, values: Readonly<Record<Pointer, Hash | null>>): boolean =>
  Object.entries(values).every(([at, wanted]) => hasValueAt(content, at, wanted))

const isAtOrBelow = (path: Pointer, at: Pointer): boolean => path === at || path.startsWith(`${at}/`)

type MemberMatcher = Extract<Matcher, { readonly kind: "member" }>
type ValuesMatcher = Extract<Matcher, { readonly kind: "values" }>

const isMember = ({ property, value }: MemberMatcher, member: JsonValue): boolean =>
  containsValue(propertyOf(member, property), value)

/** True if the change consists only of members that the write added or removed. */
const explainsMember = (matcher: MemberMatcher, { after, before, path }: PathChange): boolean => {
  const [from, to] = matcher.present ? [before, after] : [after, before]
  if (path === matcher.array) {
    const known = new Set((isArray(from) ? from : []).map((member) => canonical(member, undefined)))
    const others = (isArray(to) ? to : []).filter((member) => !known.delete(canonical(member, undefined)))
    return known.size === 0 && others.length > 0 && others.every((member) => isMember(matcher, member))
  }
  const parent = path.slice(0, path.lastIndexOf("/"))
  return parent === matcher.array && from === null && isMember(matcher, to)
}

const pathsOf = (matcher: Matcher, { after, changes, id, kind }: RecordEvent): ReadonlyArray<Pointer> => {
  const whole = (is: boolean): ReadonlyArray<Pointer> => is ? [""] : []
  switch (matcher.kind) {
    case "created":
      return whole(kind === "created" && hasValues(after, matcher.values))
    case "gone":
      return whole(kind === "deleted" && !matcher.except.includes(id))
    case "member":
      return changes.filter((change) => explainsMember(matcher, change)).map(({ path }) => path)
    case "values": {
      if (kind === "created") return whole(matcher.orWhole === "" && hasValues(after, matcher.values))
      return changes.filter(({ before, path }) =>
        Object.entries(matcher.values).some(([at, wanted]) => isAtOrBelow(path, at) && hasValueAt(after, at, wanted)) ||
        (path === matcher.orWhole && before === null && isComplete(matcher, after))
      ).map(({ path }) => path)
    }
  }
}

const isComplete = ({ values, orWhole }: ValuesMatcher, content: JsonObject | null): boolean =>
  (orWhole === null || valueAt(content, orWhole) != null) && hasValues(content, values)

/** True if a record shows the written values, whether or not the write caused them. */
export const isFulfilled = ({ matcher }: Pick<Expectation, "matcher">, content: JsonObject | null): boolean => {
  switch (matcher.kind) {
    case "created":
      return content !== null && hasValues(content, matcher.values)
    case "gone":
      return content === null
    case "member": {
      const members = valueAt(content, matcher.array)
      return matcher.present === (isArray(members) && members.some((member) => isMember(matcher, member)))
    }
    case "values":
      return isComplete(matcher, content)
  }
}

const stamps: ReadonlySet<string> = new Set(["changed_at", "remote_updated_at", "updated_at"])

/** Adds the timestamp of each object whose other changes all belong to the write. */
const withStamps = (own: ReadonlySet<Pointer>, changes: ReadonlyArray<PathChange>): ReadonlyArray<Pointer> => {
  const stampedBy = (path: Pointer): Pointer | null => {
    const at = path.lastIndexOf("/")
    return stamps.has(path.slice(at + 1)) ? path.slice(0, at) : null
  }
  const others = changes.map(({ path }) => path).filter((path) => stampedBy(path) === null)
  return changes.map(({ path }) => path).filter((path) => {
    const parent = stampedBy(path)
    if (own.has(path) || parent === null) return own.has(path)
    const beside = others.filter((other) => isAtOrBelow(other, parent))
    return beside.length > 0 && beside.every((other) => own.has(other))
  })
}

/**
 * Returns the plugin write that caused the event (null if external) and the expectations that it fulfills. If writes of
 * several plugins explain the event, the cause is the write with the greatest depth, with only that plugin's paths: the
 * changes of other plugins are new to it.
 */
export const attributeEvent = (
  event: RecordEvent,
  open: ReadonlyArray<OpenExpectation>
): { readonly cause: Cause | null; readonly fulfilled: ReadonlyArray<OpenExpectation> } => {
  const explained = open.filter(({ fulfilledIn }) => !fulfilledIn.includes(event.id))
    .map((one) => ({ one, paths: pathsOf(one.matcher, event) }))
    .filter(({ paths }) => paths.length > 0)
  const [first, ...rest] = explained.map(({ one }) => one)
  if (first === undefined) return { cause: null, fulfilled: [] }
  const { delivery, depth, plugin } = rest.reduce(
    (best, other) => other.depth > best.depth || (other.depth === best.depth && other.id > best.id) ? other : best,
    first
  )
  const own = new Set(explained.flatMap(({ one, paths }) => one.plugin === plugin ? paths : []))
  return {
    cause: { plugin, delivery, depth, paths: own.has("") ? [""] : withStamps(own, event.changes) },
    fulfilled: explained.map(({ one }) => one).filter((one) =>
      event.kind !== "updated" || isFulfilled(one, event.after)
    )
  }
}
