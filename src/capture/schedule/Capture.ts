/**
 * Reads every stream in a loop of its own, while streams are added and removed.
 *
 * Invariants
 * 1. A failing or blocked stream never delays another stream, nor does adding or removing one
 * 2. Once `assign` returns, nothing is written to the streams that it removed   (X19)
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Guard from "../../domain/Guard.ts"
import { isDerived, type StreamKey, streamName } from "../../domain/Model.ts"
import * as Processing from "../../domain/Processing.ts"
import { Source } from "../../source/Source.ts"
import { retryWhileStoreUnavailable } from "../../store/Recovery.ts"
import type { StreamState } from "../../store/State.ts"
import { type ListedHold, Store, type StoreError } from "../../store/Store.ts"
import * as StoreAdoption from "../commit/StoreAdoption.ts"
import { notBackfilled } from "../derived/CandidateBackfill.ts"
import { audit, type AuditReport } from "../read/Audit.ts"
import { restartSweep } from "../read/Sweep.ts"
import { redactInBackground } from "../redaction/Redactor.ts"
import { type OwnerOf, type RunError, takeStreams } from "../Stream.ts"
import * as Backpressure from "./Backpressure.ts"
import * as FailureLog from "./FailureLog.ts"
import { type CommandRefused, executeCommand, type StreamCommand } from "./StreamCommands.ts"
import { initialState, type StreamSettings } from "./StreamLifecycle.ts"
import * as StreamWorker from "./StreamWorker.ts"

export interface CaptureOptions {
  /** Minimum overlap of polls, which read from the previous watermark minus the overlap. */
  readonly overlapMin: Duration.Duration
  readonly confirmInterval: Duration.Duration
  /** Thresholds above which changes are held. Default: `Guard.thresholds`. */
  readonly guard?: Guard.Thresholds
  /** Used at start-up to finish an interrupted adoption, and to redact content that was stored before a rule was added. */
  readonly processingOf?: StoreAdoption.ProcessingOf
  readonly backpressure?: Backpressure.Limit
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
  /** The owner of an integration's streams, in whose name their state is written (I10). */
  readonly ownerOf: OwnerOf
  /**
   * Sets the streams of an integration that are read from now on. Other streams of the integration are interrupted, possibly
   * before the current page is committed, and retired. A retired stream that is assigned again continues where it stopped.
   */
  readonly assign: (integration: string, streams: ReadonlyArray<StreamSettings>) => Effect.Effect<void, StoreError>
  /**
   * Reads all streams until interrupted, and redacts content that was stored before a rule was added. Fails only if another process took
   * over or the store cannot be used at all.
   */
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
  /** Why no stream is read at the moment, as text; null while streams are read. */
  readonly pauseReason: Effect.Effect<string | null>
  /** Compares one stream's published records with its whole list and waits until the audit ends. */
  readonly audit: (key: StreamKey) => Effect.Effect<AuditReport, RunError | UnknownStream>
}>()("rollcall/capture/Capture") {}

const approvedPage = 100

