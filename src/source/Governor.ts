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
import { type GivenUp, type Priority, Waiting } from "./Source.ts"

export interface Governor {
  /** Runs the request when it is its turn, unless `Waiting` gives up before. However it ends, the turn is given back. */
  readonly run: (
    integration: string,
    priority: Priority,
    live?: boolean
  ) => <A, E, R>(request: Effect.Effect<A, E, R>) => Effect.Effect<A, E | GivenUp, R>
  /** What an answer to a live request said: how many the integration takes at once, and how many more it would take. */
  readonly allowed: (integration: string, limit: number, remaining: number) => Effect.Effect<void>
  /** Whether an answer has paused the account: what got its turn before that, and has not left, must not leave. */
  readonly isPaused: Effect.Effect<boolean>
  /** Gives no turn for so long, at most `longestPause`. A pause is lengthened, never shortened. */
  readonly pause: (duration: Duration.Duration) => Effect.Effect<void>
  /**
   * The API refused for its rate limit: pauses the account and halves the concurrency. Where it names no positive wait
   * the pause doubles with every refusal in a row, from `retryBase` to a minute, jittered by a fifth.
   */
  readonly throttled: (retryAfter: Duration.Duration | null) => Effect.Effect<void>
}

export interface GovernorOptions {
  /** Most turns taken at once. */
  readonly concurrency: number
  /** The first pause after a refusal that names none. */
  readonly retryBase: Duration.Duration
}

/** However long the API asks us to wait, it is tried again after this time. */
export const longestPause = Duration.minutes(15)
const longestUnnamedPause = Duration.minutes(1)
const reservedTurn = 10
/** Live requests of an integration at once, until it says otherwise. */
const usualLive = 30

/** What is under way of one integration. */
class Share {
  taken = 0
  live = 0
  liveLimit = usualLive
}

interface Ticket {
  readonly integration: string
  readonly share: Share
  readonly live: boolean
  readonly line: Line
  readonly start: () => void
  taken: boolean
}

/** The waiting tickets of one class; who was served goes to the end, because a `Map` keeps insertion order. */
class Line {
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
  options: GovernorOptions
): Effect.fn.Return<Governor, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const scope = yield* Effect.scope
  // Most urgent first.
  const lines: Readonly<Record<Priority, Line>> = {
    write: new Line(),
    confirm: new Line(),
    poll: new Line(),
    refresh: new Line(),
    sweep: new Line(),
    backfill: new Line()
  }
  const byUrgency = Object.values(lines)
  const shares = new Map<string, Share>()
  let taken = 0
  let limit = options.concurrency
  let turns = 0
  let lastReserved = 0
  let refusalsInRow = 0
  let pausedUntil = -Infinity
  let giving = false

  // Milliseconds on a clock that nobody sets: a jump of the wall clock neither ends nor prolongs a pause   (W4).
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const pauseLeft = (): number => pausedUntil - now()

  const mayStart = ({ live, share }: Ticket): boolean =>
    share.taken < Math.floor(limit) - taken && !(live && share.live >= share.liveLimit)

  /** The lines in the order in which the next turn is offered to them. */
  const offered = (): ReadonlyArray<Line> => {
    if ((turns + 1) % reservedTurn !== 0) return byUrgency
    const first = byUrgency.findIndex((line) => !line.isEmpty)
    const below = byUrgency.slice(first + 1)
    const next = Math.max(0, lastReserved - first)
    return [...below.slice(next), ...below.slice(0, next), ...byUrgency.slice(0, first + 1)]
  }

  const nextTicket = (): Ticket | undefined => {
    for (const line of offered()) {
      const ticket = line.take(mayStart)
      if (ticket === undefined) continue
      if ((turns + 1) % reservedTurn === 0) lastReserved = byUrgency.indexOf(line)
      return ticket
    }
    return undefined
  }

  // A started request runs at once and may come back here; the outermost loop then goes on, instead of one level deeper.
  const giveTurns = (): void => {
    if (giving) return
    giving = true
    try {
      while (pauseLeft() <= 0 && taken < Math.floor(limit)) {
        const ticket = nextTicket()
        if (ticket === undefined) return
        turns++
        taken++
        ticket.share.taken++
        if (ticket.live) ticket.share.live++
        ticket.taken = true
        ticket.start()
      }
    } finally {
      giving = false
    }
  }

  const leave = (ticket: Ticket, succeeded: boolean): void => {
    if (!ticket.taken) return ticket.line.remove(ticket)
    taken--
    ticket.share.taken--
    if (ticket.live) ticket.share.live--
    if (succeeded && pauseLeft() <= 0) {
      refusalsInRow = 0
      limit = Math.min(options.concurrency, limit + 1 / limit)
    }
    giveTurns()
  }

  const shareOf = (integration: string): Share => {
    const share = shares.get(integration) ?? new Share()
    shares.set(integration, share)
    return share
  }

  const run: Governor["run"] = (integration, priority, live = false) => (request) =>
    Effect.suspend(() => {
      const line = lines[priority]
      const share = shareOf(integration)
      let resume = () => {}
      const ticket: Ticket = { integration, share, live, line, start: () => resume(), taken: false }
      const turn = Effect.callback<void>((given) => {
        if (ticket.taken) return given(Effect.void)
        resume = () => given(Effect.void)
      })
      const ask = Effect.suspend(() => {
        line.add(ticket)
        giveTurns()
        return ticket.taken ? Effect.void : Effect.flatMap(Waiting, (waiting) => waiting(turn))
      })
      return Effect.onExit(
        Effect.andThen(ask, request),
        (exit) => Effect.sync(() => leave(ticket, Exit.isSuccess(exit)))
      )
    })

  // Timers may fire a little early, and a pause may be lengthened meanwhile: hence the loop.
  const wake = Effect.suspend(() => Effect.sleep(Math.ceil(pauseLeft()))).pipe(
    Effect.repeat({ while: () => pauseLeft() > 0 }),
    Effect.andThen(Effect.sync(giveTurns))
  )

  const pause: Governor["pause"] = (duration) =>
    Effect.suspend(() => {
      const isPaused = pauseLeft() > 0
      pausedUntil = Math.max(pausedUntil, now() + Duration.toMillis(Duration.min(duration, longestPause)))
      return isPaused ? Effect.void : Effect.asVoid(Effect.forkIn(wake, scope))
    })

  const throttled: Governor["throttled"] = Effect.fnUntraced(function*(retryAfter) {
    if (pauseLeft() <= 0) {
      limit = Math.max(1, limit / 2)
      refusalsInRow++
    }
    if (retryAfter !== null && Duration.toMillis(retryAfter) > 0) return yield* pause(retryAfter)
    const unnamed = Duration.times(options.retryBase, 2 ** Math.min(refusalsInRow - 1, 20))
    const jitter = yield* Random.nextBetween(0.8, 1.2)
    yield* pause(Duration.times(Duration.min(unnamed, longestUnnamedPause), jitter))
  })

  // Others may use the same integration: what we hold and what it would still take is all there is for us. One goes on
  // asking, or nobody would learn that there is room again.
  const allowed: Governor["allowed"] = (integration, most, remaining) =>
    Effect.sync(() => {
      const share = shareOf(integration)
      share.liveLimit = Math.max(1, Math.min(most, share.live + remaining))
      giveTurns()
    })

  return { run, allowed, isPaused: Effect.sync(() => pauseLeft() > 0), pause, throttled }
})
