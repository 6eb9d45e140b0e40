/** When a write is sent, and when its hooks run. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import {
  finished,
  limited,
  macrotask,
  refusal,
  type Reply,
  request,
  step,
  withKey,
  withReplies
} from "../../test/support/source/Replies.ts"
import { requests } from "../../test/support/source/Requests.ts"
import { type SendHooks, SlotWait, SlotWaitAborted, Source } from "./Source.ts"

const done: Reply = { body: { status: "success", data: {}, warnings: [] } }
const tag = requests.addTag

/** Hooks that record when they ran. */
const recording = (before: Effect.Effect<void, "no"> = Effect.void) => {
  const ran: Array<string> = []
  const hooks: SendHooks<"no"> = {
    before: Effect.andThen(Effect.sync(() => void ran.push("before")), before),
    onNoEffect: Effect.sync(() => void ran.push("onNoEffect"))
  }
  return { ran, hooks }
}

const write = (hooks: SendHooks<"no">) =>
  Effect.gen(function*() {
    const source = yield* Source
    return yield* finished(yield* Effect.forkChild(source.write(tag, hooks)))
  })

describe("a write and its hooks", () => {
  it.effect.each<{ replies: ReadonlyArray<Reply>; ran: ReadonlyArray<string> }>([
    { replies: [done], ran: ["before"] },
    { replies: [limited({ "retry-after": "45" }), done], ran: ["before", "onNoEffect", "before"] },
    { replies: [refusal(400, "ATS.JOB_CLOSED")], ran: ["before", "onNoEffect"] },
    { replies: [refusal(500, null)], ran: ["before"] },
    { replies: [{ silent: true }], ran: ["before"] },
    {
      replies: [
        { failure: Object.assign(new Error("no"), { code: "ECONNREFUSED", syscall: "connect" }) },
        done
      ],
      ran: ["before", "onNoEffect", "before"]
    }
  ])(
    "`before` runs before each attempt, and `onNoEffect` runs after an attempt without effect: case %#",
    ({ ran, replies }) => {
      const { layer } = withReplies(...replies)
      const recorded = recording()
      return Effect.gen(function*() {
        yield* write(recorded.hooks)
        assert.deepStrictEqual(recorded.ran, ran)
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("`before` runs for each attempt of a write that may be repeated, without `onNoEffect` in between", () => {
    const { layer } = withReplies(refusal(500, null), { body: { status: "success", data: { id: "c" }, warnings: [] } })
    const recorded = recording()
    return Effect.gen(function*() {
      const source = yield* Source
      yield* finished(yield* Effect.forkChild(source.write(requests.deactivateCourse, recorded.hooks)))
      assert.deepStrictEqual(recorded.ran, ["before", "before"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a failed `before` fails the write: nothing is sent and `onNoEffect` does not run", () => {
    const { layer, sent } = withReplies(done)
    const recorded = recording(Effect.fail("no"))
    return Effect.gen(function*() {
      const error = yield* Effect.flip(yield* write(recorded.hooks))
      assert.strictEqual(error, "no")
      assert.deepStrictEqual(recorded.ran, ["before"])
      assert.strictEqual(sent.length, 0)
    }).pipe(Effect.provide(layer))
  })

  it.effect("`before` runs only after the account's pause is over (R1)", () => {
    const { layer, sent } = withReplies(limited({ "retry-after": "900" }), done)
    const recorded = recording()
    return Effect.gen(function*() {
      const source = yield* Source
      const fiber = yield* Effect.forkChild(source.write(tag, recorded.hooks))
      for (let i = 0; i < 20; i++) yield* TestClock.adjust(step)
      yield* TestClock.adjust("14 minutes")
      assert.deepStrictEqual(recorded.ran, ["before", "onNoEffect"])
      yield* finished(fiber)
      assert.deepStrictEqual(recorded.ran, ["before", "onNoEffect", "before"])
      assert.strictEqual(sent.length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a write that was allowed while a rate-limit response paused the account is undone and waits (R1)", () => {
    const { layer, sent } = withReplies(limited({ "retry-after": "300" }), done)
    return Effect.gen(function*() {
      const source = yield* Source
      // The hook takes a second, during which a read gets a rate-limit response.
      const recorded = recording(Effect.sleep("1 second"))
      const writing = yield* Effect.forkChild(source.write(tag, recorded.hooks))
      yield* macrotask
      const reading = yield* Effect.forkChild(source.page(request))
      for (let i = 0; i < 50; i++) yield* Effect.andThen(macrotask, TestClock.adjust(step))
      assert.strictEqual(sent.length, 1)
      assert.deepStrictEqual(recorded.ran, ["before", "onNoEffect"])
      yield* yield* finished(writing)
      assert.deepStrictEqual(recorded.ran, ["before", "onNoEffect", "before"])
      assert.isAtLeast(sent[1]?.at ?? 0, 300_000)
      yield* Fiber.interrupt(reading)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a write uses the key that is current when it is sent, not when it started to wait", () => {
    let key = "first"
    const { layer, sent } = withKey(Effect.sync(() => Redacted.make(key)), limited({ "retry-after": "300" }), done)
    return Effect.gen(function*() {
      const source = yield* Source
      const fiber = yield* Effect.forkChild(source.write(requests.addResultLink, recording().hooks))
      for (let i = 0; i < 20; i++) yield* Effect.andThen(macrotask, TestClock.adjust(step))
      key = "second"
      yield* finished(fiber)
      assert.deepStrictEqual(sent.map(({ request }) => request.headers["authorization"]), [
        "Bearer first",
        "Bearer second"
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a process that was frozen after `before` does not send, and runs the hook again (X16)", () => {
    const { layer, sent } = withReplies(done)
    let freezes = 2
    const recorded = recording(Effect.suspend(() => freezes-- > 0 ? TestClock.adjust("11 seconds") : Effect.void))
    return Effect.gen(function*() {
      yield* yield* write(recorded.hooks)
      assert.deepStrictEqual(recorded.ran, ["before", "onNoEffect", "before", "onNoEffect", "before"])
      assert.strictEqual(sent.length, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("an interruption during `before` undoes the write; an interruption after sending does not", () => {
    const { layer, sent } = withReplies({ silent: true })
    const early = recording(Effect.sleep("1 second"))
    const late = recording()
    return Effect.gen(function*() {
      const source = yield* Source
      const first = yield* Effect.forkChild(source.write(tag, early.hooks))
      yield* TestClock.adjust("500 millis")
      const stopped = yield* Effect.forkChild(Fiber.interrupt(first))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(stopped)
      assert.deepStrictEqual(early.ran, ["before", "onNoEffect"])
      assert.strictEqual(sent.length, 0)
      const second = yield* Effect.forkChild(source.write(tag, late.hooks))
      yield* TestClock.adjust("500 millis")
      assert.strictEqual(sent.length, 1)
      yield* Fiber.interrupt(second)
      assert.deepStrictEqual(late.ran, ["before"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a write fails with NotSent immediately, without another attempt, when its caller stops waiting", () => {
    const { layer, sent } = withReplies(limited({ "retry-after": "900" }))
    const recorded = recording()
    const aborted = new SlotWaitAborted({ message: "the process stops" })
    return Effect.gen(function*() {
      const source = yield* Source
      const error = yield* Effect.flip(
        yield* finished(
          yield* Effect.forkChild(
            Effect.provideService(
              source.write(tag, recorded.hooks),
              SlotWait,
              (slot) => Effect.raceFirst(slot, Effect.andThen(Effect.sleep("5 seconds"), Effect.fail(aborted)))
            )
          ),
          100
        )
      )
      if (error === "no" || error._tag !== "WriteError") return assert.fail("another error")
      assert.strictEqual(error.reason._tag, "NotSent")
      assert.strictEqual(error.reason.message, "the process stops")
      assert.deepStrictEqual(recorded.ran, ["before", "onNoEffect"])
      assert.strictEqual(sent.length, 1)
    }).pipe(Effect.provide(layer))
  })
})
