/**
 * Publishes the event log to the sink, in order. Stops if the sink does not hold the events of this log.
 *
 * Invariants
 * 1. Publishing resumes at the checkpoint that the sink has. So nothing is published twice if the process dies between the commit in the
 *    sink and the commit in the store   (X4)
 * 2. Nothing is published to a sink that holds other events than this log. `ResumePoint.ts` checks that at the start, for example after
 *    the store was restored (X14). `LogBatches.ts` checks it with every read   (X18)
 * 3. Of two relays of one store, only one can publish. The ownership in the store and the fencing of the sink ensure that   (I10, X15)
 * 4. Content that is removed from the log is not published later. A batch that was read before the removal is read again. Only a batch that
 *    is being sent at that moment still has the content   (I11)
 *
 * Gotchas
 * - The relay takes its scope once each time it is placed in this process. If it loses the scope, a retry does not take it back. In a fleet,
 *   the relay takes it again after `delays.replaced`, unless the placement has moved it.
 * - The sink also fences a relay that was frozen for too long, because its transaction timed out. So a fenced relay checks the store: it has
 *   lost its scope only if another process owns the scope there.
 * - A batch may be abandoned on shutdown. If the sink has committed it, the sink reports it at the next `open`. If not, no reader has
 *   seen it.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import { CurrentModels } from "../domain/BuiltInModels.ts"
import type { LogEntry } from "../domain/ChangeEvent.ts"
import { Placement } from "../fleet/Placement.ts"
import { relayReader } from "../store/EventLog.ts"
import { backoff, describeStoreError, failOnDefect, finishOnInterrupt, type Unexpected } from "../store/Recovery.ts"
import type { Owner } from "../store/State.ts"
import { type Outage, Store, type StoreError } from "../store/Store.ts"
import * as Tracing from "../telemetry/Tracing.ts"
import * as LogBatches from "./LogBatches.ts"
import * as Progress from "./Progress.ts"
import * as RelayStatus from "./RelayStatus.ts"
import { type Diverged, findResumePoint } from "./ResumePoint.ts"
import { type Checkpoint, Sink, type SinkError, unreachable } from "./Sink.ts"

export interface RelayOptions {
  readonly progressEvery?: Duration.Input
  /**
   * Whether a relay that was replaced takes ownership again, if it is still placed here after `delays.replaced`. If it is, the other process
   * took over by mistake: it had been frozen just before, or it is not part of the fleet.
   */
  readonly takesAgain: boolean
}

export class Relay extends Context.Service<Relay, {
  readonly status: Effect.Effect<RelayStatus.RelayStatus>
  /**
   * Returns once the sink has the events up to `position` and a progress report that was read after this call. Returns earlier if the relay
   * has stopped, or if the sink or the store has been unavailable for longer than `patience`; by default, that wait is unlimited.
   */
  readonly awaitPosition: (position: number, patience?: Duration.Input) => Effect.Effect<RelayStatus.RelayStatus>
}>()("rollcall/publish/Relay") {
  /**
   * Publishes in the background while the layer exists and the relay is placed in this process; publishes the streams' progress at most
   * once per `progressEvery`.
   */
  static readonly placedLayer = (
    { progressEvery = "10 seconds", takesAgain }: RelayOptions
  ): Layer.Layer<Relay, never, Store | Sink | Placement> =>
    Layer.effect(Relay, Effect.suspend(() => make(Duration.fromInputUnsafe(progressEvery), takesAgain)))
  /** The relay of a process that shares its store with no other. */
  static readonly layerWith = (progressEvery: Duration.Input): Layer.Layer<Relay, never, Store | Sink> =>
    Layer.provide(Relay.placedLayer({ progressEvery, takesAgain: false }), Placement.local)
  static readonly layer: Layer.Layer<Relay, never, Store | Sink> = Relay.layerWith("10 seconds")
}

type RelayError = SinkError | StoreError | Diverged | Unexpected

