/**
 * The table of holds: the stream's owner opens and saves them; any process lists and decides them.
 *
 * Invariants
 * 1. A decision and the status of the hold's rows change in one transaction, under the lock of their stream   (X7)
 *
 * Gotchas
 * - A disputed row counts as part of its hold, but a decision does not apply to it until it is re-read: its content is unknown.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import type { StreamKey } from "../../../domain/Model.ts"
import type { Hold, HoldState } from "../../State.ts"
import type { Store } from "../../Store.ts"
import * as Locks from "../Locks.ts"
import * as Notifier from "../Notifier.ts"
import { fromHold, type HoldRow, type Integer, type PendingRow, toHold, toListedHold, toPending } from "../Rows.ts"
import { toStoreError, withRetry } from "../SqlRetry.ts"

const decidable: ReadonlyArray<HoldState> = ["open", "rejected"]

export const make = (sql: SqlClient) => {
  // the same text as in the index `holds_undecided`
  const isUndecided = sql.literal("h.state IN ('open', 'rejected', 'approving')")

  const decided = Notifier.make()

  const undecided = (stream: number) =>
    sql<HoldRow>`SELECT h.* FROM holds h WHERE h.stream = ${stream} AND ${isUndecided} ORDER BY h.id`.pipe(
      Effect.map(Arr.map(toHold)),
      toStoreError("holds")
    )

  const open = (stream: number, hold: Omit<Hold, "id">) =>
    sql<HoldRow>`INSERT INTO holds ${sql.insert({ stream, ...fromHold(hold) })} RETURNING *`.pipe(
      Effect.map(([row]) => ({ ...hold, id: Number(row?.id) })),
      toStoreError("openHold")
    )

  const save = ({ id, ...hold }: Hold) =>
    sql`UPDATE holds SET ${sql.update(fromHold(hold))} WHERE id = ${id}`.pipe(Effect.asVoid, toStoreError("saveHold"))

  const size = (hold: number) =>
    sql<{ count: Integer }>`SELECT count(*) AS count FROM pending WHERE hold = ${hold}`.pipe(
      Effect.map(([row]) => Number(row?.count ?? 0)),
      toStoreError("holdSize")
    )

  const rows = (hold: number, after: string | null, limit: number) =>
    sql<PendingRow & { readonly content: string | null }>`
      SELECT * FROM pending WHERE hold = ${hold} AND status <> 'disputed' AND id > ${after ?? ""}
      ORDER BY id LIMIT ${limit}`.pipe(
      Effect.map(Arr.map(toPending)),
      toStoreError("pendingOfHold")
    )

  const listed = (condition: Fragment, limit: number) =>
    sql<HoldRow & StreamKey & { readonly rows: Integer }>`
      SELECT h.*, s.integration, s.model, (SELECT count(*) FROM pending p WHERE p.hold = h.id) AS rows
      FROM holds h JOIN streams s ON s.key = h.stream
      WHERE ${condition} ORDER BY h.id DESC LIMIT ${limit}`.pipe(Effect.map(Arr.map(toListedHold)))

  const list: Store["Service"]["holds"] = ({ before, limit, states }) =>
    listed(
      sql.and([
        states === undefined ? isUndecided : sql`h.state IN ${sql.in(states)}`,
        ...before === undefined ? [] : [sql`h.id < ${before}`]
      ]),
      limit
    ).pipe(withRetry("holds"))

  const one: Store["Service"]["hold"] = (id) =>
    listed(sql`h.id = ${id}`, 1).pipe(Effect.map(([hold]) => hold ?? null), withRetry("hold"))

  const { exclusive } = Locks.make(sql)

  const decide: Store["Service"]["decide"] = (id, decision, now) =>
    Effect.gen(function*() {
      yield* sql`SELECT key FROM streams WHERE key = (SELECT stream FROM holds WHERE id = ${id}) ${exclusive}`
      const from = decision.state === "rejected" ? decidable.filter((state) => state !== "rejected") : decidable
      const release = decision.state === "rejected" ? null : JSON.stringify(decision.release)
      const changed = yield* sql`
        UPDATE holds SET state = ${decision.state}, decided_at = ${now}, release = ${release}
        WHERE id = ${id} AND state IN ${sql.in(from)} RETURNING id`
      if (changed.length > 0 && decision.state === "rejected") {
        yield* sql`UPDATE pending SET status = 'rejected' WHERE hold = ${id} AND status <> 'disputed'`
      }
      if (changed.length > 0) {
        const command = decision.state === "rejected" ? "holds.reject" : "holds.approve"
        yield* sql`INSERT INTO audit ${sql.insert({ at: now, command, target: String(id), detail: release ?? "" })}`
      }
      yield* sql.afterCommit(decided.give)
      return changed.length > 0
    }).pipe(sql.withTransaction, withRetry("decide"))

  return { undecided, open, save, size, rows, list, one, decide, awaitDecision: decided.after }
}

export type HoldTable = ReturnType<typeof make>
