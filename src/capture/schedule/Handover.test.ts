/** What happens to a page when the shard of its stream is handed over. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { integration, running, stateOf } from "../../../test/support/capture/Capturing.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import { captureScopeOf } from "../../domain/Shard.ts"
import { Store } from "../../store/Store.ts"
import { Capture } from "./Capture.ts"

/** Hands the shard over in the middle of a poll; returns how long that took, in ms. `commit` and `response` delay each commit and response. */
const handOverDuringPoll = ({ commit = "0 millis", response = "0 millis" }: {
  readonly commit?: Duration.Input
  readonly response?: Duration.Input
}) => {
  let isSlow = false
  const slowly = <A, E, R>(effect: Effect.Effect<A, E, R>, duration: Duration.Input) =>
    Effect.suspend(() => isSlow ? Effect.delay(effect, duration) : effect)
  return running(["ats.application"], function*(api) {
    const capture = yield* Capture
    const store = yield* Store
    yield* TestClock.adjust("5 minutes")
    const before = yield* stateOf("ats.application")
    const [newest, requests] = [(yield* store.logRange).newest, api.requests.length]
    api.intercept = (_, answer) => slowly(Effect.succeed(answer), response)
    isSlow = true
    api.put(start + Duration.toMillis("5 minutes"), { id: "c", title: "z" })
    while (api.requests.length === requests) yield* TestClock.adjust("50 millis")
    yield* TestClock.adjust("1 millis")
    const from = yield* Clock.currentTimeMillis
    const handover = yield* Effect.forkChild(
      Effect.andThen(capture.handOver(new Set([captureScopeOf(integration)])), Clock.currentTimeMillis)
    )
    yield* TestClock.adjust("1 minute")
    const took = (yield* Fiber.join(handover)) - from
    const { watermark } = yield* stateOf("ats.application")
    return { took, published: (yield* store.logRange).newest - newest, isMoved: watermark !== before.watermark }
  }, (store) => ({ transact: (owner, key, body) => slowly(store.transact(owner, key, body), commit) }))
}

describe("handing over the shard of a stream", () => {
  it.effect("commits the page that has been received, and moves the watermark (X9)", () =>
    Effect.gen(function*() {
      const { isMoved, published, took } = yield* handOverDuringPoll({ commit: "300 millis" })
      assert.deepStrictEqual([published, isMoved], [1, true])
      assert.isAtMost(took, 300)
    }))

  it.effect("does not wait for a response (X9)", () =>
    Effect.gen(function*() {
      const { published, took } = yield* handOverDuringPoll({ response: "30 seconds" })
      assert.deepStrictEqual([published, took], [0, 0])
    }))

  it.effect("waits no longer than a second for a commit (X9)", () =>
    Effect.gen(function*() {
      const { published, took } = yield* handOverDuringPoll({ commit: "30 seconds" })
      assert.deepStrictEqual([published, took], [0, 1_000])
    }))
})
