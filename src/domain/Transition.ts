/**
 * Finds the business steps (hired, declined, stage_changed, …) that a change represents; the rules are data of the model's entry.
 *
 * Gotchas
 * - A new record that already has the outcome HIRED is reported as `hired` (T2). For an old record that is read for the first time, the
 *   caller does not call this function, because the step happened long ago.
 */
import { isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import type { RecordEntry, TransitionRule } from "./Model.ts"

export interface Transition {
  readonly name: string
  readonly from: string | null
  readonly to: string | null
}

/** The path of the property whose change is this transition; empty if the transition does not exist. */
export const transitionPath = ({ transitions }: RecordEntry, transition: string): ReadonlyArray<string> =>
  transitions.find(({ name }) => name === transition)?.path ?? []

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

/** Transitions from `before` (null: the record is new) to `after`. */
export const transitionsOf = (
  { transitions }: RecordEntry,
  before: JsonObject | null,
  after: JsonObject
): ReadonlyArray<Transition> =>
  transitions.flatMap((rule) => {
    const from = valueAt(before, rule.path)
    const to = valueAt(after, rule.path)
    return happened(rule, from, to) ? [{ name: rule.name, from, to }] : []
  })
