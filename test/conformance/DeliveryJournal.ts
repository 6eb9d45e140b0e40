/** Tests for the journal that every store must pass: a step runs once or is reported as unknown; needs a new store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { Intent, StepKey } from "../../src/store/AttemptJournal.ts"
import { Deliveries } from "../../src/store/Deliveries.ts"
import type { Claimed } from "../../src/store/DeliveryClaims.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { attemptJournalSuite } from "./AttemptJournal.ts"
import { failedAttempt, fenceOf, operatorAction, setup } from "./Deliveries.ts"
import { created, integrationOf } from "./StoreSamples.ts"

/** A claimed delivery with a step. */
const attempting = Effect.gen(function*() {
  const { claim, deliveries, key, open, owner, owners, settle, store } = yield* setup(["a"])
  const [claimed] = yield* claim
  if (claimed === undefined) return assert.fail("nothing claimed")
  const step: StepKey = { handler: key, dedupKeys: ["e1"], step: "s", keepForever: false }
  const intent: Intent = { ...step, integration: "greenhouse:acme", write: null, allowRepeat: false }
  const write = { name: "addTag", plugin: "p", perHour: 2, depth: 1, expected: [] } as const
  const fence = fenceOf(owners, claimed)
  /** The next attempt after this one was lost. */
  const following = Effect.as(Effect.andThen(open(owner), claim), { ...fence, claim: fence.claim + 1 })
  return { deliveries, fence, following, step, store, intent, write, settle: settle([claimed]) }
})

export const journalSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`steps of deliveries in a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store | Deliveries>) =>
      it.effect(title, () => Effect.provide(body, layer))

    attemptJournalSuite(Effect.map(attempting, ({ deliveries, ...all }) => ({ ...all, journal: deliveries })), layer)

    test(
      "are refused while writes are stopped",
      Effect.gen(function*() {
        const { deliveries, fence, intent, write } = yield* attempting
        const begin = (step: string) =>
          Effect.map(deliveries.begin(fence, { ...intent, step, write }), ({ _tag }) => _tag)
        yield* deliveries.setSwitch({ _tag: "Writes" }, false, operatorAction)
        assert.deepStrictEqual(yield* deliveries.checkBegin(fence, { ...intent, write }), { _tag: "Stopped" })
        assert.strictEqual(yield* begin("a"), "Stopped")
        yield* deliveries.setSwitch({ _tag: "Writes" }, true, operatorAction)
        assert.strictEqual(yield* begin("a"), "Begun")
      })
    )

    test(
      "are refused for a removed integration",
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
      "are kept as long as their delivery; steps with `keepForever` are kept longer",
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
      "are kept while any delivery of their event, or of their batch, is not settled (L4)",
      Effect.gen(function*() {
        const { claim, deliveries, key, made, owners, settle, want } = yield* setup(["a", "b"])
        const batches = { ...want, size: 2 }
        const { claimed: [first, second] } = yield* deliveries.settleAndClaim(owners, [], [batches])
        if (first === undefined || second === undefined) return assert.fail("nothing claimed")
        const fence = fenceOf(owners, first)
        const ofEvent: StepKey = { handler: key, dedupKeys: ["e1"], step: "s", keepForever: false }
        const ofBatch: StepKey = { ...ofEvent, dedupKeys: [`b${first.id}`] }
        yield* deliveries.finish(fence, ofEvent, "1")
        yield* deliveries.finish(fence, ofBatch, "2")
        yield* deliveries.replay([made("a", 1)], operatorAction)
        const batch = String(first.batch)
        const halved = { _tag: "Split", deliveries: [first.id, second.id], batch, dueAt: 0, failedAttempt } as const
        const { claimed: halves } = yield* deliveries.settleAndClaim(owners, [halved], [batches])
        yield* settle(halves.filter(({ id }) => id === first.id))
        const later = (yield* Clock.currentTimeMillis) + 1
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* settle(halves)
        // the replay of the event needs the steps of the event and of its batch
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* settle(yield* claim)
        assert.strictEqual(yield* deliveries.prune(later), 2)
      })
    )

    test(
      "of a batch are kept while one of its events will be delivered again, and deleted together with its members (L4)",
      Effect.gen(function*() {
        const { change, deliveries, key, made, owner, owners, settle, store, want } = yield* setup([])
        yield* change("a", "created")
        yield* deliveries.dispatch(owner, { deliveries: [made("a", 1)], handlers: [key], position: 1 })
        const claim = Effect.map(
          deliveries.settleAndClaim(owners, [], [{ ...want, size: 1 }]),
          ({ claimed }) => claimed
        )
        const [first] = yield* claim
        if (first === undefined) return assert.fail("nothing claimed")
        const step: StepKey = { handler: key, dedupKeys: [`b${first.batch}`], step: "s", keepForever: false }
        yield* deliveries.finish(fenceOf(owners, first), step, "1")
        yield* settle([first])
        yield* deliveries.replay([made("a", 1)], operatorAction)
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
      "replace the packages of an integration one at a time, whichever process runs the attempts",
      Effect.gen(function*() {
        const { claim, deliveries, key, owners, settle } = yield* setup(["a", "b"])
        const [a, b] = yield* claim
        if (a === undefined || b === undefined) return assert.fail("nothing claimed")
        const write = { name: "replacePackages", plugin: "p", perHour: 9, depth: 1, expected: [] } as const
        const intentOf = (event: number, integration = "greenhouse:acme") => ({
          handler: key,
          dedupKeys: [`e${event}`] as const,
          step: integration,
          keepForever: false,
          integration,
          write,
          allowRepeat: true
        })
        const begin = (claimed: Claimed, intent: ReturnType<typeof intentOf>) =>
          Effect.map(deliveries.begin(fenceOf(owners, claimed), intent), ({ _tag }) => _tag)
        assert.strictEqual(yield* begin(a, intentOf(1)), "Begun")
        assert.strictEqual(yield* begin(a, intentOf(1)), "Begun")
        assert.strictEqual(yield* begin(b, intentOf(2)), "Busy")
        assert.strictEqual(yield* begin(b, intentOf(2, "lever:beta")), "Begun")
        yield* deliveries.finish(fenceOf(owners, a), intentOf(1), "1")
        assert.strictEqual(yield* begin(b, intentOf(2)), "Begun")
        yield* settle([b])
        assert.strictEqual(yield* begin(a, intentOf(3)), "Begun")
      })
    )

    test(
      "are kept as long as their event, because it may be replayed (L4)",
      Effect.gen(function*() {
        const { claim, deliveries, key, owners, settle, store, write } = yield* setup(["a"])
        yield* write([created("a")])
        const claimed = yield* claim
        const [one] = claimed
        if (one === undefined) return assert.fail("nothing claimed")
        const step: StepKey = { handler: key, dedupKeys: ["e1"], step: "s", keepForever: false }
        yield* deliveries.finish(fenceOf(owners, one), step, "1")
        yield* settle(claimed)
        const later = (yield* Clock.currentTimeMillis) + 1
        assert.strictEqual(yield* deliveries.prune(later), 0)
        yield* store.prune({ before: later, upTo: 1 })
        assert.strictEqual(yield* deliveries.prune(later), 1)
      })
    )
  })
