/** Random sequences of processing rules: an unchanged record is never published. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { owning, rigWith, scenario } from "../../../test/support/capture/Rig.ts"
import { indented } from "../../../test/support/source/Spelling.ts"
import * as Processing from "../../domain/Processing.ts"
import { redactStored } from "../rewrite/Redactor.ts"

const scalar = Schema.Union([Schema.Null, Schema.Literals([0, 2.5]), Schema.Literals(["", "x", "redacted:x"])])
const Application = Schema.Struct({
  title: scalar,
  remote_data: Schema.NullOr(Schema.Struct({ raw: scalar })),
  candidate: Schema.NullOr(Schema.Struct({
    id: Schema.Literals(["c", "d"]),
    first_name: scalar,
    remote_data: scalar,
    phone_numbers: Schema.Array(Schema.Struct({ phone_number: scalar })),
    tags: Schema.Array(Schema.Struct({ id: Schema.Literals(["t", "u"]), name: scalar }))
  })),
  custom_fields: Schema.NullOr(Schema.Record(Schema.Literals(["1", "a/b"]), scalar))
})
const paths = [
  "/title",
  "/candidate",
  "/candidate/first_name",
  "/candidate/phone_numbers/phone_number",
  "/candidate/tags/name",
  "/candidate/tags/id",
  "/custom_fields/a~1b",
  "/remote_data/raw"
] as const
const Rules = Schema.Struct({
  remoteData: Schema.Literals(["drop", "carry", "track"]),
  redact: Schema.Record(Schema.Literals(paths), Schema.Literals(["drop", "hash"]))
})

/** `redact`: by these rules, but no record is read with them. */
const Change = Schema.Struct({ rules: Rules, what: Schema.Literals(["sweep", "sweep other bytes", "redact"]) })

const byRules = (rules: Processing.ProcessingRules) => Processing.make("ats.application", { ...rules, key: "k" })

describe("changed processing rules", () => {
  it.effect.prop(
    "an unchanged record is neither published nor held after any change of rules (V1)",
    [Schema.Array(Application), Rules, Schema.Array(Change), Schema.Literals([true, false])],
    ([applications, first, others, isBack]) =>
      scenario(function*(rig) {
        for (const [index, application] of applications.entries()) yield* rig.put({ id: `r${index}`, ...application })
        yield* rig.sweep
        const last = isBack ? first : others.at(-1)?.rules ?? first
        let spelling = 0
        for (const { rules, what } of [...others, { rules: last, what: "sweep other bytes" } as const]) {
          if (what === "redact") yield* redactStored(owning(rig.stream.owner), () => byRules(rules))
          else {
            if (what === "sweep other bytes") spelling++
            rig.api.intercept = indented(spelling)
            yield* rigWith(rig, byRules(rules)).sweep
          }
        }
        assert.strictEqual((yield* rig.events).length, applications.length)
        assert.deepStrictEqual(yield* rig.pending, {})
        assert.deepStrictEqual(yield* rig.holds, [])
      }, { processing: byRules(first) }),
    { arbitrary: { runs: 60, size: 8 } }
  )
})
