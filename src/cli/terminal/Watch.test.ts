import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { frameOf, watch } from "./Watch.ts"

/** A terminal of five rows that keeps what is written to it. */
const makeTerminal = () => {
  const written: Array<string> = []
  return { written, rows: () => 5, write: (text: string) => void written.push(text) }
}

describe("a screen that is redrawn", () => {
  it("a frame starts at the top, clears what was below it, and escapes names", () => {
    assert.strictEqual(frameOf("a\nb\u001b[2J", 5), "\u001b[Ha\u001b[K\n" + String.raw`b\u001b[2J` + "\u001b[K\u001b[J")
  })

  it("a frame is never higher than the terminal, and says how many lines are missing", () => {
    const lines = frameOf("1\n2\n3\n4\n5\n6\n7", 5).replaceAll("\u001b[K", "").replace("\u001b[H", "").split("\n")
    assert.deepStrictEqual(lines, ["1", "2", "3", "4", "… 3 more lines\u001b[J"])
    assert.notInclude(frameOf("1\n2\n3\n4\n5", 5), "more lines")
  })

  it.effect("it is drawn every two seconds, and an end gives the terminal back with the last frame", () =>
    Effect.gen(function*() {
      const terminal = makeTerminal()
      let drawn = 0
      const fiber = yield* Effect.forkChild(watch(Effect.sync(() => `frame ${++drawn}`), terminal), {
        startImmediately: true
      })
      yield* TestClock.adjust("5 seconds")
      const [enter, first, ...others] = terminal.written
      assert.isTrue(enter?.startsWith("\u001b[?1049h"))
      assert.include(first, "frame 1")
      assert.strictEqual(others.length, 2)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(terminal.written.at(-1)?.endsWith("\u001b[?1049lframe 3\n"))
      assert.strictEqual(terminal.written.length, 5)
    }))

  it.effect("it stays and shows the error while the process does not answer", () =>
    Effect.gen(function*() {
      const terminal = makeTerminal()
      const down = new Error("no Rollcall process answers")
      let answers: Effect.Effect<string, Error> = Effect.succeed("ready")
      const fiber = yield* Effect.forkChild(watch(Effect.suspend(() => answers), terminal), { startImmediately: true })
      answers = Effect.fail(down)
      yield* TestClock.adjust("2 seconds")
      assert.match(terminal.written.at(-1) ?? "", /no Rollcall process answers/)
      answers = Effect.succeed("ready again")
      yield* TestClock.adjust("2 seconds")
      assert.match(terminal.written.at(-1) ?? "", /ready again/)
      yield* Fiber.interrupt(fiber)
    }))
})
