/**
 * What is known of a store without asking it: whether it answers, and if not, since when and why. Every statement of an
 * adapter is observed here, so an outage is noticed and logged once, whoever runs into it.
 *
 * Invariants
 * 1. One log line when an outage begins, one for each further cause of it, one when it is over
 * 2. A write that fails is not over because reads go well: it ends with something written
 *
 * Gotchas
 * - A connection that breaks and is replaced at once is no outage: what passes while work is tried again is one only if
 *   it lasts.
 * - Conflicts and refused values are answers.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { Outage } from "../Store.ts"
import { type FaultKind, faultOf, StoreFault, traitsOf } from "../StoreFault.ts"

/** A statement that nothing was heard of for so long is an outage, ms. */
const silenceLimit = 5_000
/** What may pass by itself is an outage once it lasted so long, ms: before the last try of `attempt`. */
const transientGrace = 2_000
/** What may pass by itself and was not met for so long has passed, ms: longer than one wait for a lock. */
const transientMemory = 30_000
/** A statement that was given up while others were answered is one of few, unless the next one comes within this time, ms. */
const slowWindow = 120_000

/** Durations are measured with a clock that is never set. */
const millisOf = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)
const measured = <A, E, R>(use: (now: number, wall: number) => Effect.Effect<A, E, R>) =>
  Effect.clockWith((clock) => use(millisOf(clock), clock.currentTimeMillisUnsafe()))

/** False where whoever runs statements expects them to fail and says so. */
export const Observed = Context.Reference<boolean>("rollcall/store/Observed", { defaultValue: () => true })

interface Running {
  readonly begunAt: number
}

interface OutageState {
  readonly since: number
  fault: StoreFault
  /** When a fault of each kind was last met. */
  readonly lastSeen: Map<FaultKind, number>
  /** Something was written since the last fault. */
  written: boolean
}

export class Health extends Context.Service<Health, {
  /** Observes one statement; `mayBeLong`: its silence tells nothing. */
  readonly observe: <A>(
    statement: Effect.Effect<A, SqlError>,
    mayBeLong?: boolean
  ) => Effect.Effect<A, SqlError>
  /** Notes what kept a statement from being run at all, such as a connection that could not be made. */
  readonly failed: (error: SqlError) => Effect.Effect<void>
  /** Something was committed. */
  readonly wrote: Effect.Effect<void>
  /** What keeps the store from being used; null = it answers. */
  readonly outage: Effect.Effect<Outage | null>
  /** Looks for silence, once a second, for ever. */
  readonly watch: Effect.Effect<never>
}>()("rollcall/store/Health") {}

/** Of the store that people know by this name. */
export const make = (store: string): Health["Service"] => {
  const running = new Set<Running>()
  let answeredAt = -Infinity
  let outage: OutageState | null = null
  /** When a statement was last given up although the store answered others meanwhile. */
  let lateAt = -Infinity
  /** What may pass by itself: when it began, and when it was last met. */
  const transientFaults = new Map<FaultKind, { readonly since: number; readonly last: number }>()

  const logChange = (level: "error" | "info", message: string, what: Readonly<Record<string, unknown>>) =>
    Effect.annotateLogs(level === "error" ? Effect.logError(message) : Effect.logInfo(message), { store, ...what })

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

  /** A session that died is found only now, or a statement takes too long each time. */
  const recordSlow = (begunAt: number, now: number) => {
    const isAgain = begunAt > lateAt && now - lateAt < slowWindow
    lateAt = now
    return isAgain ? begin(new StoreFault("slow", store), begunAt, now) : Effect.void
  }

  const recordFault = (fault: StoreFault, begunAt: number, now: number) => {
    if (fault.kind === "silent") return begunAt < answeredAt ? recordSlow(begunAt, now) : begin(fault, begunAt, now)
    if (!traitsOf(fault.kind).passing) return begin(fault, now, now)
    const before = transientFaults.get(fault.kind)
    const since = before === undefined || now - before.last > transientMemory ? now : before.since
    transientFaults.set(fault.kind, { since, last: now })
    return outage === null && now - since < transientGrace ? Effect.void : begin(fault, since, now)
  }

  const isOver = ({ lastSeen, written }: OutageState, now: number): boolean =>
    [...lastSeen].every(([kind, last]) => {
      const { endedBy, settle } = traitsOf(kind)
      return now - last >= settle && (endedBy === "answer" || written)
    })

  const succeed = (now: number, written: boolean) => {
    answeredAt = now
    for (const kind of transientFaults.keys()) {
      if (written || traitsOf(kind).endedBy === "answer") transientFaults.delete(kind)
    }
    if (outage === null) return Effect.void
    outage.written ||= written
    if (!isOver(outage, now)) return Effect.void
    const seconds = Math.round((now - outage.since) / 1000)
    outage = null
    return logChange("info", "store available again", { seconds })
  }

  const silentSince = (): number | null => {
    let oldest = Infinity
    for (const { begunAt } of running) oldest = Math.min(oldest, begunAt)
    return oldest === Infinity ? null : Math.max(oldest, answeredAt)
  }

  const look = (now: number): Pick<OutageState, "fault" | "since"> | null => {
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
      measured((now) => {
        const fault = faultOf(error)
        return fault === null ? Effect.void : recordFault(fault, now, now)
      }),
    wrote: measured((now) => succeed(now, true)),
    outage: measured((now, wall) => {
      const found = look(now)
      if (found === null) return Effect.succeed(null)
      const { fault: { hint, message }, since } = found
      return Effect.succeed<Outage>({ message, hint, since: wall - (now - since) })
    }),
    watch: measured((now) => {
      const found = outage === null ? look(now) : null
      return found === null ? Effect.void : begin(found.fault, found.since, now)
    }).pipe(
      Effect.andThen(Effect.sleep("1 second")),
      Effect.forever
    )
  })
}

/** Of a store that is only looked at. */
export const none: Health["Service"] = Health.of({
  observe: (statement) => statement,
  failed: () => Effect.void,
  wrote: Effect.void,
  outage: Effect.succeed(null),
  watch: Effect.never
})
