/** Tests that the sessions of every store must pass. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import type { Health } from "../../src/store/sql/Health.ts"
import * as Ports from "../../src/store/sql/Ports.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { StoredSessions } from "../../src/store/StoredSessions.ts"
import { testsIn } from "./StoreSamples.ts"

const minute = 60_000
const session = (name: string, scope: "read" | "operate" = "operate") => ({
  key: `key of ${name}`,
  id: name,
  scope,
  seal: `seal of ${name}`,
  address: "192.0.2.1"
})
const noAction = () => null

export const sessionSuite = (
  name: string,
  place: Effect.Effect<Layer.Layer<SqlClient | Health, StoreError>, never, Scope.Scope>
) =>
  describe(`the sessions of a store (${name})`, () => {
    const open = Effect.fnUntraced(function*(client: Layer.Layer<SqlClient | Health, StoreError>) {
      const context = yield* Layer.build(Layer.fresh(Layer.provideMerge(Ports.layer, client)))
      const sql = Context.get(context, SqlClient)
      return {
        store: Context.get(context, Store),
        sessions: Context.get(context, StoredSessions),
        /** Lets the time of the database pass for all sessions. */
        forward: (millis: number) =>
          sql`UPDATE sessions SET started_at = started_at - ${millis}, last_request_at = last_request_at - ${millis},
            expires_at = expires_at - ${millis}`,
        count: Effect.map(sql<{ count: number }>`SELECT count(*) AS count FROM sessions`, ([row]) => Number(row?.count))
      }
    })
    /** Two processes that have the store open. */
    const both = Effect.flatMap(place, (client) => Effect.all([open(client), open(client)]))
    const test = testsIn(Layer.empty, both, it.live)

    test("are found by their key in every process, with their times", function*([one, other]) {
      const before = Date.now()
      yield* one.sessions.start(session("a", "read"))
      const found = yield* other.sessions.find("key of a", false)
      const { startedAt = 0 } = found ?? {}
      assert.deepStrictEqual(found, {
        id: "a",
        scope: "read",
        seal: "seal of a",
        address: "192.0.2.1",
        startedAt,
        lastRequestAt: startedAt,
        expiresAt: startedAt + 30 * minute,
        left: found?.left ?? 0
      })
      const after = Date.now()
      assert.isTrue(before - 5000 < startedAt && startedAt < after + 5000)
      assert.isAtMost(found?.left ?? 0, 30 * minute)
      assert.isAtLeast(found?.left ?? 0, 30 * minute - (after - before) - 5000)
      assert.isNull(yield* other.sessions.find("key of b", true))
      assert.isNull(yield* other.sessions.find("a", true))
    })

    test(
      "expire half an hour after their last activity, and twelve hours after their start",
      function*([{ forward, sessions }]) {
        yield* sessions.start(session("a"))
        yield* forward(29 * minute)
        assert.isNotNull(yield* sessions.find("key of a", false))
        const active = yield* sessions.find("key of a", true)
        assert.strictEqual((active?.expiresAt ?? 0) - (active?.lastRequestAt ?? 0), 30 * minute)
        for (let hours = 0.5; hours < 11.5; hours += 0.4) {
          yield* forward(24 * minute)
          assert.isNotNull(yield* sessions.find("key of a", true))
        }
        const last = yield* sessions.find("key of a", true)
        assert.strictEqual((last?.expiresAt ?? 0) - (last?.startedAt ?? 0), 12 * 60 * minute)
        yield* forward(24 * minute)
        assert.isNull(yield* sessions.find("key of a", true))
        assert.isNull(yield* sessions.find("key of a", false))
        assert.isEmpty(yield* sessions.list)
      }
    )

    test("are removed after they expired", function*([{ count, forward, sessions }]) {
      yield* sessions.start(session("a"))
      yield* forward(31 * minute)
      yield* sessions.start(session("b", "read"))
      assert.strictEqual(yield* count, 1)
    })

    test("of one scope are a hundred at most: the one that was idle longest ends", function*([{ forward, sessions }]) {
      yield* sessions.start(session("reader", "read"))
      for (let index = 0; index < 100; index++) {
        yield* forward(1)
        yield* sessions.start(session(`${index}`))
      }
      yield* forward(1)
      yield* sessions.find("key of 0", true)
      yield* sessions.start(session("new"))
      const ids = (yield* sessions.list).map(({ id }) => id)
      assert.lengthOf(ids, 101)
      assert.includeMembers(ids, ["reader", "0", "2", "99", "new"])
      assert.notInclude(ids, "1")
    })

    test("are listed, the one with the oldest request first", function*([one, other]) {
      for (const name of ["a", "b", "c"]) {
        yield* one.sessions.start(session(name))
        yield* one.forward(1000)
      }
      yield* other.sessions.find("key of a", true)
      assert.deepStrictEqual((yield* other.sessions.list).map(({ id }) => id), ["b", "c", "a"])
    })

    test(
      "end when a restored store is adopted, because they may have ended after its backup",
      function*([{ sessions, store }]) {
        yield* sessions.start(session("a"))
        const owner = yield* store.takeOwnership("capture")
        yield* store.raiseGeneration([owner], 1)
        assert.lengthOf(yield* sessions.list, 1)
        yield* store.raiseGeneration([owner], 2)
        assert.isEmpty(yield* sessions.list)
      }
    )

    test("end in every process, with the operator's action", function*([one, other]) {
      for (const name of ["a", "b", "expired"]) yield* one.sessions.start(session(name))
      for (const name of ["c", "d"]) yield* one.sessions.start(session(name, "read"))
      const ids = Effect.map(one.sessions.list, (list) => list.map(({ id }) => id).sort())
      const end = (which: Parameters<typeof other.sessions.end>[0]) =>
        Effect.map(
          other.sessions.end(which, (ended) =>
            ended.length === 0
              ? null
              : { at: 7, command: "sessions.end", target: "t", detail: `${ended.length} ended` }),
          (ended) => ended.map(({ id }) => id).sort()
        )
      assert.deepStrictEqual(yield* end({ key: "key of a", scope: "read" }), [])
      assert.deepStrictEqual(
        yield* other.sessions.end({ key: "key of a" }, noAction).pipe(Effect.map((all) => all.length)),
        1
      )
      assert.isNull(yield* one.sessions.find("key of a", true))
      assert.deepStrictEqual(yield* end({ scope: "read" }), ["c", "d"])
      assert.deepStrictEqual(yield* end({ id: "nothing" }), [])
      assert.deepStrictEqual(yield* ids, ["b", "expired"])
      yield* one.forward(31 * minute)
      yield* one.sessions.start(session("e"))
      assert.deepStrictEqual(yield* end({}), ["e"])
      assert.deepStrictEqual(yield* ids, [])
      const log = yield* one.store.auditLog(10)
      assert.deepStrictEqual(log.map(({ detail }) => detail), ["1 ended", "2 ended"])
    })
  })
