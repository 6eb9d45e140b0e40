/** The store check of `/health/ready` while no fresh overview can be read. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { OlderCopy, type Outage, Store, StoreError, Unavailable } from "../../store/Store.ts"
import { StoreFault } from "../../store/StoreFault.ts"
import type { Overview } from "../status/Overview.ts"
import { checkReadiness } from "./HealthHandlers.ts"

const nothing: Overview = { streams: [], redacting: [], integrations: [], holds: [] }
const late = new Unavailable({ operation: "overview", cause: new StoreFault("silent", "the store") })

const checksOf = (stale: StoreError["reason"] | null, outage: Outage | null) =>
  Effect.flatMap(Store, (store) =>
    Effect.provideService(
      checkReadiness(
        Effect.succeed({ value: nothing, stale: stale === null ? null : new StoreError({ reason: stale }) }),
        []
      ),
      Store,
      { ...store, outage: Effect.succeed(outage) }
    )).pipe(Effect.provideService(Store, Store.of({} as Store["Service"])))

describe("readiness of the store", () => {
  it.effect("does not depend on how long the overview of a large store takes", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* checksOf(late, null), [{ name: "store", ok: true, reason: null }])
    }))

  it.effect("names an outage and its start", () =>
    Effect.gen(function*() {
      const [check] = yield* checksOf(late, { message: "the database does not answer", hint: "look at it", since: 0 })
      assert.deepStrictEqual(check, {
        name: "store",
        ok: false,
        reason: "the database does not answer, since 1970-01-01T00:00:00.000Z; look at it"
      })
    }))

  it.effect("names a permanent error although no outage is known", () =>
    Effect.gen(function*() {
      const [check] = yield* checksOf(new OlderCopy({ missing: 1 }), null)
      assert.isFalse(check?.ok)
      assert.include(check?.reason, "older copy of the store")
    }))
})
