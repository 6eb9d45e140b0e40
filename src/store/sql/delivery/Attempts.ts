/**
 * The attempts of deliveries: makes the interrupted deliveries of shards due again, saves the outcomes of attempts, and claims the next
 * deliveries. By its outcome a delivery is settled, due again, dead or split.
 *
 * Gotchas
 * - The members of a batch always have the same state, due time and attempts.
 * - A delivery that is not dead has a `failure` only while it waits because the API accepts no requests.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { shardOfScope } from "../../../domain/Shard.ts"
import { type FailedAttempt, halvesOf, isolateAfterCrashes } from "../../Delivery.ts"
import type { AttemptOutcome, ClaimRequest, ClaimResult, RunningDelivery } from "../../DeliveryClaims.ts"
import type { Owner } from "../../State.ts"
import type * as DatabaseTime from "../DatabaseTime.ts"
import type * as Fencing from "../Fencing.ts"
import * as Locks from "../Locks.ts"
import { inBatches, rowsPerStatement } from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"
import * as ClaimLimits from "./ClaimLimits.ts"
import * as ClaimTable from "./ClaimTable.ts"
import { type Batches, type DeliveryTable, fromDeath, fromFailure, type OrderingKey } from "./DeliveryTable.ts"

/** Matches the details of an attempt that failed with `Blocked`: quotes inside a value are escaped. */
const blockedAttempt = '%"failure":{"reason":"Blocked"%'

const shardsOf = (owners: ReadonlyArray<Owner>) => owners.map(({ scope }) => shardOfScope(scope))

