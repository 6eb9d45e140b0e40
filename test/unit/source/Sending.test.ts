/** When a write leaves, and when its hooks run. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import { type SendHooks, SlotWait, SlotWaitAborted, Source } from "../../../src/source/Source.ts"
import { finished, limited, macrotask, refusal, type Reply, request, step, withKey, withReplies } from "./Replies.ts"
import { requests } from "./Requests.ts"

const done: Reply = { body: { status: "success", data: {}, warnings: [] } }
const tag = requests.addTag

/** Hooks that note when they ran. */
const noting = (before: Effect.Effect<void, "no"> = Effect.void) => {
  const ran: Array<string> = []
  const hooks: SendHooks<"no"> = {
    before: Effect.andThen(Effect.sync(() => void ran.push("before")), before),
    onNoEffect: Effect.sync(() => void ran.push("undone"))
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
    { replies: [limited({ "retry-after": "45" }), done], ran: ["before", "undone", "before"] },
    { replies: [refusal(400, "ATS.JOB_CLOSED")], ran: ["before", "undone"] },
    { replies: [refusal(500, null)], ran: ["before"] },
    { replies: [{ silent: true }], ran: ["before"] },
    {
      replies: [
        { failure: Object.assign(new Error("no"), { code: "ECONNREFUSED", syscall: "connect" }) },
        done
      ],
      ran: ["before", "undone", "before"]
    }
  ])("each try is allowed first, and what came to nothing is undone before the next one %#", ({ ran, replies }) => {
    const { layer } = withReplies(...replies)
    const noted = noting()
    return Effect.gen(function*() {
      yield* write(noted.hooks)
      assert.deepStrictEqual(noted.ran, ran)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a write whose repetition is safe is allowed each time, and not undone in between", () => {
    const { layer } = withReplies(refusal(500, null), { body: { status: "success", data: { id: "c" }, warnings: [] } })
    const noted = noting()
    return Effect.gen(function*() {
      const source = yield* Source
      yield* finished(yield* Effect.forkChild(source.write(requests.deactivateCourse, noted.hooks)))
      assert.deepStrictEqual(noted.ran, ["before", "before"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("nothing is sent, and nothing undone, where it is not allowed; its failure is the write's", () => {
    const { layer, sent } = withReplies(done)
    const noted = noting(Effect.fail("no"))
    return Effect.gen(function*() {
      const error = yield* Effect.flip(yield* write(noted.hooks))
      assert.strictEqual(error, "no")
      assert.deepStrictEqual(noted.ran, ["before"])
      assert.strictEqual(sent.length, 0)
    }).pipe(Effect.provide(layer))
  })

  it.effect("it is allowed only once the account's pause is over (R1)", () => {
    const { layer, sent } = withReplies(limited({ "retry-after": "900" }), done)
    const noted = noting()
    return Effect.gen(function*() {
      const source = yield* Source
      const fiber = yield* Effect.forkChild(source.write(tag, noted.hooks))
      for (let i = 0; i < 20; i++) yield* TestClock.adjust(step)
      yield* TestClock.adjust("14 minutes")
      assert.deepStrictEqual(noted.ran, ["before", "undone"])
      yield* finished(fiber)
      assert.deepStrictEqual(noted.ran, ["before", "undone", "before"])
      assert.strictEqual(sent.length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("what was allowed while another answer paused the account is undone and waits with the others (R1)", () => {
    const { layer, sent } = withReplies(limited({ "retry-after": "300" }), done)
    return Effect.gen(function*() {
      const source = yield* Source
      // its check takes a second, in which a read is refused for the rate limit
      const noted = noting(Effect.sleep("1 second"))
      const writing = yield* Effect.forkChild(source.write(tag, noted.hooks))
      yield* macrotask
      const reading = yield* Effect.forkChild(source.page(request))
      for (let i = 0; i < 50; i++) yield* Effect.andThen(macrotask, TestClock.adjust(step))
      assert.strictEqual(sent.length, 1)
      assert.deepStrictEqual(noted.ran, ["before", "undone"])
      yield* yield* finished(writing)
      assert.deepStrictEqual(noted.ran, ["before", "undone", "before"])
      assert.isAtLeast(sent[1]?.at ?? 0, 300_000)
      yield* Fiber.interrupt(reading)
    }).pipe(Effect.provide(layer))
  })

  it.effect("it carries the key of the moment at which it leaves, not of that at which it began to wait", () => {
    let key = "first"
    const { layer, sent } = withKey(Effect.sync(() => Redacted.make(key)), limited({ "retry-after": "300" }), done)
    return Effect.gen(function*() {
      const source = yield* Source
      const fiber = yield* Effect.forkChild(source.write(requests.addResultLink, noting().hooks))
      for (let i = 0; i < 20; i++) yield* Effect.andThen(macrotask, TestClock.adjust(step))
      key = "second"
      yield* finished(fiber)
      assert.deepStrictEqual(sent.map(({ request }) => request.headers["authorization"]), [
        "Bearer first",
        "Bearer second"
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a process that stood still after it was allowed does not send: it asks again (X16)", () => {
    const { layer, sent } = withReplies(done)
    let freezes = 2
    const noted = noting(Effect.suspend(() => freezes-- > 0 ? TestClock.adjust("11 seconds") : Effect.void))
    return Effect.gen(function*() {
      yield* yield* write(noted.hooks)
      assert.deepStrictEqual(noted.ran, ["before", "undone", "before", "undone", "before"])
      assert.strictEqual(sent.length, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("interrupted while it is allowed it is undone and does not leave; once it left it stays open", () => {
    const { layer, sent } = withReplies({ silent: true })
    const early = noting(Effect.sleep("1 second"))
    const late = noting()
    return Effect.gen(function*() {
      const source = yield* Source
      const first = yield* Effect.forkChild(source.write(tag, early.hooks))
      yield* TestClock.adjust("500 millis")
      const stopped = yield* Effect.forkChild(Fiber.interrupt(first))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(stopped)
      assert.deepStrictEqual(early.ran, ["before", "undone"])
      assert.strictEqual(sent.length, 0)
      const second = yield* Effect.forkChild(source.write(tag, late.hooks))
      yield* TestClock.adjust("500 millis")
      assert.strictEqual(sent.length, 1)
      yield* Fiber.interrupt(second)
      assert.deepStrictEqual(late.ran, ["before"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("it is NotSent at once, and not tried again, when its caller stops waiting", () => {
    const { layer, sent } = withReplies(limited({ "retry-after": "900" }))
    const noted = noting()
    const giveUp = new SlotWaitAborted({ message: "the process stops" })
    return Effect.gen(function*() {
      const source = yield* Source
      const error = yield* Effect.flip(
        yield* finished(
          yield* Effect.forkChild(
            Effect.provideService(
              source.write(tag, noted.hooks),
              SlotWait,
              (turn) => Effect.raceFirst(turn, Effect.andThen(Effect.sleep("5 seconds"), Effect.fail(giveUp)))
            )
          ),
          100
        )
      )
      if (error === "no" || error._tag !== "WriteError") return assert.fail("another error")
      assert.strictEqual(error.reason._tag, "NotSent")
      assert.strictEqual(error.reason.message, "the process stops")
      assert.deepStrictEqual(noted.ran, ["before", "undone"])
      assert.strictEqual(sent.length, 1)
    }).pipe(Effect.provide(layer))
  })
})
