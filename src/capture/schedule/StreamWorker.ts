/**
 * The worker of one stream: a loop that runs one step at a time. `NextStep.ts` chooses the most urgent step.
 *
 * Invariants
 * 1. A stream has one run, refresh or release at a time, so that its changes stay in order
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Random from "effect/Random"
import * as Semaphore from "effect/Semaphore"
import type * as Types from "effect/Types"
import { streamName } from "../../domain/Model.ts"
import { stopwatch } from "../../source/MonotonicClock.ts"
import type { Source } from "../../source/Source.ts"
import { retryWhileStoreUnavailable, storePause } from "../../store/Recovery.ts"
import type { Run } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import { Store, StoreError } from "../../store/Store.ts"
import { failRun } from "../commit/RunHistory.ts"
import { backfillCandidates } from "../derived/CandidateBackfill.ts"
import { releaseApprovedHolds } from "../guard/ApprovedHolds.ts"
import * as Metrics from "../Metrics.ts"
import { reconfirmAbsent } from "../read/Absence.ts"
import { poll } from "../read/Poll.ts"
import { refresh } from "../read/Refresh.ts"
import { restartSweep, sweep } from "../read/Sweep.ts"
import { isSweepOnly, isUnpaged, type RunError, type Stream, transact } from "../Stream.ts"
import { afterFailure, backoffUntil } from "../StreamLifecycle.ts"
import type { Backpressure } from "./Backpressure.ts"
import type { FailureLog } from "./FailureLog.ts"
import { nextStep, retryAt, type StepInput } from "./NextStep.ts"

/** A stream with the state of its loop in memory. State that must survive a restart is in the store. */
export interface StreamWorker extends Stream, Types.Mutable<Omit<StepInput, keyof Stream>> {
  /** Shared by all streams of the process. */
  readonly failureLog: FailureLog
  /** The run of the step in progress, with its latest counts; null if the step has not started a run. */
  run: Run | null
  readonly lock: Semaphore.Semaphore
  /** Opened to wake the loop after an operator's command or decision; closed when the loop starts its next step. */
  readonly wakeUp: Latch.Latch
  /** Opened when the stream is no longer read. */
  readonly stopped: Latch.Latch
  /** True if a hold was approved and the loop has not released it yet. */
  hasApprovedHold: boolean
  /**
   * Earliest time of the next attempt; our clock, in ms. It is not stored, because the cause may have been repaired before a restart
   * (C4).
   */
  retryAt: number
  /**
   * The stream's state as this loop last read or wrote it; null if the state must be read from the store. A poll commits only if this is
   * still the stored state. All other steps, and the first step after `wakeUp`, read the state again.
   */
  known: StreamState | null
}

export const make = Effect.fnUntraced(function*(
  stream: Stream,
  failureLog: FailureLog
): Effect.fn.Return<StreamWorker> {
  const worker: StreamWorker = {
    ...stream,
    failureLog,
    run: null,
    onProgress: (run) => {
      worker.run = run
    },
    lock: yield* Semaphore.make(1),
    wakeUp: yield* Latch.make(false),
    stopped: yield* Latch.make(false),
    pollRequested: false,
    hasApprovedHold: false,
    known: null,
    retryAt: 0,
    lastTried: "sweep",
    pollTook: 0,
    refreshOutcome: "done",
    jitter: 0
  }
  return worker
})

const backpressurePause = 5_000
/** Time between two checks whether a paused stream was resumed, in ms. If the stream is resumed in this process, its loop wakes at once. */
const pausedPause = 60_000

/** For runs that read to their end. */
export const neverYield = Effect.succeed(false)

