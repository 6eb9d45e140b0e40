/** The store check of `/health/ready` while no fresh overview can be read. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { OlderCopy, type Outage, Store, StoreError, Unavailable } from "../../store/Store.ts"
import { StoreFault } from "../../store/StoreFault.ts"
import type { StoreOverview } from "../status/StoreOverview.ts"
import { checkReadiness, type Dependency } from "./HealthHandlers.ts"

const nothing: StoreOverview = {
  streams: [],
  redacting: [],
  keptRecords: new Map(),
  integrations: [],
  holds: [],
  log: { newestPosition: 0, published: 0, unpublishedSince: null }
}
const late = new Unavailable({ operation: "overview", cause: new StoreFault("silent", "the store") })

const checksOf = (stale: StoreError["reason"] | null, outage: Outage | null) =>
  Effect.flatMap(Store, (store) =>
    Effect.provideService(
      checkReadiness({
        overview: Effect.succeed({ value: nothing, stale: stale === null ? null : new StoreError({ reason: stale }) }),
        isOwn: () => true,
        dependencies: []
      }),
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

/** The checks of a process that owns the streams of `greenhouse:own`, besides that of the store. */
const checks = (overview: StoreOverview, dependencies: ReadonlyArray<Dependency>) =>
  checkReadiness({
    overview: Effect.succeed({ value: overview, stale: null }),
    isOwn: (integration) => integration === "greenhouse:own",
    dependencies
  }).pipe(
    Effect.map((all) => all.slice(1)),
    Effect.provideService(Store, Store.of({ outage: Effect.succeed(null) } as Store["Service"]))
  )

describe("readiness of a process", () => {
  const stream = (integration: string) =>
    ({
      stream: `${integration}/ats.tag`,
      integration,
      phase: "starting",
      paused: false,
      blocked: null,
      failing: null
    }) as StoreOverview["streams"][number]

  it.effect("does not depend on the streams of another process", () =>
    Effect.gen(function*() {
      const streams = [stream("greenhouse:own"), stream("greenhouse:other")]
      const reason = "greenhouse:own/ats.tag waits for its first response from the API"
      assert.deepStrictEqual(yield* checks({ ...nothing, streams }, []), [
        { name: "stream greenhouse:own/ats.tag", ok: false, reason }
      ])
    }))

  it.effect("is given although another process publishes, with the progress of that process as a remark", () =>
    Effect.gen(function*() {
      const kafka: Dependency = {
        name: "kafka",
        problem: Effect.succeed(null),
        remark: (overview) =>
          Effect.succeed(overview && `${overview.log.newestPosition - overview.log.published} behind`)
      }
      const log = { newestPosition: 70, published: 58, unpublishedSince: 0 }
      assert.deepStrictEqual(yield* checks({ ...nothing, log }, [kafka]), [
        { name: "kafka", ok: true, reason: "12 behind" }
      ])
    }))
})
