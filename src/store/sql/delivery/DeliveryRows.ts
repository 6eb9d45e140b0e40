/** Converts between the row of a delivery and the port's value. */
import { shardOf } from "../../../domain/Shard.ts"
import type { Delivery, Failure, NewDelivery, Subject } from "../../Delivery.ts"
import type { Claimed } from "../../DeliveryClaims.ts"
import type { Integer } from "../Rows.ts"

export interface DeliveryRow {
  readonly id: Integer
  readonly handler: Integer
  readonly integration: string
  readonly ordering_key: string
  readonly position: Integer | null
  readonly scheduled_at: Integer | null
  readonly from_position: Integer | null
  readonly to_position: Integer | null
  readonly due_at: Integer
  readonly created_at: Integer
  readonly attempts: Integer
  readonly claims: Integer
  readonly crashes: Integer
  readonly batch: string | null
  readonly fresh: string | null
  /** This program wrote the JSON, so it is parsed unchecked. */
  readonly failure: string | null
}

const toSubject = (row: DeliveryRow): Subject =>
  row.position === null
    ? {
      _tag: "Tick",
      scheduledAt: Number(row.scheduled_at),
      from: Number(row.from_position),
      to: Number(row.to_position)
    }
    : { _tag: "Event", position: Number(row.position) }

export const toDelivery = (row: DeliveryRow): Delivery => ({
  id: Number(row.id),
  handler: Number(row.handler),
  integration: row.integration,
  orderingKey: row.ordering_key,
  subject: toSubject(row),
  createdAt: Number(row.created_at),
  attempts: Number(row.attempts),
  batch: row.batch,
  fresh: row.fresh
})

export const toClaimed = (row: DeliveryRow): Claimed => ({
  ...toDelivery(row),
  claim: Number(row.claims),
  crashes: Number(row.crashes)
})

export const toFailure = (text: string): Failure => JSON.parse(text)

/** The reason comes first, because `deadLetters` searches for it at the beginning of the text. */
export const fromFailure = ({ reason, ...failure }: Failure): string => JSON.stringify({ reason, ...failure })

export const fromDelivery = (
  { dead, dueAt, fresh, handler, integration, orderingKey, subject }: NewDelivery,
  /** `ahead`: how far the database's clock is ahead of ours, in ms. */
  { ahead, createdAt, state }: {
    /** `waiting`: an earlier delivery with the same ordering key blocks it. `due`: none does; `due_at` may still be in the future. */
    readonly state: "waiting" | "due" | "dead"
    readonly createdAt: number
    readonly ahead: number
  }
) => {
  const tick = subject._tag === "Tick" ? subject : null
  return {
    handler,
    integration,
    shard: shardOf(integration),
    ordering_key: orderingKey,
    position: subject._tag === "Event" ? subject.position : null,
    scheduled_at: tick?.scheduledAt ?? null,
    from_position: tick?.from ?? null,
    to_position: tick?.to ?? null,
    state,
    due_at: dueAt + ahead,
    created_at: createdAt,
    attempts: 0,
    claims: 0,
    fresh,
    failure: dead === null ? null : fromFailure(dead),
    died_at: dead?.at ?? null
  }
}
