/** Tests for ticks that every store must pass; needs a new store for each test. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import { type ConfiguredHandler, deliveryReader, type Failure, type TickSchedule } from "../../src/store/Delivery.ts"
import type { IntegrationState } from "../../src/store/State.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { dead, deliveryTests, failedAttempt, retry, setup } from "./DeliveryRig.ts"
import { integrationOf } from "./StoreSamples.ts"

const integration = "greenhouse:acme"
const other = "lever:beta"

/** Longer than the times of the ticks, so that no clock seems to be set back. */
const interval = 1_000

/** A handler that takes ticks. The time is a minute; the first check of ticks was at time 0. */
const scheduled = Effect.fnUntraced(function*(details: Partial<ConfiguredHandler> = {}) {
  const rig = yield* setup([], { scheduled: true, ...details })
  const { claimOne, deliveries, key, owner, store } = rig
  yield* TestClock.adjust("1 minute")
  const check = (details: Partial<TickSchedule> = {}) =>
    deliveries.dispatchTicks(owner, { due: [], off: [], integrations: [integration], lastCheckedAt: 0, ...details })
  const dueAt = (scheduledAt: number, of = integration) => ({ handler: key, integration: of, scheduledAt, interval })
  return {
    ...rig,
    check,
    dueAt,
    /** The handler's tick of this time is due in the integration. */
    tick: (scheduledAt: number, details: Partial<TickSchedule> = {}) =>
      check({ due: [dueAt(scheduledAt)], ...details }),
    /** Claims the tick that is due; gives its time and the positions that it spans. */
    span: Effect.map(
      claimOne,
      ({ subject }) =>
        subject._tag === "Tick" ? [subject.scheduledAt, subject.from, subject.to] : assert.fail("an event is due")
    ),
    /** The position from which deliveries need the log. */
    kept: store.readerPosition(deliveryReader)
  }
})