const make = Effect.fnUntraced(function*(options: CaptureOptions) {
  const store = yield* Store
  const source = yield* Source
  const services = Context.make(Store, store).pipe(Context.add(Source, source))
  const ownerOf = yield* takeStreams
  const processingOf = options.processingOf ?? (() => null)
  yield* StoreAdoption.finish(ownerOf, store.identity.generation, processingOf)
  const backpressure = Backpressure.make(store, options.backpressure ?? null)
  const failureLog = FailureLog.make()
  const workers = new Map<string, StreamWorker.StreamWorker>()
  /** The loops, one per stream; null unless `run` is running. */
  let loops: FiberMap.FiberMap<string, never, StoreError> | null = null

  const start = (worker: StreamWorker.StreamWorker) =>
    loops === null
      ? Effect.void
      : Effect.asVoid(
        FiberMap.run(
          loops,
          streamName(worker.key),
          Effect.provideContext(StreamWorker.run(worker, backpressure), services)
        )
      )

  const add = Effect.fnUntraced(function*(settings: StreamSettings) {
    const { derivedProcessing = null, integration, model, processing } = settings
    const worker = yield* StreamWorker.make({
      key: { integration, model },
      settings,
      processing: processing ?? Processing.defaultProcessing(model),
      derivedProcessing,
      overlapMin: options.overlapMin,
      confirmInterval: options.confirmInterval,
      guard: options.guard ?? Guard.thresholds,
      owner: ownerOf(integration)
    }, failureLog)
    workers.set(streamName(worker.key), worker)
    yield* start(worker)
  })

  const remove = Effect.fnUntraced(function*(worker: StreamWorker.StreamWorker) {
    workers.delete(streamName(worker.key))
    yield* worker.stopped.open
    if (loops !== null) yield* FiberMap.remove(loops, streamName(worker.key))
    yield* StreamWorker.withLock(worker, Effect.void)
    failureLog.forget(worker.key)
  })

  const assign = Effect.fnUntraced(function*(integration: string, wanted: ReadonlyArray<StreamSettings>) {
    const before = [...workers.values()].filter((worker) => worker.key.integration === integration)
    yield* Effect.forEach(before, remove, { concurrency: "unbounded", discard: true })
    const rows = wanted.flatMap(({ derivedProcessing, ...settings }) =>
      derivedProcessing === undefined ? [settings] : [settings, { ...settings, model: derivedProcessing.model }]
    )
    yield* store.ensureStreams(rows.map((settings) => ({
      ...initialState(settings, options.overlapMin),
      generation: Math.max(settings.generation ?? 1, store.identity.generation),
      ...store.encryptionKey === null ? {} : { encryptedWith: store.encryptionKey }
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
      yield* store.transact(ownerOf(integration), state, (tx) => tx.saveState({ ...tx.state, ...condition }))
    }
    yield* Effect.forEach(wanted, add, { discard: true })
  })

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
      yield* retryWhileStoreUnavailable(wakeApproved)
      seen = yield* store.awaitDecision(seen)
    }
  })

  const redactOlder = Effect.provideContext(redactInBackground(ownerOf, processingOf), services)

  const run = Effect.scoped(Effect.gen(function*() {
    const own = yield* FiberMap.make<string, never, StoreError>()
    loops = own
    yield* Effect.addFinalizer(() => Effect.sync(() => loops = null))
    yield* Effect.forEach(workers.values(), start, { discard: true })
    return yield* Effect.raceAllFirst([
      Effect.andThen(FiberMap.join(own), Effect.never),
      watchDecisions,
      Effect.andThen(retryWhileStoreUnavailable(redactOlder), Effect.never)
    ])
  }))

  const unknown = (key: StreamKey) => Effect.fail(new UnknownStream({ stream: streamName(key) }))
  const find = (key: StreamKey) => {
    const worker = workers.get(streamName(key))
    return worker === undefined ? unknown(key) : Effect.succeed(worker)
  }

  /** Runs `read` for a waiting operator, and fails if the stream is removed meanwhile. Then wakes the loop without backoff. */
  const runForOperator = Effect.fnUntraced(function*<A>(
    key: StreamKey,
    read: (worker: StreamWorker.StreamWorker) => Effect.Effect<A, RunError, Store | Source>
  ) {
    const worker = yield* find(key)
    const result = yield* StreamWorker.withLock(
      worker,
      Effect.raceFirst(
        Effect.provideContext(read(worker), services),
        Effect.andThen(worker.stopped.await, unknown(key))
      )
    )
    worker.retryAt = 0
    yield* worker.wakeUp.open
    return result
  })

  const readOnce = Effect.fnUntraced(function*(worker: StreamWorker.StreamWorker) {
    return yield* StreamWorker.catchUp(worker).pipe(
      Effect.andThen(StreamWorker.withLock(worker, StreamWorker.readOnce(worker))),
      Effect.as<ReadonlyArray<StreamFailure>>([]),
      Effect.catch((error) =>
        Effect.as(StreamWorker.recordFailure(worker, error), [{ ...worker.key, problem: error.message }])
      ),
      Effect.provideContext(services)
    )
  })

  return Capture.of({
    ownerOf,
    assign,
    run,
    once: Effect.suspend(() => Effect.forEach([...workers.values()], readOnce, { concurrency: "unbounded" })).pipe(
      Effect.map((failures) => failures.flat()),
      Effect.tap(redactOlder)
    ),
    poll: (key) => runForOperator(key, StreamWorker.pollNow),
    sweep: (key) => runForOperator(key, (worker) => Effect.asVoid(restartSweep(worker, StreamWorker.neverYield))),
    execute: Effect.fnUntraced(function*(key, command) {
      const worker = yield* find(key)
      const state = yield* Effect.provideContext(executeCommand(worker, command), services)
      worker.pollRequested ||= command.kind === "poll" || command.kind === "rewind"
      worker.retryAt = 0
      yield* worker.wakeUp.open
      return state
    }),
    pauseReason: backpressure.pauseReason,
    audit: (key) => runForOperator(key, (worker) => audit(worker, StreamWorker.pollNow(worker)))
  })
})

/** Takes over the streams; a process that read them before is fenced (I10, X9). */
export const layer = (options: CaptureOptions): Layer.Layer<Capture, StoreError, Store | Source> =>
  Layer.effect(Capture, make(options))
