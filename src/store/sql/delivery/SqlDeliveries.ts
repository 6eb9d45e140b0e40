/** The operations of `Deliveries`: combines the tables of deliveries. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { StreamKey } from "../../../domain/Model.ts"
import * as Checksum from "../Checksum.ts"
import type { Content } from "../Checksum.ts"
import * as EncryptionTable from "../EncryptionTable.ts"
import * as EventTable from "../EventTable.ts"
import * as Fencing from "../Fencing.ts"
import { Signals } from "../Signals.ts"
import { convertEach, withRetry, withRetryAfterRollback } from "../SqlRetry.ts"
import * as ExpectationTable from "../stream/ExpectationTable.ts"
import * as AttemptCountTable from "./AttemptCountTable.ts"
import * as Attempts from "./Attempts.ts"
import * as DeliveryCommands from "./DeliveryCommands.ts"
import * as DeliveryQueries from "./DeliveryQueries.ts"
import * as DeliveryTable from "./DeliveryTable.ts"
import * as ForgetTable from "./ForgetTable.ts"
import * as HandlerTable from "./HandlerTable.ts"
import * as JournalTable from "./JournalTable.ts"

export const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const signals = yield* Signals
  const cipher = yield* EncryptionTable.cipherOf(sql)
  const { checked } = Checksum.make(cipher)
  const ownership = Fencing.make(sql)
  const log = EventTable.make(sql, cipher)
  const expectations = ExpectationTable.make(sql)
  const table = DeliveryTable.make(sql)
  const { batches, ...members } = DeliveryTable.makeBatches(sql)
  const { addAttempts, attemptCounts } = AttemptCountTable.make(sql)
  const { settleAndClaim, ...attempts } = Attempts.make(sql, ownership, members, table)

  return {
    ...convertEach(withRetry, {
      ...HandlerTable.make(sql, ownership, table),
      ...attempts,
      attemptCounts,
      batches,
      ...JournalTable.make(sql, cipher, ownership, expectations, members),
      ...DeliveryQueries.make(sql),
      ...DeliveryCommands.make(sql, signals, cipher, table, expectations),
      ...ForgetTable.make(sql, signals, cipher, log, table),
      content: ({ integration, model }: StreamKey, id: string) =>
        sql<Content>`
          SELECT e.position, e.content, e.content_sum FROM heads h JOIN events e ON e.position = h.position
          WHERE h.stream = (SELECT key FROM streams WHERE integration = ${integration} AND model = ${model})
            AND h.id = ${id} AND h.live = 1`.pipe(
          Effect.flatMap(checked),
          Effect.map(([row]) => row?.content ?? null)
        ),
      applicationsOf: (integration: string, candidate: string, limit: number) =>
        sql<{ id: string }>`
          SELECT p.id FROM derivations p JOIN heads h ON h.stream = p.stream AND h.id = p.id
          WHERE p.stream = (SELECT key FROM streams WHERE integration = ${integration} AND model = 'ats.application')
            AND p.derived_id = ${candidate} AND h.live = 1 ORDER BY p.id LIMIT ${limit}`.pipe(
          Effect.map(Arr.map(({ id }) => id))
        )
    }),
    settleAndClaim: (...args: Parameters<typeof settleAndClaim>) =>
      // after a lost connection, the claims may be committed, so the caller must check
      withRetryAfterRollback("settleAndClaim")(settleAndClaim(...args)),
    // after a lost connection, the counts may be committed already
    addAttempts: (...args: Parameters<typeof addAttempts>) =>
      withRetryAfterRollback("addAttempts")(Effect.asVoid(addAttempts(...args))),
    /** Log rows at these positions, however old, in position order; erased rows are missing. */
    entries: log.at,
    /**
     * Waits until this process knows of more than `seen` operator commands; returns how many it knows of. On PostgreSQL it may take a
     * second to notice a command that another process committed.
     */
    awaitCommand: (seen: number) => signals.after("command", seen)
  }
})
