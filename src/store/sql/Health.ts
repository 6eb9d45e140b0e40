/**
 * Keeps track of whether a store responds, and of the start and the cause of an outage. It observes every statement of an
 * adapter, so an outage is logged once, however many callers it affects.
 *
 * Invariants
 * 1. One log line when an outage starts, one for each further cause, and one when the outage is over
 * 2. An outage of writes is not over because reads succeed: it ends with a successful write
 *
 * Gotchas
 * - A connection that breaks and is replaced at once is not an outage. A fault that may pass during retries is an outage, or a further
 *   cause of one, only if it lasts.
 * - Conflicts and rejected values prove that the store responds.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { Outage } from "../StoreError.ts"
import { type FaultKind, faultOf, StoreFault, traitsOf } from "../StoreFault.ts"

/** A statement without a response for this long is an outage, in ms. */
const silenceLimit = 5_000
/** A transient fault is an outage once it has lasted this long, in ms. It is shorter than all retries of `withRetry` together. */
const transientGrace = 2_000
/** A transient fault is over once it has not occurred for this long, in ms. It is longer than one wait for a lock. */
const transientMemory = 30_000
/** A statement that times out while others get responses is an outage only if the previous such timeout was within this time, in ms. */
const slowWindow = 120_000

/** Durations are measured with the monotonic clock, which is never set. */
const millisOf = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)
const measured = <A, E, R>(use: (now: number, wall: number) => Effect.Effect<A, E, R>) =>
  Effect.clockWith((clock) => use(millisOf(clock), clock.currentTimeMillisUnsafe()))

/** False while the caller expects its statements to fail and handles that itself, and while a store is only inspected. */
export const Observed = Context.Reference<boolean>("rollcall/store/Observed", { defaultValue: () => true })

interface Running {
  readonly begunAt: number
}

interface OutageState {
  readonly since: number
  fault: StoreFault
  /** When a fault of each kind last occurred. */
  readonly lastSeen: Map<FaultKind, number>
  /** Whether a write has succeeded since the last fault. */
  written: boolean
}

export class Health extends Context.Service<Health, {
  /** Observes one statement. `mayBeLong`: it may legitimately take minutes, so a missing response is not a sign of an outage. */
  readonly observe: <A>(
    statement: Effect.Effect<A, SqlError>,
    mayBeLong?: boolean
  ) => Effect.Effect<A, SqlError>
  /** Records an error before a statement could run, such as a failed connection. */
  readonly failed: (error: SqlError) => Effect.Effect<void>
  /** Records that a transaction with changes was committed. */
  readonly wrote: Effect.Effect<void>
  /** The current outage; null if the store responds. */
  readonly outage: Effect.Effect<Outage | null>
  /** Checks once a second for statements without a response; never ends. */
  readonly watch: Effect.Effect<never>
}>()("rollcall/store/Health") {}

