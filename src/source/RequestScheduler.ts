/**
 * Decides when each request of one account may be sent: every request needs a slot.
 *
 * Invariants
 * 1. While the account is paused no slot is granted, so no request is sent   (R1)
 * 2. The most urgent priority is served first, but every tenth slot is reserved for the lower priorities, which rotate:
 *    no priority starves
 * 3. Within a priority the integrations are served in rotation; within an integration, first come, first served   (R3)
 * 4. At most `limit` slots are in use at once, and at most as many as `RequestBudget` allows this process. A rate-limit response halves
 *    `limit`, each round of successful requests raises it by one, and it never exceeds `concurrency`
 * 5. An integration gets another slot only if it uses fewer slots than are free. If responses are slow, one integration can
 *    therefore use half of the slots and a second integration a quarter, and one slot stays free for integrations that use none   (R3)
 * 6. An integration never has more forwarded requests (the API forwards them to the third-party system) in flight than its limit
 *
 * Gotchas
 * - Reserving every tenth slot for the oldest ticket would not prevent starvation: when there are more polls than slots,
 *   the oldest ticket is always a poll.
 * - A rate-limit response that arrives during a pause belongs to the burst that caused the pause: it may lengthen the pause, but it does
 *   not halve `limit` again. A pause that another process reports does not halve `limit` either, because responses to that process caused
 *   the pause.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import { millisOf } from "./MonotonicClock.ts"
import { type BudgetUsage, RequestBudget } from "./RequestBudget.ts"
import { type Priority, SlotWait, type SlotWaitAborted } from "./Source.ts"

export interface RequestSchedulerOptions {
  readonly account: string
  /** Maximum number of slots in use at once. */
  readonly concurrency: number
  /** A request ends within this time after it was sent. */
  readonly timeout: Duration.Duration
  /** The first pause after a rate-limit response without `Retry-After`. */
  readonly retryBase: Duration.Duration
}

/** The longest pause, even if the API requests a longer one. */
export const maxPause = Duration.minutes(15)
const maxDefaultPause = Duration.minutes(1)
const reservedSlotInterval = 10
/** Limit of an integration's forwarded requests in flight, until a response states the limit. */
const defaultForwardedLimit = 30

/** The requests of one integration that are in flight, and its limit of forwarded requests. */
class IntegrationLoad {
  inFlight = 0
  forwarded = 0
  forwardedLimit = defaultForwardedLimit
}

interface Ticket {
  readonly integration: string
  readonly load: IntegrationLoad
  readonly forwarded: boolean
  readonly queue: FairQueue
  readonly start: () => void
  started: boolean
}

/** The waiting tickets of one priority. A served integration moves to the end, because a `Map` keeps insertion order. */
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

export type RequestScheduler = Effect.Success<ReturnType<typeof make>>

