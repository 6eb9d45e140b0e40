/** A loop keeps the state of its stream between empty polls. Everything that changes the stored state meanwhile must take effect. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { pendingOf } from "../../../test/conformance/StoreSamples.ts"
import { integration, running, stateOf, streamsOf } from "../../../test/support/capture/Capturing.ts"
import { captureScopeOf } from "../../domain/Shard.ts"
import type { StreamState } from "../../store/State.ts"
import { Store } from "../../store/Store.ts"
import { Capture } from "./Capture.ts"
import type { StreamCommand } from "./StreamCommands.ts"

const key = { integration, model: "ats.application" } as const
const model = key.model
const operate = (command: StreamCommand) => Effect.flatMap(Capture, (capture) => capture.execute(key, command))
/** After this time polls no longer read the records of the backfill. */
const untilQuiet = TestClock.adjust("30 minutes")
/** Changes the stored state in the name of the owner, without the loop. */
const change = (to: (state: StreamState) => StreamState) =>
  Effect.gen(function*() {
    const store = yield* Store
    const { ownerOf } = yield* Capture
    yield* store.transact(ownerOf(integration), key, (tx) => tx.saveState(to(tx.state)))
  })

describe("the state of a quiet stream", () => {
  it.effect("is not read for an empty poll, which is one statement", () => {
    const calls: Array<string> = []
    return running([model], function*(api) {
      yield* untilQuiet
      const before = api.requests.length
      calls.length = 0
      yield* TestClock.adjust("10 minutes")
      const polls = api.requests.length - before
      assert.isAtLeast(polls, 8)
      assert.deepStrictEqual(calls, Array.from({ length: polls }, () => "replaceQuietState"))
      const { watermark } = yield* stateOf(model)
      assert.isAbove(watermark ?? 0, (api.requests.at(-1)?.updatedAfter ?? Infinity) + 300_000)
    }, (store) => ({
      stream: (key) => Effect.andThen(Effect.sync(() => calls.push("stream")), store.stream(key)),
      transact: (...args) => Effect.andThen(Effect.sync(() => calls.push("transact")), store.transact(...args)),
      replaceQuietState: (...args) =>
        Effect.andThen(Effect.sync(() => calls.push("replaceQuietState")), store.replaceQuietState(...args))
    }))
  })

  it.effect("is read again after an operator's command", () =>
    running([model], function*(api) {
      yield* untilQuiet
      yield* operate({ kind: "pause" })
      const paused = api.requests.length
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(api.requests.length, paused)
      yield* operate({ kind: "resume" })
      yield* TestClock.adjust("10 minutes")
      const { watermark } = yield* stateOf(model)
      const to = watermark! - 3_600_000
      yield* operate({ kind: "rewind", to })
      yield* TestClock.adjust("1 second")
      assert.isAtMost(api.requests.at(-1)?.updatedAfter ?? Infinity, to)
      yield* TestClock.adjust("10 minutes")
      const swept = (yield* stateOf(model)).lastSweep?.id
      yield* operate({ kind: "sweep" })
      yield* TestClock.adjust("1 second")
      assert.notStrictEqual((yield* stateOf(model)).lastSweep?.id, swept)
    }))

  it.effect("is not overwritten by an empty poll if it changed during the request", () =>
    running([model], function*(api) {
      yield* untilQuiet
      const context = yield* Effect.context<Store | Capture>()
      let changed = false
      api.intercept = (_, answer) =>
        Effect.as(
          Effect.suspend(() => {
            if (changed) return Effect.void
            changed = true
            return change((state) => ({ ...state, encryptedWith: "a key", overlap: 400_000 }))
          }).pipe(Effect.provideContext(context), Effect.orDie),
          answer
        )
      yield* TestClock.adjust("5 minutes")
      const { encryptedWith, lastPoll, overlap } = yield* stateOf(model)
      assert.deepStrictEqual([changed, encryptedWith, overlap], [true, "a key", 400_000])
      assert.isAbove(lastPoll?.endedAt ?? 0, api.requests.at(-2)!.updatedAfter!)
      assert.isAtMost(api.requests.at(-1)!.updatedAfter!, lastPoll!.updatedAfter!)
    }))

  it.effect("is read again when the shard comes back from another process, which changed it (I10)", () =>
    running([model], function*(api) {
      yield* untilQuiet
      const capture = yield* Capture
      const store = yield* Store
      const scope = captureScopeOf(integration)
      yield* capture.handOver(new Set([scope]))
      const other = yield* store.takeOwnership(scope)
      yield* store.transact(other, key, (tx) => tx.saveState({ ...tx.state, paused: true }))
      yield* capture.take([scope])
      yield* capture.assign(new Map([[integration, streamsOf([model])]]))
      const before = api.requests.length
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(api.requests.length, before)
    }))

  it.effect("is not moved by an empty poll of a process whose shard another process has taken over (I10)", () =>
    running([model], function*(_, loop) {
      yield* untilQuiet
      const before = yield* stateOf(model)
      yield* (yield* Store).takeOwnership(captureScopeOf(integration))
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(yield* stateOf(model), before)
      assert.isDefined(loop.pollUnsafe())
    }))

  it.effect("does not hide a change that was staged meanwhile: the next empty poll publishes it", () =>
    running([model], function*() {
      yield* untilQuiet
      const store = yield* Store
      const { ownerOf } = yield* Capture
      const { lastRunId } = yield* stateOf(model)
      yield* store.transact(
        ownerOf(integration),
        key,
        (tx) =>
          tx.putPending([pendingOf("a", { deleted: true, reason: "flagged", runId: lastRunId, status: "staged" })])
      )
      yield* TestClock.adjust(Duration.minutes(2))
      assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
      assert.deepStrictEqual((yield* store.readLog({ after: 0, limit: 10 })).map(({ id, kind }) => [id, kind]), [
        ["a", "created"],
        ["b", "created"],
        ["a", "deleted"]
      ])
    }))

  it.effect("does not hide a record that became stale meanwhile: the next empty poll refreshes it", () =>
    running([model], function*(api) {
      yield* untilQuiet
      const store = yield* Store
      const { ownerOf } = yield* Capture
      yield* store.transact(ownerOf(integration), key, (tx) => tx.markStale(["a"]))
      yield* TestClock.adjust(Duration.minutes(2))
      assert.isTrue(api.requests.some(({ ids }) => ids?.includes("a") === true))
      assert.strictEqual((yield* store.counts)[0]?.stale, 0)
    }))
})
