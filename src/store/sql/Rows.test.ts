/** Many rows: their values in SQLite, statements whose text does not depend on the number of rows, and the states of many streams. */
import { assert, describe, it } from "@effect/vitest"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { stateOf } from "../../../test/conformance/StoreSamples.ts"
import { withTurns } from "../../../test/support/Turns.ts"
import * as Sqlite from "../sqlite/Sqlite.ts"
import { rowsPerStatement, toStates } from "./Rows.ts"
import { among, insertion, rowsOf } from "./RowValues.ts"

const client = Effect.provide(Sqlite.client({ file: ":memory:" }))

/** SQLite and JSON accept every text that UTF-8 can encode, except the null character. */
const text = Schema.String.check(
  Schema.makeFilter((value) => value.isWellFormed() && !value.includes("\0"), { title: "storable" })
)
/** SQLite stores a negative zero as zero. */
const Integer = Schema.Int.check(Schema.makeFilter((value) => !Object.is(value, -0), { title: "no negative zero" }))
const Rows = Schema.NonEmptyArray(Schema.Struct({ number: Integer, text, other: Schema.NullOr(text) }))

describe("the values of many rows in SQLite", () => {
  it.effect.prop("are stored and read as they were given", { rows: Rows }, ({ rows }) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE samples (number INTEGER, text TEXT, other TEXT)`
      yield* sql`INSERT INTO samples ${insertion(sql, rows)}`
      const stored = yield* sql`SELECT number, text, other FROM samples ORDER BY rowid`
      assert.deepStrictEqual(stored, rows.map((row) => ({ ...row })))
      const listed = yield* sql`WITH listed (number, text, other) AS (${rowsOf(sql, rows)}) SELECT * FROM listed`
      assert.deepStrictEqual(listed, stored)
    }).pipe(client))

  it.effect.prop("are found again, and no others", { rows: Rows }, ({ rows }) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE samples (number INTEGER, text TEXT, other TEXT)`
      yield* sql`INSERT INTO samples ${insertion(sql, rows)}`
      const some = rows.slice(0, rows.length / 2)
      const [texts, numbers] = [some.map((row) => row.text), some.map(({ number }) => number)]
      const found = yield* sql`
        SELECT * FROM samples WHERE text ${among(sql, texts)} AND number ${among(sql, numbers)} ORDER BY rowid`
      assert.deepStrictEqual(
        found,
        rows.filter((row) => texts.includes(row.text) && numbers.includes(row.number)).map((row) => ({ ...row }))
      )
    }).pipe(client))

  it.effect("do not change the text of a statement by their number, so few statements are prepared", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const textsWith = (count: number) => {
        const rows = Arr.makeBy(count, (id) => ({ id, name: `name ${id}` }))
        const ids = Arr.map(rows, ({ id }) => id)
        return [
          sql`INSERT INTO t ${insertion(sql, rows)}`,
          sql`SELECT * FROM t WHERE (id, name) IN (${rowsOf(sql, rows)})`,
          sql`SELECT * FROM t WHERE id ${among(sql, ids)}`
        ].map((statement) => statement.compile()[0])
      }
      assert.deepStrictEqual(textsWith(250), textsWith(1))
    }).pipe(client))
})

describe("the states of many streams", () => {
  it.effect("are parsed in parts, and other fibers run before each part (I9)", () =>
    Effect.gen(function*() {
      const states = Array.from(
        { length: 4 * rowsPerStatement },
        (_, index) => stateOf({ integration: `greenhouse:${index}`, model: "ats.tag" })
      )
      const rows = states.map((state, key) => ({
        key,
        integration: state.integration,
        model: state.model,
        state: JSON.stringify(state)
      }))
      const { result, turns } = yield* withTurns(toStates(rows))
      assert.deepStrictEqual(result, states)
      assert.strictEqual(turns, 4)
    }))
})
