/** Behavior that only a real server shows: idle sessions, deadlocks, lost connections, takeovers and migrations. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import { captureScopes } from "../../../src/domain/Shard.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import * as PostgresInspection from "../../../src/store/postgres/PostgresInspection.ts"
import type { RecordWrite } from "../../../src/store/Records.ts"
import * as DatabaseTime from "../../../src/store/sql/DatabaseTime.ts"
import type { Owner } from "../../../src/store/State.ts"
import {
  all,
  created,
  employees,
  ids,
  midway,
  reasonOf,
  stateOf,
  Stop,
  tags,
  testsIn
} from "../../conformance/StoreSamples.ts"
import { later, migrateFurther } from "../../support/store/LaterMigrations.ts"
import { cuttable } from "./Cut.ts"
import { onServer, open, optionsOf } from "./Opened.ts"
import * as Server from "./Server.ts"

const { database } = Server.ofFile()

const live = testsIn(Layer.empty, Effect.map(database, (url) => ({ open: open(url), url })), it.live)

/** Much longer than a transaction may be idle, so that a session that is not ended shows. */
const idleUntil = (end: Deferred.Deferred<void>) => Effect.timeoutOption(Deferred.await(end), "30 seconds")

onServer("the store in PostgreSQL", () => {
  live("uses one time in a whole statement, and a later one in the next", function*({ open }) {
    const { sql } = yield* open
    const now = yield* DatabaseTime.make(sql)
    const times = sql<{ first: number; last: number }>`
      SELECT a.now AS first, ${now} AS last FROM (SELECT ${now} AS now, pg_sleep(0.02) OFFSET 0) a`
    const [[one], [two]] = yield* sql.withTransaction(Effect.all([times, times]))
    assert.strictEqual(one?.first, one?.last)
    assert.isAbove(Number(two?.first), Number(one?.first))
  })

  describe("a transaction", () => {
    live("whose owner is idle for too long cannot commit after another process took over (X20)", function*({ open }) {
      const [older, newer] = [yield* open, yield* open]
      yield* older.store.ensureStreams([stateOf(tags)])
      const frozen = yield* older.store.takeOwnership("capture")
      const end = yield* Deferred.make<void>()
      const silent = yield* midway(older.store, frozen, tags, "a", idleUntil(end))
      const owner = yield* newer.store.takeOwnership("capture")
      yield* newer.store.transact(owner, tags, (tx) => tx.write([created("b")]))
      yield* Deferred.succeed(end, undefined)
      assert.strictEqual(reasonOf(yield* Effect.exit(Fiber.join(silent))), "Fenced")
      assert.deepStrictEqual((yield* newer.store.readLog(all)).map(({ id, position }) => [position, id]), [[1, "b"]])
    })

    live(
      "of an owner waits for a takeover that waits for an earlier one, so that a busy owner does not delay the takeover (X20)",
      function*({ open }) {
        const [older, newer, { sql }] = [yield* open, yield* open, yield* open]
        const before = stateOf(tags)
        yield* older.store.ensureStreams([before, stateOf(employees)])
        const waiting = Effect.map(
          sql<{ count: number }>`
          SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
          ([row]) => Number(row?.count)
        )
        const start = <A, E>(effect: Effect.Effect<A, E>, waitingThen: number) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.forkScoped(Effect.exit(effect))
            yield* Effect.repeat(waiting, {
              until: (count) => count === waitingThen || fiber.pollUnsafe() !== undefined
            })
            assert.isUndefined(fiber.pollUnsafe())
            return fiber
          })
        for (
          const later of [
            (owner: Owner) => older.store.transact(owner, employees, (tx) => tx.write([created("later")])),
            (owner: Owner) => older.store.replaceQuietState(owner, before, { ...before, paused: true }),
            (owner: Owner) => older.store.saveReaderPosition(owner, "late", 1)
          ]
        ) {
          const owner = yield* older.store.takeOwnership("capture")
          const [inside, end] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
          const open = yield* Effect.forkScoped(
            older.store.transact(
              owner,
              tags,
              () => Effect.andThen(Deferred.succeed(inside, undefined), Deferred.await(end))
            )
          )
          yield* Deferred.await(inside)
          const taking = yield* start(newer.store.takeOwnership("capture"), 1)
          const late = yield* start(later(owner), 2)
          yield* Deferred.succeed(end, undefined)
          yield* Fiber.join(open)
          assert.strictEqual(reasonOf(yield* Fiber.join(taking)), "success")
          const exit: Exit.Exit<unknown, unknown> = yield* Fiber.join(late)
          assert.isTrue(reasonOf(exit) === "Fenced" || (Exit.isSuccess(exit) && exit.value === false))
        }
        assert.deepStrictEqual(yield* newer.store.readLog(all), [])
        assert.deepStrictEqual(yield* newer.store.stream(tags), before)
        assert.strictEqual(yield* newer.store.readerPosition("late"), 0)
      }
    )

    live(
      "that becomes idle while it locks the position counter is ended, and the others continue meanwhile (X21)",
      function*({ open }) {
        const [first, second] = [yield* open, yield* open]
        yield* first.store.ensureStreams([stateOf(tags), stateOf(employees)])
        const [one, two] = [yield* first.store.takeOwnership("one"), yield* second.store.takeOwnership("two")]
        const end = yield* Deferred.make<void>()
        let runs = 0
        const silent = yield* midway(
          first.store,
          one,
          tags,
          "a",
          Effect.suspend(() => (runs++, idleUntil(end)))
        )
        yield* second.store.transact(two, employees, (tx) => tx.write([created("b")]))
        yield* Deferred.succeed(end, undefined)
        // no other process took over, so the transaction runs again
        yield* Fiber.join(silent)
        assert.strictEqual(runs, 2)
        assert.deepStrictEqual((yield* second.store.readLog(all)).map(({ id, position }) => [position, id]), [
          [1, "b"],
          [2, "a"]
        ])
      }
    )

    live(
      "that took its positions first becomes visible first, although the later one was ready to commit earlier (X13)",
      function*({ open }) {
        const [first, second, reader] = [yield* open, yield* open, yield* open]
        yield* first.store.ensureStreams([stateOf(tags), stateOf(employees)])
        const [one, two] = [yield* first.store.takeOwnership("one"), yield* second.store.takeOwnership("two")]
        const slow = yield* midway(first.store, one, tags, "a", Effect.sleep("300 millis"))
        const later = yield* Effect.forkChild(second.store.transact(two, employees, (tx) => tx.write([created("b")])))
        const seen: Array<string> = []
        while (seen.length < 2) {
          yield* reader.store.awaitLog(seen.length)
          const entries = yield* reader.store.readLog({ after: seen.length, limit: 10 })
          seen.push(...entries.map(({ id }) => id))
        }
        yield* Fiber.join(slow)
        yield* Fiber.join(later)
        assert.deepStrictEqual(seen, ["a", "b"])
      }
    )

    live("that deadlocks with another one runs again, and both take effect", function*({ open }) {
      const { sql, store } = yield* open
      yield* store.ensureStreams([stateOf(tags), stateOf(employees)])
      const [one, two] = [yield* store.takeOwnership("one"), yield* store.takeOwnership("two")]
      const reached = [yield* Deferred.make<void>(), yield* Deferred.make<void>()] as const
      let runs = 0
      const count = (which: number) =>
        sql`INSERT INTO readers (name, position) VALUES (${`r${which}`}, 1)
          ON CONFLICT (name) DO UPDATE SET position = readers.position + 1 RETURNING name`
      const crossing = (owner: typeof one, key: typeof tags, mine: 0 | 1) =>
        store.transact(owner, key, () =>
          Effect.gen(function*() {
            runs++
            yield* count(mine)
            yield* Deferred.succeed(reached[mine], undefined)
            yield* Deferred.await(reached[mine === 0 ? 1 : 0])
            yield* count(1 - mine)
          }))
      yield* Effect.all([crossing(one, tags, 0), crossing(two, employees, 1)], { concurrency: "unbounded" })
      // one of the two runs again; the second run may meet the other one again
      assert.isAtLeast(runs, 3)
      assert.deepStrictEqual([yield* store.readerPosition("r0"), yield* store.readerPosition("r1")], [2, 2])
    })

    live(
      "that takes all shards over at the same moment as others waits for them: one process owns all shards, and no deadlock occurs (X9)",
      function*({ open }) {
        const processes = [yield* open, yield* open, yield* open]
        const { sql, store } = processes[0]!
        yield* store.ensureStreams([stateOf(tags)])
        for (let round = 0; round < 10; round++) {
          const claims = yield* Effect.forEach(processes, (one) => one.store.takeOwnerships(captureScopes), {
            concurrency: "unbounded"
          })
          const owned = yield* Effect.forEach(
            claims,
            (owners) =>
              Effect.filter(captureScopes, (scope) =>
                Effect.map(
                  Effect.exit(store.transact(owners.get(scope)!, tags, () => Effect.void)),
                  Exit.isSuccess
                ))
          )
          assert.deepStrictEqual(owned.map(({ length }) => length).sort((a, b) => a - b), [0, 0, captureScopes.length])
        }
        const [statistics] = yield* sql<{ deadlocks: number }>`
        SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`
        assert.strictEqual(statistics?.deadlocks, 0)
      }
    )

    live(
      "sees the references that another stream of its integration writes at the same time: one record becomes stale (I1)",
      function*({ open }) {
        const { store } = yield* open
        const offers = { ...tags, model: "ats.offer" } as const
        yield* store.ensureStreams([stateOf(tags), stateOf(offers)])
        const owner = yield* store.takeOwnership("capture")
        const shows = (id: string, before: number | null, after: number): RecordWrite => ({
          ...created(id),
          references: {
            before: new Map(before === null ? [] : [[7, { content: before, unannounced: true }]]),
            after: new Map([[7, { content: after, unannounced: true }]])
          }
        })
        yield* store.transact(owner, tags, (tx) => tx.write([shows("a", null, 1)]))
        const reached = [yield* Deferred.make<void>(), yield* Deferred.make<void>()] as const
        const beside = (key: typeof tags | typeof offers, write: RecordWrite, mine: 0 | 1) =>
          store.transact(owner, key, (tx) =>
            tx.write([write]).pipe(
              Effect.andThen(Deferred.succeed(reached[mine], undefined)),
              Effect.andThen(Effect.timeoutOption(Deferred.await(reached[mine === 0 ? 1 : 0]), "200 millis"))
            ))
        yield* Effect.all([beside(tags, shows("a", 1, 2), 0), beside(offers, shows("b", null, 1), 1)], {
          concurrency: "unbounded"
        })
        assert.strictEqual((yield* store.counts).reduce((sum, { stale }) => sum + stale, 0), 1)
      }
    )

    live("returns its own error although its connection is lost and the rollback fails", function*({ open }) {
      const { sql, store } = yield* open
      const error = yield* Effect.flip(sql.withTransaction(Effect.gen(function*() {
        const [backend] = yield* sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`
        yield* Effect.forkDetach(store.readerPosition("x"))
        yield* Effect.exit(sql`SELECT pg_terminate_backend(${backend?.pid ?? 0})`)
        return yield* Effect.fail(new Stop())
      })))
      assert.instanceOf(error, Stop)
      assert.strictEqual(yield* store.readerPosition("x"), 0)
    })

    for (const delivered of [true, false]) {
      it.live(
        delivered
          ? "whose commit arrived before the connection was cut is committed and does not run again (I2)"
          : "whose connection was cut before the commit arrived is not committed, and runs again (I2)",
        () =>
          Effect.gen(function*() {
            const { cut, url } = yield* cuttable(yield* database)
            const { store } = yield* open(url)
            yield* store.ensureStreams([stateOf(tags)])
            const owner = yield* store.takeOwnership("capture")
            const runs: Array<string> = []
            yield* store.transact(owner, tags, (tx) =>
              Effect.gen(function*() {
                runs.push(`r${runs.length}`)
                yield* tx.write([created(runs.at(-1) ?? "")])
                // the next message has the writes and the COMMIT
                if (runs.length === 1) cut({ nth: 1, containing: "COMMIT", delivered })
              }))
            assert.deepStrictEqual(runs, delivered ? ["r0"] : ["r0", "r1"])
            assert.deepStrictEqual((yield* store.readLog(all)).map(({ id, position }) => [position, id]), [
              [1, delivered ? "r0" : "r1"]
            ])
          })
      )
    }
  })

  describe("reads", () => {
    live("whole numbers as numbers, however large", function*({ open }) {
      const { sql } = yield* open
      const [row] =
        yield* sql`SELECT count(*) AS count, ${Number.MAX_SAFE_INTEGER}::bigint AS most, (-1)::bigint AS less`
      assert.deepStrictEqual(row, { count: 1, most: Number.MAX_SAFE_INTEGER, less: -1 })
    })
  })

  live(
    "migrated by a newer version that stops earlier ones, it accepts nothing more from them: no commit, no takeover, no start (X9)",
    function*({ open, url }) {
      const [older, newer] = [yield* open, yield* open]
      yield* older.store.ensureStreams([stateOf(tags)])
      const owner = yield* older.store.takeOwnership("capture")
      yield* older.store.checkVersion
      const writing = yield* midway(older.store, owner, tags, "a", Effect.sleep("300 millis"))
      const position = yield* Deferred.make<number>()
      yield* migrateFurther(
        newer.store.logRange.pipe(
          Effect.tap(({ newest }) => Deferred.succeed(position, newest)),
          // a column that each transaction of an owner reads
          Effect.andThen(newer.sql`ALTER TABLE streams RENAME COLUMN state TO later`)
        ),
        { stops: true }
      ).pipe(Effect.provideService(SqlClient, newer.sql))
      yield* Fiber.join(writing)
      assert.strictEqual(yield* Deferred.await(position), 1)
      for (
        const attempt of [
          older.store.transact(owner, tags, (tx) => tx.write([created("b")])),
          older.store.takeOwnership("capture"),
          older.store.takeOwnership("new"),
          older.store.checkVersion,
          Layer.build(Layer.fresh(Postgres.layer(optionsOf(url)))),
          PostgresInspection.inspect(optionsOf(url))
        ]
      ) {
        const error = yield* Effect.flip(Effect.asVoid(attempt))
        assert.strictEqual(error.reason._tag, "Incompatible")
        assert.include(error.message, `needs a version of Rollcall that knows schema ${later}`)
      }
      assert.strictEqual((yield* older.store.logRange).newest, 1)
      assert.deepStrictEqual(yield* newer.sql`SELECT scope FROM ownership`, [{ scope: "capture" }])
    }
  )

  live(
    "migrated while a process of an earlier version takes a shard over, it fences that process afterwards (X9)",
    function*({ open }) {
      const [older, newer] = [yield* open, yield* open]
      yield* older.store.ensureStreams([stateOf(tags)])
      const taken = yield* Deferred.make<Owner>()
      const taking = yield* Effect.forkChild(older.sql.withTransaction(Effect.gen(function*() {
        yield* Deferred.succeed(taken, yield* older.store.takeOwnership("new"))
        yield* Effect.sleep("300 millis")
      })))
      const owner = yield* Deferred.await(taken)
      yield* migrateFurther(Effect.void, { stops: true }).pipe(Effect.provideService(SqlClient, newer.sql))
      yield* Fiber.join(taking)
      const late = older.store.transact(owner, tags, (tx) => tx.write([created("a")]))
      assert.strictEqual(reasonOf(yield* Effect.exit(late)), "Incompatible")
    }
  )

  live("moves the pruned position only forward if a generation is raised at the same time", function*({ open }) {
    const [first, second] = [yield* open, yield* open]
    yield* first.store.ensureStreams([stateOf(tags)])
    const owner = yield* first.store.takeOwnership("capture")
    for (const id of ids(3)) yield* first.store.transact(owner, tags, (tx) => tx.write([created(id)]))
    const raised = yield* Deferred.make<void>()
    // the generation is raised by a transaction that is still open when pruning starts
    const raising = yield* Effect.forkChild(first.sql.withTransaction(Effect.gen(function*() {
      yield* first.store.raiseGeneration([owner], 2)
      yield* Deferred.succeed(raised, undefined)
      yield* Effect.sleep("200 millis")
    })))
    yield* Deferred.await(raised)
    yield* second.store.prune({ before: Number.MAX_SAFE_INTEGER, upTo: 1 })
    yield* Fiber.join(raising)
    assert.deepStrictEqual(yield* first.store.logRange, { oldest: 4, newest: 3 })
  })

  live("lets a process that opened the store before an adoption take nothing over (X11, X14)", function*({ open }) {
    const [adopting, older] = [yield* open, yield* open]
    const [relay, streams] = [yield* adopting.store.takeOwnership("relay"), yield* adopting.store.takeOwnership("s")]
    const moved = yield* older.store.takeOwnership("s")
    const tooLate = adopting.store.raiseGeneration([relay, streams], 2)
    assert.strictEqual(reasonOf(yield* Effect.exit(tooLate)), "Fenced")
    const again = yield* adopting.store.takeOwnership("s")
    yield* adopting.store.raiseGeneration([relay, again], 2)
    assert.strictEqual(reasonOf(yield* Effect.exit(older.store.takeOwnership("relay"))), "Fenced")
    assert.strictEqual(reasonOf(yield* Effect.exit(older.store.takeOwnership("s"))), "Fenced")
    assert.strictEqual(moved.epoch + 1, again.epoch)
    assert.strictEqual((yield* (yield* open).store.takeOwnership("s")).epoch, again.epoch + 1)
  })
})
