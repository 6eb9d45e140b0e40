/** A process that runs while a newer version migrates its database. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { SqlClient } from "effect/sql/SqlClient"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import * as Home from "../../fault/kill/Home.ts"
import { contentsOf, judge, quiet } from "../../fault/kill/Lives.ts"
import { until } from "../../fault/kill/Patience.ts"
import { launch } from "../../fault/kill/Service.ts"
import { later, migrateFurther } from "../../support/store/LaterMigrations.ts"
import { runCommand } from "../cli/Program.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"

const { database } = Server.ofFile()

/** A process whose world changes all the time. */
const running = Effect.gen(function*() {
  const url = yield* database
  const { sandbox, settings: { ROLLCALL_STORE: _, ...settings } } = yield* Home.make({ speed: 2000 })
  const environment = { ...settings, DATABASE_URL: url }
  const service = yield* launch(environment)
  yield* service.url
  const newest = Effect.map(
    Server.say(url, "SELECT position::integer FROM rollcall.log_counter"),
    ({ rows }) => Number(rows[0]?.["position"])
  )
  const writesOn = Effect.flatMap(
    newest,
    (before) => until("the process to write events", newest, (position) => position > before + 20)
  )
  yield* writesOn
  const client = Effect.provide(Postgres.client({ url: Redacted.make(url), name: "database" }))
  return { sandbox, environment, service, newest, writesOn, client }
})

const required = `needs a version of Rollcall that knows schema ${later}, but this version knows schemas only up to`

onServer("an update", () => {
  it.live("that only adds to the database does not disturb a process of the version before, which can also start again", () =>
    Effect.gen(function*() {
      const { client, environment, sandbox, service, writesOn } = yield* running
      yield* client(migrateFurther(
        Effect.gen(function*() {
          const sql = yield* SqlClient
          yield* sql`CREATE TABLE later (key bigint PRIMARY KEY)`
          const tables = yield* sql<{ name: string }>`
          SELECT tablename AS name FROM pg_tables WHERE schemaname = 'rollcall' AND tablename <> 'migrations' AND tablename NOT LIKE 'fleet%'`
          assert.isAbove(tables.length, 20)
          for (const { name } of tables) {
            yield* sql`ALTER TABLE ${sql(name)} ADD COLUMN later text, ADD COLUMN counted bigint NOT NULL DEFAULT 0`
          }
        }),
        { stops: false }
      ))
      yield* writesOn
      assert.strictEqual(yield* service.end("SIGTERM"), 0, service.log())
      const again = yield* launch(environment)
      const url = yield* again.url
      yield* writesOn
      yield* sandbox.freeze
      yield* quiet(url)
      const { differences, oracle } = yield* judge(url, contentsOf(sandbox, Home.models))
      assert.deepStrictEqual([differences, oracle.breaches], [[], []])
    }))

  it.live("that stops earlier versions ends their processes within seconds, with the reason, and without another event", () =>
    Effect.gen(function*() {
      const { client, environment, newest, service } = yield* running
      const migrated = yield* client(Effect.gen(function*() {
        const sql = yield* SqlClient
        let position = 0
        yield* migrateFurther(
          Effect.gen(function*() {
            const [counter] = yield* sql<{ position: number }>`SELECT position FROM log_counter`
            position = Number(counter?.position)
          }),
          { stops: true }
        )
        return position
      }))
      const since = Date.now()
      assert.strictEqual(yield* service.ended, 1, service.log())
      // much longer than it takes, because a busy machine slows the end of a process
      assert.isBelow(Date.now() - since, 20_000)
      assert.include(service.log(), required)
      assert.notInclude(service.log(), "another process owns")
      assert.strictEqual(yield* newest, migrated)

      const again = yield* launch(environment)
      assert.strictEqual(yield* again.ended, 1, again.log())
      assert.include(again.log(), required)
      const doctor = yield* Effect.promise(() => runCommand(["doctor"], environment))
      assert.include(doctor.stdout, required)
      assert.strictEqual(yield* newest, migrated)
    }))

  it.live("that stops earlier versions ends a process that reads and writes nothing, too", () =>
    Effect.gen(function*() {
      const url = yield* database
      const service = yield* launch({
        DATABASE_URL: url,
        ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
        ROLLCALL_API_KEY: "key"
      })
      yield* service.url
      yield* Effect.provide(
        migrateFurther(Effect.void, { stops: true }),
        Postgres.client({ url: Redacted.make(url), name: "database" })
      )
      assert.strictEqual(yield* service.ended, 1, service.log())
      assert.include(service.log(), required)
    }))
})
