/** Tests for what forgetting a record does to deliveries and journals, which every store must pass; needs a new store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { expectationsOf } from "../../src/domain/Expectation.ts"
import type { Intent, StepKey } from "../../src/store/AttemptJournal.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import { recordDedupKeyOf } from "../../src/store/Delivery.ts"
import type { Head } from "../../src/store/Records.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { failedAttempt, fenceOf, operatorAction, setup } from "./Deliveries.ts"
import { changeOf, ids, stateOf, tags } from "./StoreSamples.ts"

const integration = tags.integration
const applications = { integration, model: "ats.application" } as const
const key = (id: string) => `${integration}/ats.tag/${id}`
const how = { found: [], own: true }

/**
 * The record `a` was created, updated and deleted at positions 1, 2 and 4; `b` was created at 3. A delivery of each event is waiting,
 * in the order of its record.
 */
const forgotten = (skipsDeadLetters = false) =>
  Effect.gen(function*() {
    const all = yield* setup([], { skipsDeadLetters })
    const { change, dispatch, made, owner } = all
    yield* change("a", "created")
    yield* change("a", "updated")
    yield* change("b", "created")
    yield* change("a", "deleted")
    const order = [["a", 1], ["a", 2], ["b", 3], ["a", 4]] as const
    yield* dispatch(owner, order.map(([id, position]) => made(key(id), position)), 4)
    const step = (dedupKey: string, name: string): StepKey => ({
      handler: all.key,
      dedupKeys: [dedupKey],
      step: name,
      keepForever: dedupKey.startsWith("r:")
    })
    return { ...all, step }
  })

/** As an adoption leaves a record that was deleted before. */
const adopt = Effect.fnUntraced(function*(store: Store["Service"], head: Head) {
  const capture = yield* store.takeOwnership("capture")
  yield* store.raiseGeneration([capture], 2)
  yield* store.transact(
    capture,
    tags,
    (tx) => tx.write([{ head: { ...head, version: 0, position: null }, events: [] }])
  )
})

