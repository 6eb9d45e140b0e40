/**
 * Whose turn it is: the request budget of one account. Hides queues, concurrency and pauses.
 *
 * Invariants
 * 1. While the account is paused no turn is given, so no request leaves   (R1)
 * 2. The most urgent class goes first, but every tenth turn is for the classes below it, which rotate: nothing starves
 * 3. Within a class the integrations take turns; within an integration, first come, first served   (R3)
 * 4. At most `limit` turns are taken at once: halved by a refusal, grown by one per round of successes, never above
 *    `concurrency`
 * 5. An integration takes a turn only while it holds fewer than are free. So one that answers slowly gets half of them,
 *    a second one a quarter, and a turn is left for those that hold none   (R3)
 * 6. Of an integration no more live requests (which the service passes on) are under way than it said it takes
 *
 * Gotchas
 * - A tenth for the oldest ticket would not do: while polls alone are more than can be served, the oldest is a poll.
 * - Refusals that arrive while the account is paused belong to the burst that paused it: they may lengthen the pause,
 *   but do not halve the limit again.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import { type Priority, SlotWait, type SlotWaitAborted } from "./Source.ts"

export interface RequestScheduler {
  /** Runs the request when it is its turn, unless `Waiting` gives up before. However it ends, the turn is given back. */
  readonly run: (
    integration: string,
    priority: Priority,
    live?: boolean
  ) => <A, E, R>(request: Effect.Effect<A, E, R>) => Effect.Effect<A, E | SlotWaitAborted, R>
  /** What an answer to a live request said: how many the integration takes at once, and how many more it would take. */
  readonly updateLiveLimit: (integration: string, limit: number, remaining: number) => Effect.Effect<void>
  /** Whether an answer has paused the account: what got its turn before that, and has not left, must not leave. */
  readonly isPaused: Effect.Effect<boolean>
  /** Gives no turn for so long, at most `longestPause`. A pause is lengthened, never shortened. */
  readonly pause: (duration: Duration.Duration) => Effect.Effect<void>
  /**
   * The API refused for its rate limit: pauses the account and halves the concurrency. Where it names no positive wait
   * the pause doubles with every refusal in a row, from `retryBase` to a minute, jittered by a fifth.
   */
  readonly onRateLimited: (retryAfter: Duration.Duration | null) => Effect.Effect<void>
}

export interface RequestSchedulerOptions {
  /** Most turns taken at once. */
  readonly concurrency: number
  /** The first pause after a refusal that names none. */
  readonly retryBase: Duration.Duration
}

/** However long the API asks us to wait, it is tried again after this time. */
export const maxPause = Duration.minutes(15)
const maxUnnamedPause = Duration.minutes(1)
const reservedSlotInterval = 10
/** Live requests of an integration at once, until it says otherwise. */
const defaultLiveLimit = 30

/** What is under way of one integration. */
class IntegrationLoad {
  inFlight = 0
  live = 0
  liveLimit = defaultLiveLimit
}

interface Ticket {
  readonly integration: string
  readonly share: IntegrationLoad
  readonly live: boolean
  readonly queue: FairQueue
  readonly start: () => void
  started: boolean
}

/** The waiting tickets of one class; who was served goes to the end, because a `Map` keeps insertion order. */
class FairQueue {
  private readonly waiting = new Map<string, Set<Ticket>>()

  get isEmpty(): boolean {
    return this.waiting.size === 0
  }

  add(ticket: Ticket): void {
    const own = this.waiting.get(ticket.integration)
    if (own === undefined) this.waiting.set(ticket.integration, new Set([ticket]))
    else own.add(ticket)
  }

  remove(ticket: Ticket): void {
    const own = this.waiting.get(ticket.integration)
    if (own?.delete(ticket) && own.size === 0) this.waiting.delete(ticket.integration)
  }

  take(mayStart: (ticket: Ticket) => boolean): Ticket | undefined {
    for (const [integration, own] of this.waiting) {
      for (const ticket of own) {
        if (!mayStart(ticket)) continue
        own.delete(ticket)
        this.waiting.delete(integration)
        if (own.size > 0) this.waiting.set(integration, own)
        return ticket
      }
    }
    return undefined
  }
}

