import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { runs } from "../../test/support/Runs.ts"
import { canonical, childOf, isArray, isObject, type JsonValue, memberKeys, type Shape } from "./Canonical.ts"

type Form = null | boolean | number | string | ReadonlyArray<Form>

const compare = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0

const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?(?:Z|[+-]\d\d:\d\d)$/

const timeOf = (text: string): string => {
  if (!isoTime.test(text)) return text
  const [time, day] = [Date.parse(text), Date.parse(text.slice(0, 10))]
  const isDay = !Number.isNaN(time) && !Number.isNaN(day) && new Date(day).toISOString().startsWith(text.slice(0, 10))
  return isDay ? new Date(time).toISOString() : text
}

/** The canonical text as it is defined: lists with a tag, which `JSON.stringify` writes. */
const formOf = (value: JsonValue, shape: Shape | undefined, name: string): Form => {
  if (typeof value === "string") return timeOf(value)
  if (isObject(value)) {
    const keys = Object.keys(value).filter((key) => value[key] !== undefined && shape?.masked.has(key) !== true)
    return [0, ...keys.sort(compare).flatMap((key) => [key, formOf(value[key]!, childOf(shape, key), key)])]
  }
  if (!isArray(value)) return value
  const members = value.map((member, index) => {
    const form = formOf(member, shape, "")
    return { form, text: JSON.stringify(form), key: memberKeys(name, value)?.[index] ?? "" }
  })
  const isSet = memberKeys(name, value) !== undefined || shape?.unordered.has(name) === true
  const sorted = isSet ? members.sort((a, b) => compare(a.key, b.key) || compare(a.text, b.text)) : members
  return [1, ...sorted.map(({ form }) => form)]
}

const none: ReadonlySet<string> = new Set()
const inner: Shape = { masked: new Set(["x"]), unordered: new Set(["b"]), children: {} }
const shape: Shape = {
  masked: new Set(["changed_at"]),
  unordered: new Set(["b", "2"]),
  children: { a: inner, b: { masked: none, unordered: new Set(["b"]), children: { a: inner } } }
}

const text = Schema.Union([
  Schema.String,
  Schema.Literals(["", "é\u{1f600}", 'a"b\\c\n\u0000\u001f\u007f\u2028', "\ud800", "half \udfff", "__proto__"]),
  Schema.Literals([
    "2026-01-01T00:00:00.000Z",
    "2026-01-01T00:00:00Z",
    "2026-12-31T23:59:59.999+14:00",
    "2026-02-30T00:00:00.000Z",
    "2026-02-29T10:00:00.5Z",
    "2024-02-29T10:00:00.000Z",
    "2026-13-01T00:00:00.000Z",
    "2026-00-10T00:00:00.000Z",
    "2026-01-00T00:00:00.000Z",
    "2026-01-01T24:00:00.000Z",
    "2026-01-01T25:00:00.000Z",
    "2026-01-01T00:60:00.000Z",
    "0000-01-01T00:00:00.000Z",
    "2026-01-01T00:00:00.0000Z",
    "2026-01-01 00:00:00.000Z"
  ])
])
const scalar = Schema.Union([
  Schema.Null,
  Schema.Boolean,
  Schema.Finite,
  Schema.Literals([-0, 1e21, 1e-7, 5e-324]),
  text
])
const key = Schema.Union([
  Schema.Literals(["a", "b", "x", "id", "skill_id", "changed_at", "ordered_options", "1", "10", "2", "é", '"']),
  Schema.String
])
const object = <S extends Schema.Top>(value: S) => Schema.Record(key, value)
const level1 = Schema.Union([scalar, object(scalar), Schema.Array(scalar), Schema.Array(object(scalar))])
const level2 = Schema.Union([level1, object(level1), Schema.Array(level1), Schema.Array(object(level1))])
const Value = object(level2)

describe("the canonical text", () => {
  for (const each of [undefined, shape]) {
    it.prop(
      `is that of its definition, ${each === undefined ? "without" : "with"} the structure of a model`,
      [Value],
      ([value]) => {
        const json = value as JsonValue
        assert.strictEqual(canonical(json, each), JSON.stringify(formOf(json, each, "")))
      },
      { arbitrary: { runs: runs(150) } }
    )
  }

  it("does not depend on the objects that were written before, even with the same number of keys", () => {
    const values: ReadonlyArray<JsonValue> = [{ a: 1, b: 2 }, { a: 1, c: 2 }, { b: 1, a: 2 }, { a: 1, changed_at: 2 }, {
      a: 1,
      b: 2
    }]
    for (const each of [undefined, shape]) {
      for (const value of [...values, ...values.toReversed()]) {
        assert.strictEqual(canonical(value, each), JSON.stringify(formOf(value, each, "")))
      }
    }
  })
})
