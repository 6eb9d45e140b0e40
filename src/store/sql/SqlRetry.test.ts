import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { ConnectionError, DeadlockError, LockTimeoutError, SqlError, UnknownError } from "effect/sql/SqlError"
import { TestClock } from "effect/testing"
import { conflict } from "../../../test/conformance/StoreSamples.ts"
import { Fenced, StoreError } from "../StoreError.ts"
import { toStoreError, withRetry, withRetryAfterRollback } from "./SqlRetry.ts"

const secret = "content of a record"
const locked = new SqlError({ reason: new LockTimeoutError({ cause: new Error(secret), message: secret }) })
const deadlock = new SqlError({ reason: new DeadlockError({ cause: new Error(secret), message: secret }) })
const lost = new SqlError({ reason: new ConnectionError({ cause: new Error(secret), message: secret }) })
const broken = new SqlError({ reason: new UnknownError({ cause: new Error(secret) }) })
const fenced = new StoreError({ reason: new Fenced({ scope: "capture", epoch: 1 }) })

/** The number of times that work runs if it always fails with this error, and the final error. */
const retried = <E>(failure: E, retry: typeof withRetry = withRetry) =>
  Effect.gen(function*() {
    let runs = 0
    const work = Effect.suspend(() => {
      runs += 1
      return Effect.fail(failure)
    })
    const fiber = yield* Effect.forkChild(Effect.flip(retry("test")(work)))
    yield* TestClock.adjust("1 minute")
    return { runs, error: yield* Fiber.join(fiber) }
  })

describe("database work", () => {
  it.effect.each([
    { name: "a lock of the database", failure: locked },
    { name: "a conflict inside a transaction", failure: conflict }
  ])("runs ten times for $name, then the store is unavailable", ({ failure }) =>
    Effect.gen(function*() {
      const { error, runs } = yield* retried<SqlError | StoreError>(failure)
      assert.strictEqual(runs, 10)
      assert.strictEqual(error.reason._tag, "Unavailable")
    }))

  it.effect.each([
    { name: "an error that is not a conflict", failure: broken },
    { name: "a fenced owner", failure: fenced }
  ])("runs once for $name", ({ failure }) =>
    Effect.gen(function*() {
      assert.strictEqual((yield* retried<SqlError | StoreError>(failure)).runs, 1)
    }))

  it.effect.each([
    { name: "a deadlock", failure: deadlock, runs: 10 },
    { name: "a lock of the database", failure: locked, runs: 10 },
    { name: "a conflict inside a transaction", failure: conflict, runs: 10 },
    { name: "a lost connection, after which it may be committed", failure: lost, runs: 1 }
  ])("that must not run twice runs $runs times for $name (X10)", ({ failure, runs }) =>
    Effect.gen(function*() {
      assert.strictEqual((yield* retried<SqlError | StoreError>(failure, withRetryAfterRollback)).runs, runs)
    }))

  it.effect("runs ten times for a lost connection", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* retried<SqlError | StoreError>(lost)).runs, 10)
    }))

  it.effect("passes the caller's own errors through unchanged", () =>
    Effect.gen(function*() {
      const own = new Error("own")
      assert.strictEqual((yield* retried(own)).error, own)
    }))

  it.effect("fails with a message that says what to do, without the database's message (I11)", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(toStoreError("write")(Effect.fail(locked)))
      assert.notInclude(error.message, secret)
      assert.match(error.message, /^the store could not do this now.*tries again/)
    }))
})
