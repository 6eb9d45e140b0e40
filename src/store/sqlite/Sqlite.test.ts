import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as SqlClient from "effect/sql/SqlClient"
import * as Statement from "effect/sql/Statement"
import { TestClock } from "effect/testing"
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { changeOf, created, headOf, ids, pendingOf, stateOf, tags } from "../../../test/conformance/StoreSamples.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { Deliveries } from "../Deliveries.ts"
import { newestKnown } from "../sql/Migrations.ts"
import * as Ports from "../sql/Ports.ts"
import { Store } from "../Store.ts"
import type { StoreError } from "../StoreError.ts"
import * as Sqlite from "./Sqlite.ts"
import * as SqliteDriver from "./SqliteDriver.ts"
import { inspect } from "./SqliteInspection.ts"

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-sqlite-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

const opening = (file: string) => Effect.scoped(Layer.build(Sqlite.layer({ file })))
const refusal = (file: string) => Effect.map(Effect.flip(opening(file)), (error: StoreError) => error.reason)

describe("a SQLite file", () => {
  it.effect("is accepted if another process sets it up between two statements of this process", () =>
    Effect.gen(function*() {
      const file = join(yield* directory, "rollcall.db")
      const { close, run } = SqliteDriver.open(file)
      let isFirst = true
      const interrupted = (sql: string, params: ReadonlyArray<unknown>) =>
        Effect.gen(function*() {
          const answer = yield* Effect.try({ try: () => run(sql, params), catch: (cause) => cause })
          if (isFirst) yield* opening(file)
          isFirst = false
          return answer
        })
      yield* Sqlite.prepareFile({ run: interrupted }, file).pipe(Effect.ensuring(Effect.sync(close)))
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
    const file = join(yield* directory, "rollcall.db")
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
      const missing = join(yield* directory, "missing")
      const reason = yield* refusal(join(missing, "rollcall.db"))
      assert.strictEqual(reason._tag, "Misconfigured")
      assert.include(reason.hint, `the directory ${missing} does not exist`)
    }))

  it.effect("a directory instead of a file", () =>
    Effect.gen(function*() {
      const reason = yield* refusal(yield* directory)
      assert.strictEqual(reason._tag, "Misconfigured")
      assert.include(reason.hint, "cannot be opened")
    }))

  it.effect("a file that is not a database, and does not change it", () =>
    Effect.gen(function*() {
      const file = join(yield* directory, "notes.txt")
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
        const file = join(yield* directory, "other.db")
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
      const path = yield* directory
      const file = join(path, "rollcall.db")
      yield* opening(file)
      const reason = yield* asOtherUser(path, refusal(file))
      assert.strictEqual(reason._tag, "Misconfigured")
      assert.match(reason.hint, /cannot be opened|is not writable/)
    }))

  it.effect("a store that a newer version changed so that this one cannot use it", () =>
    Effect.gen(function*() {
      const file = join(yield* directory, "rollcall.db")
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
      const file = join(yield* directory, "rollcall.db")
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
      const file = join(yield* directory, "rollcall.db")
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
      const file = join(yield* directory, "rollcall.db")
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
      const file = join(yield* directory, "rollcall.db")
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
    }).pipe(Effect.provide(Layer.unwrap(Effect.map(directory, (path) => Sqlite.client({ file: join(path, "a.db") }))))))

  it.effect("runs more distinct statements than it keeps prepared", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (let round = 0; round < 2; round++) {
        for (let value = 0; value < 300; value++) {
          assert.deepStrictEqual(yield* sql.unsafe(`SELECT ${value} AS value`), [{ value }])
        }
      }
    }).pipe(Effect.provide(Sqlite.client({ file: ":memory:" }))))

  it.effect("answers frequent queries from narrow indexes", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const plan = (query: string) =>
        Effect.map(sql.unsafe<{ detail: string }>(`EXPLAIN QUERY PLAN ${query}`), (rows) =>
          rows.map((row) => row.detail).join("; "))
      assert.include(
        yield* plan("SELECT position FROM events WHERE stream IN (1, 2) AND position > 5 ORDER BY position LIMIT 9"),
        "COVERING INDEX events_stream"
      )
    }).pipe(Effect.provide(Layer.provideMerge(Ports.layer, Sqlite.client({ file: ":memory:" })))))

  it.effect("never scans the event log to read one page (I9)", () =>
    Effect.gen(function*() {
      const store = yield* Store
      const sql = yield* SqlClient.SqlClient
      const queries: Array<readonly [string, ReadonlyArray<unknown>]> = []
      const note: Statement.Transformer = (statement) => {
        queries.push(statement.compile())
        return Effect.succeed(statement)
      }
      const page = { after: 0, upTo: undefined, limit: 25 } as const
      yield* Effect.all([
        store.chains([]),
        store.chains([1, 2]),
        store.positionBefore(5),
        store.readLog(page),
        store.readLog({ ...page, integrations: ["a"], models: ["ats.tag"] }),
        store.readLog({ ...page, upTo: 9, kinds: ["deleted"], transitions: ["hired"] }),
        store.records(tags, null, 25)
      ]).pipe(Effect.provideService(Statement.CurrentTransformer, note))
      assert.isAbove(queries.length, 6)
      for (const [query, params] of queries) {
        const rows = yield* sql.unsafe<{ detail: string }>(`EXPLAIN QUERY PLAN ${query}`, params)
        for (const { detail } of rows) assert.notMatch(detail, /^SCAN (events|e|p)\b(?! USING)/, query)
      }
    }).pipe(Effect.provide(Layer.provideMerge(Ports.layer, Sqlite.client({ file: ":memory:" })))))
})

