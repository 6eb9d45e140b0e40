import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { TestClock } from "effect/testing"
import { stripVTControlCharacters } from "node:util"
import type { ForgottenView } from "../../http/contract/ForgetApi.ts"
import { ApiClientError } from "./ApiClient.ts"
import { awaitForgotten } from "./ForgetWait.ts"

type State = Pick<ForgottenView, "state" | "progress">

const erasing = (done?: number, total = 100): State => ({
  state: "erasing",
  progress: done === undefined ? null : { done, total }
})
const forgotten: State = { state: "forgotten", progress: null }
const interrupted = new ApiClientError({ reason: "interrupted", message: "the connection ended", hint: "" })

/** Waits for a removal that is in these states, one per second. The last one stays. */
const waiting = (
  states: ReadonlyArray<State | ApiClientError>,
  { searchSeconds = null, timeout = Option.none() }: {
    readonly searchSeconds?: number | null
    readonly timeout?: Option.Option<Duration.Duration>
  } = {}
) =>
  Effect.gen(function*() {
    const shown: Array<string> = []
    let reads = 0
    const read = Effect.suspend(() => {
      const state = states[Math.min(reads++, states.length - 1)]!
      return state instanceof ApiClientError ? Effect.fail(state) : Effect.succeed(state)
    })
    const show = (text: string) => Effect.sync(() => void shown.push(stripVTControlCharacters(text)))
    const fiber = yield* Effect.forkChild(
      Effect.result(
        awaitForgotten(searchSeconds, { read, show, limit: Option.map(timeout, (whole) => ({ whole, left: whole })) })
      ),
      {
        startImmediately: true
      }
    )
    yield* TestClock.adjust("2 minutes")
    return { result: yield* Fiber.join(fiber), shown }
  })

describe("forget --wait", () => {
  it.effect("the rate counts only records that were changed since the wait began", () =>
    Effect.gen(function*() {
      const { shown } = yield* waiting([erasing(50), erasing(55), forgotten])
      assert.match(shown[0] ?? "", /50 of 100 records .* starting$/)
      assert.match(shown[1] ?? "", /55 of 100 records {2}5\/s {2}9 s left$/)
    }))

  it.effect("shows the search of the log, the records that are changed, and the wait for handlers", () =>
    Effect.gen(function*() {
      const { result, shown } = yield* waiting(
        [erasing(), erasing(), erasing(0), erasing(25), erasing(100), forgotten],
        { searchSeconds: 5 }
      )
      assert.strictEqual(result._tag, "Success")
      assert.deepStrictEqual(shown.slice(0, 2), [
        "searching the log for 0 s, about 5 s left",
        "searching the log for 1 s, about 4 s left"
      ])
      assert.match(shown[2] ?? "", /^forget .* 0 % {2}0 of 100 records .* starting$/)
      assert.match(shown[3] ?? "", /^forget .* 25 % {2}25 of 100 records {2}25\/s {2}3 s left$/)
      assert.deepStrictEqual(shown.slice(4), ["removed from 100 records; removing the rest"])
    }))

  it.effect("goes on while the process is restarted, also with the records that the next search finds", () =>
    Effect.gen(function*() {
      const { result, shown } = yield* waiting([
        erasing(50),
        interrupted,
        interrupted,
        erasing(),
        erasing(0, 50),
        forgotten
      ])
      assert.strictEqual(result._tag, "Success")
      assert.strictEqual(shown[1], "the connection ended; still trying")
      assert.strictEqual(shown[3], "searching the log for 3 s")
    }))

  it.effect("goes on while the database of the process does not respond", () =>
    Effect.gen(function*() {
      const unavailable = new ApiClientError({ reason: "refused", status: 503, message: "HTTP 503", hint: "" })
      const { result } = yield* waiting([erasing(), unavailable, unavailable, forgotten])
      assert.strictEqual(result._tag, "Success")
    }))

  it.effect("fails after the timeout, and says that the removal continues", () =>
    Effect.gen(function*() {
      const { result } = yield* waiting([erasing(1)], { timeout: Option.some(Duration.seconds(5)) })
      const error = result._tag === "Failure" ? result.failure : null
      assert.strictEqual(error?.message, "the removal of this record was not done within 5s")
      assert.include(String(error !== null && "hint" in error ? error.hint : ""), "It continues")
    }))
})