export const make = Effect.fnUntraced(function*(options: RequestSchedulerOptions) {
  const clock = yield* Clock.Clock
  const scope = yield* Effect.scope
  const budgets = yield* RequestBudget
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
  let waiting = 0
  let limit = options.concurrency
  let slotsGranted = 0
  let lastReserved = 0
  let consecutiveRateLimits = 0
  let pausedUntil = -Infinity
  let isGranting = false

  // A jump of the wall clock neither ends nor lengthens a pause   (W4).
  const now = () => millisOf(clock)
  const pauseLeft = (): number => pausedUntil - now()
  const pauseNow = Effect.sync(() => Duration.millis(Math.max(0, pauseLeft())))
  const slotsFree = (): number => Math.min(Math.floor(limit), budget.slots()) - slotsInUse

  const mayStart = (free: number) => ({ forwarded, load }: Ticket): boolean =>
    load.inFlight < free && !(forwarded && load.forwarded >= load.forwardedLimit)

  /** The queues in the order in which they are offered the next slot. */
  const queuesInOrder = (): ReadonlyArray<FairQueue> => {
    if ((slotsGranted + 1) % reservedSlotInterval !== 0) return byUrgency
    const first = byUrgency.findIndex((queue) => !queue.isEmpty)
    const below = byUrgency.slice(first + 1)
    const next = Math.max(0, lastReserved - first)
    return [...below.slice(next), ...below.slice(0, next), ...byUrgency.slice(0, first + 1)]
  }

  const nextTicket = (free: number): Ticket | undefined => {
    for (const queue of queuesInOrder()) {
      const ticket = queue.take(mayStart(free))
      if (ticket === undefined) continue
      if ((slotsGranted + 1) % reservedSlotInterval === 0) lastReserved = byUrgency.indexOf(queue)
      return ticket
    }
    return undefined
  }

  // A started request runs immediately and may call this function again: the outer loop then continues, without recursion.
  const grantSlots = (): void => {
    if (isGranting) return
    isGranting = true
    try {
      while (pauseLeft() <= 0) {
        const free = slotsFree()
        const ticket = free > 0 ? nextTicket(free) : undefined
        if (ticket === undefined) return
        slotsGranted++
        slotsInUse++
        waiting--
        ticket.load.inFlight++
        if (ticket.forwarded) ticket.load.forwarded++
        ticket.started = true
        ticket.start()
      }
    } finally {
      isGranting = false
      budget.report(slotsInUse, waiting)
    }
  }

  const releaseSlot = (ticket: Ticket, succeeded: boolean): void => {
    if (!ticket.started) {
      ticket.queue.remove(ticket)
      waiting--
      return budget.report(slotsInUse, waiting)
    }
    slotsInUse--
    ticket.load.inFlight--
    if (ticket.forwarded) ticket.load.forwarded--
    if (succeeded && pauseLeft() <= 0) {
      consecutiveRateLimits = 0
      limit = Math.min(options.concurrency, limit + 1 / limit)
    }
    grantSlots()
  }

  const loadOf = (integration: string): IntegrationLoad => {
    const load = loads.get(integration) ?? new IntegrationLoad()
    loads.set(integration, load)
    return load
  }

  /** Waits for a slot, then runs the request; fails if `SlotWait` aborts the wait. The slot is always released. */
  const run =
    (integration: string, priority: Priority, forwarded = false) =>
    <A, E, R>(request: Effect.Effect<A, E, R>): Effect.Effect<A, E | SlotWaitAborted, R> =>
      Effect.suspend(() => {
        const queue = queues[priority]
        const load = loadOf(integration)
        let onStart = () => {}
        const ticket: Ticket = { integration, load, forwarded, queue, start: () => onStart(), started: false }
        const slot = Effect.callback<void>((resume) => {
          if (ticket.started) return resume(Effect.void)
          onStart = () => resume(Effect.void)
        })
        const acquire = Effect.suspend(() => {
          queue.add(ticket)
          waiting++
          grantSlots()
          return ticket.started ? Effect.void : Effect.flatMap(SlotWait, (wait) => wait(slot))
        })
        return Effect.onExit(
          Effect.andThen(acquire, request),
          (exit) => Effect.sync(() => releaseSlot(ticket, Exit.isSuccess(exit)))
        )
      })

  // This is a loop because timers may fire a little early and the pause may be lengthened in the meantime.
  const wake = Effect.suspend(() => Effect.sleep(Math.ceil(pauseLeft()))).pipe(
    Effect.repeat({ while: () => pauseLeft() > 0 }),
    Effect.andThen(Effect.sync(grantSlots))
  )

  /** Pauses only this process. */
  const pauseHere = (duration: Duration.Duration) =>
    Effect.suspend(() => {
      const isPaused = pauseLeft() > 0
      pausedUntil = Math.max(pausedUntil, now() + Duration.toMillis(Duration.min(duration, maxPause)))
      return isPaused || pauseLeft() <= 0 ? Effect.void : Effect.asVoid(Effect.forkIn(wake, scope))
    })

  const budget = yield* budgets.open({
    ...options,
    onChange: (left) => Effect.andThen(pauseHere(left), Effect.sync(grantSlots))
  })

  /** Grants no slot for this duration, at most `maxPause`. A pause can be lengthened, never shortened. */
  const pause = (duration: Duration.Duration) =>
    Effect.tap(pauseHere(duration), () => Effect.sync(() => budget.pause(Duration.millis(pauseLeft()))))

  /**
   * Handles a rate-limit response: pauses the account, and halves its concurrency unless it is paused already. If `retryAfter` is null or
   * zero, the pause doubles with every rate-limit response in a row, except those that arrive during a pause, from `retryBase` up to a
   * minute, with a jitter of 20 %.
   */
  const onRateLimited = Effect.fnUntraced(function*(retryAfter: Duration.Duration | null) {
    if (pauseLeft() <= 0) {
      limit = Math.max(1, Math.min(limit, budget.slots()) / 2)
      consecutiveRateLimits++
    }
    if (retryAfter !== null && Duration.toMillis(retryAfter) > 0) return yield* pause(retryAfter)
    const defaultPause = Duration.times(options.retryBase, 2 ** Math.min(Math.max(0, consecutiveRateLimits - 1), 20))
    const jitter = yield* Random.nextBetween(0.8, 1.2)
    yield* pause(Duration.times(Duration.min(defaultPause, maxDefaultPause), jitter))
  })

  /**
   * Applies the headers of the response to a forwarded request: at most `max` at once, and `remaining` more at this moment. Other clients
   * may use the same integration, so our limit is the number of our forwarded requests plus the remaining ones. It is at least one: without
   * any request, no response would report that requests are possible again.
   */
  const updateForwardedLimit = (integration: string, max: number, remaining: number) =>
    Effect.sync(() => {
      const load = loadOf(integration)
      load.forwardedLimit = Math.max(1, Math.min(max, load.forwarded + remaining))
      grantSlots()
    })

  return {
    run,
    updateForwardedLimit,
    /** Why a request that has a slot must not be sent now: the account is paused, or the slot expired. Null if the request may be sent. */
    obstacle: Effect.sync(() => pauseLeft() > 0 ? "paused" : budget.isValid() ? null : "expired"),
    /** How long the pause still lasts; zero if there is no pause. */
    pauseLeft: pauseNow,
    /** The budget of the account, of all processes that share it. */
    usage: Effect.flatMap(budget.usage, (shared) =>
      shared !== null
        ? Effect.succeed(shared)
        : Effect.map(pauseNow, (pauseLeft): BudgetUsage => ({
          limit: Math.floor(limit),
          taken: slotsInUse,
          wanted: slotsInUse + waiting,
          processes: null,
          pauseLeft
        }))),
    pause,
    onRateLimited
  }
})
