/**
 * The table of holds: the stream's owner opens and saves them; any process lists and decides them.
 *
 * Invariants
 * 1. A decision and the status of the hold's rows change in one transaction, under the lock of their stream   (X7)
 * 2. An approval with a plan applies to the rows of the plan: their hash is compared under the same lock
 *
 * Gotchas
 * - A disputed row belongs to its hold, but a decision does not apply to it until it is read again, because its content is unknown.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import { createHash } from "node:crypto"
import type { Hold, HoldDecision, HoldPlan, HoldState, ListedHold } from "../../Records.ts"
import * as AuditTable from "../AuditTable.ts"
import * as Locks from "../Locks.ts"
import { codec, type Columns, json, type Row } from "../Rows.ts"
import type { Signals } from "../Signals.ts"

const holdColumns: Columns<Omit<Hold, "id">> = {
  kind: "kind",
  state: "state",
  reason: "reason",
  paths: json("paths"),
  openedAt: "opened_at",
  decidedAt: "decided_at",
  released: "released",
  release: json("release"),
  published: json("published")
}
const newHolds = codec<Omit<Hold, "id">>(holdColumns)
const holds = codec<Hold>({ id: "id", ...holdColumns })
const listedHolds = codec<ListedHold>({
  id: "id",
  ...holdColumns,
  integration: "integration",
  model: "model",
  rows: "rows"
})

const unendedStates: ReadonlyArray<HoldState> = ["open", "rejected", "approving"]
/**
 * True for a hold that still has rows to keep back or to publish: neither approved nor canceled. The same text as in the index
 * `holds_undecided`, so that a query reads only the index.
 */
export const isUnended = `h.state IN (${unendedStates.map((state) => `'${state}'`).join(", ")})`

/** The operations of the stream's owner. */
export const streamHolds = (
  sql: SqlClient,
  stream: number
) => ({
  /** The stream's holds that are neither approved nor canceled, in id order. */
  holds: sql<Row>`
    SELECT h.* FROM holds h WHERE h.stream = ${stream} AND ${sql.literal(isUnended)} ORDER BY h.id`.pipe(
    Effect.map(Arr.map(holds.fromRow))
  ),
  /** Assigns the id. */
  openHold: (hold: Omit<Hold, "id">) =>
    sql<{ id: number }>`INSERT INTO holds ${sql.insert({ stream, ...newHolds.toRow(hold) })} RETURNING *`.pipe(
      Effect.map(([row]): Hold => ({ ...hold, id: Number(row?.id) }))
    ),
  saveHold: (hold: Hold) => sql`UPDATE holds SET ${sql.update(newHolds.toRow(hold))} WHERE id = ${hold.id}`
})

/** Rows per query of a plan. */
const planPage = 10_000

/** The operations of every process. */
export const make = (
  sql: SqlClient,
  signals: Signals["Service"]
) => {
  const { exclusive } = Locks.make(sql)

  const list = (condition: Fragment, limit: number) =>
    sql<Row>`
      SELECT h.*, s.integration, s.model, (SELECT count(*) FROM pending p WHERE p.hold = h.id) AS rows
      FROM holds h JOIN streams s ON s.key = h.stream
      WHERE ${condition} ORDER BY h.id DESC LIMIT ${limit}`.pipe(Effect.map(Arr.map(listedHolds.fromRow)))

  const find = (id: number) => Effect.map(list(sql`h.id = ${id}`, 1), ([hold]) => hold ?? null)

  const planOf = Effect.fnUntraced(function*({ id, kind, paths }: ListedHold): Effect.fn.Return<HoldPlan, SqlError> {
    const hash = createHash("sha256").update(JSON.stringify([id, kind, paths]))
    let rows = 0
    for (let after: string | null = null;;) {
      const some: ReadonlyArray<Row> = yield* sql<Row>`
        SELECT id, status, deleted, canonical_hash FROM pending
        WHERE hold = ${id} AND ${after === null ? sql`true` : sql`id > ${after}`} ORDER BY id LIMIT ${planPage}`
      for (const row of some) {
        hash.update(JSON.stringify([row.id, row.status, Number(row.deleted), row.canonical_hash]))
      }
      rows += some.length
      if (some.length < planPage) return { hash: hash.digest("hex").slice(0, 16), rows }
      after = String(some.at(-1)?.id)
    }
  })

  return {
    /** Newest first. Without `states`: holds that are neither approved nor canceled. `before` is an id. */
    holds: ({ before, limit, states }: {
      readonly states?: ReadonlyArray<HoldState> | undefined
      readonly before?: number | undefined
      readonly limit: number
    }) =>
      list(
        sql.and([
          // as a list of ids, because SQLite would read all holds in their order otherwise
          ...(states ?? []).every((state) => unendedStates.includes(state))
            ? [sql`h.id IN (SELECT h.id FROM holds h WHERE ${sql.literal(isUnended)})`]
            : [],
          ...states === undefined ? [] : [sql`h.state IN ${sql.in(states)}`],
          ...before === undefined ? [] : [sql`h.id < ${before}`]
        ]),
        limit
      ),
    hold: find,
    // No transaction: if rows change between the pages, the hash belongs to no state of the hold. An approval with it is refused, as with any
    // outdated plan.
    /** Null if the hold does not exist. */
    holdPlan: (id: number) => Effect.flatMap(find(id), (hold) => hold === null ? Effect.succeed(null) : planOf(hold)),
    /**
     * Saves an operator's decision. Any process may call this; the stream's owner carries out an approval. `plan` is the hash of the rows
     * that the operator has seen. An open hold can be approved or rejected, a rejected one can still be approved. Returns false if nothing was
     * decided: the hold is in another state, or its rows are no longer those of the plan.
     */
    decide: Effect.fnUntraced(function*(id: number, decision: HoldDecision, now: number) {
      yield* sql`SELECT key FROM streams WHERE key = (SELECT stream FROM holds WHERE id = ${id}) ${exclusive}`
      if (decision.state === "approving" && decision.plan !== undefined) {
        const hold = yield* find(id)
        if (hold === null || (yield* planOf(hold)).hash !== decision.plan) return false
      }
      const isRejection = decision.state === "rejected"
      const decidable = isRejection ? ["open"] : ["open", "rejected"]
      const release = isRejection ? null : JSON.stringify(decision.release)
      const changed = yield* sql`
        UPDATE holds SET state = ${decision.state}, decided_at = ${now}, release = ${release}
        WHERE id = ${id} AND state IN ${sql.in(decidable)} RETURNING id`
      if (changed.length > 0 && isRejection) {
        yield* sql`UPDATE pending SET status = 'rejected' WHERE hold = ${id} AND status <> 'disputed'`
      }
      if (changed.length > 0) {
        const command = isRejection ? "holds.reject" : "holds.approve"
        yield* AuditTable.make(sql).recordAction({ at: now, command, target: String(id), detail: release ?? "" })
        yield* signals.raise("decision")
      }
      return changed.length > 0
    }, sql.withTransaction)
  }
}
