/**
 * The relay's status, and the callers that wait until the relay has published up to a position.
 *
 * Invariants
 * 1. A call of `awaitPosition` requests progress. Only a report that was read after the call fulfills the request
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"
import { type Condition, nextCondition } from "../store/Recovery.ts"
import type { Outage } from "../store/Store.ts"

/** `waiting`: the sink or the store is unavailable. `standby`: the relay is placed in another process. */
export interface RelayStatus extends Condition {
  /** Newest position known to be in the sink. */
  readonly position: number
  /** Log position of the last progress report that was published to the sink. */
  readonly progressPosition: number
}

/** The status, and how many of the progress requests are fulfilled: their report is in the sink. */
interface InternalStatus extends RelayStatus {
  readonly fulfilledRequests: number
}

const publicStatus = ({ position, progressPosition, reason, state }: InternalStatus): RelayStatus => ({
  position,
  progressPosition,
  reason,
  state
})

export const make = Effect.gen(function*() {
  const status = yield* SubscriptionRef.make<InternalStatus>({
    position: 0,
    progressPosition: 0,
    state: "standby",
    reason: null,
    fulfilledRequests: 0
  })
  /** Completed when there is a request that no report has taken yet. */
  let requested = Deferred.makeUnsafe<void>()
  /** How many requests there were so far, and how many of them the next report fulfills. */
  let requests = 0
  let requestsInReport = 0

  const setState = (state: RelayStatus["state"]) =>
    SubscriptionRef.update(status, (before): InternalStatus => ({ ...before, state, reason: null }))

  /** The relay waits or is stopped for this reason. */
  const setFailed = (state: "waiting" | "stopped", reason: Omit<Outage, "since">) =>
    SubscriptionRef.updateEffect(status, (before) => nextCondition(before, state, reason))

  /** The sink has everything up to `position` and, if `reportPosition` is given, the progress report that was read there. */
  const setPublished = (position: number, reportPosition?: number) =>
    SubscriptionRef.update(status, ({ fulfilledRequests, progressPosition }): InternalStatus => ({
      position,
      progressPosition: reportPosition ?? progressPosition,
      state: "running",
      reason: null,
      fulfilledRequests: reportPosition === undefined ? fulfilledRequests : requestsInReport
    }))

  /** Returns when progress is requested. */
  const awaitRequest = Effect.suspend(() => Deferred.await(requested))

  /** Whether progress was requested since the last call. The report that is read after this call fulfills all requests. */
  const takeRequests = (): boolean => {
    if (!Deferred.isDoneUnsafe(requested)) return false
    requested = Deferred.makeUnsafe()
    requestsInReport = requests
    return true
  }

  const awaitPosition = Effect.fnUntraced(function*(position: number, patience: Duration.Input = Duration.infinity) {
    const request = ++requests
    yield* Deferred.succeed(requested, undefined)
    const longest = Duration.toMillis(Duration.fromInputUnsafe(patience))
    return yield* SubscriptionRef.changes(status).pipe(
      Stream.filterEffect(({ fulfilledRequests, progressPosition, reason, state }) =>
        Effect.map(
          Clock.currentTimeMillis,
          (now) =>
            (fulfilledRequests >= request && progressPosition >= position) || state === "stopped" ||
            (state === "waiting" && reason !== null && now - reason.since >= longest)
        )
      ),
      Stream.runHead,
      Effect.flatMap((now) => now._tag === "Some" ? Effect.succeed(now.value) : SubscriptionRef.get(status)),
      Effect.map(publicStatus)
    )
  })

  return {
    current: Effect.map(SubscriptionRef.get(status), publicStatus),
    setState,
    setFailed,
    setPublished,
    awaitRequest,
    takeRequests,
    awaitPosition
  }
})
