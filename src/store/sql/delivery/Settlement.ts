/**
 * Saves the outcomes of attempts: inside a transaction, deliveries are settled, due again, dead or split.
 *
 * Gotchas
 * - The members of a batch always have the same state, due time and attempts.
 * - A delivery that is not dead has a `failure` only while it waits because the API accepts no requests.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { type FailedAttempt, halvesOf, isolateAfterCrashes } from "../../Delivery.ts"
import type { AttemptOutcome } from "../../DeliveryClaims.ts"
import type * as DatabaseTime from "../DatabaseTime.ts"
import { type Integer, rowsPerStatement } from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"
import type * as BatchTable from "./BatchTable.ts"
import { fromFailure } from "./DeliveryRows.ts"
import type { OrderedDeliveries, OrderingKey } from "./OrderedDeliveries.ts"

/** Matches the details of an attempt that failed with `Blocked`: quotes inside a value are escaped. */
const blockedAttempt = '%"failure":{"reason":"Blocked"%'

export const make = (
  sql: SqlClient,
  members: ReturnType<typeof BatchTable.make>,
  { unblock }: Pick<OrderedDeliveries, "unblock">
) => {
  const writesOff = sql.literal("SELECT plugin FROM switched_off WHERE plugin = '' AND integration = ''")

  const saveFailedAttempt = Effect.fnUntraced(
    function*(deliveries: ReadonlyArray<number>, { number, ...details }: FailedAttempt) {
      const rows = deliveries.map((delivery) => ({ delivery, number, details: JSON.stringify(details) }))
      for (const some of Arr.chunksOf(rows, rowsPerStatement)) {
        yield* sql`INSERT INTO attempts ${insertion(sql, some)} ON CONFLICT (delivery, number) DO UPDATE SET
        details = excluded.details`
      }
    }
  )

  /** Settles all successful deliveries, the most common outcome, in as few statements as possible. */
  const settleAll = Effect.fnUntraced(function*(ids: ReadonlyArray<number>) {
    for (const some of Arr.chunksOf(ids, rowsPerStatement)) {
      const settled = yield* sql<OrderingKey & { id: Integer; claims: Integer }>`
        DELETE FROM deliveries WHERE id ${among(sql, some)} AND state = 'running'
        RETURNING id, handler, ordering_key, claims`
      const retried = settled.filter(({ claims }) => Number(claims) > 1).map(({ id }) => Number(id))
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
          const { failure } = outcome.failedAttempt
          const dead = yield* sql<OrderingKey>`
            UPDATE deliveries SET state = 'dead', attempts = ${outcome.attempts}, failure = ${fromFailure(failure)},
              died_at = ${failure.at}, crashes = ${cappedCrashes}
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

  return { settleAll, settle }
}
