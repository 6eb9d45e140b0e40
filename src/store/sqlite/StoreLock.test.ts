import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Worker } from "node:worker_threads"
import * as StoreLock from "./StoreLock.ts"

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-lock-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)
const hold = (store: string, takeOver = false) => Layer.build(StoreLock.layer(store, takeOver))
const refusal = (store: string) => Effect.map(Effect.flip(Effect.scoped(hold(store))), ({ _tag }) => _tag)

describe("the lock of a SQLite store", () => {
  it.effect("is held by one at a time, whichever path leads to the store, and is free afterwards (X9)", () =>
    Effect.gen(function*() {
      const path = yield* directory
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
      const store = join(yield* directory, "rollcall.db")
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
      const store = join(yield* directory, "rollcall.db")
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
      const path = yield* directory
      symlinkSync(join(path, "nothing"), join(path, "link.db"))
      for (const store of [":memory:", join(path, "link.db"), join(path, "none", "rollcall.db")]) {
        yield* hold(store)
        yield* hold(store)
      }
      assert.deepStrictEqual(readdirSync(path), ["link.db"])
      assert.isFalse(existsSync(":memory:.lock"))
    }))
})
