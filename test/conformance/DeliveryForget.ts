/** Tests for what forgetting a record does to deliveries and journals, which every store must pass; needs a new store for each test. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { expectationsOf } from "../../src/domain/Expectation.ts"
import type { Intent } from "../../src/store/AttemptJournal.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import { recordDedupKeyOf } from "../../src/store/Delivery.ts"
import type { Head } from "../../src/store/Records.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { dead, deliveryTests, retry, settled, setup } from "./DeliveryRig.ts"
import { changeOf, ids, stateOf, tags } from "./StoreSamples.ts"

const integration = tags.integration
const applications = { integration, model: "ats.application" } as const
const key = (id: string) => `${integration}/ats.tag/${id}`

/**
 * The record `a` was created, updated and deleted at positions 1, 2 and 4; `b` was created at 3. A delivery of each event is waiting,
 * in the order of its record.
 */
const forgotten = Effect.gen(function*() {
  const all = yield* setup([])
  const { change, claim, deliveries, dispatch, made, owner } = all
  yield* change("a", "created")
  yield* change("a", "updated")
  yield* change("b", "created")
  yield* change("a", "deleted")
  const order = [["a", 1], ["a", 2], ["b", 3], ["a", 4]] as const
  yield* dispatch(owner, order.map(([id, position]) => made(key(id), position)), 4)
  return {
    ...all,
    /** Forgets `a`; `found`: the positions of further rows. Gives how many of its deliveries are running. */
    forget: (found: ReadonlyArray<number> = []) =>
      deliveries.purgeForgotten(tags, ["a"], { found: found.map((position) => ({ id: "a", position })), own: true }),
    /** Claims what is due; gives the positions of the events. */
    claimPositions: Effect.map(
      claim,
      (claimed) => claimed.map(({ subject }) => subject._tag === "Event" ? subject.position : 0)
    )
  }
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
    const test = deliveryTests(layer)

    test(
      "empties its rows before the delete, cancels their deliveries and dead letters, and delivers the delete",
      forgotten,
      function*({ claimOne, claimPositions, deliveries, end, forget, store }) {
        const { removals } = yield* store.chains([])
        const { id } = yield* claimOne
        yield* end(dead(id))
        assert.deepStrictEqual(yield* deliveries.countForgettable(tags, "a"), { rows: 3, deliveries: 3, steps: 0 })
        assert.strictEqual(yield* forget(), 0)
        assert.isAbove((yield* store.chains([])).removals, removals)
        assert.deepStrictEqual(yield* deliveries.deadLetters({ limit: 10 }), [])
        assert.isNull(yield* deliveries.deadLetterDetail(id))
        assert.deepStrictEqual(yield* claimPositions, [4])
        const log = yield* store.readLog({ after: 0, limit: 10 })
        assert.deepStrictEqual(log.map(({ before, id, kind }) => [id, kind, before]), [
          ["b", "created", null],
          ["a", "deleted", null]
        ])
        assert.deepStrictEqual((yield* deliveries.entries([1, 2, 3, 4])).map(({ position }) => position), [3, 4])
      }
    )

    test(
      "empties the rows that are kept for a delivery of a record that was deleted before an adoption (X11)",
      forgotten,
      function*({ claim, deliveries, forget, head, store }) {
        yield* adopt(store, yield* head("a"))
        const contents = Effect.map(deliveries.entries([1, 2]), (entries) => entries.map(({ id }) => id))
        assert.deepStrictEqual(yield* contents, ["a", "a"])
        assert.strictEqual(yield* forget([1, 2]), 0)
        assert.deepStrictEqual(yield* contents, [])
        assert.notInclude(JSON.stringify(yield* claim), '"position":1')
      }
    )

    test(
      "adds no delivery for an event that was read before its row was emptied",
      forgotten,
      function*({ claim, claimPositions, dispatch, forget, made, owner, replay, settle }) {
        yield* forget()
        yield* settle(yield* claim)
        yield* dispatch(owner, [made(key("a"), 1), made(key("b"), 3)], 4)
        yield* replay(made(key("a"), 2))
        assert.deepStrictEqual(yield* claimPositions, [3])
      }
    )

    test(
      "leaves a running delivery and its steps to its handler, and removes both once it is retried (L5)",
      forgotten,
      function*({ claim, claimPositions, deliveries, end, fence, forget, step }) {
        const [running, other] = yield* claim
        yield* deliveries.finish(fence(running!), step("e1"), "1")
        assert.strictEqual(yield* forget(), 1)
        yield* deliveries.check(fence(running!))
        assert.strictEqual(yield* deliveries.result(step("e1")), "1")
        yield* end(retry(running!.id), settled(other!.id))
        assert.strictEqual(yield* forget(), 0)
        assert.isNull(yield* deliveries.result(step("e1")))
        assert.deepStrictEqual(yield* claimPositions, [4])
      }
    )

    for (const isAdopted of [false, true]) {
      test(
        `waits for a running delivery of an earlier delete${
          isAdopted ? " before an adoption (X11)" : ""
        }, whose handler has the content before it in memory`,
        forgotten,
        function*({ claim, forget, head, settle, store }) {
          for (let round = 0; round < 2; round++) yield* settle(yield* claim)
          const last = yield* claim
          assert.deepStrictEqual(last.map(({ subject }) => subject), [{ _tag: "Event", position: 4 }])
          if (isAdopted) yield* adopt(store, yield* head("a"))
          const found = isAdopted ? [2] : []
          assert.strictEqual(yield* forget(found), 1)
          yield* settle(last)
          assert.strictEqual(yield* forget(found), 0)
        }
      )
    }

    test(
      "deletes the steps of its events, and the results of its other steps, but no step of another record",
      forgotten,
      function*({ claim, deliveries, fence, forget, made, replay, settle, step }) {
        const claimed = yield* claim
        const attempt = fence(claimed[0]!)
        const ofRecord = recordDedupKeyOf(integration, { model: "ats.tag", id: "a" })
        const ofOther = recordDedupKeyOf(integration, { model: "ats.tag", id: "b" })
        const steps = [step("e1"), step("e1~fresh"), step(ofRecord), step("e3"), step(ofOther)]
        for (const one of steps) yield* deliveries.finish(attempt, one, `"ann@people.example"`)
        const intent: Intent = { ...step("e1", "w"), integration, write: null, allowRepeat: false }
        yield* deliveries.begin(attempt, intent)
        assert.strictEqual((yield* deliveries.countForgettable(tags, "a")).steps, 4)
        yield* settle(claimed)
        yield* forget()
        assert.deepStrictEqual(
          yield* Effect.forEach(steps, deliveries.result),
          [null, null, "null", `"ann@people.example"`, `"ann@people.example"`]
        )
        assert.strictEqual((yield* deliveries.countForgettable(tags, "a")).steps, 1)
        yield* replay(made(key("b"), 3))
        assert.strictEqual((yield* claim).length, 2)
      }
    )

    test(
      "keeps expecting the writes that its events caused to other records: they stay the plugin's own (L1)",
      forgotten,
      function*({ claim, deliveries, fence, forget, settle, step, store }) {
        yield* store.ensureStreams([stateOf(applications)])
        const claimed = yield* claim
        const params = { candidate_id: "c" }
        const write = { name: "addTag", params, plugin: "p", perHour: 9, depth: 1 } as const
        const expected = expectationsOf("addTag", params, { tag: { name: "t" } })
        yield* deliveries.begin(fence(claimed[0]!), {
          ...step("e1", "w"),
          integration,
          write: { ...write, expected },
          allowRepeat: false
        })
        yield* settle(claimed)
        yield* forget()
        const capture = yield* store.takeOwnership("capture")
        const open = yield* store.transact(capture, applications, (tx) => tx.openExpectations(["candidate:c"]))
        assert.deepStrictEqual(open.map(({ plugin }) => plugin), ["p"])
      }
    )

    test(
      "removes the results of a settled batch, and leaves those of a batch that is not settled",
      forgotten,
      function*({ claim, claimWith, deliveries, fence, forget, made, replay, settle, step }) {
        const { claimed } = yield* claimWith({ size: 2 })
        const [one] = claimed
        const result = step(`b${one!.batch}`)
        yield* deliveries.finish(fence(one!), result, `"ann@people.example"`)
        assert.strictEqual(yield* forget(), 1)
        assert.strictEqual(yield* deliveries.result(result), `"ann@people.example"`)
        yield* settle(claimed)
        assert.strictEqual(yield* forget(), 0)
        assert.strictEqual(yield* deliveries.result(result), "null")
        yield* replay(made(key("b"), 3))
        assert.isAbove((yield* claim).length, 0)
      }
    )

    test(
      "empties results that contain the record although their step belongs to another one, once its handler has ended",
      forgotten,
      function*({ claim, deliveries, fence, made, replay, settle, step }) {
        const claimed = yield* claim
        const running = claimed.find(({ subject }) => subject._tag === "Event" && subject.position === 3)
        const [created, other] = [step("e3", "w"), step("e3")]
        const attempt = fence(running!)
        yield* deliveries.finish(attempt, created, `{"id":"new","name":"ann"}`)
        yield* deliveries.finish(attempt, other, `{"id":"newer"}`)
        for (let calls = 0; calls < 2; calls++) {
          assert.strictEqual(yield* deliveries.purgeResults(integration, `"new"`), 1)
        }
        yield* deliveries.finish(attempt, step("e3", "later"), `{"id":"new"}`)
        yield* settle(claimed)
        assert.strictEqual(yield* deliveries.purgeResults(integration, `"new"`), 0)
        assert.deepStrictEqual(
          yield* Effect.forEach([created, step("e3", "later"), other], deliveries.result),
          ["null", "null", `{"id":"newer"}`]
        )
        yield* replay(made(key("b"), 3))
        assert.isAbove((yield* claim).length, 0)
      }
    )

    test(
      "finds rows by a text in their content, and pending rows; keeps the rows of a live record",
      setup([]),
      function*({ head, store, write }) {
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
      }
    )
  })
