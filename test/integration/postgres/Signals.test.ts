/** Two processes on one PostgreSQL database: each notices the commands of operators that the other one executed. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { stateOf, tags } from "../../conformance/StoreSamples.ts"
import { onServer, open } from "./Opened.ts"
import * as Server from "./Server.ts"

const { emptyStore } = Server.ofFile()

/** Two processes, with an open hold. */
const setup = Effect.gen(function*() {
  const url = yield* emptyStore
  const opened = Effect.map(open(url), ({ store, ...others }) => ({ ...store, ...others }))
  const [reader, other] = [yield* opened, yield* opened]
  yield* reader.ensureStreams([stateOf(tags)])
  const owner = yield* reader.takeOwnership("capture")
  const openHold = reader.transact(owner, tags, (tx) =>
    tx.openHold({
      kind: "deletes",
      state: "open",
      reason: "all records deleted",
      paths: [],
      openedAt: 0,
      decidedAt: null,
      released: 0,
      release: null,
      published: null
    }))
  return { reader, other, openHold }
})

const action = { at: 0, command: "plugins.off", target: "digest", detail: "" }

onServer("two processes on PostgreSQL", () => {
  it.effect("notice each other's decisions on holds within a second", () =>
    Effect.gen(function*() {
      const { openHold, other, reader } = yield* setup
      const hold = yield* openHold
      const waiting = yield* Effect.forkChild(reader.awaitDecision(0), { startImmediately: true })
      yield* other.decide(hold.id, { state: "rejected" }, 7)
      assert.isUndefined(waiting.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(waiting), 1)
    }))

  it.effect("notice each other's commands for deliveries within a second", () =>
    Effect.gen(function*() {
      const { other, reader } = yield* setup
      const seen = yield* reader.deliveries.awaitCommand(-1)
      const waiting = yield* Effect.forkChild(reader.deliveries.awaitCommand(seen), { startImmediately: true })
      yield* other.deliveries.setSwitch({ _tag: "Writes" }, false, action)
      assert.isUndefined(waiting.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(waiting), seen + 1)
      assert.deepStrictEqual(yield* reader.deliveries.switchedOff, [{ _tag: "Writes" }])
    }))

  it.effect("are not woken by decisions from before they started, nor by a decision that is refused", () =>
    Effect.gen(function*() {
      const { openHold, other, reader } = yield* setup
      const hold = yield* openHold
      yield* other.decide(hold.id, { state: "rejected" }, 7)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* reader.awaitDecision(0), 1)
      const waiting = yield* Effect.forkChild(reader.awaitDecision(1), { startImmediately: true })
      assert.isFalse(yield* other.decide(hold.id, { state: "rejected" }, 8))
      for (let second = 0; second < 3; second++) {
        yield* TestClock.adjust("1 second")
        // the check of this second has read its counter before this statement
        yield* reader.logRange
      }
      assert.isUndefined(waiting.pollUnsafe())
      yield* Fiber.interrupt(waiting)
    }))

  it.live("notice a decision whose transaction started first and was committed last", () =>
    Effect.gen(function*() {
      const { openHold, other, reader } = yield* setup
      const [first, second] = [yield* openHold, yield* openHold]
      const rejected = Effect.map(reader.holds({ states: ["rejected"], limit: 10 }), ({ length }) => length)
      const follow = Effect.gen(function*() {
        for (let count = 0; (yield* rejected) < 2;) count = yield* reader.awaitDecision(count)
      })
      const following = yield* Effect.forkChild(follow, { startImmediately: true })
      const later = yield* other.sql.withTransaction(Effect.gen(function*() {
        yield* other.sql`INSERT INTO signals (name, counter) VALUES ('decision', 1)`
        yield* other.sql`UPDATE holds SET state = 'rejected' WHERE id = ${first.id}`
        // waits for this transaction, which holds the counter
        return yield* Effect.forkChild(reader.decide(second.id, { state: "rejected" }, 8), { startImmediately: true })
      }))
      assert.isTrue(yield* Fiber.join(later))
      yield* Fiber.join(following)
    }))
})
