/**
 * Reads each stream in a separate loop, while streams are added and removed, and shards are taken and handed over.
 *
 * Invariants
 * 1. A failing or blocked stream never delays another stream. Adding or removing a stream does not either
 * 2. Once `assign` returns, nothing is written to the streams that it removed   (X19)
 */
import type * as Arr from "effect/Array"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import * as Guard from "../../domain/Guard.ts"
import { type StreamKey, streamName } from "../../domain/Model.ts"
import * as Processing from "../../domain/Processing.ts"
import { captureScopeOf, captureScopes } from "../../domain/Shard.ts"
import { Source } from "../../source/Source.ts"
import { retryWhileStoreUnavailable } from "../../store/Recovery.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { audit } from "../read/Audit.ts"
import { restartSweep } from "../read/Sweep.ts"
import * as Redactor from "../rewrite/Redactor.ts"
import * as StoreAdoption from "../rewrite/StoreAdoption.ts"
import type { StreamSettings } from "../StreamLifecycle.ts"
import { watchApprovals } from "./ApprovalWatch.ts"
import * as AssignedStreams from "./AssignedStreams.ts"
import * as Backpressure from "./Backpressure.ts"
import * as FailureLog from "./FailureLog.ts"
import * as OwnedShards from "./OwnedShards.ts"
import { executeCommand, requireRead, type StreamCommand } from "./StreamCommands.ts"
import * as StreamWorker from "./StreamWorker.ts"