/** Runs the effect as soon as no run, refresh or release of the stream is in progress. */
export const withLock = <A, E, R>(worker: StreamWorker, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  worker.lock.withPermits(1)(effect)

const stateOf = Effect.fnUntraced(function*({ key }: Stream) {
  const state = yield* (yield* Store).stream(key)
  return state ??
    (yield* Effect.die(new Error(`stream ${streamName(key)} is not in the store although this process reads it`)))
})

/** The run that failed; null if no run had begun, or if the run had ended and a later part of the step failed. */
const unended = ({ run }: StreamWorker, { lastPoll, lastSweep }: StreamState): Run | null =>
  run === null || run.id === lastPoll?.id || run.id === lastSweep?.id ? null : run

/** Stores the failure in the stream's state. A store error is raised again, because the caller waits for the store. */
export const recordFailure = Effect.fnUntraced(function*(
  worker: StreamWorker,
  error: RunError
): Effect.fn.Return<void, StoreError, Store> {
  if (error instanceof StoreError) return yield* error
  const now = yield* Clock.currentTimeMillis
  const { after, before } = yield* transact(
    worker,
    Effect.fnUntraced(function*(tx) {
      const { message } = error
      const failed = failRun(afterFailure(tx.state, error, now), {
        run: unended(worker, tx.state),
        kind: worker.lastTried,
        message,
        now
      })
      yield* tx.recordRun(failed.entry)
      yield* tx.saveState(failed.state)
      return { before: tx.state, after: failed.state }
    })
  )
  // a command that came during the run does not wait for the backoff
  worker.retryAt = worker.wakeUp.isOpen() ? 0 : retryAt(worker, after, now)
  yield* Metrics.runEnded(worker.key, "run", after.blocked?.reason ?? "failed")
  const newlyBlocked = after.blocked !== null && before.blocked?.reason !== after.blocked.reason
  const isNew = newlyBlocked || (before.failing === null && after.failing !== null)
  if (isNew || !worker.failureLog.isLogged(worker.key)) yield* worker.failureLog.failed(after, worker.settings.account)
})

/** Polls, confirms absent records and refreshes stale ones. */
const runPoll = Effect.fnUntraced(function*(worker: StreamWorker, state: StreamState) {
  worker.lastTried = "poll"
  worker.known = yield* poll(worker, state)
  if (worker.known === null) {
    yield* reconfirmAbsent(worker)
    yield* runRefresh(worker, neverYield)
  } else worker.refreshOutcome = "done"
  worker.jitter = yield* Random.nextBetween(-0.1, 0.1)
})

const runRefresh = Effect.fnUntraced(function*(worker: StreamWorker, shouldYield: Effect.Effect<boolean>) {
  worker.refreshOutcome = yield* refresh(worker, shouldYield)
})

/** Runs the most urgent step of a stream. Returns how long the loop then waits, in ms. */
const step = Effect.fnUntraced(function*(
  worker: StreamWorker,
  backpressure: Backpressure
): Effect.fn.Return<number, RunError, Store | Source> {
  const known = worker.wakeUp.isOpen() ? null : worker.known
  worker.known = null
  worker.run = null
  yield* worker.wakeUp.close
  if (worker.hasApprovedHold) {
    worker.hasApprovedHold = false
    yield* Effect.onError(releaseApprovedHolds(worker), () => Effect.sync(() => worker.hasApprovedHold = true))
  }
  const state = known ?? (yield* stateOf(worker))
  const now = yield* Clock.currentTimeMillis
  const rest = Math.max(state.paused ? now + pausedPause : 0, backoffUntil(state, worker, now))
  if (rest > now) return rest - now
  if (yield* backpressure.isTooFarBehind) return backpressurePause
  const next = nextStep(worker, state, now)
  if (next.kind === "wait") {
    worker.known = state
    return next.until - now
  }
  worker.pollRequested = false
  const elapsed = yield* stopwatch
  if (next.kind === "poll") {
    yield* Effect.ensuring(
      runPoll(worker, state),
      Effect.map(elapsed, (millis) => void (worker.pollTook = millis))
    )
  } else {
    const shouldYield = Effect.map(elapsed, (millis) => worker.wakeUp.isOpen() || millis >= next.until - now)
    if (next.kind === "refresh") yield* runRefresh(worker, shouldYield)
    else {
      worker.lastTried = "sweep"
      worker.run = state.sweep
      worker.refreshOutcome = "done"
      yield* next.fromFirstPage ? restartSweep(worker, shouldYield) : sweep(worker, shouldYield)
    }
  }
  if (state.blocked !== null || state.failing !== null) {
    yield* worker.failureLog.recovered(worker.key)
  }
  return 0
})

/** Runs `catchUp`, then reads the stream until interrupted. Fails only if the store can no longer be used. */
export const run = (
  worker: StreamWorker,
  backpressure: Backpressure
): Effect.Effect<never, StoreError, Store | Source> => {
  const stepAndRecord = withLock(
    worker,
    Effect.catch(step(worker, backpressure), (error) => Effect.as(recordFailure(worker, error), 0))
  ).pipe(
    Effect.catch((error) => error.reason.retryable ? Effect.succeed(Duration.toMillis(storePause)) : Effect.fail(error))
  )
  const wait = (millis: number) =>
    millis > 0
      ? Effect.raceFirst(Effect.sleep(Duration.millis(Math.ceil(millis))), worker.wakeUp.await)
      : Effect.void
  return Effect.andThen(
    retryWhileStoreUnavailable(catchUp(worker)),
    Effect.forever(Effect.flatMap(stepAndRecord, wait))
  )
}

/** Derives missing candidates and releases approved holds, before the stream is read. */
export const catchUp = Effect.fnUntraced(function*(worker: StreamWorker) {
  const unlessStopped = <E>(effect: Effect.Effect<void, E, Store>) =>
    withLock(worker, Effect.suspend(() => worker.stopped.isOpen() ? Effect.void : effect))
  yield* unlessStopped(backfillCandidates(worker))
  yield* unlessStopped(releaseApprovedHolds(worker))
})

export const pollNow = (worker: StreamWorker): Effect.Effect<void, RunError, Store | Source> =>
  isSweepOnly(worker) ? Effect.asVoid(sweep(worker, neverYield)) : Effect.asVoid(poll(worker))

/** Runs the remaining passes of the backfill: at most four in one process. One or two polls then complete the backfill. */
const backfill = Effect.fnUntraced(function*(worker: StreamWorker) {
  for (;;) {
    const { backfilledAt, sweep: open } = yield* stateOf(worker)
    if (backfilledAt !== null && open?.backfill !== true) return
    yield* sweep(worker, neverYield)
  }
})

/** Polls a stream once, or twice if its backfill is not complete after the first poll. */
export const readOnce = Effect.fnUntraced(function*(worker: StreamWorker) {
  const state = yield* stateOf(worker)
  if (state.paused) return
  if (!isUnpaged(worker)) yield* backfill(worker)
  yield* pollNow(worker)
  if (isSweepOnly(worker)) return
  if ((yield* stateOf(worker)).phase !== "live") yield* poll(worker)
  yield* runRefresh(worker, neverYield)
})