export const make = Effect.fnUntraced(function*(
  options: RequestSchedulerOptions
): Effect.fn.Return<RequestScheduler, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const scope = yield* Effect.scope
  // Most urgent first.
  const queues: Readonly<Record<Priority, FairQueue>> = {
    write: new FairQueue(),
    confirm: new FairQueue(),
    poll: new FairQueue(),
    refresh: new FairQueue(),
    sweep: new FairQueue(),
    backfill: new FairQueue()
  }
  const byUrgency = Object.values(queues)
  const loads = new Map<string, IntegrationLoad>()
  let slotsInUse = 0
  let limit = options.concurrency
  let slotsGranted = 0
  let lastReserved = 0
  let consecutiveRefusals = 0
  let pausedUntil = -Infinity
  let isGranting = false

  // Milliseconds on a clock that nobody sets: a jump of the wall clock neither ends nor prolongs a pause   (W4).
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const pauseLeft = (): number => pausedUntil - now()

  const mayStart = ({ live, share }: Ticket): boolean =>
    share.inFlight < Math.floor(limit) - slotsInUse && !(live && share.live >= share.liveLimit)

  /** The lines in the order in which the next turn is offered to them. */
  const queuesInOrder = (): ReadonlyArray<FairQueue> => {
    if ((slotsGranted + 1) % reservedSlotInterval !== 0) return byUrgency
    const first = byUrgency.findIndex((line) => !line.isEmpty)
    const below = byUrgency.slice(first + 1)
    const next = Math.max(0, lastReserved - first)
    return [...below.slice(next), ...below.slice(0, next), ...byUrgency.slice(0, first + 1)]
  }

  const nextTicket = (): Ticket | undefined => {
    for (const line of queuesInOrder()) {
      const ticket = line.take(mayStart)
      if (ticket === undefined) continue
      if ((slotsGranted + 1) % reservedSlotInterval === 0) lastReserved = byUrgency.indexOf(line)
      return ticket
    }
    return undefined
  }

  // A started request runs at once and may come back here; the outermost loop then goes on, instead of one level deeper.
  const grantSlots = (): void => {
    if (isGranting) return
    isGranting = true
    try {
      while (pauseLeft() <= 0 && slotsInUse < Math.floor(limit)) {
        const ticket = nextTicket()
        if (ticket === undefined) return
        slotsGranted++
        slotsInUse++
        ticket.share.inFlight++
        if (ticket.live) ticket.share.live++
        ticket.started = true
        ticket.start()
      }
    } finally {
      isGranting = false
    }
  }

  const releaseSlot = (ticket: Ticket, succeeded: boolean): void => {
    if (!ticket.started) return ticket.queue.remove(ticket)
    slotsInUse--
    ticket.share.inFlight--
    if (ticket.live) ticket.share.live--
    if (succeeded && pauseLeft() <= 0) {
      consecutiveRefusals = 0
      limit = Math.min(options.concurrency, limit + 1 / limit)
    }
    grantSlots()
  }

  const loadOf = (integration: string): IntegrationLoad => {
    const share = loads.get(integration) ?? new IntegrationLoad()
    loads.set(integration, share)
    return share
  }

  const run: RequestScheduler["run"] = (integration, priority, live = false) => (request) =>
    Effect.suspend(() => {
      const queue = queues[priority]
      const share = loadOf(integration)
      let resume = () => {}
      const ticket: Ticket = { integration, share, live, queue, start: () => resume(), started: false }
      const turn = Effect.callback<void>((given) => {
        if (ticket.started) return given(Effect.void)
        resume = () => given(Effect.void)
      })
      const ask = Effect.suspend(() => {
        queue.add(ticket)
        grantSlots()
        return ticket.started ? Effect.void : Effect.flatMap(SlotWait, (waiting) => waiting(turn))
      })
      return Effect.onExit(
        Effect.andThen(ask, request),
        (exit) => Effect.sync(() => releaseSlot(ticket, Exit.isSuccess(exit)))
      )
    })

  // Timers may fire a little early, and a pause may be lengthened meanwhile: hence the loop.
  const wake = Effect.suspend(() => Effect.sleep(Math.ceil(pauseLeft()))).pipe(
    Effect.repeat({ while: () => pauseLeft() > 0 }),
    Effect.andThen(Effect.sync(grantSlots))
  )

  const pause: RequestScheduler["pause"] = (duration) =>
    Effect.suspend(() => {
      const isPaused = pauseLeft() > 0
      pausedUntil = Math.max(pausedUntil, now() + Duration.toMillis(Duration.min(duration, maxPause)))
      return isPaused ? Effect.void : Effect.asVoid(Effect.forkIn(wake, scope))
    })

  const onRateLimited: RequestScheduler["onRateLimited"] = Effect.fnUntraced(function*(retryAfter) {
    if (pauseLeft() <= 0) {
      limit = Math.max(1, limit / 2)
      consecutiveRefusals++
    }
    if (retryAfter !== null && Duration.toMillis(retryAfter) > 0) return yield* pause(retryAfter)
    const unnamed = Duration.times(options.retryBase, 2 ** Math.min(consecutiveRefusals - 1, 20))
    const jitter = yield* Random.nextBetween(0.8, 1.2)
    yield* pause(Duration.times(Duration.min(unnamed, maxUnnamedPause), jitter))
  })

  // Others may use the same integration: what we hold and what it would still take is all there is for us. One goes on
  // asking, or nobody would learn that there is room again.
  const updateLiveLimit: RequestScheduler["updateLiveLimit"] = (integration, most, remaining) =>
    Effect.sync(() => {
      const share = loadOf(integration)
      share.liveLimit = Math.max(1, Math.min(most, share.live + remaining))
      grantSlots()
    })

  return { run, updateLiveLimit, isPaused: Effect.sync(() => pauseLeft() > 0), pause, onRateLimited }
})
