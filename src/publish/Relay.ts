/**
 * Moves the event log to the sink, in order, and never past something it cannot vouch for.
 *
 * Invariants
 * 1. Where the sink stands decides where to go on: a crash between the sink's commit and ours publishes nothing twice.
 * 2. What the sink holds must be what this log holds up to that position, or nothing is published: compared with every read,
 *    so also where another copy of the store answers a relay that runs   (X14, X18)
 * 3. Of two relays of one store one has effect: the store's claim and the sink's fence see to it   (I10, X15)
 *
 * Gotchas
 * - The claim is made once. A relay that was replaced must not take over again by trying.
 * - A sink fences a relay that was frozen for longer than its transaction may stay open too; the claim tells the two apart.
 * - Giving up a batch on shutdown is safe: either the sink has it and says so when it is opened again, or nobody saw it.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"
import { genesis, type LogEntry } from "../domain/ChangeEvent.ts"
import { streamName } from "../domain/Model.ts"
import { type LogRange, type Owner, publishingStart, Store, type StoreError } from "../store/Store.ts"
import * as Progress from "./Progress.ts"
import {
  type Checkpoint,
  findPublishedElsewhere,
  type RecordKey,
  Sink,
  type SinkCheckpoint,
  SinkError,
  Unreachable
} from "./Sink.ts"

export interface RelayStatus {
  /** Newest position that is in the sink, as far as we know. */
  readonly position: number
  /** Up to where the sink has been told how far streams are complete. */
  readonly progressPosition: number
  /** `waiting`: sink or store are away, it goes on by itself. `stopped`: someone has to act. */
  readonly state: "starting" | "running" | "waiting" | "stopped"
  /** Of `waiting` and `stopped`; `since` is our clock in milliseconds. */
  readonly reason: { readonly message: string; readonly hint: string; readonly since: number } | null
}

export class Relay extends Context.Service<Relay, {
  readonly status: Effect.Effect<RelayStatus>
  /** Returns once everything up to `position`, and the streams' progress, is in the sink, or the relay has stopped. */
  readonly awaitPosition: (position: number) => Effect.Effect<RelayStatus>
}>()("rollcall/publish/Relay") {
  /** Publishes in the background for as long as the layer lives; tells the streams' progress once in `progressEvery`. */
  static readonly layerWith = (progressEvery: Duration.Input): Layer.Layer<Relay, never, Store | Sink> =>
    Layer.effect(Relay, Effect.suspend(() => make(Duration.fromInputUnsafe(progressEvery))))
  static readonly layer: Layer.Layer<Relay, never, Store | Sink> = Relay.layerWith("10 seconds")
}

/** The sink holds what this log never had, or no longer has. */
class Diverged extends Schema.TaggedError<Diverged>()("Diverged", { message: Schema.String }) {
  readonly hint =
    "was the store restored from a backup, or exchanged, or the sink emptied, or did it run without Kafka for longer than " +
    "`retention`? Publishing stays stopped so that no consumer mixes two histories or misses a part of one. Bring back " +
    "the store that published last, or stop Rollcall and let `rollcall store adopt` publish this one anew, in a later generation."
}

/** What is compared of a log with what a sink holds. */
export interface LogState extends LogRange {
  readonly generation: number
  /** Position that was noted after publishing; 0 = none. */
  readonly saved: number
  /** At the sink's position: see `Store.chains`. */
  readonly chain: string | null
}

/** The positions behind what is published that are no longer read, in words; null when there are none   (I1). */
const findGap = (position: number, { oldest }: LogRange): string | null =>
  position > 0 && position < oldest - 1
    ? `positions ${position + 1} to ${oldest - 1} were not published and are no longer kept`
    : null

/** Why this log does not continue what was published up to `reached`, in words; null when it does. */
const findMismatch = (
  checkpoint: Checkpoint,
  { chain, ...range }: Pick<LogState, "oldest" | "newest" | "chain">
): string | null => {
  const { position } = checkpoint
  if (position > range.newest) return `the sink holds position ${position}, the log ends at ${range.newest}`
  return findGap(position, range) ?? (chain === checkpoint.chain
    ? null
    : `position ${position} of the sink is another event in the log, or comes after others`)
}

