import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { spell, type Spelling } from "../../test/support/source/Spelling.ts"
import { SeededRandom } from "../sandbox/world/SeededRandom.ts"
import { scanList, scanValue } from "./JsonScan.ts"
import { parseExactly, RawRow } from "./RawRow.ts"

const seed = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0x7fffffff }))

/** None with a backslash: JSON.parse of V8 13 reads `{"\u0061":1}` as such a name if another object had it at this place. */
const names = ["id", "changed_at", "data", "results", "a", "", '"', "é", "1", "__proto__"]
const texts = ["", "x", 'a"b\\c', "é😀\u2028", "\u0000\n", "}]", "\ud800", "2026-01-01T00:00:00Z", "id"]
const numbers = [0, -0, 1, -1.5, 1e21, 123456789012, 0.1]

const anyValue = (random: SeededRandom, levels: number): unknown => {
  const kind = random.int(0, levels === 0 ? 3 : 5)
  if (kind === 0) return random.pick([null, true, false])
  if (kind === 1) return random.pick(numbers)
  if (kind <= 3) return random.pick(texts)
  const members = Array.from({ length: random.int(0, 4) }, () => anyValue(random, levels - 1))
  if (kind === 4) return members
  return JSON.parse(`{${members.map((one) => `${JSON.stringify(random.pick(names))}:${JSON.stringify(one)}`).join()}}`)
}
/** With more digits, and with smaller and larger exponents, than a fixed number of places can show. */
const precise = [1 / 8_100_000, 1 / 3e20, Number.MIN_VALUE, 0.1 + 0.2, 1e21, Number.MAX_VALUE]

const anySpelling = (random: SeededRandom): Spelling => {
  const often = () => random.pick([0, 0.1, 0.5])
  return { space: often(), escapes: often(), numbers: often(), order: often(), repeated: often() }
}

/** Characters that make a text invalid, or another valid text. */
const characters = [
  '"',
  "\\",
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  " ",
  "0",
  "1",
  "-",
  ".",
  "e",
  "u",
  "t",
  "\n",
  "\u0001",
  "é"
]
const damaged = (text: string, random: SeededRandom): string => {
  const at = random.int(0, text.length)
  const kept = random.pick([0, 0, 1, 2])
  const changed = text.slice(0, at) + (random.boolean(0.7) ? random.pick(characters) : "") + text.slice(at + kept)
  // without a backslash in a name, as in `names`
  return /\\\\(?:[^"\\]|\\.)*"\s*:/.test(changed) ? text : changed
}

const parsed = (text: string): { readonly value: unknown } | null => {
  try {
    return { value: parseExactly(text) }
  } catch {
    return null
  }
}

const own = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined

const levelsOf = (value: unknown): number =>
  typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(levelsOf)) : 0

describe("JsonScan and RawRow", () => {
  it.prop("accept exactly the texts that JSON.parse accepts, and find the same values", [seed], ([seed]) => {
    const random = new SeededRandom(seed)
    for (let count = 0; count < 20; count++) {
      const valid = spell(anyValue(random, 4), random, anySpelling(random))
      const text = random.boolean(0.7) ? damaged(valid, random) : valid
      const bytes = Buffer.from(text)
      const from = text.length - text.replace(/^[ \t\r\n]+/, "").length
      const found = scanValue(bytes, from)
      const accepted = found !== null && /^[ \t\r\n]*$/.test(bytes.toString("utf8", found.to))
      const expected = parsed(bytes.toString())
      assert.strictEqual(accepted, expected !== null, text)
      if (found === null || expected === null) continue
      const row = new RawRow(bytes, found)
      assert.deepStrictEqual(row.value, expected.value, text)
      assert.deepStrictEqual(row.id, own(expected.value, "id"), text)
      assert.deepStrictEqual(row.changedAt, own(expected.value, "changed_at"), text)
      assert.strictEqual(found.depth >= levelsOf(expected.value), true, text)
    }
  })

  it.prop("find the rows of a response as JSON.parse does, wherever its list is", [seed], ([seed]) => {
    const random = new SeededRandom(seed)
    for (let count = 0; count < 20; count++) {
      const rows = Array.from({ length: random.int(0, 4) }, () => anyValue(random, 2))
      const data = random.boolean(0.9) ? { next: "c", results: random.boolean(0.9) ? rows : anyValue(random, 2) } : rows
      const response = { status: "success", data, results: [1], warnings: anyValue(random, 1) }
      const valid = `${random.boolean(0.1) ? "\ufeff" : ""} ${spell(response, random, anySpelling(random))}\n`
      const text = random.boolean(0.4) ? damaged(valid, random) : valid
      const bytes = Buffer.from(text)
      const expected = parsed(bytes.toString().replace(/^\ufeff/, ""))
      const found = scanList(bytes, "results")
      assert.strictEqual(found !== null, expected !== null, text)
      if (found === null || expected === null) continue
      const list = own(own(expected.value, "data"), "results")
      assert.deepStrictEqual(
        typeof found === "string" ? found : found.members.map((member) => new RawRow(bytes, member).value),
        Array.isArray(list) ? list : "none",
        text
      )
    }
  })

  it("stop at a row beyond the limit, and accept as many rows as the limit", () => {
    const bytes = Buffer.from('{"status":"success","data":{"results":[{"id":"1"},{"id":"2"}]}}')
    assert.strictEqual(scanList(bytes, "results", 1), "long")
    assert.isObject(scanList(bytes, "results", 2))
  })

  it("count every level of nesting, however deep", () => {
    for (const levels of [1, 100, 101, 100_000]) {
      const text = `${'[{"a":'.repeat(levels)}1${"}]".repeat(levels)}`
      assert.strictEqual(scanValue(Buffer.from(text), 0)?.depth, 2 * levels)
      assert.isNull(scanValue(Buffer.from(text.slice(0, -1)), 0))
    }
  })

  it("keep the digits of a number that a double cannot represent", () => {
    for (const digits of ["12345678901234567890", "-9007199254740993", "1e999", "-1E+0999"]) {
      const bytes = Buffer.from(`{"a":[${digits}],"id":"x"}`)
      assert.deepStrictEqual(new RawRow(bytes, scanValue(bytes, 0)!).value, { a: [digits], id: "x" })
      const named = Buffer.from(`{"id":${digits},"changed_at":${digits}}`)
      const row = new RawRow(named, scanValue(named, 0)!)
      assert.deepStrictEqual([row.id, row.changedAt], [digits, digits])
    }
    const bytes = Buffer.from(`{"a":[9007199254740992,1e-999,1.5e3,123456789012345678.5]}`)
    assert.deepStrictEqual(new RawRow(bytes, scanValue(bytes, 0)!).value, {
      a: [9007199254740992, 0, 1500, 123456789012345680]
    })
  })
})

describe("the spellings that tests use", () => {
  it.prop("keep the value of every number, also of a small one (world 768338732)", [seed], ([seed]) => {
    const random = new SeededRandom(seed)
    const value = [...precise, ...precise.map((one) => -one), random.next(), random.next() * 1e-12]
    const text = spell(value, random, { ...anySpelling(random), numbers: 1, repeated: 0 })
    assert.deepStrictEqual(JSON.parse(text), value)
  })
})
