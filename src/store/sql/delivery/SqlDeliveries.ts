/**
 * The `Deliveries` port over any `SqlClient`: combines the tables of deliveries.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { Deliveries } from "../../Deliveries.ts"
import type { Store } from "../../Store.ts"
import * as Checksum from "../Checksum.ts"
import type { Content } from "../Checksum.ts"
import * as EncryptionTable from "../EncryptionTable.ts"
import * as EventTable from "../EventTable.ts"
import * as Fencing from "../Fencing.ts"
import { Signals } from "../Signals.ts"
import { withRetry } from "../SqlRetry.ts"
import * as ExpectationTable from "../stream/ExpectationTable.ts"
import * as DeadLetterTable from "./DeadLetterTable.ts"
import * as DeliveryTable from "./DeliveryTable.ts"
import * as ForgetTable from "./ForgetTable.ts"
import * as JournalTable from "./JournalTable.ts"
import * as ResolutionTable from "./ResolutionTable.ts"
import * as SwitchTable from "./SwitchTable.ts"
import * as TraceTable from "./TraceTable.ts"

const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const cipher = yield* EncryptionTable.cipherOf(sql)
  const { checked } = Checksum.make(cipher)
  const ownership = Fencing.make(sql)
  const log = EventTable.make(sql, cipher)
  const { insertWithIds, unblock, ...table } = DeliveryTable.make(sql, ownership, log)

  const content: Deliveries["Service"]["content"] = ({ integration, model }, id) =>
    sql<Content>`
      SELECT e.position, e.content, e.content_sum FROM heads h JOIN events e ON e.position = h.position
      WHERE h.stream = (SELECT key FROM streams WHERE integration = ${integration} AND model = ${model})
        AND h.id = ${id} AND h.live = 1`.pipe(
      Effect.flatMap(checked),
      Effect.map(([row]) => row?.content ?? null),
      withRetry("content")
    )

  const applicationsOf: Deliveries["Service"]["applicationsOf"] = (integration, candidate, limit) =>
    sql<{ id: string }>`
      SELECT p.id FROM derivations p JOIN heads h ON h.stream = p.stream AND h.id = p.id
      WHERE p.stream = (SELECT key FROM streams WHERE integration = ${integration} AND model = 'ats.application')
        AND p.derived_id = ${candidate} AND h.live = 1 ORDER BY p.id LIMIT ${limit}`.pipe(
      Effect.map(Arr.map(({ id }) => id)),
      withRetry("applicationsOf")
    )

  const expectations = ExpectationTable.make(sql)
  const deadLetters = DeadLetterTable.make(sql, yield* Signals, { insertWithIds, unblock })
  return Deliveries.of({
    ...table,
    ...JournalTable.make(sql, cipher, ownership, expectations),
    ...ResolutionTable.make(sql, cipher, deadLetters, expectations),
    ...deadLetters.service,
    ...SwitchTable.make(sql, deadLetters),
    ...TraceTable.make(sql),
    ...ForgetTable.make(sql, cipher, log, { unblock }),
    content,
    applicationsOf
  })
})

/** Requires the store, because opening the store migrates the database. */
export const layer: Layer.Layer<Deliveries, never, SqlClient.SqlClient | Store | Signals> = Layer.effect(
  Deliveries,
  make
)
