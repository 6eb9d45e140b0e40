/**
 * Names the handler that holds up the whole process by computing without ever yielding, or fills up its memory.
 *
 * Gotchas
 * - It cannot be stopped, only named, and only after it let go.
 * - What counts is the time this thread computed, not what passed: a machine that is busy otherwise accuses nobody.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Queue from "effect/Queue"
import * as Scheduler from "effect/Scheduler"
import { constants, PerformanceObserver } from "node:perf_hooks"
import { getHeapStatistics } from "node:v8"
import { type Sample, span, suspects } from "./Leak.ts"

export interface Watched {
  readonly plugin: string
  readonly handler: string
}

const beatMillis = 100
/** Longer than a page of 250 records takes, a turn of deliveries, or a pause of the garbage collector; ms. */
const stallMillis = 1_000

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

const filling = Metric.counter("rollcall_memory_growth_total", {
  description: "Times memory filled up and grew with the attempts of a handler",
  incremental: true
})
/** Between two reports of growing memory, ms. */
const reportIntervalMillis = 600_000

/** `names`: of handlers, `plugin/handler`; several where they cannot be told apart. */
const reportGrowth = (names: ReadonlyArray<string>, heap: number) =>
  Effect.forEach(names, (name) => Metric.update(Metric.withAttributes(filling, { handler: name }), 1)).pipe(
    Effect.andThen(Effect.logError("memory grows and does not come back: the process will die of it")),
    Effect.annotateLogs({
      megabytes: Math.round(heap / 1_000_000),
      handlers: names.length === 0 ? "none stands out" : names.join(", "),
      hint: "switch the plugin off with `rollcall plugins off`, restart, and have it mended"
    })
  )

const isFull = (collection: object): boolean =>
  "detail" in collection && typeof collection.detail === "object" && collection.detail !== null &&
  "kind" in collection.detail && collection.detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR

/** Notes how much each full collection leaves; `enough` hears of it when that is too much. */
const watchMemory = (
  attempts: ReadonlyMap<string, number>,
  enough: (names: ReadonlyArray<string>, heap: number) => void
) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const samples: Array<Sample> = []
      let silentUntil = 0
      const observer = new PerformanceObserver((list) => {
        if (!list.getEntries().some(isFull)) return
        const heap = process.memoryUsage().heapUsed
        samples.push({ heap, attempts: new Map(attempts) })
        if (samples.length > span) samples.shift()
        const names = suspects(samples, getHeapStatistics().heap_size_limit)
        if (names === null || performance.now() < silentUntil) return
        silentUntil = performance.now() + reportIntervalMillis
        enough(names, heap)
      })
      observer.observe({ entryTypes: ["gc"] })
      return observer
    }),
    (observer) => Effect.sync(() => observer.disconnect())
  )

/** Watches for as long as the scope is open. */
export const make = Effect.gen(function*() {
  const usual = yield* Scheduler.Scheduler
  const reports = yield* Queue.sliding<Effect.Effect<void>>(16)
  const attempts = new Map<string, number>()
  /** Whose step was taken last, and when; only steps of handlers are seen. */
  let last: { readonly who: Watched; readonly at: number; readonly beat: number } | null = null
  let suspect: Watched | null = null
  let beat = 0
  let computedAt = computed()

  const stepOf = (who: Watched) => {
    const at = performance.now()
    // nobody else could do anything since: that step took as long
    if (last !== null && last.beat === beat && at - last.at > stallMillis) suspect = last.who
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
    const name = `${who.plugin}/${who.handler}`
    return <A, E, R>(attempt: Effect.Effect<A, E, R>) =>
      Effect.suspend(() => {
        attempts.set(name, (attempts.get(name) ?? 0) + 1)
        return Effect.provideService(attempt, Scheduler.Scheduler, scheduler)
      })
  }

  const checkStall = () => {
    const now = computed()
    const millis = now - computedAt
    const culprit = suspect ?? (last !== null && last.beat === beat ? last.who : null)
    if (millis > stallMillis && culprit !== null) Queue.offerUnsafe(reports, report({ ...culprit, millis }))
    suspect = null
    beat++
    computedAt = now
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => setInterval(checkStall, beatMillis).unref()),
    (timer) => Effect.sync(() => clearInterval(timer))
  )
  yield* watchMemory(attempts, (names, heap) => Queue.offerUnsafe(reports, reportGrowth(names, heap)))
  yield* Queue.take(reports).pipe(Effect.flatten, Effect.forever, Effect.forkScoped)

  return { watched }
})

export type Watchdog = Effect.Success<typeof make>