/**
 * Why what the sink holds cannot be of this log, or is not followed by it, in words; null when it is. The chain proves every
 * event up to the sink's position, whatever the log itself noted of it: a log that died before noting it is the same log, and
 * a restored one is not, unless it holds the same events in the same order   (X4, X14, X18).
 */
export const findDivergence = (published: SinkCheckpoint | null, log: LogState): string | null => {
  if (published === null) {
    // A saved position before the oldest is where adopting put it: nothing of this generation is published.
    return log.saved > 0 && log.saved >= log.oldest
      ? `position ${log.saved} was published, the sink knows of none`
      : findGap(log.saved, log)
  }
  const { generation } = published
  if (generation > log.generation) {
    return `the sink holds generation ${generation} of this store, the store is at ${log.generation}`
  }
  return generation < log.generation ? findGap(log.saved, log) : findMismatch(published, log)
}

type RelayError = SinkError | StoreError | Diverged

/** What is published next. */
interface NextBatch {
  readonly batch: ReadonlyArray<LogEntry>
  readonly checkpoint: Checkpoint
}

const reader = "relay"
const batchRows = 500
const delays = {
  /** After a first failure; doubled from failure to failure up to `longest`. */
  first: Duration.millis(200),
  longest: Duration.seconds(30),
  /** Until whoever has to act is assumed to have done so. */
  refused: Duration.minutes(5),
  /** How long a shutdown waits for the batch that was begun. */
  shutdown: Duration.seconds(10)
}

const positionGauge = Metric.gauge("rollcall_relay_position", {
  description: "Newest position of the event log that is in the sink"
})
const lagGauge = Metric.gauge("rollcall_relay_lag_events", {
  description: "Events in the log that are not yet in the sink"
})
const publishedCounter = Metric.counter("rollcall_events_published_total", {
  description: "Events published to the sink",
  incremental: true
})
const delayHistogram = Metric.histogram("rollcall_publish_delay_seconds", {
  description: "From the moment a change was detected until the sink held it",
  boundaries: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800]
})

const measure = Effect.fnUntraced(function*(batch: ReadonlyArray<LogEntry>) {
  const now = yield* Clock.currentTimeMillis
  for (const entry of batch) yield* Metric.update(delayHistogram, (now - entry.detectedAt) / 1000)
  for (const [model, entries] of Map.groupBy(batch, (entry) => entry.model)) {
    yield* Metric.update(Metric.withAttributes(publishedCounter, { model }), entries.length)
  }
})

const messageOf = (fault: RelayError): string =>
  fault._tag === "StoreError"
    ? `the store is ${fault.reason._tag.toLowerCase()}`
    : fault._tag === "Diverged"
    ? fault.message
    : fault.reason.message

/** What was begun is finished on shutdown too, unless that takes longer than `pause.shutdown`. */
const finishOnShutdown = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkChild(restore(effect)), (fiber) =>
      restore(Fiber.join(fiber)).pipe(
        Effect.onInterrupt(() =>
          Fiber.await(fiber).pipe(Effect.timeoutOption(delays.shutdown), Effect.andThen(Fiber.interrupt(fiber)))
        )
      ))
  )

