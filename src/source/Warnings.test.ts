import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as References from "effect/References"
import { count, read, withReplies } from "../../test/support/source/Replies.ts"

describe("warnings of the API", () => {
  it.effect("are counted, each text is logged once, and no personal data is logged (I11)", () => {
    const logged: Array<string> = []
    const logger = Logger.make<unknown, void>(({ fiber, message }) => {
      logged.push(JSON.stringify([message, fiber.getRef(References.CurrentLogAnnotations)]))
    })
    const warn = (message: string) => ({ message })
    const { layer } = withReplies({
      body: {
        status: "success",
        data: { next: null, results: [] },
        warnings: [
          warn("Candidate Ada Lovelace <ada@example.org> has no phone, id 4711"),
          warn("Candidate Bo Miller <bo@example.org> has no phone, id 4712"),
          warn('field "ssn 123" was dropped'),
          7,
          null
        ]
      }
    })
    return Effect.gen(function*() {
      yield* read()
      yield* read()
      assert.strictEqual(yield* count("rollcall_api_warnings_total", { endpoint: "ats.application" }), 6)
      assert.strictEqual(logged.length, 2)
      assert.include(logged[0], "has no phone")
      for (const secret of ["Ada", "Lovelace", "example", "4711", "ssn", "123"]) {
        assert.notInclude(logged.join(), secret)
      }
    }).pipe(
      Effect.provide(layer),
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(Metric.MetricRegistry, new Map())
    )
  })

  it.effect("of one response are logged at most 20 times, and the number of the others is logged", () => {
    const logged: Array<unknown> = []
    const logger = Logger.make<unknown, void>(({ fiber }) => {
      logged.push(fiber.getRef(References.CurrentLogAnnotations))
    })
    const words = ["limit", "rate", "field", "record", "value", "page", "scope"]
    const texts = words.flatMap((one) => words.map((other) => `unknown ${one} in ${other}`))
    const warnings = [...texts, ...Array.from({ length: 2000 }, (_, row) => `record 47${row} was dropped`)]
      .map((message) => ({ message }))
    const { layer } = withReplies({ body: { status: "success", data: { next: null, results: [] }, warnings } })
    return Effect.gen(function*() {
      yield* read()
      assert.lengthOf(logged, 21)
      assert.deepStrictEqual(logged.at(-1), { endpoint: "ats.application", unlogged: 49 - 20 + 1 + 2049 - 1000 })
      yield* read()
      yield* read()
      assert.lengthOf(new Set(logged.map((one) => JSON.stringify(one)).filter((one) => one.includes("warning"))), 50)
      assert.strictEqual(yield* count("rollcall_api_warnings_total", { endpoint: "ats.application" }), 3 * 2049)
    }).pipe(
      Effect.provide(layer),
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(Metric.MetricRegistry, new Map())
    )
  })
})