export interface CaptureOptions {
  /** Minimum overlap of polls, which read from the previous watermark minus the overlap. */
  readonly minOverlap: Duration.Duration
  readonly confirmInterval: Duration.Duration
  /** Thresholds above which changes are held. `Guard.defaultThresholds` by default. */
  readonly guard?: Guard.Thresholds
  /** Used at start-up to finish an interrupted adoption, and to redact content that was stored before a rule was added. */
  readonly processingOf?: StoreAdoption.ProcessingOf
  readonly backpressure?: Backpressure.Limit
  /** False if the process owns no stream until it takes shards. By default, it takes all shards when the layer is built. */
  readonly takesAll?: boolean
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

/** Time between two attempts to retire an encryption key that another process uses. */
const retirePause = "1 minute"

const make = Effect.fnUntraced(function*(options: CaptureOptions) {
  const store = yield* Store
  const source = yield* Source
  const services = Context.make(Store, store).pipe(Context.add(Source, source))
  const models = yield* CurrentModels
  const takesAll = options.takesAll ?? true
  const shards = yield* OwnedShards.make({ takesAll })
  const { ownerOf, owns, runFor, untilHandedOver } = shards
  const streams = AssignedStreams.make(store, { minOverlap: options.minOverlap, models, ownerOf })
  const processingOf = options.processingOf ?? (() => null)
  const backpressure = Backpressure.make(store, options.backpressure ?? null)
  const failureLog = FailureLog.make(models)
  const workers = new Map<string, StreamWorker.StreamWorker>()
  /** Opened when stored content may need redaction: at the start, and after shards were taken. */
  const mayRedact = yield* Latch.make(true)
  /** The loops, one per stream; null unless `run` is running. */
  let loops: FiberMap.FiberMap<string, never, StoreError> | null = null

  /** Takes over these shards. Their streams are read once they are assigned. */
  const take = Effect.fnUntraced(function*(scopes: Arr.NonEmptyReadonlyArray<string>) {
    yield* shards.take(scopes)
    yield* Redactor.begin(shards, processingOf).pipe(
      Effect.andThen(StoreAdoption.finish(shards, store.identity.generation, processingOf)),
      Effect.provideService(Store, store)
    )
    yield* mayRedact.open
  })
  if (takesAll) yield* take(captureScopes)

  const start = (worker: StreamWorker.StreamWorker) =>
    loops === null
      ? Effect.void
      : Effect.asVoid(
        FiberMap.run(
          loops,
          streamName(worker.key),
          StreamWorker.run(worker, backpressure).pipe(
            Effect.provideContext(services),
            Effect.catch((error) => Effect.andThen(untilHandedOver(error), Effect.never))
          )
        )
      )

  const add = Effect.fnUntraced(function*(settings: StreamSettings) {
    const { derivedProcessing = null, integration, model, processing } = settings
    const worker = yield* StreamWorker.make({
      key: { integration, model },
      settings,
      processing: processing ?? Processing.defaultProcessing(model, models),
      derivedProcessing,
      minOverlap: options.minOverlap,
      confirmInterval: options.confirmInterval,
      guard: options.guard ?? Guard.defaultThresholds,
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
    failureLog.drop(worker.key)
  })

  /** Interrupts the reading and the background work of these shards, possibly before a current page is committed. */
  const handOver = Effect.fnUntraced(function*(scopes: ReadonlySet<string>) {
    const moved = [...workers.values()].filter(({ key }) => scopes.has(captureScopeOf(key.integration)))
    yield* Effect.forEach(moved, remove, { concurrency: "unbounded", discard: true })
    yield* shards.handOver([...scopes])
  })

  /**
   * Sets the streams that are read from now on, for each of these owned integrations. All other streams of these integrations are
   * interrupted, possibly before the current page is committed, and retired. A retired stream that is assigned again continues where it
   * stopped.
   */
  const assign = Effect.fnUntraced(function*(assigned: AssignedStreams.Assigned) {
    const before = [...workers.values()].filter(({ key }) => assigned.has(key.integration))
    yield* Effect.forEach(before, remove, { concurrency: "unbounded", discard: true })
    for (const state of yield* streams.save(assigned)) {
      const [settings] = assigned.get(state.integration) ?? []
      if (settings !== undefined) failureLog.remember(state, settings.account)
    }
    yield* Effect.forEach([...assigned.values()].flat(), add, { discard: true })
  })

  /** Stops reading a stream of an owned integration, as `assign` does, and retires it. Other streams are not interrupted. */
  const retire = Effect.fnUntraced(function*(key: StreamKey) {
    const worker = workers.get(streamName(key))
    if (worker !== undefined) yield* remove(worker)
    yield* streams.retire(key)
  })

  /** The loop of a stream with approved holds releases them itself, so no stream waits for another stream's run. */
  const wakeApproved = Effect.fnUntraced(function*(stream: string) {
    const worker = workers.get(stream)
    if (worker === undefined) return
    worker.hasApprovedHold = true
    yield* worker.wakeUp.open
  })

  const redactOlder = Effect.provideContext(Redactor.redactAndRetire(shards, processingOf), services)
  const keepRedacting = Effect.forever(
    mayRedact.await.pipe(
      Effect.andThen(mayRedact.close),
      Effect.andThen(retryWhileStoreUnavailable(redactOlder)),
      Effect.flatMap((isDone) =>
        isDone ? Effect.void : Effect.raceFirst(mayRedact.await, Effect.delay(mayRedact.open, retirePause))
      ),
      Effect.catch((error) => Effect.andThen(untilHandedOver(error), mayRedact.open))
    )
  )

  const run = Effect.scoped(Effect.gen(function*() {
    const own = yield* FiberMap.make<string, never, StoreError>()
    loops = own
    yield* Effect.addFinalizer(() => Effect.sync(() => loops = null))
    yield* Effect.forEach(workers.values(), start, { discard: true })
    return yield* Effect.raceAllFirst([
      Effect.andThen(FiberMap.join(own), Effect.never),
      watchApprovals(store, wakeApproved),
      keepRedacting
    ])
  }))

  const unknown = (key: StreamKey) => Effect.fail(new UnknownStream({ stream: streamName(key) }))
  const find = (key: StreamKey) => {
    const worker = workers.get(streamName(key))
    return worker === undefined ? unknown(key) : Effect.succeed(worker)
  }

  /** Runs `read` for a waiting operator, and fails if the stream is removed in the meantime. Then wakes the loop without backoff. */
  const runForOperator = Effect.fnUntraced(function*<A, E>(
    key: StreamKey,
    read: (worker: StreamWorker.StreamWorker) => Effect.Effect<A, E, Store | Source>
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

  return {
    ownerOf,
    owns,
    runFor,
    take,
    handOver,
    /** Returns a lost shard (see `OwnedShards.ts`). Its streams are not read until the shard is taken again. */
    awaitLost: shards.awaitLost,
    assign,
    retire,
    /**
     * Reads all streams until interrupted, and redacts content that was stored before a rule was added. Fails only if the store cannot
     * be used at all, or if another process took over and `takesAll` is set.
     */
    run,
    /** Polls each stream once, after its backfill; skips paused streams. */
    once: Effect.suspend(() => Effect.forEach([...workers.values()], readOnce, { concurrency: "unbounded" })).pipe(
      Effect.map((failures) => failures.flat()),
      Effect.tap(redactOlder)
    ),
    /** Polls one stream now and waits until the poll ends. */
    poll: (key: StreamKey) => runForOperator(key, StreamWorker.pollNow),
    /** Sweeps one stream now, from its first page, and waits until the sweep ends. */
    sweep: (key: StreamKey) =>
      runForOperator(key, (worker) => Effect.asVoid(restartSweep(worker, StreamWorker.neverYield))),
    /** Executes an operator's command. Returns at once; the run that it causes starts after the current page. */
    execute: Effect.fnUntraced(function*(key: StreamKey, command: StreamCommand) {
      const worker = yield* find(key)
      const state = yield* Effect.provideContext(executeCommand(worker, command), services)
      worker.pollRequested ||= command.kind === "poll" || command.kind === "rewind"
      worker.retryAt = 0
      yield* worker.wakeUp.open
      return state
    }),
    /** Compares one stream's published records with its whole list and waits until the audit ends. */
    audit: (key: StreamKey) =>
      runForOperator(
        key,
        (worker) => Effect.andThen(requireRead(worker), audit(worker, StreamWorker.pollNow(worker)))
      )
  }
})

export class Capture extends Context.Service<Capture, Effect.Success<ReturnType<typeof make>>>()(
  "rollcall/capture/Capture"
) {}

/** Takes over the streams, unless `takesAll` is false; a process that read them before is fenced (I10, X9). */
export const layer = (options: CaptureOptions): Layer.Layer<Capture, StoreError, Store | Source> =>
  Layer.effect(Capture, make(options))
