/**
 * Reads every stream in a loop of its own, while streams are added and removed. `NextStep.ts` chooses the next step of each loop.
 *
 * Invariants
 * 1. A stream has one run, refresh or release at a time, so that its changes stay in order
 * 2. A failing or blocked stream never delays another stream, nor does adding or removing one
 * 3. Once `assign` returns, nothing is written to the streams that it removed   (X19)
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Guard from "../../domain/Guard.ts"
import { isDerived, type StreamKey, streamName } from "../../domain/Model.ts"
import * as Processing from "../../domain/Processing.ts"
import { Source } from "../../source/Source.ts"
import type { StreamState } from "../../store/State.ts"
import { type ListedHold, type Owner, Store, StoreError } from "../../store/Store.ts"
import * as StoreAdoption from "../commit/StoreAdoption.ts"
import { backfillCandidates, notBackfilled } from "../derived/CandidateBackfill.ts"
import { releaseApprovedHolds } from "../guard/ApprovedHolds.ts"
import * as Metrics from "../Metrics.ts"
import { audit, type AuditReport } from "../read/Audit.ts"
import { isSweepOnly, type RunError, type Stream } from "../read/Pages.ts"
import { poll } from "../read/Poll.ts"
import { refresh, type RefreshOptions } from "../read/Refresh.ts"
import { confirmAbsences, restartSweep, sweep } from "../read/Sweep.ts"
import * as Backpressure from "./Backpressure.ts"
import { nextStep, retryAt, type StepInput } from "./NextStep.ts"
import { type CommandRefused, executeCommand, type StreamCommand } from "./StreamCommands.ts"
import { afterFailure, backoffUntil, initialState, type StreamSettings } from "./StreamLifecycle.ts"

export interface CaptureOptions {
  /** Minimum time that polls read back before the watermark before last. */
  readonly overlapMin: Duration.Duration
  readonly confirmInterval: Duration.Duration
  /** Thresholds above which changes are held. Default: `Guard.thresholds`. */
  readonly guard?: Guard.Thresholds
  /** Processing for an interrupted adoption, which is finished at start-up. */
  readonly processingOf?: StoreAdoption.ProcessingOf
  readonly backpressure?: Backpressure.Backpressure
}

/** The stream does not exist, or it is no longer read. */
export class UnknownStream extends Schema.TaggedError<UnknownStream>()("UnknownStream", {
  stream: Schema.String
}) {
  override get message(): string {
    return `stream ${this.stream} not found`
  }
}

/** A stream whose run failed, with the message for the operator. */
export interface StreamFailure extends StreamKey {
  readonly problem: string
}

export class Capture extends Context.Service<Capture, {
  /** Owner of the streams, in whose name their state is written (I10). */
  readonly owner: Owner
  /**
   * Sets the streams of an integration that are read from now on. Other streams of the integration are interrupted, possibly
   * before the current page is committed, and retired. A retired stream that is assigned again continues where it stopped.
   */
  readonly assign: (integration: string, streams: ReadonlyArray<StreamSettings>) => Effect.Effect<void, StoreError>
  /** Reads all streams until interrupted. Fails only if another process took over or the store cannot be used at all. */
  readonly run: Effect.Effect<never, StoreError>
  /** Polls each stream once, after its backfill; skips paused streams. */
  readonly once: Effect.Effect<ReadonlyArray<StreamFailure>, StoreError>
  /** Polls one stream now and waits until the poll ends. */
  readonly poll: (key: StreamKey) => Effect.Effect<void, RunError | UnknownStream>
  /** Sweeps one stream now, from its first page, and waits until the sweep ends. */
  readonly sweep: (key: StreamKey) => Effect.Effect<void, RunError | UnknownStream>
  /** Executes an operator's command. Returns at once; the run that it causes starts after the current page. */
  readonly execute: (
    key: StreamKey,
    command: StreamCommand
  ) => Effect.Effect<StreamState, CommandRefused | UnknownStream | StoreError>
  /** Compares one stream's published records with its whole list and waits until the audit ends. */
  readonly audit: (key: StreamKey) => Effect.Effect<AuditReport, RunError | UnknownStream>
}>()("rollcall/capture/Capture") {}

/** State of a stream's loop in memory. Everything that must survive a restart is in the store. */
interface StreamWorker extends Stream, StepInput {
  readonly lock: Semaphore.Semaphore
  /** Opened to wake the loop after an operator's command or decision; closed when the loop starts its next step. */
  readonly wakeUp: Latch.Latch
  /** Opened when the stream is no longer read. */
  readonly stopped: Latch.Latch
  /** A hold was approved and the loop has not released it yet. */
  hasApprovedHold: boolean
  /** Earliest time of the next attempt, our clock, ms. Not stored: a restart may follow the repair of the cause (C4). */
  retryAt: number
  pollRequested: StepInput["pollRequested"]
  lastTried: StepInput["lastTried"]
  refreshOutcome: StepInput["refreshOutcome"]
  jitter: StepInput["jitter"]
}

