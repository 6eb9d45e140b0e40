/** How a handler makes a failure, also in plain JavaScript, where no compiler checks the arguments. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import * as Testing from "../testing/Testing.ts"
import * as Plugin from "./Plugin.ts"

const tag = Testing.event("ats.tag.created", {})
const deliver = (fail: () => unknown) =>
  Testing.make(
    Plugin.make("failing").on("ats.tag.created", { attempts: 2 }, async () => {
      await Promise.resolve()
      throw fail()
    })
  ).deliver(tag)

/** Calls a constructor as plain JavaScript does. */
const construct = (constructor: unknown, ...given: ReadonlyArray<unknown>): unknown =>
  Reflect.construct(constructor as new() => unknown, given)

const failures = ["Transient", "Blocked", "Permanent"] as const

describe("a failure of a handler", () => {
  it.each(failures)("%s takes its message alone, or as a property", async (name) => {
    for (const given of ["no route to chat.example", { message: "no route to chat.example" }]) {
      const { failure } = await deliver(() => new Plugin[name](given))
      assert.deepInclude(failure, { _tag: name, message: "no route to chat.example" })
    }
  })

  it("RateLimited takes its wait as a text, a number of milliseconds or a duration", () => {
    for (const wait of ["30 seconds", 30_000, Duration.seconds(30)] as const) {
      assert.deepStrictEqual(Plugin.RateLimited.after(wait).retryAfter, Duration.seconds(30))
      assert.deepStrictEqual(new Plugin.RateLimited({ retryAfter: wait }).retryAfter, Duration.seconds(30))
    }
  })

  it.each(failures)("%s without a message names the mistake and the fix", async (name) => {
    for (const given of [undefined, null, {}, { mesage: "no" }, { message: 5 }, 5]) {
      const { failure } = await deliver(() => construct(Plugin[name], given))
      assert.deepInclude(failure, {
        _tag: "Defect",
        message: `Plugin.${name} needs a message: write new Plugin.${name}("chat.example answered 410")`
      })
    }
  })

  it("RateLimited without a duration names the mistake and the fix, but not the value (I11)", async () => {
    const message = `Plugin.RateLimited needs a duration: write Plugin.RateLimited.after("30 seconds")`
    for (const given of [undefined, null, {}, "30 seconds", { retryAfter: "Erika Mustermann" }]) {
      const { failure } = await deliver(() => construct(Plugin.RateLimited, given))
      assert.deepInclude(failure, { _tag: "Defect", message }, String(given))
    }
    const { failure } = await deliver(() => Plugin.RateLimited.after(JSON.parse(`"30 secs"`)))
    assert.deepInclude(failure, { _tag: "Defect", message })
  })

  it("is decoded from its JSON", () => {
    const failure = new Plugin.Permanent({ message: "no", refusal: "JobClosed" })
    const json = Schema.toCodecJson(Plugin.Permanent)
    const decoded = Schema.decodeUnknownSync(json)(Schema.encodeSync(json)(failure))
    assert.instanceOf(decoded, Plugin.Permanent)
    assert.deepInclude(decoded, { message: "no", refusal: "JobClosed" })
  })
})
