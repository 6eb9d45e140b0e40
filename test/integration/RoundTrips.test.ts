/**
 * The number of times that a poll and a transaction wait for the database: messages to the thread of SQLite, round trips to
 * PostgreSQL. The numbers may only fall.
 */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { assert, describe, it, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { connect, createServer } from "node:net"
import { Worker } from "node:worker_threads"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import { created, stateOf, tags } from "../conformance/StoreSamples.ts"
import { type Rig, scenario } from "../support/capture/Rig.ts"
import { storeFile } from "../support/TemporaryFolder.ts"
import { onServer, open } from "./postgres/Opened.ts"
import * as Server from "./postgres/Server.ts"
import { say } from "./postgres/Server.ts"

/** The application with a referenced job, as most tools show it. */
const application = (id: string, title: string) => ({
  id,
  title,
  job: { id: "j", name: "Dev" },
  candidate: { id: `c-${id}`, first_name: title }
})

/** Polls of one page: with new records, with changed ones, and with records that were read before. `taken`: the waits since the last call. */
const pages = (taken: () => number) =>
  Effect.fnUntraced(function*(rig: Rig) {
    yield* rig.backfill(application("a", "one"))
    yield* rig.change(application("a", "two"))
    const counted = Effect.fnUntraced(function*(rows: ReadonlyArray<{ readonly id: string }>) {
      yield* rig.wait("1 minute")
      for (const row of rows) yield* rig.put(row)
      taken()
      yield* rig.poll
      return taken()
    })
    return {
      new: yield* counted(["b", "c", "d"].map((id) => application(id, "one"))),
      changed: yield* counted(["b", "c", "d"].map((id) => application(id, "two"))),
      unchanged: yield* counted([])
    }
  })

/** Calls `next` when this process has done everything that it can do without further input. */
const whenIdle = (next: () => void, turns = 20): void => {
  setImmediate(() => turns === 0 ? next() : whenIdle(next, turns - 1))
}

/**
 * A proxy in front of a server, which counts the round trips of transactions. One begins when a client sends something after it got an
 * answer. A client gets answers only when it has sent everything that needs none, so that the number does not depend on the speed of the
 * server. Logins and the regular checks of an open store are not counted.
 */
const counting = (database: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<{ readonly stop: () => void; readonly url: string; readonly taken: () => number }>((resume) => {
        const target = new URL(database)
        let trips = 0
        const server = createServer((near) => {
          const far = connect({ host: target.hostname, port: Number(target.port), noDelay: true })
          let [isOpen, isAnswered, sent] = [false, true, 0]
          const answer = (chunk: Buffer) => {
            const before = sent
            whenIdle(() => {
              if (sent !== before) return answer(chunk)
              isAnswered = true
              near.write(chunk)
            })
          }
          near.on("data", (chunk) => {
            if (chunk.includes("BEGIN")) isOpen = true
            if (isAnswered && isOpen) trips++
            if (chunk.includes("COMMIT")) isOpen = false
            isAnswered = false
            sent++
            far.write(chunk)
          }).on("close", () => far.destroy()).on("error", () => far.destroy())
          far.on("data", answer).on("close", () => near.destroy()).on("error", () => near.destroy())
        })
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          const url = new URL(database)
          url.hostname = "127.0.0.1"
          url.port = String(typeof address === "object" && address !== null ? address.port : 0)
          const taken = () => {
            const count = trips
            trips = 0
            return count
          }
          resume(Effect.succeed({ stop: () => server.close(), url: url.href, taken }))
        })
      }),
      ({ stop }) => Effect.sync(stop)
    ),
    ({ taken, url }) => ({ taken, url })
  )

describe("a poll of one page", () => {
  it.effect("waits for the thread of SQLite no more often than this", () =>
    Effect.gen(function*() {
      const sent = yield* Effect.acquireRelease(
        Effect.sync(() => vi.spyOn(Worker.prototype, "postMessage")),
        (spy) => Effect.sync(() => spy.mockRestore())
      )
      const taken = () => {
        const count = sent.mock.calls.length
        sent.mockClear()
        return count
      }
      const database = Sqlite.client({ file: yield* storeFile, ownThread: true })
      assert.deepStrictEqual(yield* scenario(pages(taken), { database }), { new: 7, changed: 7, unchanged: 6 })
    }))
})

