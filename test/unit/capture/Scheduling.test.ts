import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { Transient, Unsupported } from "../../../src/source/Source.ts"
import { running, stateOf } from "./Capturing.ts"
import * as Scripted from "./ScriptedApi.ts"

const broken = Scripted.refuse(new Transient({ code: null, message: "502" }))

describe("Capture, when several things happen to a stream", () => {
  it.effect("C1: a blocked stream whose probe fails for another reason is tried again as rarely as any that fails", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        api.intercept = () => Scripted.refuse(new Unsupported({ code: "X", message: "m" }))
        yield* TestClock.adjust("2 minutes")
        const before = api.requests.length
        const since = () => api.requests.length - before
        api.intercept = () => since() > 100 ? Effect.never : broken
        yield* TestClock.adjust("25 hours")
        assert.isAtLeast(since(), 3)
        assert.isAtMost(since(), 15)
        assert.strictEqual((yield* stateOf("ats.application")).blocked?.reason, "unsupported")
      })
    ))
})
