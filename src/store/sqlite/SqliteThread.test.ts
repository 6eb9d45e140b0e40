/** A SQLite connection in its own thread behaves like one in this thread. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { reasonOf } from "../../../test/conformance/StoreSamples.ts"
import { storeFile } from "../../../test/support/TemporaryFolder.ts"
import { ManyRows } from "../sql/RowValues.ts"
import { faultOf } from "../StoreFault.ts"
import * as Sqlite from "./Sqlite.ts"

const opened = Effect.fnUntraced(function*(ownThread: boolean) {
  const { connection, isTransaction } = yield* Sqlite.session({ file: yield* storeFile, ownThread })
  const run = (sql: string, ...params: ReadonlyArray<unknown>) => connection.execute(sql, params, undefined)
  yield* run("CREATE TABLE numbers (n INTEGER UNIQUE, bytes BLOB)")
  return { run, isTransaction }
})

/** Takes about a second. */
const slowly = `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000000)
  INSERT INTO numbers SELECT count(*), NULL FROM c`

for (const ownThread of [false, true]) {
  describe(`a SQLite connection in ${ownThread ? "its own thread" : "this thread"}`, () => {
    it.effect("accepts and returns every kind of value", () =>
      Effect.gen(function*() {
        const { run } = yield* opened(ownThread)
        const values = [null, 1.5, 2n ** 60n, "é\u{1f600}", new Uint8Array([0, 255])]
        const [row] = yield* run("SELECT ? AS a, ? AS b, CAST(? AS TEXT) AS c, ? AS d, ? AS e", ...values)
        assert.deepStrictEqual({ ...row }, { a: null, b: 1.5, c: String(2n ** 60n), d: values[3], e: values[4] })
      }))

    it.effect("runs a statement once for each row of its values, for all rows or for none", () =>
      Effect.gen(function*() {
        const { isTransaction, run } = yield* opened(ownThread)
        const insert = "INSERT INTO numbers (n, bytes) VALUES (?, ?) RETURNING n"
        const numbers = Effect.map(run("SELECT n FROM numbers ORDER BY n"), (rows) => rows.map(({ n }) => n))
        const added = yield* run(insert, new ManyRows([[3, 1, 2], null], 3))
        assert.deepStrictEqual(added.map(({ n }) => n), [3, 1, 2])

        const twice = yield* Effect.flip(run(insert, new ManyRows([[4, 1], null], 2)))
        assert.strictEqual(twice.reason._tag, "UniqueViolation")
        assert.deepStrictEqual([yield* numbers, isTransaction()], [[1, 2, 3], false])

        yield* run("BEGIN IMMEDIATE")
        yield* run(insert, new ManyRows([[7, 8], null], 2))
        assert.isTrue(isTransaction())
        yield* run("ROLLBACK")
        assert.deepStrictEqual(yield* numbers, [1, 2, 3])
      }))

    it.effect("fails with the database's result code, and stays usable", () =>
      Effect.gen(function*() {
        const { run } = yield* opened(ownThread)
        yield* run("INSERT INTO numbers VALUES (1, NULL)")
        const twice = yield* Effect.flip(run("INSERT INTO numbers VALUES (1, NULL)"))
        assert.strictEqual(twice.reason._tag, "UniqueViolation")
        const wrong = yield* Effect.flip(run("SELECT nothing"))
        assert.deepStrictEqual([faultOf(wrong)?.kind, faultOf(wrong)?.code], ["refused", "1"])
        const rows = yield* run("SELECT n FROM numbers")
        assert.deepStrictEqual(rows.map((row) => ({ ...row })), [{ n: 1 }])
      }))

    it.effect("knows whether a transaction is open, even after one that the database ended", () =>
      Effect.gen(function*() {
        const { isTransaction, run } = yield* opened(ownThread)
        const seen = [isTransaction()]
        for (const sql of ["BEGIN IMMEDIATE", "INSERT INTO numbers VALUES (1, NULL)", "COMMIT", "BEGIN IMMEDIATE"]) {
          yield* run(sql)
          seen.push(isTransaction())
        }
        yield* Effect.flip(run("INSERT OR ROLLBACK INTO numbers VALUES (1, NULL)"))
        assert.deepStrictEqual([...seen, isTransaction()], [false, true, true, false, true, false])
      }))

    it.live("waits for a statement whose caller is interrupted, so that the next one finds it done", () =>
      Effect.gen(function*() {
        const { isTransaction, run } = yield* opened(ownThread)
        yield* run("BEGIN IMMEDIATE")
        const fiber = yield* Effect.forkChild(run(slowly))
        yield* Effect.sleep("20 millis")
        yield* Fiber.interrupt(fiber)
        assert.isTrue(isTransaction())
        assert.strictEqual((yield* run("SELECT n FROM numbers")).length, 1)
        yield* run("ROLLBACK")
        assert.deepStrictEqual(yield* run("SELECT n FROM numbers"), [])
      }))

    it.effect("returns to each of many callers its own result, in order", () =>
      Effect.gen(function*() {
        const { run } = yield* opened(ownThread)
        const answers = yield* Effect.forEach(Array.from({ length: 300 }, (_, n) => n), (n) =>
          n % 7 === 3 ? Effect.exit(run("SELECT nothing")) : Effect.exit(run("SELECT ? AS n", n)), {
          concurrency: "unbounded"
        })
        answers.forEach((exit, n) => {
          if (n % 7 === 3) {
            assert.isTrue(Exit.isFailure(exit))
          } else assert.strictEqual(Exit.isSuccess(exit) ? exit.value[0]?.["n"] : null, n)
        })
      }))

    it.effect("rejects a file that is not a database", () =>
      Effect.gen(function*() {
        const exit = yield* Effect.exit(Effect.scoped(Sqlite.session({ file: "/dev/null/a.db", ownThread })))
        assert.strictEqual(reasonOf(exit), "Misconfigured")
      }))
  })
}

describe("a SQLite connection in its own thread", () => {
  it.effect("rejects a value that cannot be sent to the thread, and stays usable", () =>
    Effect.gen(function*() {
      const { run } = yield* opened(true)
      assert.strictEqual(faultOf(yield* Effect.flip(run("SELECT ?", () => 1)))?.kind, "refused")
      assert.deepStrictEqual(yield* run("SELECT 1 AS n"), [{ n: 1 }])
    }))

  it.live("does not block the caller's thread", () =>
    Effect.gen(function*() {
      const { run } = yield* opened(true)
      const fiber = yield* Effect.forkChild(run(slowly))
      let turns = 0
      while (fiber.pollUnsafe() === undefined) {
        yield* Effect.sleep("1 millis")
        turns++
      }
      assert.isAbove(turns, 10)
    }))
})
