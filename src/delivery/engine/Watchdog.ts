/**
 * Names a handler that blocks the whole process by computing without yielding.
 *
 * Gotchas
 * - A blocking handler cannot be stopped. The log names it, but only after it has yielded.
 * - A stall is measured in CPU time of this thread, not in elapsed time: so a busy machine is not mistaken for a blocking handler.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Queue from "effect/Queue"
import * as Scheduler from "effect/Scheduler"

export interface Watched {
  readonly plugin: string
  readonly handler: string
}

interface WatchedAttempt {
  readonly label: Watched
  readonly onBlocked: () => void
}

const beatMillis = 100
/** Longer than a page of 250 records, a round of deliveries or a garbage collection takes, in ms. */
const stallMillis = 1_000

/** CPU time of this thread so far, in ms. */
const computed = (): number => {
  const { system, user } = process.threadCpuUsage()
  return (system + user) / 1_000
}

const stalls = Metric.counter("rollcall_event_loop_stalls_total", {
  description:
    "Times the event loop was blocked for more than a second while a handler was running, which stalls the whole process",
  incremental: true
})

const report = ({ millis, ...culprit }: Watched & { readonly millis: number }) =>
  Metric.update(Metric.withAttributes(stalls, { ...culprit }), 1).pipe(
    Effect.andThen(Effect.logError("a handler blocked the process by computing without yielding")),
    Effect.annotateLogs({ ...culprit, millis: Math.round(millis) })
  )

/** Watches for as long as the scope is open. */
export const make = Effect.gen(function*() {
  const usual = yield* Scheduler.Scheduler
  const reports = yield* Queue.sliding<Effect.Effect<void>>(16)
  /** The attempt that took the last step, and when it took the first one without another attempt in between. Only steps of handlers count. */
  let last: { readonly attempt: WatchedAttempt; readonly at: number; readonly beat: number } | null = null
  let suspect: WatchedAttempt | null = null
  let beat = 0
  let computedAt = computed()

  const stepOf = (attempt: WatchedAttempt) => {
    if (last?.attempt === attempt && last.beat === beat) return
    const at = performance.now()
    // no timer has run since, so these steps blocked the process for that long
    if (last !== null && last.beat === beat && at - last.at > stallMillis) suspect = last.attempt
    last = { attempt, at, beat }
  }

  /** `onBlocked` runs if the attempt blocks the process. */
  const watched = (label: Watched, onBlocked: () => void = () => {}) => {
    const own: WatchedAttempt = { label, onBlocked }
    const scheduler: Scheduler.Scheduler = {
      executionMode: usual.executionMode,
      shouldYield: (fiber) => {
        stepOf(own)
        return usual.shouldYield(fiber)
      },
      makeDispatcher: () => usual.makeDispatcher()
    }
    return <A, E, R>(attempt: Effect.Effect<A, E, R>) => Effect.provideService(attempt, Scheduler.Scheduler, scheduler)
  }

  const checkStall = () => {
    const now = computed()
    const millis = now - computedAt
    const culprit = suspect ?? (last !== null && last.beat === beat ? last.attempt : null)
    if (millis > stallMillis && culprit !== null) {
      Queue.offerUnsafe(reports, report({ ...culprit.label, millis }))
      culprit.onBlocked()
    }
    suspect = null
    beat++
    computedAt = now
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => setInterval(checkStall, beatMillis).unref()),
    (timer) => Effect.sync(() => clearInterval(timer))
  )
  yield* Queue.take(reports).pipe(Effect.flatten, Effect.forever, Effect.forkScoped)

  return { watched }
})

export type Watchdog = Effect.Success<typeof make>
