/**
 * The state of the installation, read once for all clients of a process that watch it.
 *
 * Invariants
 * 1. However many clients watch, one read runs at a time, and reads take at most `share` of the time   (I9)
 * 2. A state for a request with `fresh` was read after that request arrived, unless the store does not answer
 * 3. The age of a state is measured by the monotonic clock: after the wall clock was set back, the state is read again as usual   (W4)
 *
 * Details
 * A read of 3,000 streams takes much longer than one of thirty. So the time until the next read is a multiple of the last one's.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { PluginAdmin } from "../../delivery/admin/PluginAdmin.ts"
import type { Deliveries } from "../../store/Deliveries.ts"
import type { Store, StoreError } from "../../store/Store.ts"
import { OverviewCache } from "../status/OverviewCache.ts"
import type { Options, Snapshot } from "./OverviewSnapshot.ts"
import * as OverviewSnapshot from "./OverviewSnapshot.ts"

/** Time between two reads: at most, in ms, and as a multiple of the time that the last read took. At least: `shortestInterval`. */
const [longest, share] = [30_000, 25] as const

const monotonicMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

const make = Effect.fnUntraced(function*(options: Options) {
  const context = yield* Effect.context<OverviewCache | Store | Deliveries | PluginAdmin>()
  const scope = yield* Scope.Scope
  const snapshotOf = OverviewSnapshot.make(options)
  let last: { readonly snapshot: Snapshot; readonly startedAt: number; readonly took: number } | null = null
  let running: Fiber.Fiber<Snapshot, StoreError> | null = null

  const read = Effect.gen(function*() {
    const { overview, plugins, processes } = yield* OverviewCache
    const others = Effect.orElseSucceed(Effect.map(processes, ({ value }) => value), () => [])
    const [streams, delivering, listed] = yield* Effect.all([overview, plugins, others], {
      concurrency: "unbounded"
    })
    return yield* snapshotOf({
      overview: streams.value,
      plugins: delivering.value,
      processes: listed,
      at: streams.at
    })
  }).pipe(Effect.provideContext(context))

  const start = (startedAt: number) =>
    read.pipe(
      Effect.tap((snapshot) =>
        Effect.map(monotonicMillis, (now) => {
          last = { snapshot, startedAt, took: now - startedAt }
        })
      ),
      Effect.ensuring(Effect.sync(() => running = null)),
      Effect.forkIn(scope, { startImmediately: false }),
      Effect.tap((fiber) =>
        Effect.sync(() => {
          if (fiber.pollUnsafe() === undefined) running = fiber
        })
      )
    )

  const pauseAfter = (took: number): number =>
    Math.min(longest, Math.max(OverviewSnapshot.shortestInterval, took * share))

  const get = Effect.fnUntraced(function*(fresh: boolean) {
    const now = yield* monotonicMillis
    if (!fresh && last !== null && now - last.startedAt < pauseAfter(last.took)) return last.snapshot
    const current = running
    if (current !== null) {
      const joined = yield* Fiber.join(current)
      if (!fresh) return joined
    }
    // several requests that waited share the next read
    return yield* Fiber.join(running ?? (yield* start(now)))
  })

  return {
    /** `fresh`: read for this request. Otherwise the state may be as old as `pause`. */
    get,
    /** How long a client waits before it asks again, in ms. */
    pause: Effect.sync(() => pauseAfter(last?.took ?? 0))
  }
})

export class SharedOverview extends Context.Service<SharedOverview, Effect.Success<ReturnType<typeof make>>>()(
  "rollcall/http/SharedOverview"
) {
  static readonly layer = (
    options: Options
  ): Layer.Layer<SharedOverview, never, OverviewCache | Store | Deliveries | PluginAdmin> =>
    Layer.effect(SharedOverview, make(options))
}
