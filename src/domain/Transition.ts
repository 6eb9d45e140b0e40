/**
 * Names the steps that a change means in the business: hired, declined, stage_changed, …
 *
 * Gotchas
 * - A record first seen as hired *is* `hired` (T2); an old one found late is not: its caller passes no transition at all.
 */
import { isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import { entryOf, type Model, type TransitionRule } from "./Model.ts"

export interface Transition {
  readonly name: string
  readonly from: string | null
  readonly to: string | null
}

const valueAt = (record: JsonObject | null, path: ReadonlyArray<string>): string | null => {
  let value: JsonValue | undefined = record
  for (const name of path) value = isObject(value) ? value[name] : undefined
  return value === null || value === undefined ? null : typeof value === "string" ? value : JSON.stringify(value)
}

const happened = (rule: TransitionRule, from: string | null, to: string | null): boolean => {
  if (to === null || to === from) return false
  if (rule.when === "set") return true
  if (rule.when === "moves") return from !== null
  return rule.when.includes(to) && !(from !== null && rule.when.includes(from))
}

/** Transitions from `before` (null: nothing) to `after`. */
export const transitionsOf = (
  model: Model,
  before: JsonObject | null,
  after: JsonObject
): ReadonlyArray<Transition> =>
  entryOf(model).transitions.flatMap((rule) => {
    const from = valueAt(before, rule.path)
    const to = valueAt(after, rule.path)
    return happened(rule, from, to) ? [{ name: rule.name, from, to }] : []
  })
