/**
 * Moves the event log to the sink, in order, and never past something it cannot vouch for.
 *
 * Invariants
 * 1. Where the sink stands decides where to go on: a crash between the sink's commit and ours publishes nothing twice.
 * 2. What the sink holds must be what this log holds at that position, or nothing is published   (X14, X18)
 * 3. Of two relays of one store one has effect: the store's claim and the sink's fence see to it   (I10, X15)
 *
 * Gotchas
 * - The claim is made once. A relay that was replaced must not take over again by trying.
 * - A sink fences a relay that was frozen for longer than its transaction may stay open too; the claim tells the two apart.
 * - Giving up a batch on shutdown is safe: either the sink has it and says so when it is opened again, or nobody saw it.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"
import type { LogEntry } from "../domain/ChangeEvent.ts"
import { type Owner, Store, type StoreError } from "../store/Store.ts"
import { type Published, type Reached, Sink, SinkError, Unreachable } from "./Sink.ts"

export interface RelayStatus {
  /** Newest position that is in the sink, as far as we know. */
  readonly position: number
  /** `waiting`: sink or store are away, it goes on by itself. `stopped`: someone has to act. */
  readonly state: "starting" | "running" | "waiting" | "stopped"
  /** Of `waiting` and `stopped`; `since` is our clock in milliseconds. */
  readonly reason: { readonly message: string; readonly hint: string; readonly since: number } | null
}

export class Relay extends Context.Service<Relay, {
  readonly status: Effect.Effect<RelayStatus>
  /** Returns once everything up to `position` is in the sink, or the relay has stopped. */
  readonly reached: (position: number) => Effect.Effect<RelayStatus>
}>()("rollcall/publish/Relay") {
  /** Publishes in the background for as long as the layer lives. */
  static readonly layer: Layer.Layer<Relay, never, Store | Sink> = Layer.effect(
    Relay,
    Effect.suspend(() => make)
  )
}

/** The sink holds what this log never had, or no longer has. */
class Diverged extends Schema.TaggedError<Diverged>()("Diverged", { message: Schema.String }) {
  readonly hint =
    "was the store restored from a backup, or exchanged, or the sink emptied? Publishing stays stopped so that no consumer " +
    "mixes the two. Bring back the store that published last, or begin anew with an empty store and other topics " +
    "(ROLLCALL_STORE, ROLLCALL_TOPIC); `rollcall store adopt`, which raises the lineage instead, is not in this version."
}

type RelayFault = SinkError | StoreError | Diverged

const reader = "relay"
const batchRows = 500
const pause = {
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

const messageOf = (fault: RelayFault): string =>
  fault._tag === "StoreError"
    ? `the store is ${fault.reason._tag.toLowerCase()}`
    : fault._tag === "Diverged"
    ? fault.message
    : fault.reason.message

/** What was begun is finished on shutdown too, unless that takes longer than `pause.shutdown`. */
const finishing = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkChild(restore(effect)), (fiber) =>
      restore(Fiber.join(fiber)).pipe(
        Effect.onInterrupt(() =>
          Fiber.await(fiber).pipe(Effect.timeoutOption(pause.shutdown), Effect.andThen(Fiber.interrupt(fiber)))
        )
      ))
  )

/** What a failure means for the relay, and how long it pauses. */
const consequence = (fault: RelayFault): "wait" | "stop" | "stopAndLook" => {
  if (fault._tag === "Diverged") return "stop"
  switch (fault.reason._tag) {
    case "Unreachable":
    case "Unavailable":
      return "wait"
    case "Refused":
      return "stopAndLook"
    case "Fenced":
    case "Misconfigured":
    case "Incompatible":
      return "stop"
  }
}

