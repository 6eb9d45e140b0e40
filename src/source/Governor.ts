/**
 * Whose turn it is: the request budget of one account. Hides queues, concurrency and pauses.
 *
 * Invariants
 * 1. While the account is paused no turn is given, so no request leaves   (R1)
 * 2. The most urgent class goes first, but every tenth turn is the least urgent one's: nothing starves
 * 3. Within a class the integrations take turns; within an integration, first come, first served   (R3)
 * 4. At most `limit` turns are taken at once: halved by a refusal, grown by one per round of successes, never above
 *    `concurrency`
 *
 * Gotchas
 * - Refusals that arrive while the account is paused belong to the burst that paused it: they may lengthen the pause,
 *   but do not halve the limit again.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import type { Priority } from "./Source.ts"

export interface Governor {
  /** Runs the request when it is its turn. However it ends, the turn is given back. */
  readonly run: (
    integration: string,
    priority: Priority
  ) => <A, E, R>(request: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
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

interface Ticket {
  readonly integration: string
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

  take(): Ticket | undefined {
    for (const [integration, own] of this.waiting) {
      for (const ticket of own) {
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
    confirm: new Line(),
    poll: new Line(),
    refresh: new Line(),
    sweep: new Line(),
    backfill: new Line()
  }
  let taken = 0
  let limit = options.concurrency
  let turns = 0
  let refusalsInRow = 0
  let pausedUntil = -Infinity
  let giving = false

  // Milliseconds on a clock that nobody sets: a jump of the wall clock neither ends nor prolongs a pause   (W4).
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const pauseLeft = (): number => pausedUntil - now()

  const nextTicket = (): Ticket | undefined => {
    const occupied = Object.values(lines).filter((line) => !line.isEmpty)
    const line = (turns + 1) % reservedTurn === 0 ? occupied.at(-1) : occupied[0]
    return line?.take()
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
    if (succeeded && pauseLeft() <= 0) {
      refusalsInRow = 0
      limit = Math.min(options.concurrency, limit + 1 / limit)
    }
    giveTurns()
  }

  const run: Governor["run"] = (integration, priority) => (request) =>
    Effect.suspend(() => {
      const line = lines[priority]
      let ticket: Ticket | undefined
      const turn = Effect.callback<void>((resume) => {
        ticket = { integration, line, start: () => resume(Effect.void), taken: false }
        line.add(ticket)
        giveTurns()
      })
      return Effect.onExit(
        Effect.andThen(turn, request),
        (exit) => Effect.sync(() => ticket && leave(ticket, Exit.isSuccess(exit)))
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

  return { run, pause, throttled }
})