export const make = (
  sql: SqlClient,
  { replaced }: Pick<ReturnType<typeof Fencing.make>, "replaced">,
  members: Pick<Batches, "remember">,
  { unblock }: Pick<DeliveryTable, "unblock">
) => {
  const locks = Locks.make(sql)
  const circuits = ClaimLimits.makeCircuits(sql)
  const { claim } = ClaimTable.make(sql, members)

  const writesOff = sql.literal("SELECT plugin FROM switched_off WHERE plugin = '' AND integration = ''")

  const saveFailedAttempt = (deliveries: ReadonlyArray<number>, { number, ...details }: FailedAttempt) =>
    inBatches(
      deliveries.map((delivery) => ({ delivery, number, details: JSON.stringify(details) })),
      (some) =>
        sql`INSERT INTO attempts ${insertion(sql, some)} ON CONFLICT (delivery, number) DO UPDATE SET
        details = excluded.details`
    )

  /** Settles all successful deliveries, the most common outcome, in as few statements as possible. */
  const settleAll = Effect.fnUntraced(function*(ids: ReadonlyArray<number>) {
    for (const some of Arr.chunksOf(ids, rowsPerStatement)) {
      const settled = yield* sql<OrderingKey & { id: number; claims: number }>`
        DELETE FROM deliveries WHERE id ${among(sql, some)} AND state = 'running'
        RETURNING id, handler, ordering_key, claims`
      const retried = settled.filter(({ claims }) => claims > 1).map(({ id }) => id)
      if (retried.length > 0) yield* sql`DELETE FROM attempts WHERE delivery ${among(sql, retried)}`
      yield* unblock(settled)
    }
  })

  /**
   * Caps the crash count, so that a delivery that is dead because its process ended runs alone again after a redrive or after its batch is
   * halved.
   */
  const cappedCrashes = sql`CASE WHEN crashes > ${isolateAfterCrashes} THEN ${isolateAfterCrashes} ELSE crashes END`

  const settle = Effect.fnUntraced(function*(
    outcome: Exclude<AttemptOutcome, { readonly _tag: "Settled" }>,
    { ahead, now }: DatabaseTime.DatabaseClock
  ) {
    const { deliveries } = outcome
    for (const some of Arr.chunksOf(deliveries, rowsPerStatement)) {
      const ours = sql`id ${among(sql, some)} AND state = 'running'`
      switch (outcome._tag) {
        case "Released":
          yield* sql`UPDATE deliveries SET state = 'due' WHERE ${ours}`
          break
        case "Retry": {
          const [off] = outcome.stopped === true ? yield* sql`${writesOff}` : []
          // writes were resumed after this write was refused, so no later resume would make it due
          const isResumed = outcome.stopped === true && off === undefined
          const dueAt = isResumed ? now : outcome.dueAt + ahead
          const { failure } = outcome.failedAttempt
          const isBlocked = failure.reason === "Blocked"
          yield* sql`
            UPDATE deliveries SET state = 'due', due_at = ${dueAt}, attempts = ${outcome.attempts},
              stopped = ${off === undefined ? 0 : 1}, failure = ${isBlocked ? fromFailure(failure) : null}
            WHERE ${ours}`
          // the wait has no end of its own, so only its last attempt is kept
          if (isBlocked) {
            yield* sql`DELETE FROM attempts WHERE delivery ${among(sql, some)} AND details LIKE ${blockedAttempt}`
          }
          break
        }
        case "Dead": {
          const { cause, died_at, failure } = fromDeath(outcome.failedAttempt.failure)
          const dead = yield* sql<OrderingKey>`
            UPDATE deliveries SET state = 'dead', attempts = ${outcome.attempts}, failure = ${failure},
              died_at = ${died_at}, cause = ${cause}, crashes = ${cappedCrashes}
            WHERE ${ours} RETURNING handler, ordering_key`
          yield* unblock(dead)
          break
        }
        case "Split":
          break
      }
    }
    if (outcome._tag === "Split") {
      for (const { batch, members } of halvesOf(outcome.batch, deliveries)) {
        for (const some of Arr.chunksOf(members, rowsPerStatement)) {
          yield* sql`
            UPDATE deliveries SET state = 'due', due_at = ${outcome.dueAt + ahead}, attempts = 0, failure = NULL,
              batch = ${batch}, crashes = ${cappedCrashes}
            WHERE id ${among(sql, some)} AND state = 'running'`
        }
      }
      yield* members.remember(deliveries)
    }
    if (outcome._tag !== "Released") yield* saveFailedAttempt(deliveries, outcome.failedAttempt)
  })

  /** The outcomes of attempts, without those of deliveries in the shards of `lost`. */
  const withoutLost = Effect.fnUntraced(function*(
    outcomes: ReadonlyArray<AttemptOutcome>,
    lost: ReadonlyArray<Owner>
  ) {
    if (lost.length === 0) return outcomes
    const ids = outcomes.flatMap(({ deliveries }) => deliveries)
    const found = yield* inBatches(ids, (some) =>
      sql<{ id: number }>`
        SELECT id FROM deliveries WHERE id ${among(sql, some)} AND shard IN ${sql.in(shardsOf(lost))}`)
    const left = new Set(found.map(({ id }) => id))
    return outcomes.filter(({ deliveries }) => !deliveries.some((id) => left.has(id)))
  })

  return {
    /**
     * A new owner of shards must call this first. Deliveries of these shards that were running for an earlier owner are due again
     * (batches keep their members), and their claims are counted as crashes. `continued`: the owners among these of which the earlier
     * owner is the same process, which has not crashed. `blocking`: deliveries in the shards of `continued` whose attempts blocked that
     * process; they count a crash nevertheless, even if they have been released. Returns the owners that have been replaced since.
     */
    recoverShards: Effect.fnUntraced(function*(
      owners: ReadonlyArray<Owner>,
      continued: ReadonlyArray<Owner> = [],
      blocking: ReadonlyArray<number> = []
    ) {
      const lost = yield* replaced(owners)
      const shards = shardsOf(owners.filter((owner) => !lost.includes(owner)))
      if (shards.length > 0) {
        const crash = continued.length === 0
          ? sql.literal("1")
          : sql`CASE WHEN shard IN ${sql.in(shardsOf(continued))} THEN 0 ELSE 1 END`
        yield* inBatches(blocking, (some) =>
          sql`
            UPDATE deliveries SET state = 'due', crashes = crashes + 1
            WHERE id ${among(sql, some)} AND state IN ('due', 'running') AND shard IN ${sql.in(shards)}`)
        yield* sql`
          UPDATE deliveries SET state = 'due', crashes = crashes + ${crash}
          WHERE state = 'running' AND shard IN ${sql.in(shards)}`
      }
      return lost
    }, locks.deliveries),
    /**
     * In one transaction: settles the attempts that have ended, then claims due deliveries. Ignores deliveries of other shards than those
     * of `owners`. `lost`: the owners that have been replaced; nothing is settled or claimed for them. For a handler whose circuit is
     * open, nothing is claimed. When the open time is over, one delivery or batch is claimed in all processes together.
     */
    settleAndClaim: Effect.fnUntraced(function*(
      owners: ReadonlyArray<Owner>,
      outcomes: ReadonlyArray<AttemptOutcome>,
      requests: ReadonlyArray<ClaimRequest>
    ) {
      const lost = yield* replaced(owners)
      const ours = yield* withoutLost(outcomes, lost)
      const before = yield* circuits.read
      yield* settleAll(ours.flatMap(({ _tag, deliveries }) => _tag === "Settled" ? deliveries : []))
      for (const outcome of ours) if (outcome._tag !== "Settled") yield* settle(outcome, before)
      const shards = shardsOf(owners.filter((owner) => !lost.includes(owner)))
      const state = yield* circuits.apply(before, ours)
      const { next, ...claimed } = yield* claim(requests, shards, state.circuits, state.now)
      return {
        ...claimed,
        next: next === null ? null : next - state.ahead,
        lost,
        circuits: ClaimLimits.inOurTime(state)
      } satisfies ClaimResult
    }, locks.deliveries),
    /**
     * The running deliveries of the shards of `owners`. If `settleAndClaim` fails, its transaction may have been committed: the deliveries
     * that it claimed are running then, although the caller does not know them.
     */
    running: (owners: ReadonlyArray<Owner>) =>
      sql<RunningDelivery>`
        SELECT id, shard FROM deliveries WHERE state = 'running' AND shard IN ${sql.in(shardsOf(owners))}`
  }
}