it.effect("the live records of a stream are counted without reading records, and stay counted while the stream is erased", () =>
  Effect.gen(function*() {
    const store = yield* Store
    const sql = yield* SqlClient.SqlClient
    yield* store.ensureStreams([stateOf(tags)])
    const owner = yield* store.takeOwnership("capture")
    yield* store.transact(owner, tags, (tx) => tx.write(ids(600).map(created)))
    const queries: Array<string> = []
    yield* Effect.all([
      store.counts,
      store.streamPage({ limit: 9 }),
      store.transact(owner, tags, (tx) => tx.liveCount)
    ]).pipe(Effect.provideService(Statement.CurrentTransformer, (statement) => {
      queries.push(statement.compile()[0])
      return Effect.succeed(statement)
    }))
    assert.isAbove(queries.length, 4)
    for (const query of queries) assert.notMatch(query, /\bheads\b/)

    const counts: Array<number> = []
    // each transaction of the erasure begins with this query
    const note: Statement.Transformer = (statement) =>
      statement.compile()[0].startsWith("SELECT key FROM streams WHERE")
        ? sql<
          { live: number; heads: number }
        >`SELECT live_records AS live, (SELECT count(*) FROM heads) AS heads FROM streams`
          .pipe(
            Effect.map(([row]) => {
              assert.strictEqual(row?.live, row?.heads)
              counts.push(Number(row?.live))
              return statement
            }),
            Effect.orDie
          )
        : Effect.succeed(statement)
    yield* Effect.provideService(store.eraseStream(owner, tags), Statement.CurrentTransformer, note)
    assert.deepStrictEqual([...new Set(counts)].slice(0, 4), [600, 350, 100, 0])
  }).pipe(Effect.provide(Layer.provideMerge(Ports.layer, Sqlite.client({ file: ":memory:" })))))

it.effect("no decided hold is read to list the holds that wait, and no other integration to find one", () =>
  Effect.gen(function*() {
    const store = yield* Store
    const sql = yield* SqlClient.SqlClient
    const queries: Array<readonly [string, ReadonlyArray<unknown>]> = []
    yield* Effect.all([
      store.holds({ limit: 9 }),
      store.holds({ states: ["approving"], before: 7, limit: 9 }),
      store.holds({ states: ["open"], limit: 9 }),
      store.integration("greenhouse:acme")
    ]).pipe(Effect.provideService(Statement.CurrentTransformer, (statement) => {
      queries.push(statement.compile())
      return Effect.succeed(statement)
    }))
    assert.lengthOf(queries, 4)
    for (const [query, params] of queries) {
      const rows = yield* sql.unsafe<{ detail: string }>(`EXPLAIN QUERY PLAN ${query}`, params)
      for (const { detail } of rows) assert.notMatch(detail, /^SCAN (?!h USING INDEX holds_undecided)/, query)
    }
  }).pipe(Effect.provide(Layer.provideMerge(Ports.layer, Sqlite.client({ file: ":memory:" })))))

