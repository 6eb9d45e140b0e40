/** Rules that change at random, between changes of records and processes that end while they redact. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { SqlClient } from "effect/sql/SqlClient"
import { endingAfter } from "../../../test/support/capture/EndingProcess.ts"
import { redact } from "../../../test/support/capture/Redactions.ts"
import { rigWith, scenario } from "../../../test/support/capture/Rig.ts"
import * as Processing from "../../domain/Processing.ts"

const fields = ["a", "b", "c"] as const
const rule = Schema.optionalKey(Schema.Literals(["drop", "hash"]))
const rules = Schema.Struct({ "/a": rule, "/b": rule, "/c": rule })
type Rules = typeof rules.Type
const id = Schema.Literals(["x", "y"])
const Step = Schema.Union([
  Schema.TaggedStruct("put", { id, field: Schema.Literals(fields), isNull: Schema.Literals([false, false, true]) }),
  Schema.TaggedStruct("nameless", {}),
  Schema.TaggedStruct("vanish", { id }),
  Schema.TaggedStruct("read", { by: Schema.Literals(["poll", "sweep"]) }),
  Schema.TaggedStruct("rules", { rules, transactions: Schema.Literals([0, 1, 2, 3, 5, 20]) })
])

const by = (redact: Rules) => Processing.make("ats.application", { remoteData: "drop", redact, key: "k" })

describe("redaction of random histories", () => {
  it.effect.prop(
    "reaches every stored value of the rules that hold at the end, and keeps every lifecycle complete (V1, I3, I11)",
    [Schema.Array(Step), rules],
    ([steps, last]) =>
      scenario(function*(rig) {
        let current: Rules = {}
        let count = 0
        const rows = new Map<string, Record<string, unknown>>()
        yield* rig.sweep
        for (const step of steps) {
          yield* rig.wait("1 minute")
          const reading = rigWith(rig, by(current))
          const secret = (field: string) => `secret ${field} ${++count}`
          if (step._tag === "put") {
            const row = { ...rows.get(step.id), [step.field]: step.isNull ? null : secret(step.field) }
            rows.set(step.id, row)
            yield* rig.put({ ...row, id: step.id })
          } else if (step._tag === "vanish") rig.api.vanish(step.id)
          else if (step._tag === "read") yield* reading[step.by]
          else if (step._tag === "nameless") {
            rig.api.intercept = (_, page) => ({
              ...page,
              results: [...page.results, { a: secret("a"), b: [secret("b")] }]
            })
            yield* reading.poll
            rig.api.intercept = (_, page) => page
          } else {
            current = step.rules
            yield* endingAfter(step.transactions, redact(rig, by(current)))
          }
        }
        yield* redact(rig, by(last))
        const sql = yield* SqlClient
        for (const table of ["events", "pending", "quarantine"]) {
          const stored = JSON.stringify(yield* sql`SELECT * FROM ${sql(table)}`)
          for (const field of fields) {
            if (last[`/${field}`] !== undefined) {
              assert.isFalse(stored.includes(`secret ${field}`), `${field} in ${table}`)
            }
          }
        }
        assert.isUndefined((yield* rig.state).redacting)
        const contents = new Map<string, string | null>()
        for (const { after, before, id, kind } of yield* rig.events) {
          assert.strictEqual(before, contents.get(id) ?? null)
          assert.strictEqual(after === null, kind === "deleted")
          contents.set(id, after)
        }
        const before = (yield* rig.events).length
        const reading = rigWith(rig, by(last))
        for (const run of [reading.sweep, reading.sweep]) {
          yield* rig.wait("1 hour")
          yield* run
        }
        const later = (yield* rig.events).slice(before)
        assert.isFalse(later.some(({ after }) =>
          fields.some((field) => last[`/${field}`] !== undefined && after?.includes(`secret ${field}`))
        ))
      })
  )
})
