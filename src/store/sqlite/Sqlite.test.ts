import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as SqlClient from "effect/sql/SqlClient"
import { TestClock } from "effect/testing"
import { chmodSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { changeOf, headOf, pendingOf, stateOf, tags } from "../../../test/conformance/StoreSamples.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { storeFile, temporaryFolder } from "../../../test/support/TemporaryFolder.ts"
import { newestKnown } from "../sql/Migrations.ts"
import * as Ports from "../sql/Ports.ts"
import { Store } from "../Store.ts"
import type { StoreError } from "../StoreError.ts"
import * as Sqlite from "./Sqlite.ts"
import * as SqliteDriver from "./SqliteDriver.ts"
import { inspect } from "./SqliteInspection.ts"

const opening = (file: string) => Effect.scoped(Layer.build(Sqlite.layer({ file })))
const refusal = (file: string) => Effect.map(Effect.flip(opening(file)), (error: StoreError) => error.reason)

describe("a SQLite file", () => {
  it.effect("is accepted if another process sets it up between two statements of this process", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      const driver = SqliteDriver.open(file)
      let isFirst = true
      const interrupted = (statements: ReadonlyArray<SqliteDriver.Statement>) =>
        Effect.gen(function*() {
          const answer = SqliteDriver.runAll(driver, statements)
          if (isFirst) yield* opening(file)
          isFirst = false
          return answer
        })
      yield* Sqlite.prepareFile({ run: interrupted }, file).pipe(Effect.ensuring(Effect.sync(driver.close)))
    }))
})

describe("a copy of a migrated store in memory", () => {
  const tablesOf = (sql: SqlClient.SqlClient) =>
    sql.unsafe<{ readonly sql: string }>("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")

  it.effect("has the tables of a new store, an identity of its own, and shares nothing with another copy", () =>
    Effect.gen(function*() {
      const created = yield* Layer.build(Layer.provideMerge(Ports.layer, Sqlite.client({ file: ":memory:" })))
      const copies = yield* Effect.replicateEffect(
        Layer.build(Layer.provideMerge(Ports.layer, MemoryStore.client())),
        2
      )
      const [one, other] = copies.map((services) => Context.get(services, SqlClient.SqlClient)) as [
        SqlClient.SqlClient,
        SqlClient.SqlClient
      ]
      assert.deepStrictEqual(yield* tablesOf(one), yield* tablesOf(Context.get(created, SqlClient.SqlClient)))
      assert.lengthOf(new Set([created, ...copies].map((services) => Context.get(services, Store).identity.store)), 3)
      yield* one`INSERT INTO readers (name, position) VALUES ('relay', 7)`
      assert.deepStrictEqual(yield* other`SELECT name FROM readers`, [])
    }))
})

it.effect("a store to which a newer version only added something is opened and inspected", () =>
  Effect.gen(function*() {
    const file = yield* storeFile
    yield* opening(file)
    const newer = new DatabaseSync(file)
    newer.exec(`INSERT INTO migrations (migration_id, name) VALUES (9999, 'from the future');
      ALTER TABLE streams ADD COLUMN added text; UPDATE meta SET required_schema = ${newestKnown}`)
    newer.close()
    yield* opening(file)
    assert.isTrue((yield* inspect(file)).exists)
  }))

