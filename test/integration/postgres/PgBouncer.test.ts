/** The store behind a real PgBouncer: used where sessions are its own and set as it needs them, else refused with the reason. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import { inspect } from "../../../src/store/postgres/PostgresInspection.ts"
import { Store } from "../../../src/store/Store.ts"
import { all, created, stateOf, tags } from "../../conformance/StoreSamples.ts"
import * as PgBouncer from "./PgBouncer.ts"
import * as Server from "./Server.ts"

const { missing } = PgBouncer
const { database } = Server.ofFile()

const settings = ["search_path", "default_transaction_isolation", "idle_in_transaction_session_timeout", "lock_timeout"]
const optionsOf = (url: string) => ({ url: Redacted.make(url), name: "postgres://test/pooled" })
const refusal = (url: string) => Effect.flip(Effect.scoped(Layer.build(Postgres.layer(optionsOf(url)))))

/** What `docs/configuration.md` tells to set for the role. */
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

describe.skipIf(missing !== null)(`PgBouncer${missing === null ? "" : `, skipped: ${missing}`}`, () => {
  it.live("is refused where it refuses the settings of a session, and the message says what to do (X30)", () =>
    Effect.gen(function*() {
      const url = yield* database
      const { reason } = yield* refusal(yield* PgBouncer.pooled(url, { mode: "session", ignored: [] }))
      assert.strictEqual(reason._tag, "Misconfigured")
      assert.match(reason.hint, /do not reach the database server.*PgBouncer/)
      yield* untouched(url)
    }))

  for (const mode of ["session", "transaction"] as const) {
    it.live(`is refused in ${mode} mode where it drops the settings of a session: no table is made (X30)`, () =>
      Effect.gen(function*() {
        const url = yield* database
        const pooled = yield* PgBouncer.pooled(url, { mode, ignored: settings })
        const { reason } = yield* refusal(pooled)
        assert.strictEqual(reason._tag, "Misconfigured")
        assert.match(reason.hint, /do not reach the database server.*PgBouncer/)
        yield* untouched(url)
      }))
  }

  it.live("is refused in transaction mode although the database has the settings: sessions would be shared (X30)", () =>
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

  it.live("serves in session mode where the database has the settings: tables and transactions are where they belong (X30)", () =>
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
})
