/** The rule "expand, then contract": a migration leaves a store that earlier versions can use, or stops them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { SqlClient } from "effect/sql/SqlClient"
import { CurrentTransformer } from "effect/sql/Statement"
import * as Sqlite from "../sqlite/Sqlite.ts"
import { migrations, stopEarlierVersions } from "./Migrations.ts"

/** Runs `migration` and returns its statements, with single spaces. */
const statementsOf = Effect.fnUntraced(function*<E>(migration: Effect.Effect<unknown, E, SqlClient>) {
  const statements: Array<string> = []
  yield* Effect.provideService(migration, CurrentTransformer, (statement) =>
    Effect.sync(() => {
      statements.push(statement.compile()[0].replaceAll(/["`]/g, "").replaceAll(/\s+/g, " ").trim())
      return statement
    }))
  return statements
})

/**
 * The statements that could break an earlier version. It may add tables, columns that an earlier version need not fill, and indexes that
 * reject nothing, and change what it added.
 */
const breaking = (statements: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (statements.some((one) => one.startsWith("UPDATE meta SET required_schema"))) return []
  const all = (pattern: RegExp) => statements.flatMap((one) => pattern.exec(one)?.slice(1, 3).join(" ") ?? [])
  const tables = new Set(all(/^CREATE TABLE (?:IF NOT EXISTS )?(\w+)/i))
  const columns = new Set(all(/^ALTER TABLE (\w+) ADD COLUMN (\w+)/i))
  return statements.filter((one) => {
    const [, table = ""] =
      /^(?:CREATE UNIQUE INDEX \w+ ON|INSERT INTO|UPDATE|DELETE FROM|ALTER TABLE|DROP TABLE) (\w+)/i.exec(one) ?? []
    if (tables.has(table) || /^(SELECT|CREATE TABLE|CREATE INDEX) /i.test(one)) return false
    if (/^ALTER TABLE \w+ ADD COLUMN /i.test(one)) {
      return / (UNIQUE|REFERENCES|CHECK)\b/i.test(one) || (/ NOT NULL/i.test(one) && !/ DEFAULT /i.test(one))
    }
    const [, changed, column] = /^UPDATE (\w+) SET (\w+) = (?!.*?, \w+ = )/i.exec(one) ?? []
    return !columns.has(`${changed} ${column}`)
  })
}

describe("a migration", () => {
  it.effect("leaves a store that earlier versions can use, or stops them", () =>
    Effect.gen(function*() {
      const found: Array<string> = []
      for (const [index, [name, migration]] of Object.entries(migrations).entries()) {
        const statements = yield* statementsOf(migration)
        // the first one finds an empty database
        if (index > 0) found.push(...breaking(statements).map((one) => `${name}: ${one}`))
      }
      assert.deepStrictEqual(
        found,
        [],
        "use `stopEarlierVersions`, or only add: CONTRIBUTING.md, Add a store statement"
      )
    }).pipe(Effect.provide(Sqlite.client({ file: ":memory:" }))))

  it.effect("that stops earlier versions says so in the store, and its statements are not limited", () =>
    Effect.gen(function*() {
      for (const migration of Object.values(migrations)) yield* migration
      const sql = yield* SqlClient
      const rename = sql`ALTER TABLE holds RENAME COLUMN reason TO cause`
      assert.isNotEmpty(breaking(yield* statementsOf(sql.withTransaction(Effect.andThen(rename, Effect.void)))))
      assert.isEmpty(
        breaking(yield* statementsOf(stopEarlierVersions(99)(sql`ALTER TABLE holds RENAME COLUMN cause TO reason`)))
      )
      assert.deepStrictEqual(yield* sql`SELECT required_schema FROM meta`, [{ required_schema: 99 }])
    }).pipe(Effect.provide(Sqlite.client({ file: ":memory:" }))))

  it("only adds with these statements", () => {
    assert.deepStrictEqual(
      breaking([
        "CREATE TABLE added (key bigint PRIMARY KEY)",
        "CREATE UNIQUE INDEX added_key ON added (key)",
        "INSERT INTO added (key) VALUES (1)",
        "CREATE INDEX events_added ON events (stream)",
        "ALTER TABLE events ADD COLUMN added text",
        "ALTER TABLE events ADD COLUMN counted bigint NOT NULL DEFAULT 0",
        "UPDATE events SET added = after WHERE position > 7",
        "SELECT 1"
      ]),
      []
    )
  })

  it.each([
    "DROP TABLE pending",
    "DROP INDEX events_stream",
    "CREATE UNIQUE INDEX events_id ON events (event_id)",
    "ALTER TABLE events DROP COLUMN chain",
    "ALTER TABLE events RENAME COLUMN chain TO link",
    "ALTER TABLE events ADD COLUMN added text NOT NULL",
    "ALTER TABLE events ADD COLUMN added text UNIQUE",
    "ALTER TABLE events ALTER COLUMN chain SET NOT NULL",
    "UPDATE events SET chain = ''",
    "UPDATE events SET added = '', chain = ''",
    "DELETE FROM holds",
    "INSERT INTO readers (name, position) VALUES ('x', 0)"
  ])("does more than to add with %s", (statement) => {
    assert.deepStrictEqual(breaking(["ALTER TABLE events ADD COLUMN added text", statement]), [statement])
  })
})