export const deliveryTickSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`ticks of a store (${name})`, () => {
    const test = deliveryTests(layer)

    test(
      "a tick spans the log since the previous tick; the next tick waits for it, and the log is kept until it is settled (L8)",
      scheduled(),
      function*({ change, claim, kept, settle, tick }) {
        yield* tick(0)
        assert.deepStrictEqual(yield* claim, [])
        yield* change("r", "created")
        yield* tick(1)
        const first = yield* claim
        assert.deepStrictEqual(first[0]?.subject, { _tag: "Tick", scheduledAt: 1, from: 0, to: 1 })
        yield* change("r", "updated")
        assert.strictEqual((yield* tick(2)).length, 1)
        assert.strictEqual(yield* kept, 0)
        yield* settle(first)
        assert.deepStrictEqual(yield* tick(2), [])
        const second = yield* claim
        assert.deepStrictEqual(second[0]?.subject, { _tag: "Tick", scheduledAt: 2, from: 1, to: 2 })
        assert.strictEqual(yield* kept, 1)
        yield* settle(second)
        yield* tick(3)
        assert.strictEqual(yield* kept, 2)
      }
    )

    test(
      "a tick is created although the last one lies more than an interval ahead, because the clock was set back (W4)",
      scheduled(),
      function*({ change, claim, settle, span, tick }) {
        yield* tick(0)
        yield* change("r", "created")
        yield* tick(3 * interval)
        yield* settle(yield* claim)
        yield* change("r", "updated")
        yield* tick(2 * interval)
        assert.deepStrictEqual(yield* claim, [])
        yield* tick(interval)
        assert.deepStrictEqual(yield* span, [interval, 1, 2])
      }
    )

    test(
      "a tick whose time comes again has a journal of its own although the tick before it is a dead letter without steps (W4)",
      scheduled(),
      function*({ claim, claimOne, end, settle, tick }) {
        yield* tick(0)
        yield* tick(interval)
        const first = yield* claimOne
        yield* end(dead(first.id))
        yield* tick(3 * interval)
        yield* settle(yield* claim)
        yield* tick(interval)
        assert.deepStrictEqual([first.fresh, (yield* claimOne).fresh], [null, "to-0"])
      }
    )

    test(
      "the first tick spans the log since its handler was registered, and is not delivered for a time before that (L8)",
      scheduled({ from: "now" }),
      function*({ change, check, claim, dueAt, open, owner, span, tick }) {
        yield* change("r", "created")
        yield* open(owner)
        yield* tick(10, { lastCheckedAt: 15 })
        assert.deepStrictEqual(yield* claim, [])
        yield* change("r", "updated")
        yield* tick(20, { lastCheckedAt: 15 })
        assert.deepStrictEqual(yield* span, [20, 0, 2])
        yield* check({ due: [dueAt(30, other)], integrations: [integration, other], lastCheckedAt: 25 })
        assert.deepStrictEqual(yield* span, [30, 0, 2])
      }
    )

    test(
      "a tick spans the time in which its integration was absent, but the log is not kept for that time (L8)",
      scheduled(),
      function*({ change, check, claim, kept, settle, span, tick }) {
        yield* tick(1)
        yield* settle(yield* claim)
        yield* change("r", "created")
        yield* change("r", "updated")
        assert.strictEqual(yield* kept, 0)
        yield* check({ integrations: [other] })
        assert.strictEqual(yield* kept, 2)
        yield* check({ integrations: [] })
        yield* tick(2)
        assert.deepStrictEqual(yield* span, [2, 0, 2])
      }
    )

    test(
      "a handler that is off has no tick and keeps no log; once it is on, its next tick spans only the log since then",
      scheduled(),
      function*({ change, check, claim, dueAt, kept, settle, tick }) {
        const off = { off: [dueAt(0)] }
        yield* change("r", "created")
        assert.strictEqual(yield* kept, 0)
        yield* check(off)
        assert.strictEqual(yield* kept, 1)
        yield* change("r", "updated")
        yield* tick(10, { lastCheckedAt: 15 })
        assert.deepStrictEqual(yield* claim, [])
        yield* change("r", "updated")
        yield* tick(20, { lastCheckedAt: 15 })
        const first = yield* claim
        assert.deepStrictEqual(first[0]?.subject, { _tag: "Tick", scheduledAt: 20, from: 2, to: 3 })
        yield* settle(first)
        yield* check(off)
        yield* change("r", "updated")
        assert.strictEqual(yield* kept, 3)
        yield* check(off)
        assert.strictEqual(yield* kept, 4)
      }
    )

    test(
      "a tick of a removed integration waits and keeps no log (L8)",
      scheduled(),
      function*({ change, check, deliveries, dueAt, kept, store }) {
        const integrations = [integration, other]
        const tick = (scheduledAt: number) =>
          check({ due: integrations.map((of) => dueAt(scheduledAt, of)), integrations })
        yield* change("r", "created")
        yield* tick(0)
        yield* change("r", "updated")
        yield* tick(1)
        const capture = yield* store.takeOwnership("capture")
        const become = (id: string, state: IntegrationState["state"]) =>
          store.saveIntegration(capture, integrationOf(id, { state }), null)
        yield* become(integration, "removed")
        // the other integration's tick spans everything since the handler was registered
        assert.strictEqual(yield* Effect.andThen(tick(1), kept), 0)
        yield* become(other, "removed")
        assert.strictEqual(yield* Effect.andThen(tick(1), kept), 2)
        assert.strictEqual((yield* deliveries.backlog).reduce((sum, { due }) => sum + due, 0), 2)
      }
    )

    test(
      "a tick that waits for the API keeps no log, and the backlog shows why it waits until it fails otherwise (L8)",
      scheduled(),
      function*({ change, claimOne, deliveries, end, kept, tick }) {
        const attempt = (number: number, reason: Failure["reason"]) => ({
          failedAttempt: { ...failedAttempt, number, failure: { ...failedAttempt.failure, reason } }
        })
        const fail = Effect.fnUntraced(function*(number: number, reason: Failure["reason"]) {
          yield* end({ ...retry((yield* claimOne).id), ...attempt(number, reason) })
          yield* tick(2)
          return [(yield* deliveries.backlog)[0]?.blocked, yield* kept]
        })
        yield* change("r", "created")
        yield* tick(1)
        yield* change("r", "updated")
        assert.deepStrictEqual(yield* fail(1, "Blocked"), [failedAttempt.failure.message, 2])
        assert.deepStrictEqual(yield* fail(2, "Blocked"), [failedAttempt.failure.message, 2])
        assert.deepStrictEqual(yield* fail(3, "Transient"), [null, 0])
        const { id } = yield* claimOne
        yield* end({ ...dead(id), ...attempt(4, "Transient") })
        const detail = yield* deliveries.deadLetterDetail(id)
        assert.deepStrictEqual(detail?.failedAttempts.map(({ number }) => number), [2, 3, 4])
      }
    )
  })