const make = Effect.gen(function*() {
  const store = yield* Store
  const sink = yield* Sink
  const { identity } = store
  const status = yield* SubscriptionRef.make<RelayStatus>({ position: 0, state: "starting", reason: null })
  let failures = 0

  const advance = Effect.fnUntraced(function*(position: number) {
    failures = 0
    const { state } = yield* SubscriptionRef.get(status)
    if (state === "waiting" || state === "stopped") yield* Effect.logInfo("publishing again")
    yield* SubscriptionRef.set(status, { position, state: "running", reason: null })
    yield* Metric.update(positionGauge, position)
    const { newest } = yield* store.logRange
    yield* Metric.update(lagGauge, Math.max(0, newest - position))
  })

  /** The position to go on from, once it is sure that the sink holds this log. */
  const whereToGoOn = Effect.fnUntraced(function*(published: Published | null) {
    const saved = yield* store.readerPosition(reader)
    if (published === null) {
      if (saved > 0) return yield* new Diverged({ message: `position ${saved} was published, the sink knows of none` })
      const { oldest } = yield* store.logRange
      if (oldest > 1) {
        yield* Effect.logWarning(`the log begins at position ${oldest}: what was before is not published`)
      }
      return 0
    }
    if (published.lineage > identity.lineage) {
      return yield* new Diverged({
        message: `the sink holds lineage ${published.lineage} of this store, the store is at ${identity.lineage}`
      })
    }
    // Adopting raised the lineage and left the reader's position where the new one begins.
    if (published.lineage < identity.lineage) return saved
    const eventId = yield* store.eventId(published.position)
    if (eventId !== published.eventId) {
      return yield* new Diverged({
        message: `position ${published.position} of the sink is ${
          eventId === null ? "missing" : "another event"
        } in the log`
      })
    }
    return published.position
  })

  const publish = Effect.fnUntraced(function*(owner: Owner, batch: ReadonlyArray<LogEntry>, reached: Reached) {
    yield* sink.publish(identity, batch, reached)
    yield* store.saveReaderPosition(owner, reader, reached.position)
    yield* measure(batch)
    yield* advance(reached.position)
  }, finishing)

  /** The next events after a position, and how far one is with them: silent rows are passed over (see `Store.log`). */
  const nextAfter = Effect.fnUntraced(function*(position: number) {
    const { newest } = yield* store.logRange
    const batch = yield* store.log({ after: position, limit: batchRows })
    const last = batch.at(-1)
    if (last !== undefined && (batch.length === batchRows || last.position >= newest)) return { batch, reached: last }
    const eventId = newest > position ? yield* store.eventId(newest) : null
    return { batch, reached: eventId === null ? last : { position: newest, eventId } }
  })

  /** Opens the sink and publishes until something fails. */
  const session = Effect.fn("Relay.session")(function*(owner: Owner): Effect.fn.Return<never, RelayFault> {
    let position = yield* Effect.flatMap(sink.open(identity), whereToGoOn)
    while (true) {
      const { batch, reached } = yield* nextAfter(position)
      if (reached === undefined) {
        yield* advance(position)
        yield* store.awaitLog(position)
        continue
      }
      yield* publish(owner, batch, reached)
      position = reached.position
    }
  })

  /** Fenced by the sink, but still the owner in the store: only our own transaction ran out of time. */
  const unlessOwner = (owner: Owner) => (error: SinkError): Effect.Effect<never, RelayFault> =>
    error.reason._tag !== "Fenced" ? Effect.fail(error) : store.readerPosition(reader).pipe(
      Effect.flatMap((position) => store.saveReaderPosition(owner, reader, position)),
      Effect.andThen(new SinkError({ reason: new Unreachable({ message: error.reason.message, cause: error }) }))
    )

  const suffer = Effect.fnUntraced(function*(fault: RelayFault) {
    const before = yield* SubscriptionRef.get(status)
    const next = consequence(fault)
    const state = next === "wait" ? "waiting" : "stopped"
    const message = messageOf(fault)
    const { hint } = fault._tag === "Diverged" ? fault : fault.reason
    if (before.state !== state) {
      yield* (next === "wait" ? Effect.logWarning : Effect.logError)(
        `${next === "wait" ? "publishing waits" : "publishing stopped"}: ${message} (${hint})`
      )
    }
    const since = before.state === state && before.reason !== null
      ? before.reason.since
      : yield* Clock.currentTimeMillis
    yield* SubscriptionRef.set(status, { position: before.position, state, reason: { message, hint, since } })
    if (next === "stop") return yield* Effect.never
    const { newest } = yield* Effect.orElseSucceed(store.logRange, () => ({ newest: before.position }))
    yield* Metric.update(lagGauge, Math.max(0, newest - before.position))
    const doubled = Duration.min(Duration.times(pause.first, 2 ** Math.min(failures++, 16)), pause.longest)
    const jitter = yield* Random.nextBetween(0.5, 1)
    yield* Effect.sleep(next === "wait" ? Duration.times(doubled, jitter) : pause.refused)
  })

  const persist = <A>(effect: Effect.Effect<A, RelayFault>): Effect.Effect<A> =>
    Effect.catch(effect, (fault) => Effect.andThen(suffer(fault), persist(effect)))

  yield* Effect.forkScoped(
    Effect.flatMap(
      persist(store.claim("relay")),
      (owner) => persist(Effect.catchTag(session(owner), "SinkError", unlessOwner(owner)))
    )
  )
  return Relay.of({
    status: SubscriptionRef.get(status),
    reached: (position) =>
      SubscriptionRef.changes(status).pipe(
        Stream.filter((now) => now.position >= position || now.state === "stopped"),
        Stream.runHead,
        Effect.flatMap((now) => now._tag === "Some" ? Effect.succeed(now.value) : SubscriptionRef.get(status))
      )
  })
})