describe("a SQLite store rejects", () => {
  it.effect("a directory that does not exist, and names it", () =>
    Effect.gen(function*() {
      const missing = join(yield* temporaryFolder, "missing")
      const reason = yield* refusal(join(missing, "rollcall.db"))
      assert.strictEqual(reason._tag, "Misconfigured")
      assert.include(reason.hint, `the directory ${missing} does not exist`)
    }))

  it.effect("a directory instead of a file", () =>
    Effect.gen(function*() {
      const reason = yield* refusal(yield* temporaryFolder)
      assert.strictEqual(reason._tag, "Misconfigured")
      assert.include(reason.hint, "cannot be opened")
    }))

  it.effect("a file that is not a database, and does not change it", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "notes.txt")
      const notes = "these are notes\n".repeat(100)
      writeFileSync(file, notes)
      const reason = yield* refusal(file)
      assert.strictEqual(reason._tag, "Misconfigured")
      assert.include(reason.hint, "is not a SQLite database")
      assert.strictEqual(readFileSync(file, "utf8"), notes)
    }))

  it.effect.each([
    { sign: "its tables", made: "CREATE TABLE theirs (a)" },
    { sign: "its mark", made: "PRAGMA application_id = 7" }
  ])(
    "the database of another program, recognized by $sign, and does not change it",
    ({ made }) =>
      Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "other.db")
        const other = new DatabaseSync(file)
        other.exec(made)
        other.close()
        const bytes = readFileSync(file)
        const reason = yield* refusal(file)
        assert.strictEqual(reason._tag, "Misconfigured")
        assert.include(reason.hint, "another program")
        assert.deepStrictEqual(readFileSync(file), bytes)
      })
  )

  it.effect("a file that this user may not write", () =>
    Effect.gen(function*() {
      const path = yield* temporaryFolder
      const file = join(path, "rollcall.db")
      yield* opening(file)
      const reason = yield* asOtherUser(path, refusal(file))
      assert.strictEqual(reason._tag, "Misconfigured")
      assert.match(reason.hint, /cannot be opened|is not writable/)
    }))

  it.effect("a store that a newer version changed so that this one cannot use it", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      yield* opening(file)
      const newer = new DatabaseSync(file)
      newer.exec(`INSERT INTO migrations (migration_id, name) VALUES (9999, 'from the future');
        UPDATE meta SET required_schema = 9999`)
      newer.close()
      const reason = yield* refusal(file)
      assert.strictEqual(reason._tag, "Incompatible")
      assert.include(reason.hint, "schema 9999")
    }))
})

/** Runs `effect` without write permission for `path`. Root may write everywhere, so the process changes its user meanwhile. */
const asOtherUser = <A, E, R>(path: string, effect: Effect.Effect<A, E, R>) => {
  const superuser = process.geteuid?.() === 0
  return Effect.acquireUseRelease(
    Effect.sync(() => {
      chmodSync(path, 0o555)
      chmodSync(join(path, "rollcall.db"), 0o444)
      if (superuser) process.seteuid?.(65_534)
    }),
    () => effect,
    () =>
      Effect.sync(() => {
        if (superuser) process.seteuid?.(0)
        chmodSync(path, 0o755)
      })
  )
}

