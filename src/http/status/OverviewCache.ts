/**
 * Serves the overview and the plugin list to requests that must be answered even if the store does not answer. Each request
 * reads from the store again; if that read fails or takes too long, the request gets the last value that was read.
 *
 * Invariants
 * 1. No request waits longer than `readTimeout`. While a read hangs, requests do not wait at all   (X10)
 * 2. A fresh value contains everything that was committed before the request
 *
 * Gotchas
 * - There is no value before the first read has finished, so the server starts listening after it.
 * - A read that takes too long is not interrupted, because interrupting waits for the running SQL statement. The read ends
 *   at the statement's own time limit, and its result is kept.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import type { PluginAdmin as PluginControl } from "../../delivery/admin/PluginAdmin.ts"
import { type FleetProcess, Processes } from "../../store/Processes.ts"
import { Store, StoreError, Unavailable } from "../../store/Store.ts"
import { StoreFault } from "../../store/StoreFault.ts"
import type { PluginList } from "../plugins/PluginApi.ts"
import * as PluginHandlers from "../plugins/PluginHandlers.ts"
import { type Overview, overview } from "./Overview.ts"

/** How long a request waits for the store. */
const readTimeout = Duration.millis(700)
const readTimeoutNanos = Duration.toNanosUnsafe(readTimeout)

/** How often the first read is awaited: every 100 ms, together with the read timeout about 5 s. */
const warmUpSchedule = Schedule.spaced("100 millis").pipe(Schedule.upTo({ times: 43 }))

export interface Cached<A> {
  readonly value: A
  /** When the value was read; our clock, ms. */
  readonly at: number
  /** Why the value is not fresh; null if it was read for this request. */
  readonly stale: StoreError | null
}

/** The fresh or the last value; fails if no value was ever read. */
type CachedRead<A> = Effect.Effect<Cached<A>, StoreError>

const timedOut = new StoreError({
  reason: new Unavailable({ operation: "overview", cause: new StoreFault("silent", "the store") })
})

export const makeCachedRead = Effect.fnUntraced(function*<A, R>(read: Effect.Effect<A, StoreError, R>) {
  const scope = yield* Scope.Scope
  const context = yield* Effect.context<R>()
  /** Start times of the running reads; nanoseconds of the monotonic clock. */
  const running = new Set<{ readonly startedAt: bigint }>()
  let last: { readonly value: A; readonly at: number; readonly startedAt: bigint } | null = null

  const start = (at: number, startedAt: bigint) => {
    const one = { startedAt }
    running.add(one)
    return read.pipe(
      Effect.provideContext(context),
      Effect.tap((value) =>
        Effect.sync(() => {
          if (last === null || last.startedAt <= startedAt) last = { value, at, startedAt }
        })
      ),
      Effect.ensuring(Effect.sync(() => running.delete(one))),
      Effect.forkIn(scope)
    )
  }

  const orLast = (error: StoreError): CachedRead<A> =>
    Effect.suspend(() =>
      last === null ? Effect.fail(error) : Effect.succeed({ value: last.value, at: last.at, stale: error })
    )

  const get: CachedRead<A> = Effect.gen(function*() {
    const at = yield* Clock.currentTimeMillis
    const now = yield* Clock.monotonicTimeNanos
    if ([...running].some(({ startedAt }) => now - startedAt > readTimeoutNanos)) return yield* orLast(timedOut)
    const result = yield* Effect.timeoutOption(Fiber.await(yield* start(at, now)), readTimeout)
    if (Option.isNone(result)) return yield* orLast(timedOut)
    if (Exit.isSuccess(result.value)) return { value: result.value.value, at, stale: null }
    return yield* Effect.catch(Effect.failCause(result.value.cause), orLast)
  })
  return get
})

/** Returns `get` after its first read, or after 5 s, so that a slow first read is not reported as a store that does not answer. */
export const warmUp = <A>(get: CachedRead<A>): Effect.Effect<CachedRead<A>> =>
  get.pipe(
    Effect.retry({ while: (error) => error === timedOut, schedule: warmUpSchedule }),
    Effect.ignore,
    Effect.as(get)
  )

/** Adds the age of a cached overview to the freshness of its streams, which grows while the watermark does not move. */
const withCurrentFreshness = ({ streams, ...rest }: Overview, millis: number): Overview => ({
  ...rest,
  streams: streams.map((stream) => ({
    ...stream,
    freshness_seconds: stream.freshness_seconds === null ? null : stream.freshness_seconds + millis / 1000
  }))
})

export class OverviewCache extends Context.Service<OverviewCache, {
  readonly overview: CachedRead<Overview>
  readonly plugins: CachedRead<PluginList>
  readonly processes: CachedRead<ReadonlyArray<FleetProcess>>
}>()("rollcall/http/OverviewCache") {
  static readonly layer: Layer.Layer<OverviewCache, never, Store | Processes | PluginControl> = Layer.effect(
    OverviewCache,
    Effect.gen(function*() {
      const read = yield* warmUp(yield* makeCachedRead(overview))
      return OverviewCache.of({
        overview: Effect.flatMap(
          read,
          (cached) =>
            Effect.map(
              Clock.currentTimeMillis,
              (now) => ({ ...cached, value: withCurrentFreshness(cached.value, Math.max(0, now - cached.at)) })
            )
        ),
        plugins: yield* warmUp(yield* makeCachedRead(PluginHandlers.list)),
        processes: yield* makeCachedRead(Effect.flatMap(Processes, ({ list }) => list))
      })
    })
  )
}
