import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { connectionOf } from "../sql/Connection.ts"
import { outcomeOf } from "./PostgresCommit.ts"

describe("a transaction whose connection was lost during its commit", () => {
  it.effect("counts as committed if it commits while a statement runs that asks for its outcome (I2)", () =>
    Effect.gen(function*() {
      let committed = false
      /** Rows are those of the moment at which the statement began; the status is that of the moment. */
      const connection = connectionOf((sql) =>
        Effect.sync(() => {
          const counter = committed ? 8 : 7
          committed = true
          return [{ counter, ...sql.includes("pg_xact_status") ? { status: "committed" } : {} }]
        })
      )
      const note = { process: "p", slot: 0, counter: 8, transaction: "900" }
      assert.deepStrictEqual(yield* outcomeOf(connection, note), { ended: true, committed: true })
    }))
})
