/** Tests for batches, dead letters and switches that every store must pass; needs a new store for each test. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { rangesOf } from "../../src/domain/DeliveryProgress.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { dead, deliveryTests, failedAttempt, operatorAction, placesOf, settled, setup, split } from "./DeliveryRig.ts"
import { created } from "./StoreSamples.ts"

const integration = "greenhouse:acme"

export const deliveryActSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`batches and dead letters of a store (${name})`, () => {
    const test = deliveryTests(layer)

    test(
      "a batch keeps its members over a takeover, and its two halves keep theirs (L7)",
      setup(["a", "b", "c", "d", "e"]),
      function*({ claimWith, end, open, owner }) {
        const claim = Effect.map(claimWith({ most: 1, size: 4 }), ({ claimed }) => claimed)
        const whole = yield* claim
        assert.deepStrictEqual(placesOf(whole), ["a1", "b2", "c3", "d4"])
        yield* open(owner)
        assert.deepStrictEqual(placesOf(yield* claim), placesOf(whole))
        yield* end(split(whole))
        const halves = [yield* claim, yield* claim]
        assert.deepStrictEqual(halves.map(placesOf).sort(), [["a1", "b2"], ["c3", "d4"]])
        assert.deepStrictEqual(placesOf(yield* claim), ["e5"])
      }
    )

    test(
      "a batch that is full is claimed before its time, however many other integrations have fewer deliveries that are due earlier",
      setup([]),
      function*({ claimWith, dispatch, made, owner }) {
        const later = 500_000
        const few = [1, 2, 3, 4, 5, 6].map((position) => (
          { ...made(`few${position}`, position), integration: `greenhouse:few${position}`, dueAt: later }
        ))
        const full = [7, 8].map((position) => ({ ...made(`f${position}`, position), dueAt: later + 1 }))
        yield* dispatch(owner, [...few, ...full], 8)
        const claim = Effect.map(claimWith({ size: 2, most: 1 }), ({ claimed }) => placesOf(claimed))
        assert.deepStrictEqual([yield* claim, yield* claim], [["f77", "f88"], []])
      }
    )

    test(
      "events that are delivered again form a batch inside their last batch, without other events (L4)",
      setup(["a", "b", "c", "d"]),
      function*({ claimWith, deliveries, dispatch, end, key, made, owner, replay, settle }) {
        const claim = (size: number) =>
          Effect.map(claimWith({ size }), ({ claimed }) => {
            const batches = Map.groupBy(claimed, ({ batch }) => batch)
            return { claimed, places: [...batches.values()].map(placesOf), names: [...batches.keys()].map(String) }
          })
        assert.deepStrictEqual(yield* deliveries.batches(key, [1, 2, 3, 4]), new Map())
        const first = yield* claim(2)
        assert.deepStrictEqual(first.places, [["a1", "b2"], ["c3", "d4"]])
        const [whole = "", other = ""] = first.names
        assert.deepStrictEqual(
          yield* deliveries.batches(key, [1, 2, 3, 4, 5]),
          new Map([[1, whole], [2, whole], [3, other], [4, other]])
        )
        yield* end(split(first.claimed.slice(0, 2)))
        yield* settle(first.claimed.slice(2))
        yield* settle((yield* claim(2)).claimed)
        yield* dispatch(owner, [made("e", 5)], 5)
        yield* replay(made("b", 2), made("c", 3), { ...made("a", 1), fresh: "f" }, made("d", 4))
        const again = yield* claim(9)
        assert.deepStrictEqual(again.places, [["e5"], ["b2"], ["c3", "d4"], ["a1"]])
        const [e5, b2, c3, a1] = again.claimed.filter(({ orderingKey }) => orderingKey !== "d")
        assert.deepStrictEqual(again.names, [
          `${e5?.id}`,
          `${whole}.1.r${b2?.id}`,
          `${other}.r${c3?.id}`,
          `${whole}.0.r${a1?.id}`
        ])
        yield* settle(again.claimed)
        const ids = yield* replay(made("c", 3))
        const third = yield* claim(9)
        assert.deepStrictEqual(third.claimed.map(({ id }) => id), ids)
        assert.deepStrictEqual(third.names, [`${other}.r${c3?.id}.r${third.claimed[0]?.id}`])
      }
    )

    test(
      "a dead letter of a batch that is delivered again gets a batch inside its last batch (L7)",
      setup(["a"], { skipsDeadLetters: true }),
      function*({ claim: claimed, claimWith, deliveries, end, key, made, redrive, replay, settle }) {
        const claim = Effect.map(claimWith({ size: 2 }), ({ claimed }) => claimed[0]!)
        const first = yield* claim
        yield* end(dead(first.id))
        yield* replay(made("a", 1))
        const second = yield* claim
        assert.strictEqual(second.batch, `${first.batch}.r${second.id}`)
        yield* settle([second])
        yield* redrive([first.id])
        const third = yield* claim
        assert.deepStrictEqual([third.id, third.batch], [first.id, `${second.batch}.r${first.id}`])
        assert.deepStrictEqual([...yield* deliveries.batches(key, [1])], [[1, third.batch]])
        assert.deepStrictEqual(yield* claimed, [])
      }
    )

    test(
      "a dead letter shows its event and its attempts, is found by its properties, and is redriven in order",
      setup([]),
      function*({ claim, deliveries, dispatch, end, made, owner, replay, store, write }) {
        yield* write([created("r"), created("s")])
        yield* dispatch(owner, [made("r", 1), made("s", 2), made("r", 2)], 2)
        const claimed = yield* claim
        const ids = claimed.map(({ id }) => id)
        yield* end(...ids.map((id) => dead(id)))
        const counts = { waiting: 1, due: 0, later: 0, running: 0, dead: 2 }
        assert.deepStrictEqual(yield* deliveries.backlog, [
          { plugin: "p", handler: "h", integration, ...counts, oldest: 0, blocked: null }
        ])
        const query = { plugin: "p", reason: "Transient", since: 1, until: 2, limit: 9 } as const
        const letters = yield* deliveries.deadLetters(query)
        assert.deepStrictEqual(letters.map(({ event, id, parked }) => [id, event?.id, event?.version, parked]), [
          [ids[0], "r", 1, 1],
          [ids[1], "s", 1, 0]
        ])
        assert.deepStrictEqual(yield* deliveries.deadLetters({ reason: "Permanent", limit: 9 }), [])
        const detail = yield* deliveries.deadLetterDetail(ids[0]!)
        assert.deepStrictEqual(detail?.failedAttempts, [failedAttempt])
        const [trace, ...others] = yield* deliveries.traces(1)
        assert.deepInclude(trace, {
          id: ids[0]!,
          plugin: "p",
          state: "dead",
          dueAt: null,
          failedAttempts: [failedAttempt]
        })
        assert.strictEqual(yield* deliveries.eventOf(ids[0]!), 1)
        assert.deepStrictEqual([others, yield* deliveries.traces(999)], [[], []])
        assert.isNull(yield* deliveries.eventOf(999))
        assert.strictEqual(yield* deliveries.redrive(ids, { dueAt: 0, fresh: "again" }, operatorAction), 2)
        const again = yield* claim
        assert.deepStrictEqual(placesOf(again), ["r1", "s2"])
        assert.deepStrictEqual(again.map(({ attempts, fresh }) => [attempts, fresh]), [[0, "again"], [0, "again"]])
        yield* replay(made("s", 1))
        assert.deepStrictEqual(placesOf(yield* claim), [])
        assert.strictEqual((yield* deliveries.backlog)[0]?.waiting, 2)
        assert.strictEqual((yield* store.auditLog(9)).length, 2)
      }
    )

    test(
      "a dead letter that has died again since it was listed is neither redriven nor discarded (L4)",
      setup(["a", "b"]),
      function*({ claim, deliveries, end, redrive, store }) {
        const die = (at: number) =>
          Effect.flatMap(claim, (claimed) =>
            end(...claimed.map(({ id }) => ({
              ...dead(id),
              failedAttempt: { ...failedAttempt, failure: { ...failedAttempt.failure, at } }
            }))))
        const letters = Effect.map(deliveries.deadLetters({ limit: 9 }), (letters) => letters.map(({ id }) => id))
        yield* die(1)
        const [first = 0, second = 0] = yield* letters
        const died = new Map([[first, 1], [second, 1]])
        assert.strictEqual(yield* redrive([first]), 1)
        yield* die(2)
        const acting = (detail: string) => ({ ...operatorAction, detail })
        assert.strictEqual(yield* deliveries.discard([first], acting("1 dead letter"), died), 0)
        const how = { dueAt: 0, fresh: null, died }
        assert.strictEqual(yield* deliveries.redrive([first, second], how, acting("2 dead letters")), 1)
        assert.deepStrictEqual(yield* letters, [first])
        const details = (yield* store.auditLog(2)).map(({ detail }) => detail)
        assert.deepStrictEqual(details, ["1 of 2 dead letters", "0 of 1 dead letter"])
      }
    )

    test(
      "deliveries count as open, dead or settled, a dead letter that was redriven as open (L4)",
      setup(["a", "b", "c"]),
      function*({ claim, deliveries, end, redrive }) {
        const [first = 0, second = 0, third = 0] = (yield* claim).map(({ id }) => id)
        const all = rangesOf([first, second, third])
        assert.deepStrictEqual(yield* deliveries.progressOf(all), { done: 0, open: 3, dead: 0 })
        yield* end(settled(first), dead(second, third))
        assert.deepStrictEqual(yield* deliveries.progressOf(all), { done: 1, open: 0, dead: 2 })
        yield* redrive([second])
        assert.deepStrictEqual(yield* deliveries.progressOf(all), { done: 1, open: 1, dead: 1 })
        const apart = [first, third].map((id) => ({ first: id, last: id }))
        assert.deepStrictEqual(yield* deliveries.progressOf(apart), { done: 1, open: 0, dead: 1 })
        const many = Array.from({ length: 2_000 }, (_, index) => ({ first: third + index, last: third + index }))
        assert.deepStrictEqual(yield* deliveries.progressOf(many), { done: 1_999, open: 0, dead: 1 })
        assert.deepStrictEqual(yield* deliveries.progressOf([]), { done: 0, open: 0, dead: 0 })
      }
    )

    test(
      "a switch stays off until it is switched on, however often it was switched off",
      setup([]),
      function*({ deliveries }) {
        const welcome = { _tag: "Plugin", plugin: "welcome", integration } as const
        yield* deliveries.setSwitch(welcome, false, operatorAction)
        yield* deliveries.setSwitch(welcome, false, operatorAction)
        yield* deliveries.setSwitch({ _tag: "Writes" }, false, operatorAction)
        assert.deepStrictEqual(yield* deliveries.switchedOff, [{ _tag: "Writes" }, welcome])
        yield* deliveries.setSwitch({ _tag: "Writes" }, true, operatorAction)
        assert.deepStrictEqual(yield* deliveries.switchedOff, [welcome])
      }
    )

    test(
      "a delivery that is dispatched while its ordering key is being settled is not lost (I5)",
      setup(["a"]),
      function*({ claim, dispatch, made, owner, settle }) {
        let claimed = yield* claim
        for (let position = 2; position <= 40; position++) {
          yield* Effect.all([dispatch(owner, [made("a", position)], position), settle(claimed)], {
            concurrency: "unbounded"
          })
          claimed = yield* claim
          assert.deepStrictEqual(placesOf(claimed), [`a${position}`])
        }
      }
    )

    test(
      "dead letters are counted by handler and cause, with what waits for them, and are selected by their cause",
      setup(["a", "b", "c", "a", "d"]),
      function*({ claim, deliveries, end, redrive }) {
        const [a, b, c, d] = (yield* claim).map(({ id }) => id)
        const died = (id: number | undefined, message: string, at: number, refusal: string | null = null) => ({
          ...dead(id ?? 0),
          failedAttempt: { ...failedAttempt, failure: { ...failedAttempt.failure, message, at, refusal } }
        })
        yield* end(
          died(a, "no employee 26vafvWSRmbhNcxJYqjCzuJg", 5),
          died(b, "no employee 8Xi6iZrwusZqJmDGXs49GBmJ", 3),
          died(c, "the list is closed", 4),
          died(d, "the list is closed", 6, "Forbidden")
        )
        const { areAll, causes } = yield* deliveries.deadLetterCauses({}, 10)
        const [employee, list, forbidden] = causes
        assert.isTrue(areAll)
        assert.deepStrictEqual(
          causes.map((
            { count, failure, newestAt, oldestAt, parked }
          ) => [count, parked, oldestAt, newestAt, failure.message]),
          [
            [2, 1, 3, 5, "no employee 8Xi6iZrwusZqJmDGXs49GBmJ"],
            [1, 0, 4, 4, "the list is closed"],
            [1, 0, 6, 6, "the list is closed"]
          ]
        )
        assert.deepInclude(employee, { plugin: "p", handler: "h", integrations: [integration] })
        assert.strictEqual(new Set([employee, list, forbidden].map((one) => one?.cause)).size, 3)
        const of = (filter: Parameters<typeof deliveries.deadLetterCauses>[0]) =>
          Effect.map(deliveries.deadLetterCauses(filter, 10), ({ causes }) => causes.map(({ count }) => count))
        const selected = yield* deliveries.deadLetters({ cause: employee?.cause, plugin: "p", handler: "h", limit: 10 })
        assert.deepStrictEqual(selected.map(({ id }) => id), [a, b])
        assert.deepStrictEqual(yield* of({ since: 4, until: 6 }), [1, 1])
        assert.deepStrictEqual(yield* of({ plugin: "p", handler: "h", integration, reason: "Transient" }), [2, 1, 1])
        for (
          const none of [{ plugin: "q" }, { handler: "i" }, { integration: "lever:x" }, {
            reason: "Permanent"
          }] as const
        ) {
          assert.deepStrictEqual(yield* of(none), [])
        }
        assert.deepStrictEqual(yield* deliveries.deadLetterCauses({}, 1), {
          causes: causes.slice(0, 1),
          areAll: false
        })
        yield* redrive([a ?? 0, b ?? 0])
        assert.deepStrictEqual(yield* of({}), [1, 1])
        assert.deepStrictEqual(yield* of({ cause: employee?.cause }), [])
      }
    )

    test(
      "attempts are counted in the ten minutes in which they ended, for a day",
      setup(["a"]),
      function*({ deliveries, key }) {
        const [step, day] = [600_000, 86_400_000]
        const failure = { reason: "Transient", message: "first", refusal: null, faults: [], at: 5 } as const
        const first = { ...failure, integration: "greenhouse:acme" }
        const count = { key, at: 0, attempts: 3, failed: 1, settled: 2, failure: first }
        const counts = (since = 0) =>
          Effect.map(
            deliveries.attemptCounts("p", since),
            (some) =>
              some.map((
                { at, attempts, failed, failure, settled }
              ) => [at, attempts, failed, settled, failure?.message])
          )
        yield* deliveries.addAttempts([count, { ...count, at: step, failure: null }])
        yield* deliveries.addAttempts([{ ...count, attempts: 1, failed: 0, settled: 4, failure: null }])
        assert.deepStrictEqual(yield* counts(), [[0, 4, 1, 6, "first"], [step, 3, 1, 2, undefined]])
        assert.deepStrictEqual((yield* deliveries.attemptCounts("p", 0))[0]?.failure, first)
        yield* deliveries.addAttempts([{ ...count, failure: { ...first, message: "last" } }])
        assert.deepStrictEqual(yield* counts(), [[0, 7, 2, 8, "last"], [step, 3, 1, 2, undefined]])
        assert.deepStrictEqual(yield* counts(1), [[step, 3, 1, 2, undefined]])
        assert.deepStrictEqual(yield* deliveries.attemptCounts("other", 0), [])
        // a day later the step of the day before is replaced, with its failure
        yield* deliveries.addAttempts([{ ...count, at: day, failed: 0, failure: null }])
        assert.deepStrictEqual(yield* counts(), [[step, 3, 1, 2, undefined], [day, 3, 0, 2, undefined]])
      }
    )
  })