it.effect("a step of the delivery engine reads ticks and their deliveries up to the first that needs the log, and the few unavailable integrations", () =>
  Effect.gen(function*() {
    const store = yield* Store
    const deliveries = yield* Deliveries
    const sql = yield* SqlClient.SqlClient
    const owner = yield* store.takeOwnership("dispatch")
    yield* deliveries.registerHandlers(owner, [])
    const queries: Array<readonly [string, ReadonlyArray<unknown>]> = []
    yield* Effect.all([
      deliveries.dispatch(owner, { deliveries: [], handlers: [1], position: 0 }),
      store.unavailableIntegrations(),
      store.unavailableIntegrations(new Set(["default"]))
    ]).pipe(
      Effect.provideService(Statement.CurrentTransformer, (statement) => {
        queries.push(statement.compile())
        return Effect.succeed(statement)
      })
    )
    const plan = yield* Effect.forEach(
      queries.filter(([query]) => /SELECT|UPDATE/.test(query)),
      ([query, params]) => sql.unsafe<{ detail: string }>(`EXPLAIN QUERY PLAN ${query}`, params)
    )
    const details = plan.flat().map(({ detail }) => detail)
    for (const detail of details) assert.notMatch(detail, /^SCAN (t|ticks|d|deliveries|integrations)\b/)
    for (const index of ["ticks_on", "deliveries_spans", "integrations_account"]) {
      assert.isTrue(details.some((detail) => detail.includes(index)), `${index} in ${details.join("\n")}`)
    }
  }).pipe(Effect.provide(Layer.provideMerge(Ports.layer, Sqlite.client({ file: ":memory:" })))))

it.effect("an erased stream leaves no row in any table except empty ones in the log (X19)", () =>
  Effect.gen(function*() {
    const store = yield* Store
    const sql = yield* SqlClient.SqlClient
    const references = { before: new Map(), after: new Map([[1, { content: 2, unannounced: true }]]) }
    yield* store.ensureStreams([stateOf(tags)])
    const owner = yield* store.takeOwnership("capture")
    yield* store.transact(
      owner,
      tags,
      Effect.fnUntraced(function*(tx) {
        yield* tx.openHold({
          kind: "scope",
          state: "open",
          reason: "a test",
          paths: ["/name"],
          openedAt: 1,
          decidedAt: null,
          released: 0,
          release: null
        })
        yield* tx.putPending([pendingOf("p")])
        yield* tx.setDerivedIds(new Map([["a", "c"]]))
        yield* tx.quarantine([{ hash: "h", reason: "no id", content: "{}", redaction: null, at: 1 }])
        yield* tx.write([{ ...changeOf(headOf("a"), "created"), references }])
      })
    )
    yield* sql`INSERT INTO runs (stream, id, run) SELECT key, 1, '{}' FROM streams`
    yield* sql`INSERT INTO stale_records (stream, id, requested) SELECT key, 'a', 0 FROM streams`
    yield* sql`
      INSERT INTO expectations (stream, key, target, write, name, plugin, delivery, depth, matcher, all_records, required,
        matched_records, since_run, missed_sweeps)
      SELECT key, 'id:a', 'a', 'w', 'addTag', 'p', 'd', 1, '{}', 0, 1, '[]', 1, 0 FROM streams`
    const tables = yield* sql<{ name: string }>`
      SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'stream'`
    const filled = Effect.map(
      Effect.forEach(
        tables,
        ({ name }) => sql`SELECT 1 FROM ${sql(name)}`.pipe(Effect.map((rows) => [name, rows.length]))
      ),
      (counts) => counts.filter(([, count]) => count !== 0).map(([name]) => name)
    )
    assert.sameMembers(yield* filled, tables.map(({ name }) => name))
    yield* store.eraseStream(owner, tags)
    assert.deepStrictEqual(yield* filled, ["events"])
    assert.deepStrictEqual(yield* sql`SELECT content, changes FROM events`, [{ content: null, changes: "[]" }])
  }).pipe(Effect.provide(Ports.layer.pipe(Layer.provideMerge(Sqlite.client({ file: ":memory:" }))))))
