/**
 * Serves the overview and the plugin list to requests that must be answered even if the store does not answer. Each request
 * reads from the store again; if that read fails or takes too long, the request gets the last value that was read.
 *
 * Invariants
 * 1. No request waits longer than `readTimeout`. While a read hangs, requests do not wait at all   (X10)
 * 2. A fresh value contains everything that was committed before the request
 *
 * Gotchas
 * - There is no value before the first read has finished, so the server starts listening after the first read.
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
import { PluginAdmin } from "../../delivery/admin/PluginAdmin.ts"
import { Processes } from "../../store/Processes.ts"
import type { StreamQuery } from "../../store/State.ts"
import { Store, StoreError, Unavailable } from "../../store/Store.ts"
import { StoreFault } from "../../store/StoreFault.ts"
import type { PluginList } from "../contract/PluginApi.ts"
import type { StreamView } from "../contract/StreamApi.ts"
import { mapInParts } from "./InParts.ts"
import { pageOfOverview, type StoreOverview, storeOverview, type StreamPage, streamPage } from "./StoreOverview.ts"

/** How long a request waits for the store. */
const readTimeout = Duration.millis(700)
const readTimeoutNanos = Duration.toNanosUnsafe(readTimeout)

/** The waits between the attempts of the first read. Together with `readTimeout`, they take about 5 s. */
const warmUpSchedule = Schedule.spaced("100 millis").pipe(Schedule.upTo({ times: 43 }))

export interface Cached<A> {
  readonly value: A
  /** When the value was read; our clock, in ms. */
  readonly at: number
  /** Why the value is not fresh; null if it was read for this request. */
  readonly stale: StoreError | null
}

/** The fresh or the last value; fails if no value was ever read. */
type CachedRead<A> = Effect.Effect<Cached<A>, StoreError>

const timedOut = new StoreError({
  reason: new Unavailable({ operation: "overview", cause: new StoreFault("silent", "the store") })
})

interface CachedReads<A, R> {
  readonly whole: CachedRead<A>
  /** Reads a part of the value. If the store does not answer, `ofLast` takes the part from the last complete value. */
  readonly part: <B>(read: Effect.Effect<B, StoreError, R>, ofLast: (last: A) => B) => CachedRead<B>
}

export const makeCachedReads = Effect.fnUntraced(function*<A, R>(
  read: Effect.Effect<A, StoreError, R>
): Effect.fn.Return<CachedReads<A, R>, never, R | Scope.Scope> {
  const scope = yield* Scope.Scope
  const context = yield* Effect.context<R>()
  /** Start times of the running reads; nanoseconds of the monotonic clock. */
  const running = new Set<{ readonly startedAt: bigint }>()
  let last: { readonly value: A; readonly at: number; readonly startedAt: bigint } | null = null

  const start = <B>(read: Effect.Effect<B, StoreError, R>, startedAt: bigint) => {
    const one = { startedAt }
    running.add(one)
    return read.pipe(
      Effect.provideContext(context),
      Effect.ensuring(Effect.sync(() => running.delete(one))),
      Effect.forkIn(scope)
    )
  }

  const attempt = <B>(
    readAt: (at: number, startedAt: bigint) => Effect.Effect<B, StoreError, R>,
    ofLast: (last: A) => B
  ): CachedRead<B> =>
    Effect.gen(function*() {
      const orLast = (error: StoreError): CachedRead<B> =>
        Effect.suspend(() =>
          last === null ? Effect.fail(error) : Effect.succeed({ value: ofLast(last.value), at: last.at, stale: error })
        )
      const at = yield* Clock.currentTimeMillis
      const now = yield* Clock.monotonicTimeNanos
      if ([...running].some(({ startedAt }) => now - startedAt > readTimeoutNanos)) return yield* orLast(timedOut)
      const result = yield* Effect.timeoutOption(Fiber.await(yield* start(readAt(at, now), now)), readTimeout)
      if (Option.isNone(result)) return yield* orLast(timedOut)
      if (Exit.isSuccess(result.value)) return { value: result.value.value, at, stale: null }
      return yield* Effect.catch(Effect.failCause(result.value.cause), orLast)
    })

  return {
    whole: attempt((at, startedAt) =>
      Effect.tap(read, (value) =>
        Effect.sync(() => {
          if (last === null || last.startedAt <= startedAt) last = { value, at, startedAt }
        })), (value) => value),
    part: (read, ofLast) => attempt(() => read, ofLast)
  }
})

export const makeCachedRead = <A, R>(read: Effect.Effect<A, StoreError, R>) =>
  Effect.map(makeCachedReads(read), ({ whole }) => whole)

/** Returns `get` after its first read, or after 5 s, so that a slow first read is not reported as a store that does not answer. */
export const warmUp = <A>(get: CachedRead<A>): Effect.Effect<CachedRead<A>> =>
  get.pipe(
    Effect.retry({ while: (error) => error === timedOut, schedule: warmUpSchedule }),
    Effect.ignore,
    Effect.as(get)
  )

/** Adds the age of cached streams, in ms, to their freshness, which grows while the watermark does not move. */
export const withCurrentFreshness = (
  streams: ReadonlyArray<StreamView>,
  millis: number
): Effect.Effect<ReadonlyArray<StreamView>> =>
  millis === 0 ? Effect.succeed(streams) : mapInParts(streams, (stream) => ({
    ...stream,
    freshness_seconds: stream.freshness_seconds === null ? null : stream.freshness_seconds + millis / 1000
  }))

/** Changes a cached value by its age, in ms. */
const aged = <A>(read: CachedRead<A>, change: (value: A, millis: number) => Effect.Effect<A>): CachedRead<A> =>
  Effect.gen(function*() {
    const cached = yield* read
    const now = yield* Clock.currentTimeMillis
    return { ...cached, value: yield* change(cached.value, Math.max(0, now - cached.at)) }
  })

/** Every plugin, as `GET /v1/plugins` lists them. */
export const pluginList = Effect.gen(function*() {
  const { plugins, reason, state, writesStopped } = yield* Effect.flatMap(PluginAdmin, ({ view }) => view)
  const list: PluginList = {
    items: plugins,
    next: null,
    writes: writesStopped ? "stopped" : "on",
    delivering: { state, reason: reason && `${reason.message}; ${reason.hint}` }
  }
  return list
})

const make = Effect.gen(function*() {
  const { part, whole } = yield* makeCachedReads<StoreOverview, Store>(storeOverview)
  const read = yield* warmUp(whole)
  return {
    overview: aged(
      read,
      ({ streams, ...rest }, millis) =>
        Effect.map(withCurrentFreshness(streams, millis), (streams) => ({ ...rest, streams }))
    ),
    /** A page of streams without the rest of the overview, which would read all streams. */
    streams: (query: StreamQuery) =>
      aged<StreamPage>(
        part<StreamPage>(streamPage(query), (last) => pageOfOverview(last, query)),
        ({ items, next }, millis) => Effect.map(withCurrentFreshness(items, millis), (items) => ({ items, next }))
      ),
    plugins: yield* warmUp(yield* makeCachedRead(pluginList)),
    processes: yield* makeCachedRead(Effect.flatMap(Processes, ({ list }) => list))
  }
})

export class OverviewCache extends Context.Service<OverviewCache>()("rollcall/http/OverviewCache", { make }) {
  static readonly layer: Layer.Layer<OverviewCache, never, Store | Processes | PluginAdmin> = Layer.effect(
    OverviewCache,
    make
  )
}
