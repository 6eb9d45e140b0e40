import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { isArray, isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import { make } from "./Processing.ts"
import { appliedRules, combine, missingRules, redact, satisfies } from "./Redaction.ts"

const looksHashed = `redacted:${"A".repeat(43)}`
const leaf = Schema.Union([Schema.Null, Schema.Literals([1, true, "x", "redacted:x", looksHashed])])
const name = Schema.Literals(["a", "b", "c"])
const level = (inner: Schema.Codec<JsonValue>): Schema.Codec<JsonValue> =>
  Schema.Union([leaf, Schema.Array(inner), Schema.Record(name, inner)])
const record: Schema.Codec<JsonObject> = Schema.Record(name, level(level(level(level(leaf)))))
const pointers = ["/a", "/b", "/a/b", "/a/c", "/b/a", "/a/b/c"] as const
const how = Schema.Literals(["drop", "hash"])
const rule = Schema.optionalKey(how)
const rules = Schema.Struct({ "/a": rule, "/b": rule, "/a/b": rule, "/a/c": rule, "/b/a": rule, "/a/b/c": rule })
/** Replaces every leaf by a text that occurs once, so that a test sees which of them pass. */
const numbered = (value: JsonValue, count = { next: 0 }): JsonValue =>
  value === null
    ? null
    : isArray(value)
    ? value.map((member) => numbered(member, count))
    : isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, numbered(inner, count)]))
    : `secret ${++count.next}`

const leavesOf = (value: JsonValue | undefined): ReadonlyArray<string> =>
  typeof value === "string"
    ? [value]
    : isArray(value)
    ? value.flatMap(leavesOf)
    : isObject(value)
    ? Object.values(value).flatMap(leavesOf)
    : []

/** The leaves that are not at or below the path, and not in a place that does not have the structure of the path. */
const permitted = (value: JsonValue, [head, ...rest]: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([key, inner]) => {
    if (key !== head) return leavesOf(inner)
    if (rest.length === 0) return []
    return isArray(inner) ? inner.flatMap((member) => permitted(member, rest)) : permitted(inner, rest)
  })
}

describe("redaction of random records", () => {
  it.effect.prop(
    "lets no value at or below the pointer pass, whatever its shape (I11)",
    [record, Schema.Literals(pointers), how],
    ([shown, pointer, how]) =>
      Effect.sync(() => {
        const secret = numbered(shown) as JsonObject
        const seen = leavesOf(redact(secret, { [pointer]: how }, "k")).filter((text) => !text.startsWith("redacted:"))
        assert.deepStrictEqual(seen, permitted(secret, pointer.slice(1).split("/")))
      })
  )

  it.effect.prop(
    "hashes a value that looks like a hash, so that two values have equal hashes only if they are equal and the key is the same",
    [leaf, leaf],
    ([a, b]) =>
      Effect.sync(() => {
        const hashOf = (value: JsonValue) => redact({ a: value }, { "/a": "hash" }, "k")["a"]
        assert.strictEqual(hashOf(a) === hashOf(b), a === b)
        if (a === null) return
        assert.notStrictEqual(hashOf(a), a)
        assert.notStrictEqual(redact({ a }, { "/a": "hash" }, "other")["a"], hashOf(a))
      })
  )

  it.effect.prop(
    "is applied to stored content once, whatever the rules before: the same rules again change nothing (V1)",
    [record, rules, rules],
    ([shown, first, second]) =>
      Effect.sync(() => {
        const by = (redact: Record<string, "drop" | "hash">) =>
          make("ats.tag", { remoteData: "drop", redact, key: "k" })
        const [before, after] = [by(first), by(second)]
        const stored = before.apply(shown)
        assert.deepStrictEqual(before.reapply(stored, before.applied), stored)
        const again = after.reapply(stored, before.applied)
        const now = combine(before.applied, after.applied)
        assert.isTrue(satisfies(now, after.applied))
        assert.deepStrictEqual(after.reapply(again, now), again)
        assert.deepStrictEqual(before.reapply(again, now), again)
      })
  )

  it.effect.prop(
    "leaves values that the rules before have hashed as they are, and hashes the others (V1)",
    [record, rules],
    ([shown, before]) =>
      Effect.sync(() => {
        const both = { ...before, "/c": "hash" as const }
        const options = { remoteData: "drop", key: "k" } as const
        const [first, second] = [before, both].map((redact) => make("ats.tag", { ...options, redact }))
        assert.deepStrictEqual(second!.reapply(first!.apply(shown), first!.applied), second!.apply(shown))
      })
  )
})

describe("rules", () => {
  it("of different spelling that do the same have one id, and a pointer below another has no effect", () => {
    const { id } = appliedRules(true, { "/a": "hash", "/b": "drop" })
    assert.strictEqual(appliedRules(true, { "/b": "drop", "/a/c": "drop", "/a": "hash" }).id, id)
    assert.notStrictEqual(appliedRules(false, { "/a": "hash", "/b": "drop" }).id, id)
    assert.notStrictEqual(appliedRules(true, { "/a": "hash", "/b": "hash" }).id, id)
  })

  it("that content satisfies already are not missing: a dropped value cannot be hashed, a hashed one can be dropped", () => {
    const of = (redact: Record<string, "drop" | "hash">) => appliedRules(true, redact)
    assert.deepStrictEqual(missingRules(of({ "/a": "drop" }), of({ "/a": "hash" })), {})
    assert.deepStrictEqual(missingRules(of({ "/a": "hash" }), of({ "/a": "drop" })), { "/a": "drop" })
    assert.deepStrictEqual(missingRules(of({ "/a": "hash" }), of({ "/a/b": "drop" })), {})
    assert.deepStrictEqual(missingRules(of({ "/a/b": "hash" }), of({ "/a": "hash" })), { "/a": "hash" })
    assert.deepStrictEqual(missingRules(of({ "/ab": "drop" }), of({ "/a": "drop" })), { "/a": "drop" })
  })
})