/** `store` is the store's name for people. */
export const make = (store: string): Health["Service"] => {
  const running = new Set<Running>()
  let respondedAt = -Infinity
  let outage: OutageState | null = null
  /** When a statement last timed out although the store responded to others. */
  let lateAt = -Infinity
  /** Transient faults by kind: when the fault started, and when it last occurred. */
  const transientFaults = new Map<FaultKind, { readonly since: number; readonly last: number }>()

  const logChange = (level: "error" | "info", message: string, details: Readonly<Record<string, unknown>>) =>
    Effect.annotateLogs(level === "error" ? Effect.logError(message) : Effect.logInfo(message), { store, ...details })

  const begin = (fault: StoreFault, since: number, now: number) =>
    Effect.suspend(() => {
      const before = outage
      const known = before?.lastSeen.has(fault.kind) ?? false
      if (before === null) outage = { since, fault, lastSeen: new Map([[fault.kind, now]]), written: false }
      else {
        before.fault = fault
        before.lastSeen.set(fault.kind, now)
        before.written = false
      }
      if (known) return Effect.void
      return logChange("error", before === null ? "store unavailable" : "store still unavailable", {
        why: fault.message,
        hint: fault.hint
      })
    })

  /** Since when at least one statement has waited, and none got a response; null if none waits. */
  const silentSince = (): number | null => {
    let oldest = Infinity
    for (const { begunAt } of running) oldest = Math.min(oldest, begunAt)
    return oldest === Infinity ? null : Math.max(oldest, respondedAt)
  }

  /**
   * A statement timed out although others got responses: perhaps its session had been dead for a long time, or perhaps the statement
   * always takes too long. Only a repeated timeout is an outage.
   */
  const recordSlow = (begunAt: number, now: number) => {
    const isAgain = begunAt > lateAt && now - lateAt < slowWindow
    lateAt = now
    return isAgain ? begin(new StoreFault("slow", store), begunAt, now) : Effect.void
  }

  const recordFault = (fault: StoreFault, begunAt: number, now: number) => {
    if (fault.kind === "silent") {
      return begunAt < respondedAt
        ? recordSlow(begunAt, now)
        : begin(fault, Math.min(begunAt, silentSince() ?? begunAt), now)
    }
    if (!traitsOf(fault.kind).transient) return begin(fault, now, now)
    const before = transientFaults.get(fault.kind)
    const since = before === undefined || now - before.last > transientMemory ? now : before.since
    transientFaults.set(fault.kind, { since, last: now })
    return now - since < transientGrace ? Effect.void : begin(fault, since, now)
  }

  const isOver = ({ lastSeen, written }: OutageState, now: number): boolean =>
    [...lastSeen].every(([kind, last]) => {
      const { endedBy, settle } = traitsOf(kind)
      return now - last >= settle && (endedBy === "response" || written)
    })

  const succeed = (now: number, written: boolean) => {
    respondedAt = now
    for (const kind of transientFaults.keys()) {
      if (written || traitsOf(kind).endedBy === "response") transientFaults.delete(kind)
    }
    if (outage === null) return Effect.void
    outage.written ||= written
    if (!isOver(outage, now)) return Effect.void
    const seconds = Math.round((now - outage.since) / 1000)
    outage = null
    return logChange("info", "store available again", { seconds })
  }

  const currentOutage = (now: number): Pick<OutageState, "fault" | "since"> | null => {
    if (outage !== null) return outage
    const since = silentSince()
    return since === null || now - since < silenceLimit ? null : { fault: new StoreFault("silent", store), since }
  }

  return Health.of({
    observe: (statement, mayBeLong = false) =>
      Effect.withFiber((fiber) => {
        if (!fiber.getRef(Observed)) return statement
        const clock = fiber.getRef(Clock.Clock)
        const one: Running = { begunAt: millisOf(clock) }
        if (!mayBeLong) running.add(one)
        return Effect.onExit(statement, (exit) => {
          running.delete(one)
          const now = millisOf(clock)
          if (exit._tag === "Success") return succeed(now, false)
          const failure = exit.cause.reasons.find((reason) => reason._tag === "Fail")
          if (failure === undefined) return Effect.void
          const fault = faultOf(failure.error)
          return fault === null ? succeed(now, false) : recordFault(fault, one.begunAt, now)
        })
      }),
    failed: (error) =>
      Effect.withFiber((fiber) => {
        const fault = faultOf(error)
        if (fault === null || !fiber.getRef(Observed)) return Effect.void
        const now = millisOf(fiber.getRef(Clock.Clock))
        return recordFault(fault, now, now)
      }),
    wrote: measured((now) => succeed(now, true)),
    outage: measured((now, wall) => {
      const found = currentOutage(now)
      if (found === null) return Effect.succeed(null)
      const { fault: { hint, message }, since } = found
      return Effect.succeed<Outage>({ message, hint, since: wall - (now - since) })
    }),
    watch: measured((now) => {
      const found = outage === null ? currentOutage(now) : null
      return found === null ? Effect.void : begin(found.fault, found.since, now)
    }).pipe(
      Effect.andThen(Effect.sleep("1 second")),
      Effect.forever
    )
  })
}
