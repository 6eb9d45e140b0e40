import { assert, describe, it, vi } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { stripVTControlCharacters } from "node:util"
import * as Logging from "./Logging.ts"

/** The text that an effect writes to standard error with this logger. */
const written = (options: Parameters<typeof Logging.layer>[0], effect: Effect.Effect<void>) =>
  Effect.gen(function*() {
    const listeners = process.listeners("warning")
    const chunks: Array<string> = []
    const spy = vi.spyOn(process.stderr, "write").mockImplementation((chunk) => {
      chunks.push(String(chunk))
      return true
    })
    yield* Effect.provide(effect, Logging.layer(options)).pipe(
      Effect.ensuring(Effect.sync(() => {
        spy.mockRestore()
        process.removeAllListeners("warning")
        for (const listener of listeners) process.on("warning", listener)
      }))
    )
    return stripVTControlCharacters(chunks.join(""))
  })

const json = { level: "info", format: "json" } as const
const pretty = { level: "info", format: "pretty" } as const

describe("Logging", () => {
  it.effect("a fact is one line of JSON with its data", () =>
    Effect.gen(function*() {
      const text = yield* written(json, Effect.annotateLogs(Effect.logInfo("page committed"), { stream: "a", rows: 3 }))
      assert.deepStrictEqual(JSON.parse(text), {
        time: "1970-01-01T00:00:00.000Z",
        level: "info",
        message: "page committed",
        stream: "a",
        rows: 3
      })
      assert.strictEqual(text.indexOf("\n"), text.length - 1)
    }))

  it.effect("a fact is one line in the pretty format too", () =>
    Effect.gen(function*() {
      const text = yield* written(pretty, Effect.annotateLogs(Effect.logWarning("page late"), { rows: 3 }))
      assert.match(text, /^\d\d:\d\d:\d\dZ WARN {2}page late {2}rows=3\n$/)
    }))

  it.effect("a name cannot control the terminal or forge a line, in either format", () =>
    Effect.gen(function*() {
      const name = "x\u001b[2J\u009b\u202e\n12:00:00 ERROR forged"
      const fact = Effect.annotateLogs(Effect.logInfo(`read ${name}`, Cause.fail(new Error(name))), { name })
      for (const options of [json, pretty]) {
        const text = yield* written(options, fact)
        assert.notMatch(text.slice(0, -1), /[\p{Cc}\p{Cf}]/u)
        assert.include(text, String.raw`x\u001b[2J\u009b\u202e\n12:00:00 ERROR forged`)
      }
      assert.deepInclude(JSON.parse(yield* written(json, fact)), { name, message: `read ${name}` })
    }))

  it.effect("lines below the level are not written", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* written(json, Effect.logDebug("detail")), "")
    }))

  it.effect("an expected failure is logged without a stack, and a defect with a stack, in JSON as one field", () =>
    Effect.gen(function*() {
      const failed = yield* written(json, Effect.logError("gave up", Cause.fail(new Error("no answer"))))
      assert.deepInclude(JSON.parse(failed), { message: "gave up", error: "no answer" })
      assert.notProperty(JSON.parse(failed), "stack")
      const died = yield* written(json, Effect.logError("broke", Cause.die(new Error("impossible"))))
      assert.include(JSON.parse(died).stack, "impossible")
      assert.strictEqual(died.indexOf("\n"), died.length - 1)
    }))

  it.effect("a value that is not JSON does not fail the code that logs it, in either format", () =>
    Effect.gen(function*() {
      const cyclic: Record<string, unknown> = {}
      cyclic["self"] = cyclic
      const unreadable = Object.assign(new Error("x"), { message: Object.create(null) })
      for (const value of [cyclic, 12n, { count: 12n }, unreadable]) {
        const fact = Effect.annotateLogs(Effect.logInfo("read", value, Cause.die(value)), { value, rows: 3 })
        assert.include(yield* written(json, fact), '"rows":3')
        assert.include(yield* written(pretty, fact), "rows=3")
      }
      assert.include(yield* written(json, Effect.logInfo("read", { count: 12n })), "12")
    }))

  it.effect("a secret is redacted in messages and data (I11)", () =>
    Effect.gen(function*() {
      const key = Redacted.make("s3cret")
      for (const options of [json, pretty]) {
        assert.notInclude(
          yield* written(options, Effect.annotateLogs(Effect.logInfo("key", key, { key }), { key })),
          "s3cret"
        )
      }
    }))

  it.effect("Node's own warnings are log lines, and the timer warnings of kafkajs are left out", () =>
    Effect.gen(function*() {
      const warn = (name: string) =>
        Effect.sync(() => process.emit("warning", Object.assign(new Error("something"), { name })))
      const text = yield* written(json, Effect.andThen(warn("TimeoutNegativeWarning"), warn("DeprecationWarning")))
      assert.deepInclude(JSON.parse(text), { level: "warn", message: "something", name: "DeprecationWarning" })
    }))
})