/** What a failure means for the relay, and how long it pauses. */
const recoveryFor = (fault: RelayError): "wait" | "stop" | "stopAndRetry" => {
  if (fault._tag === "Diverged") return "stop"
  switch (fault.reason._tag) {
    case "Unreachable":
    case "Unavailable":
    case "OlderCopy":
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

const make = Effect.fnUntraced(function*(progressEvery: Duration.Duration) {
  const store = yield* Store
  const sink = yield* Sink
  const { identity } = store
  const status = yield* SubscriptionRef.make<RelayStatus>({
    position: 0,
    progressPosition: 0,
    state: "starting",
    reason: null
  })
  let failures = 0
  /** The state that was logged last and has not ended. */
  let logged: RelayStatus["state"] | null = null
  /** Done when someone waits to hear that all is told. */
  let progressRequested = Deferred.makeUnsafe<void>()

  const markPublished = Effect.fnUntraced(function*(position: number, newProgressPosition?: number) {
    failures = 0
    const { progressPosition } = yield* SubscriptionRef.get(status)
    if (logged !== null) yield* Effect.logInfo("publishing again")
    logged = null
    yield* SubscriptionRef.set(status, {
      position,
      progressPosition: newProgressPosition ?? progressPosition,
      state: "running",
      reason: null
    })
    yield* Metric.update(positionGauge, position)
    const { newest } = yield* store.logRange
    yield* Metric.update(lagGauge, newest - position)
  })

  const failOn = (fault: string | null) => fault === null ? Effect.void : Effect.fail(new Diverged({ message: fault }))

  /** The place to go on from, once it is sure that the sink holds this log. */
  const findResumePoint = Effect.fnUntraced(function*(owner: Owner, published: SinkCheckpoint | null) {
    const saved = yield* store.readerPosition(reader)
    const start = yield* store.readerPosition(publishingStart)
    const { chains, newest, oldest } = yield* store.chains([published?.position ?? 0])
    const facts: LogState = { generation: identity.generation, saved, oldest, newest, chain: chains[0] ?? null }
    yield* failOn(findDivergence(published, facts) ?? findPublishedElsewhere(identity, published, { saved, start }))
    if (published?.generation === identity.generation) {
      yield* store.saveReaderPosition(owner, reader, published.position)
      return published
    }
    if (identity.generation > 1) yield* reconcile
    const position = saved > 0 ? saved : Math.max(0, oldest - 1)
    if (position !== saved) {
      yield* Effect.logWarning(`the log begins at position ${oldest}: what was before is not published`)
      yield* store.saveReaderPosition(owner, publishingStart, position)
      yield* store.saveReaderPosition(owner, reader, position)
    }
    const place: Checkpoint = { position, chain: (yield* store.chains([position])).chains[0] ?? genesis }
    return place
  })

  /** The store was adopted: what the sink keeps of records that it lacks goes, before anything of it is published. */
  const reconcile = Effect.gen(function*() {
    const streams = yield* store.streams
    const ours = new Map(streams.map((stream) => [streamName(stream), stream]))
    yield* sink.reconcile(identity, streams, (records) =>
      Effect.gen(function*() {
        const lacking: Array<RecordKey> = []
        for (const [name, own] of Map.groupBy(records, streamName)) {
          const stream = ours.get(name)
          if (stream === undefined) continue
          const living = yield* store.liveIds(stream, own.map(({ id }) => id))
          lacking.push(...own.filter(({ id }) => !living.has(id)))
        }
        return lacking
      }))
  })

  const publish = Effect.fnUntraced(function*(owner: Owner, batch: ReadonlyArray<LogEntry>, checkpoint: Checkpoint) {
    yield* sink.publish(identity, batch, checkpoint)
    yield* store.saveReaderPosition(owner, reader, checkpoint.position)
    yield* measure(batch)
    yield* markPublished(checkpoint.position)
  }, finishOnShutdown)

  /**
   * The next events after what is published, and how far one is with them: silent rows are passed over (see `Store.log`).
   * What is compared is read last, and with it the last of the rows: where another copy of the store took its place in
   * between, all is read once more.
   */
  const readNextBatch = (from: Checkpoint, isAgain = false): Effect.Effect<NextBatch, RelayError> =>
    Effect.gen(function*() {
      const { newest } = yield* store.logRange
      const upTo = Math.max(from.position, Math.min(newest, from.position + batchRows))
      const rows = upTo > from.position ? yield* store.readLog({ after: from.position, limit: batchRows }) : []
      const batch = rows.filter((row) => row.position <= upTo)
      const last = batch.at(-1) ?? from
      const { chains: [known = null, read = null, chain = null], ...range } = yield* store.chains([
        from.position,
        last.position,
        upTo
      ])
      yield* failOn(findMismatch(from, { ...range, chain: known }))
      if (chain !== null && read === last.chain) return { batch, checkpoint: { position: upTo, chain } }
      return isAgain
        ? yield* new Diverged({ message: `position ${chain === null ? upTo : last.position} is missing in the log` })
        : yield* readNextBatch(from, true)
    })

  /** Something to do for an idle session: more in the log, or time to tell how far streams are. */
  const awaitWork = (position: number) =>
    Effect.raceFirst(
      Effect.timeoutOption(store.awaitLog(position), progressEvery),
      Effect.suspend(() => Deferred.await(progressRequested))
    )

  /** Opens the sink and publishes until something fails. */
  const session = Effect.fn("Relay.session")(function*(owner: Owner): Effect.fn.Return<never, RelayError> {
    let last: Checkpoint = yield* Effect.flatMap(sink.open(identity), (published) => findResumePoint(owner, published))
    const progress = Progress.make(store, progressEvery)
    while (true) {
      if (Deferred.isDoneUnsafe(progressRequested)) {
        progressRequested = Deferred.makeUnsafe()
        progress.checkNow()
      }
      const { position } = last
      const note = yield* progress.due(position)
      // compared before anything is said of this log
      const next = yield* readNextBatch(last)
      if (note !== null) {
        yield* finishOnShutdown(sink.publishProgress(identity, note.streams))
        progress.markReported(note)
        yield* markPublished(position, note.position)
      }
      if (next.checkpoint.position === position) {
        yield* markPublished(position)
        yield* awaitWork(position)
        continue
      }
      yield* publish(owner, next.batch, next.checkpoint)
      last = next.checkpoint
    }
  })

  /** While nothing is published here: by what the store knows, which another relay may have moved on. */
  const measureLag = Effect.zip(store.logRange, store.readerPosition(reader)).pipe(
    Effect.flatMap(([{ newest }, position]) => Metric.update(lagGauge, newest - position)),
    Effect.ignore
  )

  /** Fenced by the sink, but still the owner in the store: only our own transaction ran out of time. */
  const retryIfOwner = (owner: Owner) => (error: SinkError): Effect.Effect<never, RelayError> =>
    error.reason._tag !== "Fenced" ? Effect.fail(error) : store.readerPosition(reader).pipe(
      Effect.flatMap((position) => store.saveReaderPosition(owner, reader, position)),
      Effect.andThen(new SinkError({ reason: new Unreachable({ message: error.reason.message, cause: error }) }))
    )

  const handleFailure = Effect.fnUntraced(function*(fault: RelayError) {
    const before = yield* SubscriptionRef.get(status)
    const next = recoveryFor(fault)
    const state = next === "wait" ? "waiting" : "stopped"
    const message = messageOf(fault)
    const { hint } = fault._tag === "Diverged" ? fault : fault.reason
    // what passes the store itself logs
    if (logged !== state && !(fault._tag === "StoreError" && next === "wait")) {
      logged = state
      yield* (next === "wait" ? Effect.logWarning : Effect.logError)(
        `${next === "wait" ? "publishing waits" : "publishing stopped"}: ${message} (${hint})`
      )
    }
    const since = before.state === state && before.reason !== null
      ? before.reason.since
      : yield* Clock.currentTimeMillis
    yield* SubscriptionRef.set(status, { ...before, state, reason: { message, hint, since } })
    if (next === "stop") return yield* Effect.forever(Effect.andThen(measureLag, Effect.sleep(delays.longest)))
    yield* measureLag
    const doubled = Duration.min(Duration.times(delays.first, 2 ** Math.min(failures++, 16)), delays.longest)
    const jitter = yield* Random.nextBetween(0.5, 1)
    yield* Effect.sleep(next === "wait" ? Duration.times(doubled, jitter) : delays.refused)
  })

  const retryForever = <A>(effect: Effect.Effect<A, RelayError>): Effect.Effect<A> =>
    Effect.catch(effect, (fault) => Effect.andThen(handleFailure(fault), retryForever(effect)))

  yield* Effect.forkScoped(
    Effect.flatMap(
      retryForever(store.takeOwnership("relay")),
      (owner) => retryForever(Effect.catchTag(session(owner), "SinkError", retryIfOwner(owner)))
    )
  )
  return Relay.of({
    status: SubscriptionRef.get(status),
    awaitPosition: (position) =>
      Effect.suspend(() => Deferred.succeed(progressRequested, undefined)).pipe(
        Effect.andThen(
          SubscriptionRef.changes(status).pipe(
            Stream.filter((now) => now.progressPosition >= position || now.state === "stopped"),
            Stream.runHead
          )
        ),
        Effect.flatMap((now) => now._tag === "Some" ? Effect.succeed(now.value) : SubscriptionRef.get(status))
      )
  })
})