describe("a SQLite store", () => {
  it.effect("names the stream whose stored state is unreadable, without its content", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      yield* Effect.scoped(
        Effect.gen(function*() {
          yield* (yield* Store).ensureStreams([stateOf(tags)])
        }).pipe(Effect.provide(Sqlite.layer({ file })))
      )
      for (const text of ['{"secret', "{}", "7", '{"integration":"other","model":"ats.tag"}']) {
        const database = new DatabaseSync(file)
        database.prepare("UPDATE streams SET state = ?").run(text)
        database.close()
        const error = yield* Effect.flip(Effect.flatMap(Store, (store) => store.streams)).pipe(
          Effect.provide(Sqlite.layer({ file }))
        )
        assert.strictEqual(error.reason._tag, "Incompatible")
        assert.include(error.message, "greenhouse:acme/ats.tag")
        assert.notInclude(error.message, "secret")
      }
    }))

  it.effect("fails a transaction on a full disk as unavailable, loses no data, and continues once there is space (X10)", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      yield* Effect.gen(function*() {
        const store = yield* Store
        const sql = yield* SqlClient.SqlClient
        yield* store.ensureStreams([stateOf(tags)])
        const owner = yield* store.takeOwnership("capture")
        const fill = (id: string) =>
          store.transact(owner, tags, (tx) =>
            Effect.gen(function*() {
              const after = JSON.stringify({ id, secret: "s".repeat(5000) })
              yield* tx.putPending([pendingOf(id)])
              yield* tx.write([changeOf(headOf(id), "created", { after })])
              yield* tx.saveState({ ...tx.state, lastRunId: tx.state.lastRunId + 1 })
            }))
        yield* fill("first")
        yield* sql`PRAGMA max_page_count = 60`
        let written = 1
        const error = yield* Effect.gen(function*() {
          while (written < 1000) {
            yield* fill(`r${written}`)
            written += 1
          }
          return yield* Effect.die("the disk never filled")
        }).pipe(Effect.flip)
        assert.strictEqual(error.reason._tag, "Unavailable")
        assert.isTrue(error.reason.retryable)
        assert.notInclude(`${error.message} ${JSON.stringify(error)}`, "sss")

        const consistent = Effect.gen(function*() {
          assert.strictEqual((yield* store.logRange).newest, written)
          assert.strictEqual((yield* store.readLog({ after: 0, limit: 1000 })).length, written)
          assert.strictEqual((yield* store.records(tags, null, 1000)).records.length, written)
          assert.strictEqual((yield* store.pendingRows({ limit: 1000 })).length, written)
          assert.strictEqual((yield* store.stream(tags))?.lastRunId, written)
        })
        yield* consistent
        yield* sql`PRAGMA max_page_count = 100000`
        yield* fill("after")
        written += 1
        yield* consistent
      }).pipe(Effect.provide(Layer.provideMerge(Ports.layer, Sqlite.client({ file }))))
    }))

  it.effect("reports a damaged file with the remedy, and does not quote its content (X10, I11)", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      const filled = Effect.gen(function*() {
        const store = yield* Store
        yield* store.ensureStreams([stateOf(tags)])
        const owner = yield* store.takeOwnership("capture")
        for (let number = 0; number < 200; number++) {
          const after = JSON.stringify({ id: `r${number}`, secret: "Erika".repeat(500) })
          yield* store.transact(owner, tags, (tx) => tx.write([changeOf(headOf(`r${number}`), "created", { after })]))
        }
      })
      yield* Effect.provide(filled, Sqlite.layer({ file }))
      const bytes = readFileSync(file)
      bytes.fill(0xff, Math.floor(bytes.length * 0.8))
      writeFileSync(file, bytes)
      const { message, reason } = yield* Effect.gen(function*() {
        const store = yield* Store
        const error = yield* Effect.flip(store.readLog({ after: 0, limit: 200 }))
        assert.match((yield* store.outage)?.message ?? "", /damaged/)
        return error
      }).pipe(Effect.provide(Sqlite.layer({ file })))
      assert.strictEqual(reason._tag, "Unavailable")
      assert.match(
        message,
        /the database is damaged \(.*rollcall\.db, \d+\); stop Rollcall, keep a copy of the database, restore a backup/
      )
      assert.notInclude(message, "Erika")
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None")))

  it.effect("waits for the service while another process locks the store, logs that once, and then opens (X21)", () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ message }) => {
      lines.push(String(message))
    })
    return Effect.gen(function*() {
      const file = yield* storeFile
      yield* opening(file)
      const other = new DatabaseSync(file)
      other.exec("BEGIN IMMEDIATE")
      const fiber = yield* Effect.forkChild(Effect.scoped(Layer.build(Sqlite.waitingLayer({ file }))))
      yield* TestClock.adjust("10 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      other.exec("ROLLBACK")
      other.close()
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(lines, [
        "waiting for the store: another process is writing to it",
        "the store is no longer locked"
      ])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("writes a commit to disk before the commit returns", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`PRAGMA journal_mode`, [{ journal_mode: "wal" }])
      assert.deepStrictEqual(yield* sql`PRAGMA synchronous`, [{ synchronous: 2 }])
    }).pipe(
      Effect.provide(Layer.unwrap(Effect.map(temporaryFolder, (path) => Sqlite.client({ file: join(path, "a.db") }))))
    ))

  it.effect("runs more distinct statements than it keeps prepared", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (let round = 0; round < 2; round++) {
        for (let value = 0; value < 300; value++) {
          assert.deepStrictEqual(yield* sql.unsafe(`SELECT ${value} AS value`), [{ value }])
        }
      }
    }).pipe(Effect.provide(Sqlite.client({ file: ":memory:" }))))
})
