/**
 * Keeps every stream read, each in a loop of its own, as streams come and go. Hides the loops; whose turn it is says `Turn.ts`.
 *
 * Invariants
 * 1. Of one stream one thing happens at a time   (order, design of readings)
 * 2. A failing or blocked stream never delays another, nor does one that comes or goes
 * 3. Once `assign` returns, nothing is written to a stream that it left out   (X19)
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
import * as Guard from "../domain/Guard.ts"
import { isDerived, type StreamKey, streamName } from "../domain/Model.ts"
import * as Processing from "../domain/Processing.ts"
import { Source } from "../source/Source.ts"
import type { StreamState } from "../store/State.ts"
import { type ListedHold, type Owner, Store, StoreError } from "../store/Store.ts"
import * as Adoption from "./Adoption.ts"
import { audit, type AuditReport } from "./Audit.ts"
import { fill, unfilled } from "./CandidateFill.ts"
import * as Gauges from "./Gauges.ts"
import * as Headway from "./Headway.ts"
import { carryOut } from "./Holds.ts"
import { type Act, type ActRefused, operate } from "./Operation.ts"
import { isWhole, type ReadingError, type Stream } from "./Pages.ts"
import { poll } from "./Poll.ts"
import { refresh, type RefreshOptions } from "./Refresh.ts"
import { failed, initial, restsUntil, type StreamSettings } from "./StreamState.ts"
import { confirmAbsences, restartSweep, sweep } from "./Sweep.ts"
import { type InTurn, nextTurn, retryAt } from "./Turn.ts"

export interface CaptureOptions {
  /** Least overlap of polls beyond the watermark before last. */
  readonly overlapMin: Duration.Duration
  readonly confirmInterval: Duration.Duration
  /** What waves of changes are held; the usual thresholds where it is left out. */
  readonly guard?: Guard.Thresholds
  /** Of an adoption that was begun and not ended. */
  readonly processingOf?: Adoption.ProcessingOf
  readonly backPressure?: Headway.BackPressure
}

/** There is no such stream here, or it is no longer configured. */
export class UnknownStream extends Schema.TaggedError<UnknownStream>()("UnknownStream", {
  stream: Schema.String
}) {
  override get message(): string {
    return `there is no stream ${this.stream}`
  }
}

/** A stream that did not do what was asked, in words for an operator. */
export interface Problem extends StreamKey {
  readonly problem: string
}

export class Capture extends Context.Service<Capture, {
  /** Who reads the streams; what is decided about them is written in this name (I10). */
  readonly owner: Owner
  /**
   * From now on exactly these streams of an integration are read. The others end with the page under way, which is
   * committed or not, and are retired; those that come back go on where they stood.
   */
  readonly assign: (integration: string, streams: ReadonlyArray<StreamSettings>) => Effect.Effect<void, StoreError>
  /** Reads all streams until interrupted; fails only when another process took over or the store is not ours. */
  readonly run: Effect.Effect<never, StoreError>
  /** One poll of each stream that is not paused, backfill included. */
  readonly once: Effect.Effect<ReadonlyArray<Problem>, StoreError>
  /** Polls one stream now and waits for the end. */
  readonly poll: (key: StreamKey) => Effect.Effect<void, ReadingError | UnknownStream>
  /** Sweeps one stream now, from its first page, and waits for the end. */
  readonly sweep: (key: StreamKey) => Effect.Effect<void, ReadingError | UnknownStream>
  /** Does what an operator asks for; what has to be read for it is read after the page under way, without waiting for it. */
  readonly operate: (key: StreamKey, act: Act) => Effect.Effect<StreamState, ActRefused | UnknownStream | StoreError>
  /** Compares what is published of one stream with a full reading of it and waits for the end. */
  readonly audit: (key: StreamKey) => Effect.Effect<AuditReport, ReadingError | UnknownStream>
}>()("rollcall/capture/Capture") {}

/** What a stream's loop remembers between two steps; all that matters stands in the store. */
interface Held extends Stream, InTurn {
  readonly lock: Semaphore.Semaphore
  /** Open once an operator asked for something that the stream's loop has not looked at yet. */
  readonly called: Latch.Latch
  /** Open once it is no longer read. */
  readonly left: Latch.Latch
  /** A hold was approved that the stream's loop has not carried out yet. */
  approved: boolean
  /** Our clock, ms: not before this after a failure. Not kept: who starts us anew may have mended what blocked it (C4). */
  retryAt: number
  pollAsked: InTurn["pollAsked"]
  last: InTurn["last"]
  owes: InTurn["owes"]
  jitter: InTurn["jitter"]
}

