import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { canonicalHash, isArray, isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import { diff, type PathChange } from "./Diff.ts"
import * as Processing from "./Processing.ts"

const processing = Processing.defaultProcessing("ats.application")
const { shape } = processing

const id = Schema.Literals(["a", "b", "c/d", "e~f"])
const scalar = Schema.Union([
  Schema.Null,
  Schema.Boolean,
  Schema.Literals([0, 1, -1, 2.5]),
  Schema.Literals(["", "x", "y"])
])
const named = Schema.Struct({ id, name: scalar })
const Application = Schema.Struct({
  id: Schema.Literal("A"),
  outcome: scalar,
  changed_at: Schema.Literals(["2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"]),
  candidate: Schema.NullOr(Schema.Struct({
    id,
    first_name: scalar,
    changed_at: scalar,
    remote_data: scalar,
    phone_numbers: Schema.Array(Schema.Struct({ phone_number: scalar, type: scalar })),
    tags: Schema.Array(named)
  })),
  interviews: Schema.Array(named),
  screening_question_answers: Schema.Array(Schema.Struct({ answer: scalar })),
  custom_fields: Schema.NullOr(Schema.Record(Schema.Literals(["1", "10", "2", "changed_at", "a/b"]), scalar))
})
type Application = typeof Application.Type
const plain = (value: Application): JsonObject => JSON.parse(JSON.stringify(value)) as JsonObject

/** The same content with another order of keys and of members that are compared by id or by content. */
const shuffled = (value: JsonValue, name = ""): JsonValue => {
  if (isArray(value)) {
    const members = value.map((member) => shuffled(member))
    return name === "screening_question_answers" ? members : members.reverse()
  }
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).reverse().map(([key, member]) => [key, shuffled(member, key)]))
}

/** Applies changes like a consumer. */
const apply = (value: JsonObject, changes: ReadonlyArray<PathChange>): JsonObject => {
  const result = structuredClone(value) as Record<string, JsonValue>
  for (const change of changes) {
    const names = change.path.slice(1).split("/").map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"))
    let target: unknown = result
    for (const name of names.slice(0, -1)) target = step(target, name)
    put(target, names.at(-1)!, change.after)
  }
  return result
}
const step = (target: unknown, name: string): unknown =>
  Array.isArray(target)
    ? target.find((member: { id?: string }) => member.id === name) ?? target[Number(name)]
    : (target as Record<string, unknown>)[name]
const put = (target: unknown, name: string, after: JsonValue): void => {
  if (!Array.isArray(target)) {
    ;(target as Record<string, JsonValue>)[name] = after
    return
  }
  const index = target.findIndex((member: { id?: string }) => member.id === name)
  if (index < 0 && isObject(after) && "id" in after) target.push(after)
  else if (after === null && index >= 0) target.splice(index, 1)
  else target[index < 0 ? Number(name) : index] = after
}

describe("Canonical and Diff", () => {
  it.prop("the order of keys and of set-like arrays is not significant (S4, N2)", [Application], ([application]) => {
    const value = plain(application)
    assert.strictEqual(
      canonicalHash(shape, value),
      canonicalHash(shape, shuffled(value) as JsonObject)
    )
  })

  it.prop("the diff is empty exactly when the canonical forms are equal", [Application, Application], ([a, b]) => {
    const [before, after] = [plain(a), plain(b)]
    assert.strictEqual(
      diff(shape, before, after).length === 0,
      canonicalHash(shape, before) === canonicalHash(shape, after)
    )
  })

  it.prop(
    "applying the changes to the content before gives the content after",
    [Application, Application],
    ([a, b]) => {
      const unique = (value: JsonObject): JsonObject =>
        JSON.parse(
          JSON.stringify(value, (_, member: unknown) =>
            Array.isArray(member) && member.every((one: { id?: string } | null) =>
                typeof one?.id === "string"
              )
              ? [...new Map(member.map((one: { id: string }) => [one.id, one])).values()]
              : member)
        ) as JsonObject
      const [before, after] = [unique(plain(a)), unique(plain(b))]
      // A change does not distinguish absent from null, so records with the same keys are compared.
      if (
        JSON.stringify(Object.keys(before["custom_fields"] ?? {})) !==
          JSON.stringify(Object.keys(after["custom_fields"] ?? {}))
      ) return
      const applied = apply(before, diff(shape, before, after))
      assert.strictEqual(canonicalHash(shape, applied), canonicalHash(shape, after))
    }
  )

  it.prop(
    "no change has a volatile path, except in a custom field of that name",
    [Application, Application],
    ([a, b]) => {
      for (const change of diff(shape, plain(a), plain(b))) {
        assert.notMatch(change.path, /^\/(candidate\/)?(changed_at|remote_updated_at)$/)
      }
    }
  )

  it.prop("dropped remote_data is null on embedded records too", [Application], ([application]) => {
    const value = processing.apply(plain(application))
    if (isObject(value["candidate"])) assert.isNull(value["candidate"]["remote_data"])
  })
})