const delays = {
  /** After the sink refused the request: time for an operator to correct the cause. */
  refused: Duration.minutes(5),
  /** After another process took ownership, until this one takes it again. */
  replaced: Duration.seconds(10),
  /** How long a shutdown, or the move to another process, waits for the batch in progress. */
  shutdown: Duration.millis(1_500)
}

const publishedCounter = Metric.counter("rollcall_events_published_total", {
  description: "Events that were published to Kafka",
  incremental: true
})
const delayHistogram = Metric.histogram("rollcall_publish_delay_seconds", {
  description: "Time from the detection of a change until its event is in Kafka, including a hold",
  boundaries: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800]
})

const measure = Effect.fnUntraced(function*(batch: ReadonlyArray<LogEntry>) {
  const now = yield* Clock.currentTimeMillis
  const context = yield* Effect.context<never>()
  for (const entry of batch) delayHistogram.updateUnsafe((now - entry.detectedAt) / 1000, context)
  for (const [model, entries] of Map.groupBy(batch, (entry) => entry.model)) {
    yield* Metric.update(Metric.withAttributes(publishedCounter, { model }), entries.length)
  }
})

const describe = (error: RelayError): Pick<Outage, "message" | "hint"> =>
  error._tag === "StoreError" ? describeStoreError(error) : error._tag === "SinkError" ? error.reason : error

const finishOnShutdown = finishOnInterrupt(delays.shutdown)

/** How the relay continues after an error: retry soon, stop, or stop and retry after `delays.refused`. */
const recoveryFor = (error: RelayError): "wait" | "stop" | "stopAndRetry" => {
  if (error._tag === "Diverged") return "stop"
  if (error._tag === "Unexpected") return "stopAndRetry"
  switch (error.reason._tag) {
    case "Unreachable":
    case "Unavailable":
    case "OlderCopy":
    case "MissingKey":
      return "wait"
    case "Refused":
      return "stopAndRetry"
    case "Fenced":
    case "ForeignStore":
    case "Misconfigured":
    case "Incompatible":
    case "Damaged":
      return "stop"
  }
}