const { database } = Server.ofFile()

const applications = { ...tags, model: "ats.application" } as const

/** A new record that repeats three others, with the content that other records show. */
const referring = (id: string) => {
  const after = new Map(Array.from({ length: 3 }, (_, at) => [at, { content: 1, unannounced: true }]))
  return { ...created(id), references: { before: new Map(), after } }
}

/** A long-running transaction of another session that has this row. */
const holding = (url: string, sql: string) =>
  Effect.tap(
    PgConnection.make({ url: Redacted.make(url) }),
    (session) => Effect.andThen(session.query("BEGIN"), session.query(sql))
  )

const opened = Effect.gen(function*() {
  const url = yield* database
  const proxy = yield* counting(url)
  const { sql, store } = yield* open(proxy.url)
  yield* store.ensureStreams([
    stateOf(tags),
    stateOf(applications),
    stateOf({ ...applications, model: "ats.candidate" })
  ])
  return { ...proxy, sql, store, direct: url, owner: yield* store.takeOwnership("capture") }
})

onServer("a transaction on PostgreSQL", () => {
  /** Commits a page of new applications; returns how often it waited. */
  const page = (derives: boolean) =>
    Effect.gen(function*() {
      const { owner, store, taken } = yield* opened
      const commit = (ids: ReadonlyArray<string>) => {
        const query = { hashes: new Map(ids.map((id) => [id, "hash"])), runId: 1 }
        return store.transact(owner, applications, (tx) =>
          Effect.gen(function*() {
            const { heads } = yield* tx.read(query)
            assert.strictEqual(heads.size, 0)
            yield* tx.markSeen(ids, 1)
            const copies = ids.map((id) => ({ id: `c-${id}`, parent: id, textHash: null }))
            const sources = derives ? yield* tx.sources("ats.candidate", { changed: ids, copies, limit: 9 }) : null
            yield* tx.write(ids.map(referring), sources === null ? [] : copies.map(({ id }) => created(id)))
            yield* tx.saveState(tx.state)
          }), () => query)
      }
      yield* commit(["a"])
      taken()
      yield* commit(Array.from({ length: 300 }, (_, index) => `b${index}`))
      return taken()
    })

  // the lock, the stream and its page; the counter of the log; everything else
  it.live("waits three times for a page of new records", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* page(false), 3)
    }))

  // the sources of the candidates too
  it.live("waits four times for a page of new records with candidates", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* page(true), 4)
    }))

  it.live("is not committed if the driver cannot send one of the statements that waited", () =>
    Effect.gen(function*() {
      const { sql, store } = yield* opened
      const write = (name: string, position: unknown) =>
        sql.unsafe("INSERT INTO readers (name, position) VALUES ($1, $2)", [name, position])
      // the id of the transaction is known, so the COMMIT is sent with the writes
      const id = sql.unsafe("SELECT pg_current_xact_id()::text")
      yield* Effect.flip(sql.withTransaction(Effect.all([id, write("a", 1), write("b", Symbol("no")), write("c", 1)])))
      yield* Effect.flip(sql.withTransaction(Effect.all([id, write("a", 1), write("a", 2)])))
      assert.deepStrictEqual([yield* store.readerPosition("a"), yield* store.readerPosition("c")], [0, 0])
    }))

  it.live("that is interrupted while it waits for a lock gives up its own locks at once (X20)", () =>
    Effect.gen(function*() {
      const { direct, owner, store } = yield* opened
      yield* holding(direct, "SELECT * FROM rollcall.streams FOR UPDATE")
      const waiting = yield* Effect.forkChild(store.transact(owner, tags, () => Effect.void))
      // not a session of another test
      const waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
      yield* Effect.repeat(say(direct, waits), { until: ({ rows }) => rows.length > 0 })
      const since = Date.now()
      yield* Fiber.interrupt(waiting)
      // waits for the lock of the fence; the server would end the wait for a lock after ten seconds
      const next = yield* store.takeOwnership("capture")
      assert.strictEqual(next.epoch, owner.epoch + 1)
      assert.isBelow(Date.now() - since, 5_000)
    }))
})
