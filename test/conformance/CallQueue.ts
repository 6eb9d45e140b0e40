/** Tests that the queue of calls of every store must pass. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import { randomUUID } from "node:crypto"
import { CallQueue, type NewCall } from "../../src/store/CallQueue.ts"
import { prefix } from "../../src/store/sql/ContentCipher.ts"
import type { Health } from "../../src/store/sql/Health.ts"
import * as Ports from "../../src/store/sql/Ports.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { testsIn } from "./StoreSamples.ts"
import { encrypted } from "./StoreSuites.ts"

/** A database: each build of the layer acts as one more process that opens it. */
type Place = Effect.Effect<Layer.Layer<SqlClient | Health, StoreError>, never, Scope.Scope>

const scope = "capture/12"
const actor = { actor: "operate token (cli)", address: "192.0.2.1" }

const callOf = (details: Partial<NewCall> = {}): NewCall => ({
  id: randomUUID(),
  scope,
  method: "streams.execute",
  payload: `{"id":"ann"}`,
  actor,
  patience: Duration.seconds(10),
  ...details
})

export const callSuite = (name: string, place: Place) =>
  describe(`the calls between processes in a store (${name})`, () => {
    const open = Effect.fnUntraced(function*(ports: Layer.Layer<Ports.Ports | SqlClient, StoreError>) {
      const context = yield* Layer.build(Layer.fresh(ports))
      const sql = Context.get(context, SqlClient)
      return {
        ...Context.get(context, CallQueue),
        store: Context.get(context, Store),
        /** Lets the database's time pass for all calls. */
        forward: (millis: number) =>
          sql`UPDATE calls SET changed_at = changed_at - ${millis}, expires_at = expires_at - ${millis}`,
        rows: sql<{ payload: string; reply: string | null }>`SELECT payload, reply FROM calls`
      }
    })
    /** Two processes with these keys. The first one owns the scope. */
    const two = Effect.fnUntraced(function*(ownKeys: Layer.Layer<never>, otherKeys: Layer.Layer<never> = ownKeys) {
      const ports = Layer.provideMerge(Ports.layer, yield* place)
      const [owner, other] = [
        yield* open(Layer.provide(ports, ownKeys)),
        yield* open(Layer.provide(ports, otherKeys))
      ]
      yield* owner.store.takeOwnership(scope)
      return [owner, other] as const
    })
    const testWith = (...keys: Parameters<typeof two>) => testsIn(Layer.empty, two(...keys), it.live)
    const test = testWith(Layer.empty)

    test(
      "are claimed once, with their parameters and the operator, by the process that owns the scope",
      function*([owner, other]) {
        const call = callOf()
        yield* other.submit(call)
        yield* other.submit(callOf({ scope: "capture/13" }))
        assert.deepStrictEqual([...yield* owner.waiting([scope, "capture/13", "capture/14"])].sort(), [
          scope,
          "capture/13"
        ])
        assert.deepStrictEqual(yield* owner.waiting(["capture/14"]), [])
        assert.deepStrictEqual(yield* other.claim(scope), [])
        const { id, method, payload } = call
        assert.deepStrictEqual(yield* owner.claim(scope), [{ id, method, payload, actor }])
        assert.deepStrictEqual(yield* owner.claim(scope), [])
        assert.deepStrictEqual(yield* owner.waiting([scope]), [])
      }
    )

    test("are not claimed by a process that another one has replaced (X9)", function*([owner, other]) {
      yield* other.submit(callOf())
      yield* other.store.takeOwnership(scope)
      assert.deepStrictEqual(yield* owner.claim(scope), [])
      assert.lengthOf(yield* other.claim(scope), 1)
    })

    test("are not claimed once their time is over", function*([owner, other]) {
      yield* other.submit(callOf())
      yield* owner.forward(10_000)
      assert.deepStrictEqual([yield* owner.waiting([scope]), yield* owner.claim(scope)], [[], []])
    })

    test("are shown to their caller with state, heartbeats and reply", function*([owner, other]) {
      const { id } = callOf()
      const seen = Effect.map(other.look([id, "unknown"]), ([call]) => call)
      yield* other.submit(callOf({ id }))
      const waiting = { id, state: "waiting", owned: false, beats: 0, reply: null } as const
      assert.deepStrictEqual(yield* seen, waiting)
      yield* owner.claim(scope)
      assert.deepStrictEqual(yield* seen, { ...waiting, state: "running", owned: true })
      assert.deepStrictEqual(yield* owner.beat([id, "unknown"]), [id])
      assert.deepStrictEqual(yield* seen, { ...waiting, state: "running", owned: true, beats: 1 })
      yield* owner.answer(id, "1")
      assert.deepStrictEqual(yield* seen, { ...waiting, state: "answered", owned: true, beats: 1, reply: "1" })
      yield* owner.answer(id, "2")
      assert.deepStrictEqual(yield* owner.beat([id]), [])
      assert.strictEqual((yield* seen)?.reply, "1")
    })

    test("show that another process took over while they were executed", function*([owner, other]) {
      const { id } = callOf()
      yield* other.submit(callOf({ id }))
      yield* owner.claim(scope)
      yield* owner.store.takeOwnership("capture/13")
      assert.isTrue((yield* other.look([id]))[0]?.owned)
      yield* other.store.takeOwnership(scope)
      assert.isFalse((yield* other.look([id]))[0]?.owned)
    })

    test(
      "are removed only in the given state; a call that was removed is neither claimed nor answered",
      function*([owner, other]) {
        const [first, second] = [callOf(), callOf()]
        yield* other.submit(first)
        assert.deepStrictEqual(yield* other.remove([first.id], "running"), [])
        assert.deepStrictEqual(yield* other.remove([first.id], "waiting"), [first.id])
        assert.deepStrictEqual(yield* owner.claim(scope), [])
        yield* other.submit(second)
        yield* owner.claim(scope)
        assert.deepStrictEqual(yield* other.remove([second.id], "waiting"), [])
        assert.deepStrictEqual(yield* other.remove([second.id, first.id]), [second.id])
        yield* owner.answer(second.id, "1")
        assert.deepStrictEqual([yield* owner.beat([second.id]), yield* other.look([second.id])], [[], []])
      }
    )

    test(
      "are removed a minute after their end, and one that is executed ten minutes after its last heartbeat",
      function*([owner, other]) {
        const [answered, running, waiting] = [callOf(), callOf(), callOf()]
        yield* other.submit(answered)
        yield* other.submit(running)
        yield* owner.claim(scope)
        yield* owner.answer(answered.id, "1")
        yield* other.submit(waiting)
        const left = Effect.map(
          Effect.andThen(owner.prune, other.look([answered.id, running.id, waiting.id])),
          (calls) => calls.map(({ id }) => id)
        )
        yield* owner.forward(30_000)
        assert.lengthOf(yield* left, 3)
        yield* owner.forward(31_000)
        assert.deepStrictEqual(yield* left, [running.id])
        yield* owner.beat([running.id])
        yield* owner.forward(300_000)
        assert.deepStrictEqual(yield* left, [running.id])
        yield* owner.forward(301_000)
        assert.deepStrictEqual(yield* left, [])
      }
    )

    testWith(encrypted)("are encrypted like other content", function*([owner, other]) {
      const { id, payload } = callOf()
      yield* other.submit(callOf({ id }))
      assert.strictEqual((yield* owner.claim(scope))[0]?.payload, payload)
      yield* owner.answer(id, `"ann"`)
      assert.strictEqual((yield* other.look([id]))[0]?.reply, `"ann"`)
      for (const row of yield* owner.rows) {
        assert.isTrue(row.payload.startsWith(prefix))
        assert.isTrue(row.reply?.startsWith(prefix))
      }
    })

    testWith(Layer.empty, encrypted)(
      "wait for an owner with their key if the present one lacks it",
      function*([owner, other]) {
        const call = callOf()
        yield* other.submit(call)
        assert.strictEqual((yield* Effect.flip(owner.claim(scope))).reason._tag, "MissingKey")
        assert.strictEqual((yield* other.look([call.id]))[0]?.state, "waiting")
        yield* other.store.takeOwnership(scope)
        assert.deepStrictEqual((yield* other.claim(scope)).map(({ payload }) => payload), [call.payload])
      }
    )
  })
