/** Plans over a real store with more dead letters than fit in one query or one transaction. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import type { Failure, NewDelivery } from "../../store/Delivery.ts"
import { Store, StoreError, Unavailable } from "../../store/Store.ts"
import * as DeadLetters from "./DeadLetters.ts"

const action = { at: 0, command: "test", target: "", detail: "" }
const letters = 1_200

const failure = (reason: Failure["reason"], at: number): Failure => ({
  reason,
  message: "m",
  refusal: null,
  faults: [],
  at
})

/** A store with dead letters; every third of them died for another reason. */
const died = Effect.gen(function*() {
  const store = yield* Store
  const deliveries = yield* Deliveries
  const owner = yield* store.takeOwnership("delivery")
  const [handler] = yield* deliveries.registerHandlers(owner, [
    { plugin: "p", handler: "h", scheduled: false, from: "now", skipsDeadLetters: false }
  ])
  const made = Array.from({ length: letters }, (_, index): NewDelivery => ({
    handler: handler!.key,
    integration: "greenhouse:acme",
    orderingKey: `record-${index}`,
    subject: { _tag: "Tick", scheduledAt: index, from: 0, to: 0 },
    dueAt: 0,
    dead: failure(index % 3 === 0 ? "Defect" : "Transient", index),
    fresh: null
  }))
  yield* deliveries.replay(made, action)
  return deliveries
})

const over = Duration.minutes(10)
const inMemory = Effect.provide(MemoryStore.layer())

describe("a plan for many dead letters", () => {
  it.effect("a plan counts all letters per handler and reason, and its hash changes when one of them changes", () =>
    Effect.gen(function*() {
      yield* died
      const whole = yield* DeadLetters.plan({})
      assert.deepStrictEqual([whole.count, whole.parked], [letters, 0])
      assert.deepStrictEqual(whole.shares.map(({ count, reason }) => [reason, count]), [
        ["Defect", letters / 3],
        ["Transient", 2 * letters / 3]
      ])
      const defects = yield* DeadLetters.plan({ reason: "Defect" })
      assert.strictEqual(defects.count, letters / 3)
      assert.deepStrictEqual([whole.unknown, whole.unknownIds], [0, []])
      assert.strictEqual(yield* DeadLetters.discard({ reason: "Defect" }, defects.hash), letters / 3)
      const rest = yield* DeadLetters.plan({})
      assert.deepStrictEqual([rest.count, rest.hash === whole.hash], [2 * letters / 3, false])
      const error = yield* Effect.flip(DeadLetters.discard({}, whole.hash))
      assert.strictEqual(error._tag, "PlanOutdated")
    }).pipe(inMemory))

  it.effect("planned letters are redriven evenly over the duration, in at most a hundred parts", () =>
    Effect.gen(function*() {
      const deliveries = yield* died
      const moments: Array<readonly [dueAt: number, count: number]> = []
      const redrive: typeof deliveries.redrive = (ids, how, action) => {
        moments.push([how.dueAt, ids.length])
        return deliveries.redrive(ids, how, action)
      }
      const { hash } = yield* DeadLetters.plan({})
      const { count, from, to } = yield* Effect.provideService(
        DeadLetters.redrive({}, hash, { over, fresh: false }),
        Deliveries,
        { ...deliveries, redrive }
      )
      assert.deepStrictEqual([count, moments.length], [letters, 100])
      assert.deepStrictEqual(new Set(moments.map(([, count]) => count)), new Set([12]))
      assert.deepStrictEqual([moments[0]?.[0], moments[50]?.[0]], [from, from + 300_000])
      assert.strictEqual(to, from + 594_000)
    }).pipe(inMemory))

  it.effect("a plan without letters is redriven at once", () =>
    Effect.gen(function*() {
      const { hash } = yield* DeadLetters.plan({})
      const { count, from, to } = yield* DeadLetters.redrive({}, hash, { over, fresh: false })
      assert.deepStrictEqual([count, to], [0, from])
    }).pipe(inMemory))

  it.effect("after an interrupted redrive another plan counts the remaining letters, and only these are redriven", () =>
    Effect.gen(function*() {
      const deliveries = yield* died
      let calls = 0
      const redrive: typeof deliveries.redrive = (ids, how, action) =>
        calls++ === 10
          ? Effect.fail(new StoreError({ reason: new Unavailable({ operation: "redrive", cause: "gone" }) }))
          : deliveries.redrive(ids, how, action)
      const { hash } = yield* DeadLetters.plan({})
      yield* Effect.flip(
        Effect.provideService(DeadLetters.redrive({}, hash, { over, fresh: false }), Deliveries, {
          ...deliveries,
          redrive
        })
      )
      const rest = yield* DeadLetters.plan({})
      assert.strictEqual(rest.count, letters - 120)
      assert.strictEqual((yield* DeadLetters.redrive({}, rest.hash, { over, fresh: false })).count, letters - 120)
      assert.strictEqual((yield* DeadLetters.plan({})).count, 0)
    }).pipe(inMemory))
})
