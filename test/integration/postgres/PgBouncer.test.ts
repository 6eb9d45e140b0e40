/** The store behind a real PgBouncer: it works if it has its own sessions with its settings, otherwise it fails with the reason. */
import { assert, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import { inspect } from "../../../src/store/postgres/PostgresInspection.ts"
import { Store } from "../../../src/store/Store.ts"
import { all, created, stateOf, tags } from "../../conformance/StoreSamples.ts"
import { onServer } from "./Opened.ts"
import * as PgBouncer from "./PgBouncer.ts"
import * as Server from "./Server.ts"

const { database } = Server.ofFile()

const settings = ["search_path", "default_transaction_isolation", "idle_in_transaction_session_timeout", "lock_timeout"]
const optionsOf = (url: string) => ({ url: Redacted.make(url), name: "postgres://test/pooled" })
const refusal = (url: string) => Effect.flip(Effect.scoped(Layer.build(Postgres.layer(optionsOf(url)))))

/** The settings of the database as described in `docs/configuration.md`. */
const settle = (url: string) => {
  const name = new URL(url).pathname.slice(1)
  const alter = `ALTER DATABASE ${name} SET`
  return Effect.forEach(
    ["search_path = rollcall", "lock_timeout = '10s'", "idle_in_transaction_session_timeout = '5s'"],
    (setting) => Server.say(url, `${alter} ${setting}`)
  )
}

const untouched = Effect.fnUntraced(function*(url: string) {
  const { rows } = yield* Server.say(
    url,
    "SELECT count(*)::int AS tables FROM pg_class WHERE relkind = 'r' AND relnamespace IN ('public'::regnamespace, to_regnamespace('rollcall'))"
  )
  assert.deepStrictEqual(rows, [{ tables: 0 }])
})

onServer("PgBouncer", () => {
  it.live("is rejected if it rejects session settings, and the message says what to do (X30)", () =>
    Effect.gen(function*() {
      const url = yield* database
      const { reason } = yield* refusal(yield* PgBouncer.pooled(url, { mode: "session", ignored: [] }))
      assert.strictEqual(reason._tag, "Misconfigured")
      assert.match(reason.hint, /do not reach the database server.*PgBouncer/)
      yield* untouched(url)
    }))

  for (const mode of ["session", "transaction"] as const) {
    it.live(`is rejected in ${mode} mode if it drops session settings: no table is created (X30)`, () =>
      Effect.gen(function*() {
        const url = yield* database
        const pooled = yield* PgBouncer.pooled(url, { mode, ignored: settings })
        const { reason } = yield* refusal(pooled)
        assert.strictEqual(reason._tag, "Misconfigured")
        assert.match(reason.hint, /do not reach the database server.*PgBouncer/)
        yield* untouched(url)
      }))
  }

  it.live("is rejected in transaction mode even if the database has the settings, because sessions would be shared (X30)", () =>
    Effect.gen(function*() {
      const url = yield* database
      yield* settle(url)
      const pooled = yield* PgBouncer.pooled(url, { mode: "transaction", ignored: settings })
      for (const { reason } of [yield* refusal(pooled), yield* Effect.flip(inspect(optionsOf(pooled)))]) {
        assert.strictEqual(reason._tag, "Misconfigured")
        assert.match(reason.hint, /pooler shares the sessions/)
      }
      yield* untouched(url)
    }))

  it.live("works in session mode if the database has the settings: tables are in the schema and transactions work (X30)", () =>
    Effect.gen(function*() {
      const url = yield* database
      yield* settle(url)
      const pooled = yield* PgBouncer.pooled(url, { mode: "session", ignored: settings })
      const store = Context.get(yield* Layer.build(Postgres.layer(optionsOf(pooled))), Store)
      yield* store.ensureStreams([stateOf(tags)])
      const owner = yield* store.takeOwnership("capture")
      for (const id of ["a", "b", "c"]) {
        yield* store.transact(owner, tags, (tx) => tx.write([created(id)]))
        yield* Effect.all(Array.from({ length: 5 }, () => store.streams), { concurrency: "unbounded" })
      }
      assert.deepStrictEqual((yield* store.readLog(all)).map(({ id }) => id), ["a", "b", "c"])
      const { rows } = yield* Server.say(
        url,
        "SELECT count(*)::int AS tables FROM pg_tables WHERE schemaname = 'public'"
      )
      assert.deepStrictEqual(rows, [{ tables: 0 }])
    }))
}, PgBouncer.missing)
