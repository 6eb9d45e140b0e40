/**
 * Handlers for `/health/live` and `/health/ready`, and the readiness checks: the store, the streams, then other dependencies.
 *
 * Gotchas
 * - A blocked stream counts as started, because the broken connection of one customer must not fail a rollout.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Store, type StoreError } from "../../store/Store.ts"
import { Api } from "../Api.ts"
import { NotReady, type ReadinessCheck } from "../Problem.ts"
import { outageText, type Overview } from "../status/Overview.ts"
import { type Cached, OverviewCache } from "../status/OverviewCache.ts"
import type { StreamView } from "../streams/StreamApi.ts"

/** A dependency of readiness. `problem`: why it is not ready; null if it is ready. */
export interface Dependency {
  readonly name: string
  readonly problem: Effect.Effect<string | null>
}

const hasStarted = (stream: StreamView): boolean =>
  stream.phase !== "starting" || stream.blocked !== null || stream.paused

const describeWaiting = (stream: StreamView): string =>
  stream.failing === null
    ? `${stream.stream} waits for its first response from the API`
    : `${stream.stream} failed ${stream.failing.count} times since ${stream.failing.since}: ${stream.failing.message}`

/**
 * Checks the store, the streams and then the given dependencies. `cached`: the overview, or the last one that was read if
 * the store does not answer. A slow read (a large store, a slow disk) does not make the store unready: only
 * `Store.outage` decides whether the store answers.
 */
export const checkReadiness = Effect.fnUntraced(function*(
  cached: Effect.Effect<Pick<Cached<Overview>, "value" | "stale">, StoreError>,
  dependencies: ReadonlyArray<Dependency>
) {
  const { outage } = yield* Store
  const storeIs = Effect.fnUntraced(function*(fault: StoreError | null) {
    const reason = outageText(yield* outage) ?? (fault === null ? null : fault.reason.hint)
    return { name: "store", ok: reason === null, reason }
  })
  const checks: Array<typeof ReadinessCheck.Type> = yield* Effect.matchEffect(cached, {
    onFailure: (error) => Effect.map(storeIs(error), (store) => [store]),
    onSuccess: ({ stale, value: { streams } }) =>
      Effect.map(storeIs(stale?.reason._tag === "Unavailable" ? null : stale), (store) => [
        store,
        ...streams.filter((stream) => !hasStarted(stream) || stream.blocked !== null).map((stream) => ({
          name: `stream ${stream.stream}`,
          ok: hasStarted(stream),
          reason: stream.blocked === null
            ? describeWaiting(stream)
            : `blocked (${stream.blocked.reason}): ${stream.blocked.message}`
        }))
      ])
  })
  for (const { name, problem } of dependencies) {
    const reason = yield* problem
    checks.push({ name, ok: reason === null, reason })
  }
  return checks
})

export const layer = (dependencies: ReadonlyArray<Dependency>) =>
  HttpApiBuilder.group(Api, "health", (handlers) =>
    handlers
      .handle("live", () => Effect.succeed({ status: "live" as const }))
      .handle("ready", () =>
        Effect.flatMap(
          Effect.flatMap(OverviewCache, ({ overview }) => checkReadiness(overview, dependencies)),
          (checks) => {
            const failed = checks.filter((check) => !check.ok)
            return failed.length === 0
              ? Effect.succeed({ status: "ready" as const, checks })
              : Effect.fail(new NotReady({ detail: failed.map((check) => check.reason).join("; "), checks }))
          }
        )))
