import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import * as PluginAdmin from "../../delivery/admin/PluginAdmin.ts"
import type { Cached } from "../status/OverviewCache.ts"
import { OverviewCache } from "../status/OverviewCache.ts"
import { SharedOverview } from "./SharedOverview.ts"

const start = Date.parse("2026-03-02T12:00:00Z")

/** The value as it is read now. */
const readNow = <A>(value: A): Effect.Effect<Cached<A>> =>
  Effect.map(Clock.currentTimeMillis, (at) => ({ value, at, stale: null }))

const cache = Layer.mock(OverviewCache)({
  overview: readNow({
    streams: [],
    redacting: [],
    integrations: [],
    keptRecords: new Map(),
    holds: [],
    log: { newestPosition: 0, published: 0, unpublishedSince: null }
  }),
  plugins: readNow({ items: [], next: null, writes: "on", delivering: { state: "running", reason: null } }),
  processes: readNow([])
})

const shared = SharedOverview.layer({ folder: null, publishes: false }).pipe(
  Layer.provide([cache, PluginAdmin.none, MemoryStore.layer()])
)

describe("the state that all clients share", () => {
  it.effect("is read again after its pause even if our clock was set back (W4)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const { get, pause } = yield* SharedOverview
      assert.strictEqual((yield* get(false)).at, start)
      yield* TestClock.adjust((yield* pause) - 1)
      assert.strictEqual((yield* get(false)).at, start)
      yield* TestClock.setTime(start - 3_600_000)
      yield* TestClock.adjust("1 milli")
      assert.strictEqual((yield* get(false)).at, start - 3_599_999)
    }).pipe(Effect.provide(shared)))
})
