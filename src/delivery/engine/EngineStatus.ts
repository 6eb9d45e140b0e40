/** The status of the delivery engine: whether it runs, waits for the store or has stopped, and how far it is. */
import * as Effect from "effect/Effect"
import type * as Latch from "effect/Latch"
import * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"
import * as Recovery from "../../store/Recovery.ts"
import type { StoreError } from "../../store/Store.ts"

/** `waiting`: the store is unavailable. `stopped`: the store cannot be used, or another process delivers. */
export interface DeliveryStatus extends Recovery.Condition {
  /** True if this process creates the deliveries of all shards. In a fleet, one process does. */
  readonly dispatches: boolean
  /** Number of shards whose deliveries this process runs. */
  readonly shards: number
  /** Integrations for which a plugin's configuration is incomplete. Their deliveries wait. */
  readonly unconfigured: ReadonlyArray<
    { readonly plugin: string; readonly integration: string; readonly message: string }
  >
  /** Up to this position every delivery has ended, or waits for its next attempt, for its batch to fill, or for an operator. */
  readonly drainedPosition: number
}

export type Condition = Pick<DeliveryStatus, "state" | "reason" | "drainedPosition">

/** `draining`: opens when the engine shuts down. Then an effect that fails is not tried again. */
export const make = Effect.fnUntraced(function*(draining: Latch.Latch) {
  const status = yield* SubscriptionRef.make<Condition>({ state: "starting", reason: null, drainedPosition: 0 })
  let failures = 0

  const report = Effect.fnUntraced(function*(error: StoreError | Recovery.Unexpected) {
    const before = yield* SubscriptionRef.get(status)
    const state = error._tag === "StoreError" && error.reason.retryable ? "waiting" : "stopped"
    const reason = error._tag === "StoreError" ? Recovery.describeStoreError(error) : error
    // the store logs its own outages
    if (before.state !== state && state === "stopped") {
      yield* Effect.logError(`delivery stopped: ${reason.message} (${reason.hint})`)
    }
    yield* SubscriptionRef.set(status, yield* Recovery.nextCondition(before, state, reason))
  })

  /** Retries while the store is unavailable, and reports that in the status; fails on an error that is not retryable. */
  const retryAndReport = <A>(effect: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> =>
    effect.pipe(
      Effect.tap(() => Effect.sync(() => failures = 0)),
      Effect.catch(Effect.fnUntraced(function*(error) {
        yield* report(error)
        yield* Effect.raceFirst(Effect.sleep(Recovery.backoff(failures++)), draining.await)
        return yield* error.reason.retryable && !draining.isOpen() ? retryAndReport(effect) : Effect.fail(error)
      }))
    )

  /** `drained`: see `drainedPosition`, which never decreases. */
  const reportRunning = Effect.fnUntraced(function*(drained: number) {
    const { drainedPosition, state } = yield* SubscriptionRef.get(status)
    if (state === "stopped") yield* Effect.logInfo("delivering again")
    yield* SubscriptionRef.set(status, {
      state: "running",
      reason: null,
      drainedPosition: Math.max(drainedPosition, drained)
    })
  })

  return {
    current: SubscriptionRef.get(status),
    report,
    reportRunning,
    retryAndReport,
    /** Returns the first condition for which this is true, beginning with the current one. */
    awaitReached: (isReached: (now: Condition) => boolean): Effect.Effect<Condition> =>
      SubscriptionRef.changes(status).pipe(
        Stream.filter(isReached),
        Stream.runHead,
        Effect.flatMap((now) => now._tag === "Some" ? Effect.succeed(now.value) : SubscriptionRef.get(status))
      )
  }
})
