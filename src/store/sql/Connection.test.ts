/** The connection of a transaction: what it sends together, and what happens if a statement fails that was sent later than it was issued. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import { ConnectionError, LockTimeoutError, SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import type { Send } from "./Connection.ts"
import * as Connection from "./Connection.ts"
import { toStoreError } from "./SqlRetry.ts"

const locked = new SqlError({ reason: new LockTimeoutError({ cause: new Error("locked") }) })
const lost = new SqlError({ reason: new ConnectionError({ cause: new Error("lost") }) })

/** A database that notes what it gets, and refuses or never answers some statements. */
const database = Effect.fnUntraced(function*(
  answers: Readonly<Record<string, SqlError | Effect.Effect<never>>> = {}
) {
  const sends: Array<ReadonlyArray<string>> = []
  const send: Send = (steps, received) => {
    sends.push(steps.map(({ sql }) => sql))
    return Effect.forEach(steps, ({ sql }) => {
      const answer = answers[sql]
      if (answer instanceof SqlError) return Effect.fail(answer)
      return Effect.andThen(answer ?? Effect.void, Effect.sync(() => received([{ of: sql }])))
    }, { discard: true })
  }
  const sql = yield* SqlClient.make({
    acquirer: Effect.succeed(Connection.single(send)),
    transactionAcquirer: Effect.sync(() => Connection.transaction(send)),
    compiler: Statement.makeCompilerSqlite(),
    driver: "test",
    onCommitFailure: (connection) => Effect.asVoid(connection.execute("ROLLBACK", [], undefined)),
    spanAttributes: []
  }).pipe(Effect.provide(Reactivity.layer))
  return { sends, sql }
})

const [lock, read, insert, update] = ["SELECT 1 FOR UPDATE", "SELECT 2", "INSERT INTO a", "\n  UPDATE b"]

describe("a transaction", () => {
  it.effect("sends statements without rows together with the next one that returns rows, or with COMMIT, in order", () =>
    Effect.gen(function*() {
      const { sends, sql } = yield* database()
      const rows = yield* Effect.gen(function*() {
        yield* Connection.later(sql.unsafe(lock))
        const first = yield* Connection.issue(sql.unsafe(read))
        assert.isNull(first())
        const returned = yield* sql.unsafe("INSERT INTO c RETURNING d")
        yield* sql.unsafe(insert)
        yield* sql.unsafe(update)
        return [first(), returned]
      }).pipe(sql.withTransaction)
      assert.deepStrictEqual(sends, [
        ["BEGIN", lock, read, "INSERT INTO c RETURNING d"],
        [insert, update, "COMMIT"]
      ])
      assert.deepStrictEqual(rows, [[{ of: read }], [{ of: "INSERT INTO c RETURNING d" }]])
    }))

  it.effect("sends nothing if it has no statement, or if it fails before it has sent one", () =>
    Effect.gen(function*() {
      const { sends, sql } = yield* database()
      yield* sql.withTransaction(Effect.void)
      yield* Effect.flip(sql.withTransaction(Effect.andThen(sql.unsafe(insert), Effect.fail("no"))))
      assert.isEmpty(sends)
      yield* sql.unsafe(read).pipe(
        Effect.andThen(sql.unsafe(insert)),
        Effect.andThen(Effect.fail("no")),
        (body) => Effect.flip(sql.withTransaction(body))
      )
      assert.deepStrictEqual(sends, [["BEGIN", read], ["ROLLBACK"]])
    }))

  it.effect("fails with the error of a statement that waited, under the name of its operation, and is not committed", () =>
    Effect.gen(function*() {
      const { sends, sql } = yield* database({ [insert]: locked })
      const writing = toStoreError("write")(sql.unsafe(insert))
      const inBody = yield* writing.pipe(
        Effect.andThen(toStoreError("read")(sql.unsafe(read))),
        sql.withTransaction,
        toStoreError("transact"),
        Effect.flip
      )
      assert.strictEqual(inBody.reason._tag === "Unavailable" ? inBody.reason.operation : null, "write")
      const atCommit = yield* writing.pipe(sql.withTransaction, toStoreError("transact"), Effect.flip)
      assert.strictEqual(atCommit.reason._tag === "Unavailable" ? atCommit.reason.operation : null, "write")
      const ignored = yield* writing.pipe(
        Effect.andThen(Effect.ignore(sql.unsafe(read))),
        Effect.andThen(Effect.ignore(sql.unsafe(update))),
        sql.withTransaction,
        Effect.flip
      )
      assert.strictEqual(ignored, locked)
      assert.deepStrictEqual(sends, [
        ["BEGIN", insert, read],
        ["ROLLBACK"],
        ["BEGIN", insert, "COMMIT"],
        ["ROLLBACK"],
        ["BEGIN", insert, read],
        ["ROLLBACK"]
      ])
    }))

  it.effect("goes on after the error of a statement that did not wait", () =>
    Effect.gen(function*() {
      const { sends, sql } = yield* database({ [read]: lost })
      yield* sql.withTransaction(Effect.andThen(Effect.flip(sql.unsafe(read)), sql.unsafe(update)))
      assert.deepStrictEqual(sends, [["BEGIN", read], [update, "COMMIT"]])
    }))

  it.effect("is not committed after a statement was interrupted", () =>
    Effect.gen(function*() {
      const { sends, sql } = yield* database({ [read]: Effect.never })
      const committing = sql.withTransaction(Effect.gen(function*() {
        const reading = yield* Effect.forkChild(sql.unsafe(read), { startImmediately: true })
        yield* Fiber.interrupt(reading)
        yield* Effect.ignore(sql.unsafe(insert))
      }))
      assert.match((yield* Effect.flip(committing)).message, /interrupted/)
      assert.deepStrictEqual(sends, [["BEGIN", read], ["ROLLBACK"]])
    }))

  it.effect("that has not begun goes on after a statement was interrupted, because each of its statements is on its own", () =>
    Effect.gen(function*() {
      const { sends, sql } = yield* database({ [read]: Effect.never })
      const connection = yield* sql.reserve
      const reading = yield* Effect.forkChild(connection.executeRaw(read, []), { startImmediately: true })
      yield* Fiber.interrupt(reading)
      assert.deepStrictEqual(yield* connection.executeRaw(lock, []), [{ of: lock }])
      assert.deepStrictEqual(sends, [[read], [lock]])
    }))

  it.effect("can fail in a part and commit the rest, although a statement of the part waited", () =>
    Effect.gen(function*() {
      const { sends, sql } = yield* database({ [insert]: locked })
      const part = Effect.andThen(sql.unsafe(insert), sql.unsafe(read))
      yield* Effect.flip(sql.withTransaction(part)).pipe(
        Effect.andThen(Effect.flip(sql.withTransaction(Effect.andThen(sql.unsafe(update), Effect.fail("no"))))),
        Effect.andThen(sql.unsafe(lock)),
        sql.withTransaction
      )
      assert.deepStrictEqual(sends, [
        ["BEGIN", "SAVEPOINT effect_sql_1"],
        [insert, read],
        ["ROLLBACK TO SAVEPOINT effect_sql_1"],
        ["SAVEPOINT effect_sql_1"],
        ["ROLLBACK TO SAVEPOINT effect_sql_1"],
        [lock],
        ["COMMIT"]
      ])
    }))
})