const backpressurePause = 5_000
/** Delay until the store is tried again, ms. The store itself logs its outage (X10). */
const storePause = 2_000
/** How often a paused stream checks whether it was resumed, ms. Resuming it in this process wakes its loop at once. */
const pausedPause = 60_000

const approvedPage = 100

/** Refetches of stale records after each poll. More are made only while nothing else is due (N4). */
const refreshBudget = 4

const make = Effect.fnUntraced(function*(options: CaptureOptions) {
  const store = yield* Store
  const source = yield* Source
  const services = Context.make(Store, store).pipe(Context.add(Source, source))
  const owner: Owner = yield* store.takeOwnership("capture")
  yield* StoreAdoption.finish(owner, store.identity.generation, options.processingOf ?? (() => null))
  const backpressure = Backpressure.make(store, options.backpressure ?? null)
  const workers = new Map<string, StreamWorker>()
  /** The loops, one per stream; null unless `run` is running. */
  let loops: FiberMap.FiberMap<string, never, StoreError> | null = null

  const stateOf = (worker: StreamWorker) =>
    Effect.flatMap(store.stream(worker.key), (state) =>
      state === null
        ? Effect.die(new Error(`stream ${streamName(worker.key)} is not in the store although this process reads it`))
        : Effect.succeed(state))

  /** Stores the failure in the stream's state. A store error is raised again, because the caller waits for the store. */
  const recordFailure = Effect.fnUntraced(function*(worker: StreamWorker, error: RunError) {
    if (error instanceof StoreError) return yield* error
    const now = yield* Clock.currentTimeMillis
    const { after, before } = yield* store.transact(
      worker.owner,
      worker.key,
      Effect.fnUntraced(function*(tx) {
        const after = afterFailure(tx.state, error, now)
        yield* tx.saveState(after)
        return { before: tx.state, after }
      })
    )
    worker.retryAt = retryAt(worker, after, now)
    yield* Metrics.runEnded(worker.key, "run", after.blocked?.reason ?? "failed")
    const newlyBlocked = after.blocked !== null && before.blocked?.reason !== after.blocked.reason
    if (!newlyBlocked && (before.failing !== null || after.failing === null)) return
    yield* Effect.logWarning(newlyBlocked ? `stream blocked: ${after.blocked?.reason}` : "run failed").pipe(
      Effect.annotateLogs({ integration: worker.key.integration, model: worker.key.model, why: error.message })
    )
  })

  /** Runs the effect when no other run of the stream is in progress. */
  const withLock = <A, E>(worker: StreamWorker, effect: Effect.Effect<A, E, Store | Source>): Effect.Effect<A, E> =>
    worker.lock.withPermits(1)(Effect.provideContext(effect, services))

  const sweepUntil = (worker: StreamWorker, shouldYield: Effect.Effect<boolean>, read: typeof sweep = sweep) =>
    read(worker, { confirmInterval: options.confirmInterval, shouldYield })

  const runRefresh = Effect.fnUntraced(function*(worker: StreamWorker, shouldYield: RefreshOptions["shouldYield"]) {
    worker.refreshOutcome = yield* refresh(worker, { budget: refreshBudget, shouldYield })
  })

  const never = Effect.succeed(false)

  /** Runs the most urgent step of a stream. Returns how long the loop then waits, ms. */
  const step = Effect.fnUntraced(function*(worker: StreamWorker) {
    yield* worker.wakeUp.close
    if (worker.hasApprovedHold) {
      worker.hasApprovedHold = false
      yield* Effect.onError(releaseApprovedHolds(worker), () => Effect.sync(() => worker.hasApprovedHold = true))
    }
    const state = yield* stateOf(worker)
    const now = yield* Clock.currentTimeMillis
    const rest = Math.max(state.paused ? now + pausedPause : 0, backoffUntil(state, worker, now))
    if (rest > now) return rest - now
    if (yield* backpressure.isTooFarBehind) return backpressurePause
    const next = nextStep(worker, state, now)
    if (next.kind === "wait") return next.until - now
    worker.pollRequested = false
    if (next.kind === "poll") {
      worker.lastTried = "poll"
      yield* poll(worker)
      yield* confirmAbsences(worker, options.confirmInterval)
      yield* runRefresh(worker, never)
      worker.jitter = yield* Random.nextBetween(-0.1, 0.1)
    } else {
      const shouldYield = Effect.map(Clock.currentTimeMillis, (time) => worker.wakeUp.isOpen() || time >= next.until)
      if (next.kind === "refresh") yield* runRefresh(worker, shouldYield)
      else {
        worker.lastTried = "sweep"
        worker.refreshOutcome = "done"
        yield* sweepUntil(worker, shouldYield, next.fromFirstPage ? restartSweep : sweep)
      }
    }
    if (state.blocked !== null || state.failing !== null) {
      yield* Effect.logInfo("stream recovered").pipe(
        Effect.annotateLogs({ integration: worker.key.integration, model: worker.key.model })
      )
    }
    return 0
  })

  const runForever = (worker: StreamWorker): Effect.Effect<never, StoreError> =>
    Effect.forever(
      withLock(
        worker,
        step(worker).pipe(
          Effect.catch((error) => Effect.as(recordFailure(worker, error), 0))
        )
      ).pipe(
        Effect.catchTag("StoreError", (error) =>
          error.reason.retryable ? Effect.succeed(storePause) : Effect.fail(error)),
        Effect.flatMap((wait) =>
          wait > 0
            ? Effect.raceFirst(Effect.sleep(Duration.millis(Math.ceil(wait))), worker.wakeUp.await)
            : Effect.void
        )
      )
    )

  const whileStoreUnavailable = {
    while: (error: StoreError) => error.reason.retryable,
    schedule: Schedule.spaced(storePause)
  }

  const releaseHolds = (worker: StreamWorker) =>
    withLock(worker, Effect.suspend(() => worker.stopped.isOpen() ? Effect.void : releaseApprovedHolds(worker)))

  /** Wakes the loops of streams with approved holds. Each loop releases its own, so no stream waits for another stream's run. */
  const wakeApproved = Effect.gen(function*() {
    let page: ReadonlyArray<ListedHold>
    let before = Number.MAX_SAFE_INTEGER
    do {
      page = yield* store.holds({ states: ["approving"], before, limit: approvedPage })
      before = page.at(-1)?.id ?? 0
      for (const name of new Set(page.map(streamName))) {
        const worker = workers.get(name)
        if (worker === undefined) continue
        worker.hasApprovedHold = true
        yield* worker.wakeUp.open
      }
    } while (page.length === approvedPage)
  })

  const watchDecisions = Effect.gen(function*() {
    let seen = 0
    for (;;) {
      yield* Effect.retry(wakeApproved, whileStoreUnavailable)
      seen = yield* store.awaitDecision(seen)
    }
  })

  /** Derives missing candidates and releases approved holds, before the stream is read. */
  const catchUp = (worker: StreamWorker) =>
    Effect.andThen(
      withLock(worker, Effect.suspend(() => worker.stopped.isOpen() ? Effect.void : backfillCandidates(worker))),
      releaseHolds(worker)
    )

  const startWorker = (worker: StreamWorker) =>
    loops === null
      ? Effect.void
      : Effect.asVoid(
        FiberMap.run(
          loops,
          streamName(worker.key),
          Effect.andThen(Effect.retry(catchUp(worker), whileStoreUnavailable), runForever(worker))
        )
      )

  const addWorker = Effect.fnUntraced(function*(settings: StreamSettings) {
    const key = { integration: settings.integration, model: settings.model }
    const worker: StreamWorker = {
      key,
      settings,
      processing: settings.processing ?? Processing.defaultProcessing(settings.model),
      derivedProcessing: settings.derivedProcessing ?? null,
      overlapMin: options.overlapMin,
      guard: options.guard ?? Guard.thresholds,
      owner,
      lock: yield* Semaphore.make(1),
      wakeUp: yield* Latch.make(false),
      stopped: yield* Latch.make(false),
      pollRequested: false,
      hasApprovedHold: false,
      retryAt: 0,
      lastTried: "sweep",
      refreshOutcome: "done",
      jitter: 0
    }
    workers.set(streamName(key), worker)
    yield* startWorker(worker)
  })

  const removeWorker = Effect.fnUntraced(function*(worker: StreamWorker) {
    workers.delete(streamName(worker.key))
    yield* worker.stopped.open
    if (loops !== null) yield* FiberMap.remove(loops, streamName(worker.key))
    yield* worker.lock.withPermits(1)(Effect.void)
  })

  const assign = Effect.fnUntraced(function*(integration: string, wanted: ReadonlyArray<StreamSettings>) {
    const before = [...workers.values()].filter((worker) => worker.key.integration === integration)
    yield* Effect.forEach(before, removeWorker, { concurrency: "unbounded", discard: true })
    const rows = wanted.flatMap(({ derivedProcessing, ...settings }) =>
      derivedProcessing === undefined ? [settings] : [settings, { ...settings, model: derivedProcessing.model }]
    )
    yield* store.ensureStreams(rows.map((settings) => ({
      ...initialState(settings, options.overlapMin),
      generation: Math.max(settings.generation ?? 1, store.identity.generation)
    })))
    const fills = new Map(rows.map((settings) => [streamName(settings), settings.backfill === "fill"]))
    for (const state of yield* store.streams) {
      if (state.integration !== integration) continue
      const fill = fills.get(streamName(state))
      const retired = fill === undefined
      if ((state.retired ?? false) === retired && (retired || (state.silentBackfill ?? false) === fill)) continue
      const condition = retired
        ? { retired }
        : { retired, silentBackfill: fill, ...isDerived(state.model) ? notBackfilled : {} }
      yield* store.transact(owner, state, (tx) => tx.saveState({ ...tx.state, ...condition }))
    }
    yield* Effect.forEach(wanted, addWorker, { discard: true })
  })

  const run = Effect.scoped(Effect.gen(function*() {
    const own = yield* FiberMap.make<string, never, StoreError>()
    loops = own
    yield* Effect.addFinalizer(() => Effect.sync(() => loops = null))
    yield* Effect.forEach(workers.values(), startWorker, { discard: true })
    return yield* Effect.raceFirst(Effect.andThen(FiberMap.join(own), Effect.never), watchDecisions)
  }))

  const pollNow = (worker: StreamWorker) =>
    isSweepOnly(worker) ? Effect.asVoid(sweepUntil(worker, never)) : poll(worker)

  const unknown = (key: StreamKey) => Effect.fail(new UnknownStream({ stream: streamName(key) }))
  const find = (key: StreamKey) => {
    const worker = workers.get(streamName(key))
    return worker === undefined ? unknown(key) : Effect.succeed(worker)
  }

  /** Runs `read` for a waiting operator, and fails if the stream is removed meanwhile. Then wakes the loop without backoff. */
  const runForOperator = Effect.fnUntraced(function*<A>(
    key: StreamKey,
    read: (worker: StreamWorker) => Effect.Effect<A, RunError, Store | Source>
  ) {
    const worker = yield* find(key)
    const result = yield* withLock(
      worker,
      Effect.raceFirst(read(worker), Effect.andThen(worker.stopped.await, unknown(key)))
    )
    worker.retryAt = 0
    yield* worker.wakeUp.open
    return result
  })

  /** Runs all passes of the backfill: at most four if one process reads them. The following poll completes the backfill. */
  const backfill = Effect.fnUntraced(function*(worker: StreamWorker) {
    for (;;) {
      const { backfilledAt, sweep } = yield* stateOf(worker)
      if (backfilledAt !== null && sweep?.backfill !== true) return
      yield* sweepUntil(worker, never)
    }
  })

  const readOnce = Effect.fnUntraced(function*(worker: StreamWorker) {
    const state = yield* stateOf(worker)
    if (state.paused) return
    if (!isSweepOnly(worker)) yield* backfill(worker)
    yield* pollNow(worker)
    if (!isSweepOnly(worker)) yield* runRefresh(worker, never)
  })

  return Capture.of({
    owner,
    assign,
    run,
    once: Effect.suspend(() =>
      Effect.forEach(
        [...workers.values()],
        (worker) =>
          Effect.andThen(catchUp(worker), withLock(worker, readOnce(worker))).pipe(
            Effect.as<ReadonlyArray<StreamFailure>>([]),
            Effect.catch((error) =>
              Effect.as(recordFailure(worker, error), [{ ...worker.key, problem: error.message }])
            )
          ),
        { concurrency: "unbounded" }
      )
    ).pipe(Effect.map((problems) => problems.flat())),
    poll: (key) => runForOperator(key, pollNow),
    sweep: (key) =>
      runForOperator(
        key,
        (worker) => Effect.asVoid(sweepUntil(worker, never, restartSweep))
      ),
    execute: Effect.fnUntraced(function*(key, command) {
      const worker = yield* find(key)
      const state = yield* Effect.provideContext(executeCommand(worker, command), services)
      worker.pollRequested ||= command.kind === "poll" || command.kind === "rewind"
      worker.retryAt = 0
      yield* worker.wakeUp.open
      return state
    }),
    audit: (key) => runForOperator(key, (worker) => audit(worker, pollNow(worker)))
  })
})

/** Takes over the streams; a process that read them before is fenced (I10, X9). */
export const layer = (options: CaptureOptions): Layer.Layer<Capture, StoreError, Store | Source> =>
  Layer.effect(Capture, make(options))
