/**
 * Names the handler that holds up the whole process by computing without ever yielding.
 *
 * Gotchas
 * - It cannot be stopped, only named, and only after it let go.
 * - What counts is the time this thread computed, not what passed: a machine that is busy otherwise accuses nobody.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Queue from "effect/Queue"
import * as Scheduler from "effect/Scheduler"

export interface Watched {
  readonly plugin: string
  readonly handler: string
}

const beatMillis = 100
/** Longer than a page of 250 records takes, a turn of deliveries, or a pause of the garbage collector; ms. */
const tooLong = 1_000

/** What this thread has computed so far, ms. */
const computed = (): number => {
  const { system, user } = process.threadCpuUsage()
  return (system + user) / 1_000
}

const stalls = Metric.counter("rollcall_event_loop_stalls_total", {
  description: "Times the process stood still for more than a second while a handler was running",
  incremental: true
})

const report = ({ millis, ...culprit }: Watched & { readonly millis: number }) =>
  Metric.update(Metric.withAttributes(stalls, { ...culprit }), 1).pipe(
    Effect.andThen(Effect.logError("a handler held up the process: it computed without yielding")),
    Effect.annotateLogs({ ...culprit, millis: Math.round(millis) })
  )

/** Watches for as long as the scope is open. */
export const make = Effect.gen(function*() {
  const usual = yield* Scheduler.Scheduler
  const reports = yield* Queue.sliding<Watched & { readonly millis: number }>(16)
  /** Whose step was taken last, and when; only steps of handlers are seen. */
  let last: { readonly who: Watched; readonly at: number; readonly beat: number } | null = null
  let suspect: Watched | null = null
  let beat = 0
  let computedAt = computed()

  const stepOf = (who: Watched) => {
    const at = performance.now()
    // nobody else could do anything since: that step took as long
    if (last !== null && last.beat === beat && at - last.at > tooLong) suspect = last.who
    last = { who, at, beat }
  }

  const watched = (who: Watched) => {
    const scheduler: Scheduler.Scheduler = {
      executionMode: usual.executionMode,
      shouldYield: (fiber) => {
        stepOf(who)
        return usual.shouldYield(fiber)
      },
      makeDispatcher: () => usual.makeDispatcher()
    }
    return Effect.provideService(Scheduler.Scheduler, scheduler)
  }

  const look = () => {
    const now = computed()
    const millis = now - computedAt
    const culprit = suspect ?? (last !== null && last.beat === beat ? last.who : null)
    if (millis > tooLong && culprit !== null) Queue.offerUnsafe(reports, { ...culprit, millis })
    suspect = null
    beat++
    computedAt = now
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => setInterval(look, beatMillis).unref()),
    (timer) => Effect.sync(() => clearInterval(timer))
  )
  yield* Queue.take(reports).pipe(Effect.flatMap(report), Effect.forever, Effect.forkScoped)

  return { watched }
})

export type Watchdog = Effect.Success<typeof make>
