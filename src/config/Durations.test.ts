import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Option, Schema } from "effect"
import { settingsOf } from "../../test/support/config/Checked.ts"
import * as Retry from "../delivery/engine/Retry.ts"
import { parseDuration, toDuration } from "../domain/DurationText.ts"
import { SpreadDuration } from "../http/contract/DeadLetterApi.ts"
import * as Plugin from "../plugin/Plugin.ts"
import { parseShortDuration } from "./ConfigValue.ts"

const texts = ["200 milliseconds", "1 millisecond", "200 millis", "0.5 seconds", "2 minutes", "1 hour", "1 week"]

describe("a duration", () => {
  it("is a number and a unit, also milliseconds", () => {
    assert.deepStrictEqual(
      texts.map((text) => Option.map(parseDuration(text), Duration.toMillis)),
      [200, 1, 200, 500, 120_000, 3_600_000, 604_800_000].map(Option.some)
    )
    for (
      const other of ["200", "milliseconds", "200ms", "200 millisecondss", "5 ", "soon", "", null, {}, "1 milli second"]
    ) {
      assert.isTrue(Option.isNone(parseDuration(other)) || typeof other === "object", String(other))
    }
  })

  it("is passed on as it is, and a text that is none fails by name", () => {
    assert.strictEqual(Duration.toMillis(toDuration(Duration.millis(7))), 7)
    assert.throws(() => toDuration("200 parsecs" as never), /"200 parsecs" is not a duration/)
  })

  it.effect("of milliseconds is accepted in the configuration, on the command line and over HTTP", () =>
    Effect.gen(function*() {
      const { retryBase } = yield* settingsOf({ ROLLCALL_RETRY_BASE: "200 milliseconds" })
      assert.strictEqual(Duration.toMillis(retryBase), 200)
      assert.deepStrictEqual(Option.map(parseShortDuration("200 milliseconds"), Duration.toMillis), Option.some(200))
      assert.strictEqual(Schema.decodeUnknownSync(SpreadDuration)("200 milliseconds"), "200 milliseconds")
      assert.strictEqual(Schema.decodeUnknownSync(SpreadDuration)("0 seconds"), "0 seconds")
      for (const text of ["-5 minutes", "-Infinity", "Infinity", "soon"]) {
        assert.throws(() => Schema.decodeUnknownSync(SpreadDuration)(text), /write a number and a unit/, text)
      }
    }))

  it("of milliseconds is accepted wherever a plugin names a duration", () => {
    const plugin = Plugin.make("quick")
      .on("ats.tag.created", {
        timeout: "200 milliseconds",
        retry: { first: "100 milliseconds", longest: "400 milliseconds" }
      }, () => Effect.void)
      .batch("ats.tag.updated", { size: 2, within: "200 milliseconds" }, () => Effect.void)
      .every("200 milliseconds", { as: "often" }, () => Effect.void)
    assert.deepStrictEqual(plugin.issues, [])
    assert.deepStrictEqual([1, 2, 9].map((failures) => Retry.backoff(plugin.handlers[0]!.options, failures)), [
      100,
      200,
      400
    ])
    assert.strictEqual(Duration.toMillis(Plugin.RateLimited.after("200 milliseconds").retryAfter), 200)
  })
})
