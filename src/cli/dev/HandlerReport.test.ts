import { assert, describe, it } from "@effect/vitest"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as TestClock from "effect/testing/TestClock"
import { stripVTControlCharacters } from "node:util"
import * as Plugin from "../../plugin/Plugin.ts"
import { type Attempt, attemptText, withReport } from "./HandlerReport.ts"

/** The report of one attempt of a handler with this result, without its time. */
const reportOf = (result: Plugin.HandlerEffect, input: unknown = { recordId: "r1" }) =>
  Effect.gen(function*() {
    const lines: Array<string> = []
    const show = (attempt: Attempt) =>
      Effect.sync(() => void lines.push(stripVTControlCharacters(attemptText(attempt)).slice("00:00:00Z  ".length)))
    const plugin = withReport(Plugin.make("p").on("ats.tag.created", {}, () => result) as Plugin.Plugin<unknown>, show)
    // these handlers use no capability; each handler needs a client, whose requests end with it
    yield* Effect.exit(plugin.handlers[0]?.run(input, {}) as Effect.Effect<void, unknown, HttpClient.HttpClient>).pipe(
      Effect.provideService(HttpClient.HttpClient, HttpClient.make(() => Effect.never))
    )
    return lines.join("\n").replaceAll(/ {2,}/g, "  ")
  })

describe("the report of a handler", () => {
  it.effect("says that an attempt is done, for a record, for several events, or for a tick", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* reportOf(Effect.void), "ats.tag.created  r1  done")
      assert.strictEqual(yield* reportOf(Effect.void, [{}, {}]), "ats.tag.created  2 events  done")
      assert.strictEqual(yield* reportOf(Effect.void, { from: "0" }), "ats.tag.created  tick  done")
    }))

  it.effect("says what happens after each kind of failure, and names every fault of an invalid write", () =>
    Effect.gen(function*() {
      const faults = [{ path: "/body/tag/name", rule: "shape", message: "must be a string" }]
      assert.include(yield* reportOf(Effect.fail(new Plugin.Transient({ message: "busy" }))), "  tried again: busy")
      assert.include(yield* reportOf(Effect.fail(Plugin.RateLimited.after("30 seconds"))), "  tried again in 30s")
      assert.include(
        yield* reportOf(Effect.fail(new Plugin.Blocked({ message: "no key" }))),
        "  tried again every minute: no key"
      )
      assert.include(
        yield* reportOf(Effect.fail(new Plugin.Permanent({ message: "no", faults }))),
        "  dead letter: no\n  /body/tag/name must be a string"
      )
    }))

  it.effect("names the timeout of a handler that did not end in time; another interruption has no cause in the handler", () =>
    Effect.gen(function*() {
      const reportAfter = Effect.fnUntraced(function*(wait: Duration.Input) {
        const fiber = yield* Effect.forkChild(reportOf(Effect.andThen(Effect.sleep(wait), Effect.interrupt)))
        yield* TestClock.adjust(wait)
        return yield* Fiber.join(fiber)
      })
      assert.include(
        yield* reportAfter("30 seconds"),
        "  tried again: the handler did not end within its timeout of 30s"
      )
      assert.include(yield* reportAfter("29 seconds"), "  interrupted")
    }))

  it.effect("shows of a bug's stack only the calls of the plugin", () =>
    Effect.gen(function*() {
      const places = [
        "file:///app/plugins/p/plugin.ts:3:1",
        "file:///app/node_modules/effect/a.js:1:1",
        "node:events:1:1"
      ]
      const stack = ["Error: oops", ...places.map((place) => `    at run (${place})`)].join("\n")
      assert.strictEqual(
        yield* reportOf(Effect.die(Object.assign(new Error("oops"), { stack }))),
        `ats.tag.created  r1  a bug in the handler\n  Error: oops\n  at run (${places[0]})`
      )
    }))
})
