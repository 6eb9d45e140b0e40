import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { connectionOf } from "../sql/Connection.ts"
import * as CommitTracker from "./CommitTracker.ts"

const lost = new SqlError({ reason: new ConnectionError({ cause: new Error("lost") }) })

describe("a commit whose outcome was not found", () => {
  it.effect("may have raised the counter, so the note of the slot's next commit has the counter of the database (X14)", () =>
    Effect.gen(function*() {
      let counter = 0
      const connection = connectionOf((sql) =>
        Effect.sync(() =>
          sql.includes("INSERT INTO commit_counters") ? [{ counter: ++counter, name: "7" }] : [{ server: "" }]
        )
      )
      const tracker = CommitTracker.make({
        ready: "SELECT 1",
        wrote: "TRUE",
        transaction: "''",
        transactionOf: () => "7",
        server: "''",
        forget: "SELECT 1",
        renew: () => "SELECT 1"
      })
      yield* tracker.verify({}, connection)
      const notes: Array<number | undefined> = []
      const commit = (outcome: Effect.Effect<void, SqlError>) =>
        tracker.committing(connection, (note) => {
          notes.push(note?.counter)
          return outcome
        })
      yield* commit(Effect.void)
      yield* Effect.flip(commit(Effect.fail(lost)))
      yield* commit(Effect.void)
      yield* commit(Effect.void)
      assert.deepStrictEqual(notes, [1, 2, 3, 4])
    }))
})
