/**
 * The held changes of a hold: what an approval would publish, per record and counted by pattern.
 *
 * Invariants
 * 1. Only `contentOf` returns values; the caller adds the entry of the audit log first   (I11)
 */
import * as Effect from "effect/Effect"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { isObject, type JsonObject } from "../../domain/Canonical.ts"
import type { DeleteReason } from "../../domain/ChangeEvent.ts"
import { diff, type PathChange } from "../../domain/Diff.ts"
import type { Models } from "../../domain/Model.ts"
import { defaultProcessing } from "../../domain/Processing.ts"
import { findScopeChanges, isNothing, scopeVerbs } from "../../domain/ScopeChange.ts"
import type { HeldRow, ListedHold } from "../../store/Records.ts"
import { Store } from "../../store/Store.ts"
import type { HeldContents, HoldPatterns } from "../contract/HoldApi.ts"

const mostPaths = 200
const mostPatterns = 20
const mostCounted = 10_000
/** Rows in memory at a time   (I9). */
const pageSize = 250

interface HeldChange {
  readonly row: HeldRow
  readonly before: JsonObject | null
  readonly after: JsonObject | null
  /** Empty if the record would be deleted or restored. */
  readonly changes: ReadonlyArray<PathChange>
}

const parsed = (json: string | null): JsonObject | null => {
  const value: unknown = json === null ? null : JSON.parse(json)
  return isObject(value) ? value : null
}

const changeOf = (models: Models, { model }: ListedHold) => (row: HeldRow): HeldChange => {
  const [before, after] = [parsed(row.published), row.deleted ? null : parsed(row.content)]
  const { shape } = defaultProcessing(model, models)
  return { row, before, after, changes: before === null || after === null ? [] : diff(shape, before, after) }
}

export const changesOf = Effect.fnUntraced(function*(hold: ListedHold, after: string | null, limit: number) {
  return (yield* (yield* Store).heldRows(hold.id, after, limit)).map(changeOf(yield* CurrentModels, hold))
})

/** The paths that change, without values; and those of them that are empty afterwards, or before. */
export const pathsOf = ({ changes }: HeldChange) => {
  const shown = changes.slice(0, mostPaths)
  const paths = (some: ReadonlyArray<PathChange>): ReadonlyArray<string> => some.map(({ path }) => path)
  return {
    paths: paths(shown),
    lost: paths(shown.filter(({ after }) => isNothing(after))),
    gained: paths(shown.filter(({ before }) => isNothing(before)))
  }
}

const deletions: Readonly<Partial<Record<DeleteReason, string>>> = {
  flagged: "would be deleted: the API marks them as deleted",
  absent: "would be deleted: the API does not show them any longer",
  erased: "would be deleted: the API shows them without any content"
}

/** The effects of an approval on the record, a text for each. */
const effectsOf = ({ after, before, changes, row }: HeldChange): ReadonlyArray<string> => {
  if (row.deleted || after === null) {
    return [(row.reason === null ? undefined : deletions[row.reason]) ?? "would be deleted"]
  }
  if (before === null) return ["would be published again"]
  const scopes = findScopeChanges(before, after, changes)
  return scopes.length === 0 ? ["change without losing or getting a property"] : [
    ...new Set(scopes.map(({ path, to }) => `${scopeVerbs[to]} ${path.slice(1)}`))
  ]
}

export const patternsOf = Effect.fnUntraced(function*(hold: ListedHold) {
  const counts = new Map<string, number>()
  let counted = 0
  for (let after: string | null = null; counted < mostCounted;) {
    const page: ReadonlyArray<HeldChange> = yield* changesOf(hold, after, pageSize)
    for (const what of page.flatMap(effectsOf)) counts.set(what, (counts.get(what) ?? 0) + 1)
    counted += page.length
    if (page.length < pageSize) break
    after = page.at(-1)!.row.id
  }
  const patterns = [...counts].map(([what, records]) => ({ what, records }))
    .toSorted((one, other) => other.records - one.records).slice(0, mostPatterns)
  return { counted, patterns } satisfies HoldPatterns
})

const textOf = (value: unknown): string | null => typeof value === "string" && value !== "" ? value : null

/** The name of a record, or of its candidate or employee; null if it has none. */
const nameOf = (content: JsonObject): string | null => {
  const names = [content["first_name"], content["last_name"]].flatMap((part) => textOf(part) ?? [])
  const own = textOf(content["display_full_name"]) ?? textOf(names.join(" ")) ?? textOf(content["name"]) ??
    textOf(content["title"])
  if (own !== null) return own
  const person = [content["candidate"], content["employee"]].find(isObject)
  return person === undefined ? null : nameOf(person)
}

const linkOf = (content: JsonObject): string | null => {
  const url = textOf(content["remote_url"])
  return url !== null && URL.canParse(url) && new URL(url).protocol === "https:" ? url : null
}

export const contentOf = ({ after, before, changes, row }: HeldChange): HeldContents["items"][number] => {
  const content = before ?? after ?? {}
  return { id: row.id, name: nameOf(content), remote_url: linkOf(content), changes: changes.slice(0, mostPaths) }
}
