import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { builtInModels } from "../../domain/BuiltInModels.ts"
import * as FailureLog from "./FailureLog.ts"

const models = ["ats.application", "ats.candidate", "ats.offer", "ats.scorecard", "ats.tag", "hris.skill"] as const
const integrations = 300

const keys = Array.from(
  { length: integrations },
  (_, number) => models.map((model) => ({ integration: `lever:${number}`, model }))
).flat()
const failing = { count: 1, message: "the API answered with status 502", since: 0 }

describe("FailureLog", () => {
  it.effect("an outage of all streams is one warning per integration, and so is its end", () => {
    const lines = new Map<string, number>()
    const logger = Logger.make<unknown, void>(({ message }) =>
      void lines.set(String(message), (lines.get(String(message)) ?? 0) + 1)
    )
    return Effect.gen(function*() {
      const log = FailureLog.make(builtInModels)
      // each stream fails twice
      for (const key of [...keys, ...keys]) yield* log.failed({ ...key, blocked: null, failing }, "default")
      assert.deepStrictEqual([...lines], [["run failed", integrations]])
      for (const key of keys) yield* log.recovered(key)
      assert.deepStrictEqual([...lines], [["run failed", integrations], ["stream recovered", integrations]])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("a key that the API refuses is one warning for the whole account, and so is its end", () => {
    const lines: Array<unknown> = []
    const logger = Logger.make<unknown, void>(({ fiber, message }) => {
      lines.push([String(message), fiber.getRef(References.CurrentLogAnnotations)])
    })
    return Effect.gen(function*() {
      const log = FailureLog.make(builtInModels)
      const blocked = { reason: "key", code: "X", message: "the key is wrong (check the key)", since: 0 } as const
      const [first, ...others] = keys
      for (const key of keys) yield* log.failed({ ...key, blocked, failing: null }, "eu")
      yield* log.failed({ ...first!, blocked, failing: null }, "us")
      const detailsOf = (account: string) => ({ account, request: "GET /ats/applications", why: blocked.message })
      assert.deepStrictEqual(lines.splice(0), [
        ["account blocked: key", detailsOf("eu")],
        ["account blocked: key", detailsOf("us")]
      ])
      for (const key of others) yield* log.recovered(key)
      assert.deepStrictEqual(lines, [["account recovered", { account: "eu" }]])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("names the request, and the page of the API's log, which does not make the cause another one", () => {
    const lines: Array<unknown> = []
    const logger = Logger.make<unknown, void>(({ fiber }) => {
      lines.push(fiber.getRef(References.CurrentLogAnnotations))
    })
    return Effect.gen(function*() {
      const log = FailureLog.make(builtInModels)
      const key = { integration: "lever:1", blocked: null } as const
      yield* log.failed(
        { ...key, model: "ats.tag", failing: { ...failing, logUrl: "https://logs.example.com/1" } },
        "default"
      )
      yield* log.failed(
        { ...key, model: "ats.offer", failing: { ...failing, logUrl: "https://logs.example.com/2" } },
        "default"
      )
      assert.deepStrictEqual(lines, [{
        integration: "lever:1",
        model: "ats.tag",
        request: "GET /ats/tags",
        why: failing.message,
        logUrl: "https://logs.example.com/1"
      }])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("a stream whose failure only this process's predecessor logged does not hide the warning of another one", () => {
    const lines: Array<string> = []
    const logger = Logger.make<unknown, void>(({ message }) => void lines.push(String(message)))
    return Effect.gen(function*() {
      const log = FailureLog.make(builtInModels)
      const [first, second, third] = keys
      const failed = (key: typeof first) => ({ ...key!, blocked: null, failing })
      log.remember(failed(first), "default")
      yield* log.failed(failed(second), "default")
      yield* log.failed(failed(third), "default")
      assert.deepStrictEqual(lines, ["run failed"])
      log.drop(second!)
      log.drop(third!)
      yield* log.failed(failed(second), "default")
      assert.deepStrictEqual(lines, ["run failed", "run failed"])
      log.drop(second!)
      yield* log.recovered(first!)
      assert.deepStrictEqual(lines, ["run failed", "run failed", "stream recovered"])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })
})
