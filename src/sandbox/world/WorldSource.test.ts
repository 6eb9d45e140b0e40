import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { type PageRequest, Source } from "../../source/Source.ts"
import { World } from "./World.ts"
import * as WorldSource from "./WorldSource.ts"

const start = Date.parse("2026-03-01T12:00:00.250Z")
const request: PageRequest = {
  account: "default",
  integration: "greenhouse:acme",
  model: "ats.application",
  priority: "poll",
  cursor: null,
  updatedAfter: null,
  ids: null
}
const world = (speed = 0) => World.make({ seed: 7, start, records: 60, integrations: 2, speed })

describe("the world as a source", () => {
  it.effect("shows the current records, deleted ones included, with the server's date in whole seconds", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const source = yield* Source
      const first = yield* source.page(request)
      assert.deepStrictEqual([first.results.length, first.next, first.serverTime, first.requestedAt], [
        60,
        null,
        start - 250,
        start
      ])
      yield* TestClock.adjust("1 minute")
      const { results } = yield* source.page({ ...request, updatedAfter: start })
      assert.isNotEmpty(results)
    }).pipe(Effect.provide(WorldSource.layer(world(2000)))))

  it.effect("continues from a cursor, and returns only the requested ids", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const source = yield* Source
      const first = yield* source.page(request)
      const second = yield* source.page({ ...request, cursor: first.next })
      assert.deepStrictEqual([first.results.length, second.results.length, second.next], [40, 20, null])
      const id = (first.results[3] as { readonly id: string }).id
      const one = yield* source.page({ ...request, ids: [id, "no such id"] })
      assert.deepStrictEqual(one.results, [first.results[3]])
    }).pipe(Effect.provide(WorldSource.layer(world(), { pageSize: 40 }))))

  it.effect("may have a clock that differs from the client's (W4)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const { requestedAt, serverTime } = yield* (yield* Source).page(request)
      assert.deepStrictEqual([requestedAt, serverTime], [start, start - 250 + 120_000])
    }).pipe(Effect.provide(WorldSource.layer(world(), { skew: "2 minutes" }))))

  it.effect("reports a missing model as unsupported and rejects a foreign cursor (C1)", () =>
    Effect.gen(function*() {
      const source = yield* Source
      const lacking = yield* Effect.flip(source.page({ ...request, model: "hris.skill" }))
      const foreign = yield* Effect.flip(source.page({ ...request, cursor: "nonsense" }))
      assert.deepStrictEqual([lacking.reason._tag, foreign.reason._tag], ["Unsupported", "Rejected"])
    }).pipe(Effect.provide(WorldSource.layer(world()))))
})