export const forgetSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`forgetting a record with deliveries in a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store | Deliveries>) =>
      it.effect(title, () => Effect.provide(body, layer))

    test(
      "empties its rows before the delete, cancels their deliveries and dead letters, and delivers the delete",
      Effect.gen(function*() {
        const { claim, deliveries, store, owners } = yield* forgotten()
        const { removals } = yield* store.chains([])
        const [first] = yield* claim
        const dead = { _tag: "Dead", deliveries: [first?.id ?? 0], attempts: 1, failedAttempt } as const
        yield* deliveries.settleAndClaim(owners, [dead], [])
        assert.deepStrictEqual(yield* deliveries.countForgettable(tags, "a"), { rows: 3, deliveries: 3, steps: 0 })
        assert.strictEqual(yield* deliveries.purgeForgotten(tags, ["a"], how), 0)
        assert.isAbove((yield* store.chains([])).removals, removals)
        assert.deepStrictEqual(yield* deliveries.deadLetters({ limit: 10 }), [])
        assert.isNull(yield* deliveries.deadLetterDetail(first?.id ?? 0))
        assert.deepStrictEqual((yield* claim).map(({ subject }) => subject), [{ _tag: "Event", position: 4 }])
        const log = yield* store.readLog({ after: 0, limit: 10 })
        assert.deepStrictEqual(log.map(({ before, id, kind }) => [id, kind, before]), [
          ["b", "created", null],
          ["a", "deleted", null]
        ])
        assert.deepStrictEqual((yield* deliveries.entries([1, 2, 3, 4])).map(({ position }) => position), [3, 4])
      })
    )

    test(
      "empties the rows that are kept for a delivery of a record that was deleted before an adoption (X11)",
      Effect.gen(function*() {
        const { claim, deliveries, head, store } = yield* forgotten()
        yield* adopt(store, yield* head("a"))
        const contents = Effect.map(deliveries.entries([1, 2]), (entries) => entries.map(({ id }) => id))
        assert.deepStrictEqual(yield* contents, ["a", "a"])
        const found = [1, 2].map((position) => ({ id: "a", position }))
        assert.strictEqual(yield* deliveries.purgeForgotten(tags, ["a"], { found, own: true }), 0)
        assert.deepStrictEqual(yield* contents, [])
        assert.notInclude(JSON.stringify(yield* claim), '"position":1')
      })
    )

    test(
      "waits for a running delivery of a delete before an adoption, whose handler has the content before it in memory (X11)",
      Effect.gen(function*() {
        const { claim, deliveries, head, settle, store } = yield* forgotten()
        for (let round = 0; round < 2; round++) yield* settle(yield* claim)
        const last = yield* claim
        yield* adopt(store, yield* head("a"))
        const found = [{ id: "a", position: 2 }]
        assert.strictEqual(yield* deliveries.purgeForgotten(tags, ["a"], { found, own: true }), 1)
        yield* settle(last)
        assert.strictEqual(yield* deliveries.purgeForgotten(tags, ["a"], { found, own: true }), 0)
      })
    )

    test(
      "adds no delivery for an event that was read before its row was emptied",
      Effect.gen(function*() {
        const { claim, deliveries, dispatch, made, owner, settle } = yield* forgotten()
        yield* deliveries.purgeForgotten(tags, ["a"], how)
        yield* settle(yield* claim)
        yield* dispatch(owner, [made(key("a"), 1), made(key("b"), 3)], 4)
        yield* deliveries.replay([made(key("a"), 2)], operatorAction)
        assert.deepStrictEqual((yield* claim).map(({ subject }) => subject), [{ _tag: "Event", position: 3 }])
      })
    )

    test(
      "leaves a running delivery and its steps to its handler, and removes both once it is retried (L5)",
      Effect.gen(function*() {
        const { claim, deliveries, step, owners } = yield* forgotten()
        const [running, other] = yield* claim
        if (running === undefined) return assert.fail("nothing claimed")
        yield* deliveries.finish(fenceOf(owners, running), step("e1", "s"), "1")
        assert.strictEqual(yield* deliveries.purgeForgotten(tags, ["a"], how), 1)
        yield* deliveries.check(fenceOf(owners, running))
        assert.strictEqual(yield* deliveries.result(step("e1", "s")), "1")
        const retry = { _tag: "Retry", dueAt: 0, attempts: 1, failedAttempt } as const
        yield* deliveries.settleAndClaim(owners, [
          { ...retry, deliveries: [running.id] },
          { _tag: "Settled", deliveries: [other?.id ?? 0] }
        ], [])
        assert.strictEqual(yield* deliveries.purgeForgotten(tags, ["a"], how), 0)
        assert.isNull(yield* deliveries.result(step("e1", "s")))
        assert.deepStrictEqual((yield* claim).map(({ subject }) => subject), [{ _tag: "Event", position: 4 }])
      })
    )

    test(
      "waits for a running delivery of an earlier delete, whose handler has the content before it in memory",
      Effect.gen(function*() {
        const { claim, deliveries, settle } = yield* forgotten()
        for (let round = 0; round < 2; round++) yield* settle(yield* claim)
        const last = yield* claim
        assert.deepStrictEqual(last.map(({ subject }) => subject), [{ _tag: "Event", position: 4 }])
        assert.strictEqual(yield* deliveries.purgeForgotten(tags, ["a"], how), 1)
        yield* settle(last)
        assert.strictEqual(yield* deliveries.purgeForgotten(tags, ["a"], how), 0)
      })
    )

    test(
      "deletes the steps of its events, and the results of its other steps, but no step of another record",
      Effect.gen(function*() {
        const { claim, deliveries, made, settle, step, owners } = yield* forgotten()
        const [first, second] = yield* claim
        if (first === undefined || second === undefined) return assert.fail("nothing claimed")
        const fence = fenceOf(owners, first)
        const ofRecord = recordDedupKeyOf(integration, { model: "ats.tag", id: "a" })
        const ofOther = recordDedupKeyOf(integration, { model: "ats.tag", id: "b" })
        const steps = [step("e1", "s"), step("e1~fresh", "s"), step(ofRecord, "s"), step("e3", "s"), step(ofOther, "s")]
        for (const one of steps) yield* deliveries.finish(fence, one, `"ann@people.example"`)
        const intent: Intent = { ...step("e1", "w"), integration, write: null, allowRepeat: false }
        yield* deliveries.begin(fence, intent)
        assert.strictEqual((yield* deliveries.countForgettable(tags, "a")).steps, 4)
        yield* settle([first, second])
        yield* deliveries.purgeForgotten(tags, ["a"], how)
        assert.deepStrictEqual(
          yield* Effect.forEach(steps, deliveries.result),
          [null, null, "null", `"ann@people.example"`, `"ann@people.example"`]
        )
        assert.strictEqual((yield* deliveries.countForgettable(tags, "a")).steps, 1)
        yield* deliveries.replay([made(key("b"), 3)], operatorAction)
        assert.strictEqual((yield* claim).length, 2)
      })
    )

    test(
      "keeps expecting the writes that its events caused to other records: they stay the plugin's own (L1)",
      Effect.gen(function*() {
        const { claim, deliveries, settle, step, store, owners } = yield* forgotten()
        yield* store.ensureStreams([stateOf(applications)])
        const [first, second] = yield* claim
        if (first === undefined || second === undefined) return assert.fail("nothing claimed")
        const params = { candidate_id: "c" }
        const write = { name: "addTag", params, plugin: "p", perHour: 9, depth: 1 } as const
        const expected = expectationsOf("addTag", params, { tag: { name: "t" } })
        yield* deliveries.begin(fenceOf(owners, first), {
          ...step("e1", "w"),
          integration,
          write: { ...write, expected },
          allowRepeat: false
        })
        yield* settle([first, second])
        yield* deliveries.purgeForgotten(tags, ["a"], how)
        const capture = yield* store.takeOwnership("capture")
        const open = yield* store.transact(capture, applications, (tx) => tx.openExpectations(["candidate:c"]))
        assert.deepStrictEqual(open.map(({ plugin }) => plugin), ["p"])
      })
    )

    test(
      "removes the results of a settled batch, and leaves those of a batch that is not settled",
      Effect.gen(function*() {
        const { claim, deliveries, made, step, want, owners } = yield* forgotten()
        const { claimed } = yield* deliveries.settleAndClaim(owners, [], [{ ...want, size: 2 }])
        const [one] = claimed
        if (one === undefined) return assert.fail("nothing claimed")
        const result = step(`b${one.batch}`, "s")
        yield* deliveries.finish(fenceOf(owners, one), result, `"ann@people.example"`)
        assert.strictEqual(yield* deliveries.purgeForgotten(tags, ["a"], how), 1)
        assert.strictEqual(yield* deliveries.result(result), `"ann@people.example"`)
        yield* deliveries.settleAndClaim(owners, [{ _tag: "Settled", deliveries: claimed.map(({ id }) => id) }], [])
        assert.strictEqual(yield* deliveries.purgeForgotten(tags, ["a"], how), 0)
        assert.strictEqual(yield* deliveries.result(result), "null")
        yield* deliveries.replay([made(key("b"), 3)], operatorAction)
        assert.isAbove((yield* claim).length, 0)
      })
    )

    test(
      "empties results that contain the record although their step belongs to another one, once its handler has ended",
      Effect.gen(function*() {
        const { claim, deliveries, made, settle, step, owners } = yield* forgotten()
        const claimed = yield* claim
        const running = claimed.find(({ subject }) => subject._tag === "Event" && subject.position === 3)
        if (running === undefined) return assert.fail("nothing claimed")
        const [created, other] = [step("e3", "w"), step("e3", "s")]
        const fence = fenceOf(owners, running)
        yield* deliveries.finish(fence, created, `{"id":"new","name":"ann"}`)
        yield* deliveries.finish(fence, other, `{"id":"newer"}`)
        for (let calls = 0; calls < 2; calls++) {
          assert.strictEqual(yield* deliveries.purgeResults(integration, `"new"`), 1)
        }
        yield* deliveries.finish(fence, step("e3", "later"), `{"id":"new"}`)
        yield* settle(claimed)
        assert.strictEqual(yield* deliveries.purgeResults(integration, `"new"`), 0)
        assert.deepStrictEqual(
          yield* Effect.forEach([created, step("e3", "later"), other], deliveries.result),
          ["null", "null", `{"id":"newer"}`]
        )
        yield* deliveries.replay([made(key("b"), 3)], operatorAction)
        assert.isAbove((yield* claim).length, 0)
      })
    )

    test(
      "finds rows by a text in their content, and pending rows; keeps the rows of a live record",
      Effect.gen(function*() {
        const { head, store, write } = yield* setup([])
        for (const id of ids(3)) {
          const after = JSON.stringify({ id, name: "ann" })
          yield* write([changeOf(yield* head(id), "created", { after })])
        }
        const found = yield* store.findRows([tags], `"${ids(3)[1]}"`, () => true)
        assert.deepStrictEqual(found, [{ ...tags, id: "r00001", position: 2 }])
        assert.deepStrictEqual(yield* store.findRows([tags], `"ann"`, ({ id }) => id === "r00002"), [
          { ...tags, id: "r00002", position: 3 }
        ])
        assert.deepStrictEqual(yield* store.findRows([], `"ann"`, () => true), [])
      })
    )
  })