const backPressurePause = 5_000
/** Until the store is tried again, ms. What is wrong with it the store itself logs (X10). */
const storePause = 2_000
/** How often a paused stream looks whether it still is; who resumes it here wakes it. */
const pausedPause = 60_000

const approvedPage = 100

/** Requests for owed records after each poll; more only while nothing else is due (N4). */
const refreshBudget = 4

const make = Effect.fnUntraced(function*(options: CaptureOptions) {
  const store = yield* Store
  const source = yield* Source
  const services = Context.make(Store, store).pipe(Context.add(Source, source))
  const owner: Owner = yield* store.claim("capture")
  yield* Adoption.finish(owner, store.identity.lineage, options.processingOf ?? (() => null))
  const headway = Headway.make(store, options.backPressure ?? null)
  const streams = new Map<string, Held>()
  /** One for each stream while `run` runs. */
  let loops: FiberMap.FiberMap<string, never, StoreError> | null = null

  const stateOf = (held: Held) =>
    Effect.flatMap(store.stream(held.key), (state) =>
      state === null
        ? Effect.die(new Error(`stream ${streamName(held.key)} vanished from the store`))
        : Effect.succeed(state))

  /** Records what went wrong; a fault of the store is passed on, waiting for it is the caller's business. */
  const remember = Effect.fnUntraced(function*(held: Held, error: ReadingError) {
    if (error instanceof StoreError) return yield* error
    const now = yield* Clock.currentTimeMillis
    const { after, before } = yield* store.transact(
      held.owner,
      held.key,
      Effect.fnUntraced(function*(tx) {
        const after = failed(tx.state, error, now)
        yield* tx.save(after)
        return { before: tx.state, after }
      })
    )
    held.retryAt = retryAt(held, after, now)
    yield* Gauges.readingEnded(held.key, "reading", after.blocked?.reason ?? "failed")
    const newlyBlocked = after.blocked !== null && before.blocked?.reason !== after.blocked.reason
    if (!newlyBlocked && (before.failing !== null || after.failing === null)) return
    yield* Effect.logWarning(newlyBlocked ? `stream blocked: ${after.blocked?.reason}` : "reading failed").pipe(
      Effect.annotateLogs({ stream: held.key.integration, model: held.key.model, why: error.message })
    )
  })

  /** Runs readings of one stream, one at a time. */
  const exclusively = <A, E>(held: Held, effect: Effect.Effect<A, E, Store | Source>): Effect.Effect<A, E> =>
    held.lock.withPermits(1)(Effect.provideContext(effect, services))

  const sweepUntil = (held: Held, yieldTurn: Effect.Effect<boolean>, read: typeof sweep = sweep) =>
    read(held, { confirmInterval: options.confirmInterval, yieldTurn })

  const refreshes = Effect.fnUntraced(function*(held: Held, yieldTurn: RefreshOptions["yieldTurn"]) {
    held.owes = yield* refresh(held, { budget: refreshBudget, yieldTurn })
  })

  const never = Effect.succeed(false)

  /** One step of a stream: whatever is most urgent, or how long there is nothing to do (ms). */
  const step = Effect.fnUntraced(function*(held: Held) {
    yield* held.called.close
    if (held.approved) {
      held.approved = false
      yield* Effect.onError(carryOut(held), () => Effect.sync(() => held.approved = true))
    }
    const state = yield* stateOf(held)
    const now = yield* Clock.currentTimeMillis
    const rest = Math.max(state.paused ? now + pausedPause : 0, restsUntil(state, held, now))
    if (rest > now) return rest - now
    if (yield* headway.backedUp) return backPressurePause
    const turn = nextTurn(held, state, now)
    if (turn.turn === "rest") return turn.until - now
    held.pollAsked = false
    if (turn.turn === "poll") {
      held.last = "poll"
      yield* poll(held)
      yield* confirmAbsences(held, options.confirmInterval)
      yield* refreshes(held, never)
      held.jitter = yield* Random.nextBetween(-0.1, 0.1)
    } else {
      const yieldTurn = Effect.map(Clock.currentTimeMillis, (time) => held.called.isOpen() || time >= turn.until)
      if (turn.turn === "refresh") yield* refreshes(held, yieldTurn)
      else {
        held.last = "sweep"
        held.owes = "done"
        yield* sweepUntil(held, yieldTurn, turn.anew ? restartSweep : sweep)
      }
    }
    if (state.blocked !== null || state.failing !== null) {
      yield* Effect.logInfo("stream reads again").pipe(
        Effect.annotateLogs({ stream: held.key.integration, model: held.key.model })
      )
    }
    return 0
  })

  const keep = (held: Held): Effect.Effect<never, StoreError> =>
    Effect.forever(
      exclusively(
        held,
        step(held).pipe(
          Effect.catch((error) => Effect.as(remember(held, error), 0))
        )
      ).pipe(
        Effect.catchTag("StoreError", (error) =>
          error.reason.retryable ? Effect.succeed(storePause) : Effect.fail(error)),
        Effect.flatMap((wait) =>
          wait > 0
            ? Effect.raceFirst(Effect.sleep(Duration.millis(Math.ceil(wait))), held.called.await)
            : Effect.void
        )
      )
    )

  const deciding = { while: (error: StoreError) => error.reason.retryable, schedule: Schedule.spaced(storePause) }

  const decide = (held: Held) =>
    exclusively(held, Effect.suspend(() => held.left.isOpen() ? Effect.void : carryOut(held)))

  /** What was approved, in whatever process, each stream's own loop carries out: nobody waits for another's reading. */
  const decided = Effect.gen(function*() {
    let page: ReadonlyArray<ListedHold>
    let before = Number.MAX_SAFE_INTEGER
    do {
      page = yield* store.holds({ states: ["approving"], before, limit: approvedPage })
      before = page.at(-1)?.id ?? 0
      for (const name of new Set(page.map(streamName))) {
        const held = streams.get(name)
        if (held === undefined) continue
        held.approved = true
        yield* held.called.open
      }
    } while (page.length === approvedPage)
  })

  const keepDeciding = Effect.gen(function*() {
    let seen = 0
    for (;;) {
      yield* Effect.retry(decided, deciding)
      seen = yield* store.awaitDecision(seen)
    }
  })

  /** What is still to be derived, and what was approved, while nobody read the stream comes first. */
  const settle = (held: Held) =>
    Effect.andThen(
      exclusively(held, Effect.suspend(() => held.left.isOpen() ? Effect.void : fill(held))),
      decide(held)
    )

  const begin = (held: Held) =>
    loops === null
      ? Effect.void
      : Effect.asVoid(
        FiberMap.run(loops, streamName(held.key), Effect.andThen(Effect.retry(settle(held), deciding), keep(held)))
      )

  const take = Effect.fnUntraced(function*(settings: StreamSettings) {
    const key = { integration: settings.integration, model: settings.model }
    const held: Held = {
      key,
      settings,
      processing: settings.processing ?? Processing.plain(settings.model),
      derives: settings.derives ?? null,
      overlapMin: options.overlapMin,
      guard: options.guard ?? Guard.thresholds,
      owner,
      lock: yield* Semaphore.make(1),
      called: yield* Latch.make(false),
      left: yield* Latch.make(false),
      pollAsked: false,
      approved: false,
      retryAt: 0,
      last: "sweep",
      owes: "done",
      jitter: 0
    }
    streams.set(streamName(key), held)
    yield* begin(held)
  })

  const leave = Effect.fnUntraced(function*(held: Held) {
    streams.delete(streamName(held.key))
    yield* held.left.open
    if (loops !== null) yield* FiberMap.remove(loops, streamName(held.key))
    yield* held.lock.withPermits(1)(Effect.void)
  })

  const assign = Effect.fnUntraced(function*(integration: string, wanted: ReadonlyArray<StreamSettings>) {
    const before = [...streams.values()].filter((held) => held.key.integration === integration)
    yield* Effect.forEach(before, leave, { concurrency: "unbounded", discard: true })
    const rows = wanted.flatMap(({ derives, ...settings }) =>
      derives === undefined ? [settings] : [settings, { ...settings, model: derives.model }]
    )
    yield* store.ensureStreams(rows.map((settings) => ({
      ...initial(settings, options.overlapMin),
      lineage: Math.max(settings.lineage ?? 1, store.identity.lineage)
    })))
    const fills = new Map(rows.map((settings) => [streamName(settings), settings.backfill === "fill"]))
    for (const state of yield* store.streams) {
      if (state.integration !== integration) continue
      const fill = fills.get(streamName(state))
      const retired = fill === undefined
      if ((state.retired ?? false) === retired && (retired || (state.fill ?? false) === fill)) continue
      const condition = retired ? { retired } : { retired, fill, ...isDerived(state.model) ? unfilled : {} }
      yield* store.transact(owner, state, (tx) => tx.save({ ...tx.state, ...condition }))
    }
    yield* Effect.forEach(wanted, take, { discard: true })
  })

  const run = Effect.scoped(Effect.gen(function*() {
    const own = yield* FiberMap.make<string, never, StoreError>()
    loops = own
    yield* Effect.addFinalizer(() => Effect.sync(() => loops = null))
    yield* Effect.forEach(streams.values(), begin, { discard: true })
    return yield* Effect.raceFirst(Effect.andThen(FiberMap.join(own), Effect.never), keepDeciding)
  }))

  const pollNow = (held: Held) => isWhole(held) ? Effect.asVoid(sweepUntil(held, never)) : poll(held)

  const unknown = (key: StreamKey) => Effect.fail(new UnknownStream({ stream: streamName(key) }))
  const find = (key: StreamKey) => {
    const held = streams.get(streamName(key))
    return held === undefined ? unknown(key) : Effect.succeed(held)
  }

  /** What an operator waits for; it ends when the stream is no longer read. The stream's loop waits no longer than it. */
  const asked = Effect.fnUntraced(function*<A>(
    key: StreamKey,
    read: (held: Held) => Effect.Effect<A, ReadingError, Store | Source>
  ) {
    const held = yield* find(key)
    const answer = yield* exclusively(
      held,
      Effect.raceFirst(read(held), Effect.andThen(held.left.await, unknown(key)))
    )
    held.retryAt = 0
    yield* held.called.open
    return answer
  })

  /** All passes of it: of those that one process reads, the fourth is the last. The poll that follows makes it complete. */
  const backfill = Effect.fnUntraced(function*(held: Held) {
    for (;;) {
      const { backfilledAt, sweep } = yield* stateOf(held)
      if (backfilledAt !== null && sweep?.backfill !== true) return
      yield* sweepUntil(held, never)
    }
  })

  const readOnce = Effect.fnUntraced(function*(held: Held) {
    const state = yield* stateOf(held)
    if (state.paused) return
    if (!isWhole(held)) yield* backfill(held)
    yield* pollNow(held)
    if (!isWhole(held)) yield* refreshes(held, never)
  })

  return Capture.of({
    owner,
    assign,
    run,
    once: Effect.suspend(() =>
      Effect.forEach(
        [...streams.values()],
        (held) =>
          Effect.andThen(settle(held), exclusively(held, readOnce(held))).pipe(
            Effect.as<ReadonlyArray<Problem>>([]),
            Effect.catch((error) => Effect.as(remember(held, error), [{ ...held.key, problem: error.message }]))
          ),
        { concurrency: "unbounded" }
      )
    ).pipe(Effect.map((problems) => problems.flat())),
    poll: (key) => asked(key, pollNow),
    sweep: (key) =>
      asked(
        key,
        (held) => Effect.asVoid(sweepUntil(held, never, restartSweep))
      ),
    operate: Effect.fnUntraced(function*(key, act) {
      const held = yield* find(key)
      const state = yield* Effect.provideContext(operate(held, act), services)
      held.pollAsked ||= act.act === "poll" || act.act === "rewind"
      held.retryAt = 0
      yield* held.called.open
      return state
    }),
    audit: (key) => asked(key, (held) => audit(held, pollNow(held)))
  })
})

/** Takes the streams over: whoever read them before is fenced (I10, X9). */
export const layer = (options: CaptureOptions): Layer.Layer<Capture, StoreError, Store | Source> =>
  Layer.effect(Capture, make(options))
