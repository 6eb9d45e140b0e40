import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { holdView } from "../../../test/support/http/HoldViews.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import * as PluginAdmin from "../../delivery/admin/PluginAdmin.ts"
import type { PluginList } from "../contract/PluginApi.ts"
import type { Cached } from "../status/OverviewCache.ts"
import { OverviewCache } from "../status/OverviewCache.ts"
import type { StoreOverview } from "../status/StoreOverview.ts"
import { SharedOverview } from "./SharedOverview.ts"

const start = Date.parse("2026-03-02T12:00:00Z")

/** The value as it is read now. */
const readNow = <A>(value: A): Effect.Effect<Cached<A>> =>
  Effect.map(Clock.currentTimeMillis, (at) => ({ value, at, stale: null }))

const nothing = {
  streams: [],
  redacting: [],
  integrations: [],
  keptRecords: new Map(),
  holds: [],
  log: { newestPosition: 0, published: 0, unpublishedSince: null }
}
const noPlugins = { items: [], next: null, writes: "on", delivering: { state: "running", reason: null } } as const

const sharedOf = (overview: StoreOverview, plugins: PluginList = noPlugins) =>
  SharedOverview.layer({ folder: null, publishes: false }).pipe(Layer.provide([
    Layer.mock(OverviewCache)({ overview: readNow(overview), plugins: readNow(plugins), processes: readNow([]) }),
    PluginAdmin.none,
    MemoryStore.layer()
  ]))

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
    }).pipe(Effect.provide(sharedOf(nothing))))

  it.effect("leaves out holds before other matters, if there are too many", () => {
    const holds = Array.from({ length: 250 }, (_, id) => ({ ...holdView, id }))
    return Effect.gen(function*() {
      const { view } = yield* (yield* SharedOverview).get(true)
      assert.deepStrictEqual([view.matters.length, view.omitted, view.matters.at(-1)?.kind], [200, 51, "switched_off"])
    }).pipe(Effect.provide(sharedOf({ ...nothing, holds }, { ...noPlugins, writes: "stopped" })))
  })
})
