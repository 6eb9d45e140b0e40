/** Tests for the journal that every store must pass: a step runs once or is reported as unknown; needs a new store for each test. */
import { assert, describe } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { FencingToken, Intent } from "../../src/store/AttemptJournal.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { attemptJournalSuite } from "./AttemptJournal.ts"
import { deliveryTests, operatorAction, setup, split } from "./DeliveryRig.ts"
import { created, integrationOf } from "./StoreSamples.ts"

/** A claimed delivery with a step. */
const attempting = Effect.gen(function*() {
  const { claimOne, deliveries, fence: fenceOf, open, owner, settle, step: stepOf, store } = yield* setup(["a"])
  const claimed = yield* claimOne
  const step = stepOf("e1")
  const intent: Intent = { ...step, integration: "greenhouse:acme", write: null, allowRepeat: false }
  const fence = fenceOf(claimed)
  /** The next attempt after this one was lost. */
  const following = Effect.map(Effect.andThen(open(owner), claimOne), fenceOf)
  /** What happens to a write that begins as this step. */
  const write = { name: "addTag", plugin: "p", perHour: 2, depth: 1, expected: [] } as const
  const beginWrite = (step: string) =>
    Effect.map(deliveries.begin(fence, { ...intent, step, write }), ({ _tag }) => _tag)
  return { deliveries, fence, following, step, store, intent, write, beginWrite, settle: settle([claimed]) }
})

export const journalSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`steps of deliveries in a store (${name})`, () => {
    const test = deliveryTests(layer)

    attemptJournalSuite(Effect.map(attempting, ({ deliveries, ...all }) => ({ ...all, journal: deliveries })), layer)

    test(
      "are refused while writes are stopped",
      attempting,
      function*({ beginWrite, deliveries, fence, intent, write }) {
        yield* deliveries.setSwitch({ _tag: "Writes" }, false, operatorAction)
        assert.deepStrictEqual(yield* deliveries.checkBegin(fence, { ...intent, write }), { _tag: "Stopped" })
        assert.strictEqual(yield* beginWrite("a"), "Stopped")
        yield* deliveries.setSwitch({ _tag: "Writes" }, true, operatorAction)
        assert.strictEqual(yield* beginWrite("a"), "Begun")
      }
    )

    test("are refused for a removed integration", attempting, function*({ beginWrite, intent, store }) {
      const owner = yield* store.takeOwnership("capture")
      for (const [state, outcome] of [["removed", "Removed"], ["erased", "Removed"], ["active", "Begun"]] as const) {
        yield* store.saveIntegration(owner, integrationOf(intent.integration, { state }), null)
        assert.strictEqual(yield* beginWrite(state), outcome)
      }
    })

    test(
      "are kept as long as their delivery; steps with `keepForever` are kept longer",
      attempting,
      function*({ deliveries, fence, settle, step }) {
        yield* deliveries.finish(fence, step, "1")
        yield* deliveries.finish(fence, { ...step, step: "lasting", keepForever: true }, "2")
        const later = (yield* Clock.currentTimeMillis) + 1
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* settle
        assert.strictEqual(yield* deliveries.prune(later), 1)
        assert.isNull(yield* deliveries.result(step))
        assert.strictEqual(yield* deliveries.result({ ...step, step: "lasting" }), "2")
      }
    )

    test(
      "are kept while any delivery of their event, or of their batch, is not settled (L4)",
      setup(["a", "b"]),
      function*({ claim, claimWith, deliveries, fence, made, replay, settle, step }) {
        const { claimed } = yield* claimWith({ size: 2 })
        const first = claimed[0]!
        for (const key of ["e1", `b${first.id}`]) yield* deliveries.finish(fence(first), step(key), "1")
        yield* replay(made("a", 1))
        const { claimed: halves } = yield* claimWith({ size: 2 }, split(claimed))
        yield* settle(halves.filter(({ id }) => id === first.id))
        const later = (yield* Clock.currentTimeMillis) + 1
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* settle(halves)
        // the replay of the event needs the steps of the event and of its batch
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* settle(yield* claim)
        assert.strictEqual(yield* deliveries.prune(later), 2)
      }
    )

    test(
      "of a batch are kept while one of its events will be delivered again, and deleted together with its members (L4)",
      setup([]),
      function*({ change, claimWith, deliveries, dispatch, fence, key, made, owner, replay, settle, step, store }) {
        yield* change("a", "created")
        yield* dispatch(owner, [made("a", 1)], 1)
        const { claimed: first } = yield* claimWith({ size: 1 })
        yield* deliveries.finish(fence(first[0]!), step(`b${first[0]!.batch}`), "1")
        yield* settle(first)
        yield* replay(made("a", 1))
        const later = (yield* Clock.currentTimeMillis) + 1
        yield* dispatch(owner, [], 1)
        yield* store.prune({ before: later, upTo: 1 })
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* settle((yield* claimWith({ size: 1 })).claimed)
        assert.strictEqual((yield* deliveries.batches(key, [1])).size, 1)
        assert.strictEqual(yield* deliveries.prune(later), 1)
        assert.strictEqual((yield* deliveries.batches(key, [1])).size, 0)
      }
    )

    test(
      "replace the packages of an integration one at a time, whichever process runs the attempts",
      setup(["a", "b"]),
      function*({ claim, deliveries, fence, settle, step }) {
        const claimed = yield* claim
        const [a, b] = claimed.map(fence) as [FencingToken, FencingToken]
        const write = { name: "replacePackages", plugin: "p", perHour: 9, depth: 1, expected: [] } as const
        const intentOf = (event: number, integration = "greenhouse:acme"): Intent => (
          { ...step(`e${event}`, integration), integration, write, allowRepeat: true }
        )
        const begin = (attempt: FencingToken, intent: Intent) =>
          Effect.map(deliveries.begin(attempt, intent), ({ _tag }) => _tag)
        assert.strictEqual(yield* begin(a, intentOf(1)), "Begun")
        assert.strictEqual(yield* begin(a, intentOf(1)), "Begun")
        assert.strictEqual(yield* begin(b, intentOf(2)), "Busy")
        assert.strictEqual(yield* begin(b, intentOf(2, "lever:beta")), "Begun")
        yield* deliveries.finish(a, intentOf(1), "1")
        assert.strictEqual(yield* begin(b, intentOf(2)), "Begun")
        yield* settle(claimed.slice(1))
        assert.strictEqual(yield* begin(a, intentOf(3)), "Begun")
      }
    )

    test(
      "are kept as long as their event, because it may be replayed (L4)",
      setup(["a"]),
      function*({ claimOne, deliveries, fence, settle, step, store, write }) {
        yield* write([created("a")])
        const claimed = yield* claimOne
        yield* deliveries.finish(fence(claimed), step("e1"), "1")
        yield* settle([claimed])
        const later = (yield* Clock.currentTimeMillis) + 1
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* store.prune({ before: later, upTo: 1 })
        assert.strictEqual(yield* deliveries.prune(later), 1)
      }
    )
  })
