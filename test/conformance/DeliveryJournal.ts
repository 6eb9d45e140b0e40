/** What every store must do with the steps of attempts: once, or known to be unknown; needs a fresh store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { Deliveries, type FencingToken, type Intent, type StepKey } from "../../src/store/Deliveries.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { act, attempted, begun, fenceOf } from "./Deliveries.ts"
import { created, ids, integrationOf, reasonOf } from "./StoreSamples.ts"

/** One delivery that is claimed, and a step of it. */
const attempting = Effect.gen(function*() {
  const { claim, deliveries, key, open, owner, settle, store } = yield* begun(["a"])
  const [claimed] = yield* claim
  if (claimed === undefined) return assert.fail("nothing claimed")
  const step: StepKey = { handler: key, dedupKeys: ["e1"], step: "s", keepForever: false }
  const intent: Intent = { ...step, integration: "greenhouse:acme", write: null, allowRepeat: false }
  const write = { name: "addTag", plugin: "p", perHour: 2, depth: 1, expected: [] } as const
  const fence = fenceOf(owner, claimed)
  /** The attempt that follows when this one was lost. */
  const following = Effect.as(Effect.andThen(open(owner), claim), { ...fence, claim: fence.claim + 1 })
  return { deliveries, fence, following, step, store, intent, write, settle: settle([claimed]) }
})

