/** The file of a SQLite store: its lock, a file that is deleted, replaced or damaged, and what its bytes contain after a deletion. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Worker } from "node:worker_threads"
import {
  all,
  begin,
  changeOf,
  headOf,
  headsOf,
  pendingOf,
  reasonOf,
  stateOf,
  tags
} from "../../../test/conformance/StoreSamples.ts"
import { storeFile, temporaryFolder } from "../../../test/support/TemporaryFolder.ts"
import * as Retention from "../../publish/Retention.ts"
import type { RecordWrite } from "../Records.ts"
import { Store } from "../Store.ts"
import * as Sqlite from "./Sqlite.ts"
import * as StoreFile from "./StoreFile.ts"

const hold = (store: string, takeOver = false) => Layer.build(StoreFile.lockLayer(store, takeOver))
const refusal = (store: string) => Effect.map(Effect.flip(Effect.scoped(hold(store))), ({ _tag }) => _tag)

describe("the lock of a SQLite store", () => {
  it.effect("is held by one at a time, whichever path leads to the store, and is free afterwards (X9)", () =>
    Effect.gen(function*() {
      const path = yield* temporaryFolder
      const store = join(path, "rollcall.db")
      mkdirSync(join(path, "inner"))
      symlinkSync(path, join(path, "inner", "folder"))
      const others = [store, join(path, "inner", "folder", "rollcall.db")]
      yield* Effect.scoped(Effect.gen(function*() {
        yield* hold(store)
        // the store itself is created after the lock was taken
        for (const other of others) assert.strictEqual(yield* refusal(other), "StoreInUse")
        writeFileSync(store, "")
        symlinkSync(store, join(path, "link.db"))
        for (const other of [...others, join(path, "link.db")]) {
          assert.strictEqual(yield* refusal(other), "StoreInUse")
        }
        // another thread of this process opens and closes the file with SQLite
        const worker = new Worker(
          `const { DatabaseSync } = require("node:sqlite"); new DatabaseSync(${
            JSON.stringify(`${store}.lock`)
          }).close()`,
          { eval: true }
        )
        yield* Effect.promise(() => new Promise((ended) => worker.once("exit", ended)))
        assert.strictEqual(yield* refusal(store), "StoreInUse")
      }))
      yield* Effect.scoped(hold(store))
      assert.strictEqual(statSync(`${store}.lock`).size, 0)
      assert.strictEqual(statSync(`${store}.lock`).mode & 0o777, 0o600)
    }))

  it.effect("is taken although another process, which tries to take it at the same moment, hinders it briefly (X9)", () =>
    Effect.gen(function*() {
      const store = yield* storeFile
      yield* Effect.scoped(hold(store))
      const worker = new Worker(
        `const { DatabaseSync } = require("node:sqlite")
        const { parentPort, workerData } = require("node:worker_threads")
        const database = new DatabaseSync(workerData)
        database.exec("BEGIN; SELECT * FROM sqlite_master")
        parentPort.postMessage(null)
        setTimeout(() => database.close(), 20)`,
        { eval: true, workerData: `${store}.lock` }
      )
      yield* Effect.promise(() => new Promise((locked) => worker.once("message", locked)))
      yield* Effect.scoped(hold(store))
      yield* Effect.promise(() => worker.terminate())
    }))

  it.effect("is taken as soon as it is free by a process that takes the store over (X9)", () =>
    Effect.gen(function*() {
      const store = yield* storeFile
      yield* Effect.scoped(Effect.gen(function*() {
        yield* Effect.scoped(Effect.gen(function*() {
          yield* hold(store)
          yield* Effect.forkDetach(Effect.scoped(Effect.andThen(hold(store, true), Effect.sleep("10 seconds"))))
          yield* TestClock.adjust("1 second")
        }))
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* refusal(store), "StoreInUse")
        yield* TestClock.adjust("10 seconds")
      }))
      yield* Effect.scoped(hold(store))
    }))

  it.effect("does not exist for a database in memory, behind a link to nothing, or without a folder", () =>
    Effect.gen(function*() {
      const path = yield* temporaryFolder
      symlinkSync(join(path, "nothing"), join(path, "link.db"))
      for (const store of [":memory:", join(path, "link.db"), join(path, "none", "rollcall.db")]) {
        yield* hold(store)
        yield* hold(store)
      }
      assert.deepStrictEqual(readdirSync(path), ["link.db"])
      assert.isFalse(existsSync(":memory:.lock"))
    }))
})

const content = (version: number) => JSON.stringify({ id: "r", name: `version ${version}`, text: "x".repeat(3_000) })

/** A store in `file` with a record that has three versions. */
const opened = Effect.fnUntraced(function*(file: string) {
  const store = Context.get(yield* Layer.build(Sqlite.layer({ file })), Store)
  const owner = yield* store.takeOwnership("capture")
  yield* store.ensureStreams([stateOf(tags)])
  const write = Effect.gen(function*() {
    yield* store.transact(owner, tags, (tx) =>
      Effect.gen(function*() {
        const head = (yield* headsOf(tx, ["r"])).get("r") ?? headOf("r")
        const kind = head.version === 0 ? "created" : "updated"
        yield* tx.write([changeOf(head, kind, { after: content(head.version + 1) })])
      }))
  })
  return { store, write }
})