const make = Effect.fnUntraced(function*(progressEvery: Duration.Duration, takesAgain: boolean) {
  const store = yield* Store
  const sink = yield* Sink
  const { identity } = store
  const log = LogBatches.make(store)
  const status = yield* RelayStatus.make
  let failures = 0
  /** The state that was last logged, if it is still the current one. */
  let logged: RelayStatus.RelayStatus["state"] | null = null

  const markPublished = Effect.fnUntraced(function*(position: number, reportPosition?: number) {
    failures = 0
    if (logged !== null) yield* Effect.logInfo("publishing again")
    logged = null
    yield* status.setPublished(position, reportPosition)
  })

  const publish = Effect.fnUntraced(function*(owner: Owner, batch: ReadonlyArray<LogEntry>, checkpoint: Checkpoint) {
    const inSpans = Tracing.inEachTraceOf(
      batch.map(({ traceparent }) => traceparent),
      "relay",
      (events) => ({ "rollcall.events": events, "rollcall.batch.events": batch.length })
    )
    const places = yield* inSpans(sink.publish(identity, batch, checkpoint))
    const published = places.length === 0 ? null : { at: yield* Clock.currentTimeMillis, places }
    yield* store.saveReaderPosition(owner, relayReader, checkpoint.position, published)
    yield* measure(batch)
    yield* markPublished(checkpoint.position)
  }, finishOnShutdown)

  /** Returns when an idle session has work: new events in the log, or a progress report that is due or requested. */
  const awaitWork = (position: number) =>
    Effect.raceFirst(
      Effect.timeoutOption(store.awaitLog(position), progressEvery),
      status.awaitRequest
    )

  /** Opens the sink and publishes until something fails. */
  const session = Effect.fn("Relay.session")(function*(owner: Owner): Effect.fn.Return<never, RelayError> {
    const published = yield* sink.open(identity)
    let last: Checkpoint = yield* findResumePoint({ owner, sink, store }, published)
    let { removals } = yield* store.chains([])
    const progress = Progress.make(store, yield* CurrentModels, progressEvery)
    /** The batch after `last`, if it was read ahead. */
    let ahead: LogBatches.LogBatch | null = null
    while (true) {
      if (status.takeRequests()) progress.checkNow()
      const { position } = last
      const report = yield* progress.due(position)
      // This read checks that the sink still matches the log, so it precedes the progress report.
      let next: LogBatches.LogBatch = ahead === null
        ? yield* log.read(last, removals)
        : yield* log.verified(last, ahead)
      ahead = null
      if (report !== null) {
        yield* finishOnShutdown(sink.publishProgress(identity, report.streams))
        progress.markReported(report)
        yield* markPublished(position, report.position)
        next = yield* log.verified(last, next)
      }
      removals = next.removals
      if (next.checkpoint.position === position) {
        yield* markPublished(position)
        yield* awaitWork(position)
        continue
      }
      const [, following] = yield* Effect.all([
        publish(owner, next.events, next.checkpoint),
        next.more ? Effect.option(log.read(next.checkpoint, removals)) : Effect.succeedNone
      ], { concurrency: 2 })
      ahead = Option.getOrNull(following)
      last = next.checkpoint
    }
  })

  /** The sink fenced this relay. If it still owns the store, only its own transaction timed out, and it may retry. */
  const retryIfOwner = (owner: Owner) => (error: SinkError): Effect.Effect<never, RelayError> =>
    error.reason._tag !== "Fenced" ? Effect.fail(error) : store.readerPosition(relayReader).pipe(
      Effect.flatMap((position) => store.saveReaderPosition(owner, relayReader, position)),
      Effect.andThen(unreachable(error.reason.message, error))
    )

  const handleFailure = Effect.fnUntraced(function*(error: RelayError): Effect.fn.Return<void, "replaced"> {
    const recovery = recoveryFor(error)
    const state = recovery === "wait" ? "waiting" : "stopped"
    const reason = describe(error)
    // The store itself logs its temporary failures.
    if (logged !== state && !(error._tag === "StoreError" && recovery === "wait")) {
      logged = state
      yield* (recovery === "wait" ? Effect.logWarning : Effect.logError)(
        `${recovery === "wait" ? "publishing waits" : "publishing stopped"}: ${reason.message} (${reason.hint})`
      )
    }
    yield* status.setFailed(state, reason)
    const isReplaced = error._tag === "StoreError" && error.reason._tag === "Fenced" && error.reason.epoch > 0
    if (isReplaced && takesAgain) {
      return yield* Effect.andThen(Effect.sleep(delays.replaced), Effect.fail("replaced" as const))
    }
    if (recovery === "stop") return yield* Effect.never
    const delay = backoff(failures++)
    const jitter = yield* Random.nextBetween(0.5, 1)
    yield* Effect.sleep(recovery === "wait" ? Duration.times(delay, jitter) : delays.refused)
  })

  const retryForever = <A>(effect: Effect.Effect<A, RelayError>): Effect.Effect<A, "replaced"> =>
    Effect.catch(failOnDefect(effect), (error) => Effect.andThen(handleFailure(error), retryForever(effect)))

  /** Publishes while the relay is placed here. */
  const run = status.setState("starting").pipe(
    Effect.andThen(retryForever(store.takeOwnership(relayReader))),
    Effect.flatMap((owner) => retryForever(Effect.catchTag(session(owner), "SinkError", retryIfOwner(owner)))),
    Effect.eventually,
    Effect.onInterrupt(() => status.setState("standby"))
  )
  yield* (yield* Placement).singleton(relayReader, run)
  return Relay.of({ status: status.current, awaitPosition: status.awaitPosition })
})
