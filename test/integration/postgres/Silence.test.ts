/** The store in PostgreSQL behind a proxy that stops answering: the time limits, and the state afterwards. */
import { assert, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Migrator from "effect/sql/Migrator"
import { SqlClient } from "effect/sql/SqlClient"
import { runMissing } from "../../../src/store/sql/Migrations.ts"
import { AllowLongStatement } from "../../../src/store/sql/SqlRetry.ts"
import { all, created, reasonOf, stateOf, tags } from "../../conformance/StoreSamples.ts"
import { onServer, open } from "./Opened.ts"
import * as Server from "./Server.ts"
import { type Fault, silentProxy } from "./SilentProxy.ts"

const { database } = Server.ofFile()

/**
 * A statement times out after two seconds, because a busy server needs one; the driver needs up to five more to release its connection, or
 * to open one.
 */
const limits = { connection: Duration.seconds(6), statement: Duration.seconds(2), long: Duration.seconds(6) }
const options = { name: "postgres://test/silence", limits }
const bound = 12_000

const behindProxy = Effect.gen(function*() {
  const url = yield* database
  const proxy = yield* silentProxy(url)
  const { sql, store } = yield* open(proxy.url, options)
  yield* store.ensureStreams([stateOf(tags)])
  const owner = yield* store.takeOwnership("capture")
  return { proxy, sql, store, owner, url }
})

/** Duration, in ms. */
const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const since = Date.now()
    return Effect.map(Effect.exit(effect), (exit) => ({ exit, millis: Date.now() - since }))
  })

const collected = () => {
  const lines: Array<string> = []
  return { lines, layer: Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))]) }
}

onServer("a silent database", () => {
  for (const fault of ["frozen", "lossy"] as const satisfies ReadonlyArray<Fault>) {
    it.live(
      `behind a ${fault} proxy: every statement fails within its time limit, and the first one after the proxy heals succeeds (X10)`,
      () => {
        const { layer, lines } = collected()
        return Effect.gen(function*() {
          const { owner, proxy, sql, store } = yield* behindProxy
          // several sessions are idle when the silence starts
          yield* Effect.all(Array.from({ length: 6 }, () => sql`SELECT pg_sleep(0.3)`), { concurrency: "unbounded" })
          proxy.fail(fault)
          const { exit, millis } = yield* timed(store.streams)
          assert.strictEqual(reasonOf(exit), "Unavailable")
          assert.isBelow(millis, bound)
          const before = Date.now()
          const outage = yield* store.outage
          assert.match(outage?.message ?? "", /does not answer \(postgres:\/\/test\/silence\)/)
          assert.isBelow(outage?.since ?? Infinity, before)
          const again = yield* timed(store.transact(owner, tags, (tx) => tx.write([created("lost")])))
          assert.strictEqual(reasonOf(again.exit), "Unavailable")
          assert.isBelow(again.millis, bound)
          proxy.heal()
          // idle sessions are as dead as those whose statements timed out
          const healed = yield* timed(store.transact(owner, tags, (tx) => tx.write([created("a")])))
          assert.isTrue(Exit.isSuccess(healed.exit))
          for (let times = 0; times < 12; times++) yield* store.streams
          assert.strictEqual(proxy.reused(), 0)
          assert.isNull(yield* store.outage)
          assert.deepStrictEqual((yield* store.readLog(all)).map(({ id }) => id), ["a"])
          assert.deepStrictEqual(lines, ["store unavailable", "store available again"])
        }).pipe(Effect.provide(layer))
      }
    )

    for (const delivered of [true, false]) {
      it.live(
        `a ${fault} proxy: a transaction whose COMMIT ${
          delivered ? "arrived and was not answered" : "did not arrive"
        } has the outcome that its caller is given (I2)`,
        () =>
          Effect.gen(function*() {
            const { owner, proxy, store } = yield* behindProxy
            const runs: Array<string> = []
            const committing = yield* Effect.forkChild(Effect.exit(store.transact(owner, tags, (tx) =>
              Effect.gen(function*() {
                runs.push(`r${runs.length}`)
                yield* tx.write([created(runs.at(-1) ?? "")])
                // the next message has the writes and the COMMIT
                if (runs.length === 1) proxy.fail(fault, { nth: 1, delivered })
              }))))
            yield* Effect.sleep("7 seconds")
            assert.isUndefined(committing.pollUnsafe())
            proxy.heal()
            const exit = yield* Fiber.join(committing)
            assert.strictEqual(Exit.isSuccess(exit), delivered)
            const ids = (yield* store.readLog(all)).map(({ id }) =>
              id
            )
            assert.deepStrictEqual([runs, ids], [["r0"], delivered ? ["r0"] : []])
            yield* store.transact(owner, tags, (tx) => tx.write([created("next")]))
            assert.deepStrictEqual((yield* store.readLog(all)).map(({ id }) => id), [...ids, "next"])
          })
      )
    }
  }

  it.live("a late claim does not fence the owner that claimed after it (I10)", () =>
    Effect.gen(function*() {
      const { proxy, sql, store } = yield* behindProxy
      yield* sql`SELECT 1`
      proxy.fail("frozen")
      assert.strictEqual(reasonOf(yield* Effect.exit(store.takeOwnership("relay"))), "Unavailable")
      proxy.heal()
      const owner = yield* store.takeOwnership("relay")
      yield* Effect.sleep("6 seconds")
      yield* store.saveReaderPosition(owner, "relay", 1)
      assert.strictEqual(owner.epoch, 1)
    }))

  it.live("a long statement has its own, longer time limit", () =>
    Effect.gen(function*() {
      const { sql } = yield* open(yield* database, options)
      const slow = (seconds: number) =>
        Effect.provideService(sql`SELECT pg_sleep(${seconds})`, AllowLongStatement, true)
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(slow(3))))
      const { exit, millis } = yield* timed(slow(30))
      assert.isTrue(Exit.isFailure(exit))
      assert.isBelow(millis, 15_000)
    }))

  it.live("a statement of a migration has the longer time limit", () =>
    Effect.gen(function*() {
      const { sql } = yield* open(yield* database, options)
      const slow = sql`SELECT pg_sleep(3)`
      const migration = { loader: Migrator.fromRecord({ "0001_slow": slow }), table: "slow_migrations" }
      assert.deepStrictEqual(yield* Effect.provideService(runMissing(migration), SqlClient, sql), [1])
    }))
})