export const journalSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`steps of deliveries in a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store | Deliveries>) =>
      it.effect(title, () => Effect.provide(body, layer))

    test(
      "L5: are unknown until they are finished, begun again only on purpose, and forgotten when nothing was done",
      Effect.gen(function*() {
        const { deliveries, fence, intent, step } = yield* attempting
        const begin = Effect.map(deliveries.begin(fence, intent), ({ _tag }) => _tag)
        assert.strictEqual(yield* begin, "Begun")
        assert.strictEqual(yield* begin, "Unknown")
        assert.strictEqual((yield* deliveries.begin(fence, { ...intent, allowRepeat: true }))._tag, "Begun")
        yield* deliveries.withdraw(fence, step)
        assert.strictEqual(yield* begin, "Begun")
        yield* deliveries.finish(fence, step, '{"id":"x"}')
        yield* deliveries.withdraw(fence, step)
        assert.strictEqual(yield* deliveries.result({ ...step, dedupKeys: ["e2", "e1"] }), '{"id":"x"}')
        assert.deepStrictEqual(yield* deliveries.begin(fence, intent), { _tag: "Done", result: '{"id":"x"}' })
      })
    )

    test(
      "L5: are unknown while the same request in other words is",
      Effect.gen(function*() {
        const { deliveries, fence, following, intent } = yield* attempting
        yield* deliveries.begin(fence, { ...intent, step: "hire 100%_a" })
        const later = yield* following
        const begin = (step: string, sameRequestPrefix: string) =>
          Effect.map(deliveries.begin(later, { ...intent, step, sameRequestPrefix }), ({ _tag }) => _tag)
        assert.strictEqual(yield* begin("hire 100%_b", "hire 100%_"), "Unknown")
        assert.strictEqual(yield* begin("hire 100_b", "hire 100_"), "Begun")
      })
    )

    test(
      "X16: are begun by one of two at the same time",
      Effect.gen(function*() {
        const { deliveries, fence, intent } = yield* attempting
        for (const step of ids(20)) {
          const begin = deliveries.begin(fence, { ...intent, step })
          const both = yield* Effect.all([begin, begin], { concurrency: "unbounded" })
          assert.deepStrictEqual(both.map(({ _tag }) => _tag).sort(), ["Begun", "Unknown"])
        }
      })
    )

    test(
      "are refused while writes are stopped, and when the hour has no more of them",
      Effect.gen(function*() {
        const { deliveries, fence, intent, write } = yield* attempting
        const begin = (step: string) =>
          Effect.map(deliveries.begin(fence, { ...intent, step, write }), ({ _tag }) => _tag)
        yield* deliveries.setSwitch({ _tag: "Writes" }, false, act)
        assert.strictEqual(yield* begin("a"), "Stopped")
        yield* deliveries.setSwitch({ _tag: "Writes" }, true, act)
        assert.deepStrictEqual([yield* begin("a"), yield* begin("b"), yield* begin("c")], [
          "Begun",
          "Begun",
          "BudgetExhausted"
        ])
      })
    )

    test(
      "are looked at as they would be begun, which changes nothing",
      Effect.gen(function*() {
        const { deliveries, fence, following, intent, step, write } = yield* attempting
        const look = (fence: FencingToken, details: Partial<Intent> = {}) =>
          Effect.map(deliveries.checkBegin(fence, { ...intent, write, ...details }), (refused) => refused?._tag ?? null)
        assert.isNull(yield* look(fence))
        assert.isNull(yield* look(fence))
        yield* deliveries.setSwitch({ _tag: "Writes" }, false, act)
        assert.strictEqual(yield* look(fence), "Stopped")
        yield* deliveries.setSwitch({ _tag: "Writes" }, true, act)
        yield* deliveries.begin(fence, intent)
        assert.deepStrictEqual([yield* look(fence), yield* look(fence, { allowRepeat: true })], ["Unknown", null])
        const later = yield* following
        assert.strictEqual(reasonOf(yield* Effect.exit(look(fence))), "Fenced")
        yield* deliveries.begin(later, { ...intent, allowRepeat: true })
        yield* deliveries.finish(later, step, "1")
        assert.strictEqual(yield* look(later), "Done")
      })
    )

    test(
      "are refused for an integration that was removed",
      Effect.gen(function*() {
        const { deliveries, fence, intent, store, write } = yield* attempting
        const owner = yield* store.takeOwnership("capture")
        const begin = (step: string) =>
          Effect.map(deliveries.begin(fence, { ...intent, step, write }), ({ _tag }) => _tag)
        for (const [state, outcome] of [["removed", "Removed"], ["erased", "Removed"], ["active", "Begun"]] as const) {
          yield* store.saveIntegration(owner, integrationOf(intent.integration, { state }), null)
          assert.strictEqual(yield* begin(state), outcome)
        }
      })
    )

    test(
      "are counted once in the hour, however often the same request is begun",
      Effect.gen(function*() {
        const { deliveries, fence, intent, step, write } = yield* attempting
        const begin = (name: string, perHour: number | null) =>
          Effect.map(
            deliveries.begin(fence, { ...intent, step: name, write: { ...write, perHour } }),
            ({ _tag }) => _tag
          )
        assert.strictEqual(yield* begin(step.step, 1), "Begun")
        yield* deliveries.withdraw(fence, step)
        assert.strictEqual(yield* begin(step.step, null), "Begun")
        assert.strictEqual(yield* begin("other", 1), "BudgetExhausted")
      })
    )

    test(
      "are kept as long as their delivery, and those that are once for ever longer",
      Effect.gen(function*() {
        const { deliveries, fence, settle, step } = yield* attempting
        yield* deliveries.finish(fence, step, "1")
        yield* deliveries.finish(fence, { ...step, step: "lasting", keepForever: true }, "2")
        const later = (yield* Clock.currentTimeMillis) + 1
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* settle
        assert.strictEqual(yield* deliveries.prune(later), 1)
        assert.isNull(yield* deliveries.result(step))
        assert.strictEqual(yield* deliveries.result({ ...step, step: "lasting" }), "2")
      })
    )

    test(
      "L4: are kept as long as any delivery of their event, or of their batch, is not settled",
      Effect.gen(function*() {
        const { claim, deliveries, key, made, owner, settle, want } = yield* begun(["a", "b"])
        const batches = { ...want, size: 2 }
        const { claimed: [first, second] } = yield* deliveries.settleAndClaim(owner, [], [batches])
        if (first === undefined || second === undefined) return assert.fail("nothing claimed")
        const fence = fenceOf(owner, first)
        const ofEvent: StepKey = { handler: key, dedupKeys: ["e1"], step: "s", keepForever: false }
        const ofBatch: StepKey = { ...ofEvent, dedupKeys: [`b${first.id}`] }
        yield* deliveries.finish(fence, ofEvent, "1")
        yield* deliveries.finish(fence, ofBatch, "2")
        yield* deliveries.replay([made("a", 1)], act)
        const batch = String(first.batch)
        const halved = { _tag: "Split", deliveries: [first.id, second.id], batch, dueAt: 0, attempted } as const
        const { claimed: halves } = yield* deliveries.settleAndClaim(owner, [halved], [batches])
        yield* settle(halves.filter(({ id }) => id === first.id))
        const later = (yield* Clock.currentTimeMillis) + 1
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* settle(halves)
        // the replay of the event needs both
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* settle(yield* claim)
        assert.strictEqual(yield* deliveries.prune(later), 2)
      })
    )

    test(
      "of a batch are kept as long as one of its events is to be delivered again, and forgotten with its members (L4)",
      Effect.gen(function*() {
        const { change, deliveries, key, made, owner, settle, store, want } = yield* begun([])
        yield* change("a", "created")
        yield* deliveries.dispatch(owner, { deliveries: [made("a", 1)], handlers: [key], position: 1 })
        const claim = Effect.map(deliveries.settleAndClaim(owner, [], [{ ...want, size: 1 }]), ({ claimed }) => claimed)
        const [first] = yield* claim
        if (first === undefined) return assert.fail("nothing claimed")
        const step: StepKey = { handler: key, dedupKeys: [`b${first.batch}`], step: "s", keepForever: false }
        yield* deliveries.finish(fenceOf(owner, first), step, "1")
        yield* settle([first])
        yield* deliveries.replay([made("a", 1)], act)
        const later = (yield* Clock.currentTimeMillis) + 1
        yield* deliveries.dispatch(owner, { deliveries: [], handlers: [key], position: 1 })
        yield* store.prune({ before: later, upTo: 1 })
        assert.strictEqual(yield* deliveries.prune(later), 0)
        const again = yield* claim
        yield* settle(again)
        assert.strictEqual((yield* deliveries.batches(key, [1])).size, 1)
        assert.strictEqual(yield* deliveries.prune(later), 1)
        assert.strictEqual((yield* deliveries.batches(key, [1])).size, 0)
      })
    )

    test(
      "L4: are kept as long as their event is, which may be replayed",
      Effect.gen(function*() {
        const { claim, deliveries, key, owner, settle, store, write } = yield* begun(["a"])
        yield* write([created("a")])
        const claimed = yield* claim
        const [one] = claimed
        if (one === undefined) return assert.fail("nothing claimed")
        const step: StepKey = { handler: key, dedupKeys: ["e1"], step: "s", keepForever: false }
        yield* deliveries.finish(fenceOf(owner, one), step, "1")
        yield* settle(claimed)
        const later = (yield* Clock.currentTimeMillis) + 1
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* store.prune({ before: later, upTo: 1 })
        assert.strictEqual(yield* deliveries.prune(later), 1)
      })
    )
  })
