import { assert, describe, it } from "@effect/vitest"
import { compilePattern } from "./Patterns.ts"

const matches = (pattern: string, text: string): boolean =>
  (compilePattern(pattern) ?? assert.fail(`${pattern} was refused`))(text)

describe("compilePattern", () => {
  it("a pattern matches the same texts as in JavaScript (U21)", () => {
    const texts = [
      "",
      "a",
      "A1",
      "ab-12",
      "12",
      "2024-05-01",
      "ada@example.org",
      "é",
      "a/b",
      "日本",
      "-",
      "a\nb",
      "+41 31 000"
    ]
    const patterns = [
      "^[A-Z]",
      "\\d{2}",
      "^\\d{4}-\\d{2}-\\d{2}$",
      "^[\\w.+-]+@[\\w-]+\\.\\w+$",
      "^(?:a|A\\d)$",
      "(?<year>\\d{4})",
      "\\/",
      "^[\\u00e0-\\u00ff]+$",
      "^\\u65e5",
      "\\\\u0061",
      "^.$",
      "^[^\\d]*$",
      "b-1{1,2}",
      "^$",
      "^\\+?[\\d ]+$"
    ]
    for (const pattern of patterns) {
      for (const text of texts) {
        assert.strictEqual(
          matches(pattern, text),
          new RegExp(pattern).test(text),
          `${pattern} on ${JSON.stringify(text)}`
        )
      }
    }
  })

  it("a pattern matches anywhere unless it is anchored (U21)", () => {
    assert.isTrue(matches("b", "abc"))
    assert.isFalse(matches("^b$", "abc"))
  })

  it("rejects patterns that cannot be matched in linear time, and invalid patterns (U21)", () => {
    for (
      const pattern of [
        "(?=a)",
        "(?!a)b",
        "(?<=a)b",
        "(a)\\1",
        "(?<x>a)\\k<x>",
        "[\\b]",
        "\\c",
        "[",
        "(",
        "a{2,1}",
        "*"
      ]
    ) {
      assert.isNull(compilePattern(pattern), pattern)
    }
  })

  it("rejects patterns that are too long or become too long through repetition (U21)", () => {
    const large = ["(a|b)?".repeat(1000), `(${"[ab]?".repeat(190)}){0,1000}`, "a{0,1000}".repeat(110)]
    for (const pattern of large) assert.isNull(compilePattern(pattern), pattern)
    for (const pattern of ["((a{100}){100}){100}", "(((a{9}){9}){9}){9}", "a{1001}"]) {
      assert.isNull(compilePattern(pattern), pattern)
    }
  })

  it("accepts the lengths that occur in real forms (U21)", () => {
    const mail = "^[a-zA-Z0-9._%+-]{1,64}@[a-zA-Z0-9.-]{1,255}\\.[a-zA-Z]{2,63}$"
    assert.isTrue(matches(mail, "ada@example.org"))
    assert.isFalse(matches(mail, `${"a".repeat(65)}@example.org`))
    assert.isTrue(matches("^.{1,1000}$", "a".repeat(1000)))
    assert.isFalse(matches("^.{1,1000}$", "a".repeat(1001)))
  })

  const hostile = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "^(.*a){20}$", "(x+x+)+y"]
  it.each(hostile)("matching %s takes time linear in the text (U21)", (pattern) => {
    const run = compilePattern(pattern) ?? assert.fail("it was refused")
    const before = process.threadCpuUsage()
    assert.isFalse(run(`${"a".repeat(50_000)}!`))
    assert.isBelow(process.threadCpuUsage(before).user, 5_000_000)
  })
})
