/**
 * Lists this process among those of the store: it reports at an interval that it is running, until it stops.
 *
 * Gotchas
 * - Nothing waits for a report. While the store does not answer, the process becomes silent. It is listed again afterwards.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import { Processes, type ProcessProblem, type ProcessReport } from "../store/Processes.ts"

/** Shorter than the time after which a process is shown as silent. */
const reportTimeout = "4 seconds"
/** How long a process that stops waits for the store. */
const leaveTimeout = "1 second"
const pruneInterval = Duration.toNanosUnsafe("1 hour")
/** If a report takes longer, it is not used to measure the difference between this machine's clock and the database's. */
const longestRoundTrip = Duration.toNanosUnsafe("1 second")

export class Membership extends Context.Service<Membership, {
  /** Adds the URL of the operating API, and the problems of this process, to the reports. */
  readonly announce: (
    address: string,
    problems: Effect.Effect<ReadonlyArray<ProcessProblem>>
  ) => Effect.Effect<void>
}>()("rollcall/fleet/Membership") {
  static readonly layer = (
    own: Pick<ProcessReport, "version" | "host" | "pid">
  ): Layer.Layer<Membership, never, Processes> =>
    Layer.effect(
      Membership,
      Effect.gen(function*() {
        const processes = yield* Processes
        const wakeUp = yield* Latch.make(false)
        let address: string | null = null
        let problems: Effect.Effect<ReadonlyArray<ProcessProblem>> = Effect.succeed([])
        let clockOffset: number | null = null
        let prunedAt: bigint | null = null

        const report = Effect.gen(function*() {
          const before = yield* Clock.monotonicTimeNanos
          const time = yield* processes.report({ ...own, address, clockOffset, problems: yield* problems })
          const [after, now] = [yield* Clock.monotonicTimeNanos, yield* Clock.currentTimeMillis]
          if (after - before < longestRoundTrip) {
            clockOffset = Math.round(now - Number(after - before) / 2_000_000 - time)
          }
          if (prunedAt !== null && after - prunedAt < pruneInterval) return
          yield* processes.prune
          prunedAt = after
        })
        const beat = wakeUp.close.pipe(
          Effect.andThen(Effect.ignore(Effect.timeout(report, reportTimeout))),
          // a defect must not stop the reports, because the process would be shown as silent although it works
          Effect.catchDefect((defect) => Effect.logError("this process could not report that it runs", defect)),
          Effect.andThen(Effect.raceFirst(Effect.sleep(processes.heartbeatInterval), wakeUp.await))
        )

        // The finalizer is added before the loop starts, so that it runs after the loop has stopped.
        yield* Effect.addFinalizer(() => Effect.ignore(Effect.timeout(processes.leave, leaveTimeout)))
        yield* Effect.forkScoped(Effect.forever(beat))
        return Membership.of({
          announce: (url, found) =>
            Effect.suspend(() => {
              address = url
              problems = found
              return Effect.asVoid(wakeUp.open)
            })
        })
      })
    )
}