describe("the file of a SQLite store that is open", () => {
  const cases = [
    ["deleted", (file: string) => rmSync(file)],
    ["replaced", (file: string) => {
      copyFileSync(file, `${file}.copy`)
      renameSync(`${file}.copy`, file)
    }]
  ] as const
  for (const [change, apply] of cases) {
    it.effect(`is no longer written once it is ${change}, and the error says so (X22)`, () =>
      Effect.gen(function*() {
        const file = yield* storeFile
        const { store, write } = yield* opened(file)
        yield* write
        apply(file)
        const { reason } = yield* Effect.flip(write)
        assert.deepStrictEqual([reason._tag, reason.retryable], ["Misconfigured", false])
        assert.include(reason.hint, `the database file ${file} was ${change} while it was open`)
        // a read may also return other data than the next process will find
        assert.strictEqual(reasonOf(yield* Effect.exit(store.readLog(all))), "Misconfigured")
      }).pipe(Effect.scoped))
  }
  it.effect("that cannot be checked for a while is used again afterwards, and the error names the cause (X22)", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      const { store, write } = yield* opened(file)
      renameSync(file, `${file}.away`)
      symlinkSync(file, file)
      const { reason } = yield* Effect.flip(write)
      assert.deepStrictEqual([reason._tag, reason.retryable], ["Unavailable", true])
      assert.include(reason.hint, `${file}, ELOOP`)
      assert.include((yield* store.outage)?.message, "ELOOP")
      rmSync(file)
      renameSync(`${file}.away`, file)
      yield* write
    }).pipe(Effect.scoped))
})

describe("a byte of a SQLite file", () => {
  it.effect("that flips in the content of any version is detected before a reader receives it (X23)", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      yield* Effect.scoped(Effect.gen(function*() {
        const { write } = yield* opened(file)
        for (let version = 1; version <= 6; version++) yield* write
      }))
      const sound = readFileSync(file)
      for (let version = 1; version <= 6; version++) {
        // a page that was split may still contain rows that moved to another page
        const text = sound.toString("latin1")
        assert.include(text, `version ${version}"`)
        const bytes = Buffer.from(text.replaceAll(`version ${version}"`, `version ${version ^ 1}"`), "latin1")
        writeFileSync(file, bytes)
        yield* Effect.scoped(Effect.gen(function*() {
          const store = Context.get(yield* Layer.build(Sqlite.layer({ file })), Store)
          assert.strictEqual(reasonOf(yield* Effect.exit(store.readLog({ after: version - 1, limit: 1 }))), "Damaged")
          if (version < 6) {
            assert.strictEqual(reasonOf(yield* Effect.exit(store.readLog({ after: version, limit: 1 }))), "Damaged")
          }
        }))
      }
    }))
})

/** Some contents are larger than a page, so that they have overflow pages. */
const contentOf = (id: string, letter: string): string =>
  JSON.stringify({
    id,
    email: `${letter}.${id}@people.example`,
    notes: "n".repeat(Number(id) % 20 === 0 ? 20_000 : 1500)
  })

const people = Array.from({ length: 200 }, (_, index) => String(index))
const createdPerson = (id: string): RecordWrite => changeOf(headOf(id), "created", { after: contentOf(id, "a") })

/** How many e-mail addresses are in the bytes of the store's files. */
const addressesIn = (file: string, letters = "abpq"): number =>
  ["", "-wal", "-shm", "-journal"].filter((suffix) => existsSync(file + suffix))
    .flatMap((suffix) =>
      readFileSync(file + suffix, "latin1").match(new RegExp(`[${letters}][.]\\d+@people`, "g")) ?? []
    )
    .length

const filled = Effect.gen(function*() {
  const own = yield* begin
  yield* own.write(people.map(createdPerson))
  for (const id of people) {
    const head = yield* own.head(id)
    yield* own.write([changeOf(head, "updated", { after: contentOf(id, "b") })])
  }
  yield* own.inTags((tx) =>
    Effect.andThen(
      tx.putPending(people.map((id) => pendingOf(id, { content: contentOf(id, "p") }))),
      tx.quarantine(
        people.map((id) => ({ hash: id, reason: "no string id", content: contentOf(id, "q"), redaction: null, at: 1 }))
      )
    )
  )
  return own
})

describe("the files of a SQLite store", () => {
  it.effect("contain no e-mail address of an integration once it is erased and the space is reclaimed", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      yield* Effect.gen(function*() {
        const { owner, store } = yield* filled
        assert.isAbove(addressesIn(file), 0)
        yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
        assert.isTrue(yield* store.reclaim)
        assert.strictEqual(addressesIn(file), 0)
      }).pipe(Effect.provide(Sqlite.layer({ file, ownThread: true })))
    }))

  it.effect("contain no earlier version of a record once the retention is over", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      yield* Effect.gen(function*() {
        yield* filled
        yield* Layer.build(Retention.layer({ retention: Duration.days(7), readers: [] }))
        yield* TestClock.adjust("8 days")
        assert.strictEqual(addressesIn(file, "a"), 0)
        assert.strictEqual(addressesIn(file, "b"), people.length)
      }).pipe(Effect.scoped, Effect.provide(Sqlite.layer({ file })))
    }))

  it.effect("are not reclaimed while another process reads them, and are once it has ended its read", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      yield* Effect.gen(function*() {
        const { owner, store } = yield* filled
        const reader = new DatabaseSync(file)
        reader.exec("BEGIN")
        reader.prepare("SELECT count(*) FROM events").get()
        yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
        assert.isFalse(yield* store.reclaim)
        reader.exec("COMMIT")
        reader.close()
        assert.isTrue(yield* store.reclaim)
        assert.strictEqual(addressesIn(file), 0)
      }).pipe(Effect.provide(Sqlite.layer({ file })))
    }))
})
