import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { diskSpaceOf } from "./DiskSpace.ts"

describe("the space on the disk", () => {
  it.effect("is what is free for this user, and the whole", () =>
    Effect.gen(function*() {
      const space = yield* diskSpaceOf("/data", () => Promise.resolve({ bavail: 3, blocks: 10, bsize: 4096 }))
      assert.deepStrictEqual(space, { freeBytes: 12_288, totalBytes: 40_960 })
    }))

  it.effect("is unknown without a folder, and if it cannot be read", () =>
    Effect.gen(function*() {
      assert.isNull(yield* diskSpaceOf(null))
      assert.isNull(yield* diskSpaceOf("/data", () => Promise.reject(new Error("no such file"))))
    }))

  it.effect("is unknown after half a second if the disk does not respond", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(diskSpaceOf("/data", () => new Promise(() => undefined)))
      yield* TestClock.adjust("500 millis")
      assert.isNull(yield* Fiber.join(fiber))
    }))
})
