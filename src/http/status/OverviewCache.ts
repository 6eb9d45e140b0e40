/**
 * What the store shows, for requests that must be answered whether it answers or not: read anew for each, or, where that
 * takes too long or fails, as it was last read.
 *
 * Invariants
 * 1. Nobody waits longer than `patience`, and while a reading hangs nobody waits at all   (X10)
 * 2. What is read anew shows everything that was committed before it was asked for
 *
 * Gotchas
 * - Nothing is there to be shown before the first reading has ended: whoever serves begins after it.
 * - A reading that takes too long is not interrupted: a statement that is interrupted is waited for. It ends by its own
 *   limit, and what it finds is remembered.
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
import { Store, StoreError, Unavailable } from "../../store/Store.ts"
import { StoreFault } from "../../store/StoreFault.ts"
import type { PluginList } from "../plugins/PluginApi.ts"
import * as PluginHandlers from "../plugins/PluginHandlers.ts"
import { type Overview, overview } from "./Overview.ts"

/** How long a request waits for the store. */
const readTimeout = Duration.millis(700)
const readTimeoutNanos = Duration.toNanosUnsafe(readTimeout)

/** How often the first reading is looked for. */
const warmUpSchedule = Schedule.spaced("100 millis").pipe(Schedule.upTo({ times: 43 }))

export interface Cached<A> {
  readonly value: A
  /** When it was read; our clock, ms. */
  readonly at: number
  /** Why it was not read anew; null when it was. */
  readonly stale: StoreError | null
}

/** What is read, or was; fails where it was never read. */
type CachedRead<A> = Effect.Effect<Cached<A>, StoreError>

const timedOut = new StoreError({
  reason: new Unavailable({ operation: "overview", cause: new StoreFault("silent", "the store") })
})

export const makeCachedRead = Effect.fnUntraced(function*<A, R>(read: Effect.Effect<A, StoreError, R>) {
  const scope = yield* Scope.Scope
  const context = yield* Effect.context<R>()
  /** When those under way began; nanoseconds of a clock that is never set. */
  const running = new Set<{ readonly begunAt: bigint }>()
  let last: { readonly value: A; readonly at: number; readonly begunAt: bigint } | null = null

  const begin = (at: number, begunAt: bigint) => {
    const one = { begunAt }
    running.add(one)
    return read.pipe(
      Effect.provideContext(context),
      Effect.tap((value) =>
        Effect.sync(() => {
          if (last === null || last.begunAt <= begunAt) last = { value, at, begunAt }
        })
      ),
      Effect.ensuring(Effect.sync(() => running.delete(one))),
      Effect.forkIn(scope)
    )
  }

  const orLast = (why: StoreError): CachedRead<A> =>
    Effect.suspend(() =>
      last === null ? Effect.fail(why) : Effect.succeed({ value: last.value, at: last.at, stale: why })
    )

  const get: CachedRead<A> = Effect.gen(function*() {
    const at = yield* Clock.currentTimeMillis
    const now = yield* Clock.monotonicTimeNanos
    if ([...running].some(({ begunAt }) => now - begunAt > readTimeoutNanos)) return yield* orLast(timedOut)
    const answer = yield* Effect.timeoutOption(Fiber.await(yield* begin(at, now)), readTimeout)
    if (Option.isNone(answer)) return yield* orLast(timedOut)
    if (Exit.isSuccess(answer.value)) return { value: answer.value.value, at, stale: null }
    return yield* Effect.catch(Effect.failCause(answer.value.cause), orLast)
  })
  return get
})

/** Once it was read, for nobody is to be told of a silent store because the first reading takes its time; or after 5 s. */
export const warmUp = <A>(get: CachedRead<A>): Effect.Effect<CachedRead<A>> =>
  get.pipe(
    Effect.retry({ while: (error) => error === timedOut, schedule: warmUpSchedule }),
    Effect.ignore,
    Effect.as(get)
  )

/** Of a stream whose watermark stands still, freshness goes on growing. */
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
}>()("rollcall/http/OverviewCache") {
  static readonly layer: Layer.Layer<OverviewCache, never, Store | PluginControl> = Layer.effect(
    OverviewCache,
    Effect.gen(function*() {
      const read = yield* warmUp(yield* makeCachedRead(overview))
      return OverviewCache.of({
        overview: Effect.flatMap(
          read,
          (seen) =>
            Effect.map(
              Clock.currentTimeMillis,
              (now) => ({ ...seen, value: withCurrentFreshness(seen.value, Math.max(0, now - seen.at)) })
            )
        ),
        plugins: yield* warmUp(yield* makeCachedRead(PluginHandlers.list))
      })
    })
  )
}
