/**
 * The circuits of handlers, which all processes share. Only handlers that failed since their last success have a row.
 *
 * Gotchas
 * - A trial needs no row, because it is the only running delivery of the handler. If its process ends, the next owner of its
 *   shard makes the delivery due again, which permits the next trial.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import * as HandlerCircuit from "../../../domain/HandlerCircuit.ts"
import type { AttemptOutcome } from "../../DeliveryClaims.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import type { Integer } from "../Rows.ts"

type Circuits = ReadonlyMap<number, HandlerCircuit.HandlerCircuit>

/** Times are those of the database's clock, in ms. */
export interface CircuitState extends DatabaseTime.DatabaseClock {
  /** The circuits of handlers that failed since their last success, by key of the handler. */
  readonly circuits: Circuits
}

/** The circuits with times of this process's clock. */
export const inOurTime = ({ ahead, circuits }: CircuitState): Circuits =>
  new Map(
    [...circuits].map(([handler, { openUntil, ...circuit }]) => [
      handler,
      { ...circuit, openUntil: openUntil === null ? null : openUntil - ahead }
    ])
  )

export const make = (sql: SqlClient) => {
  const time = DatabaseTime.make(sql)

  const read = Effect.gen(function*() {
    const ours = yield* Clock.currentTimeMillis
    const rows = yield* sql<
      { now: Integer; handler: Integer | null; failed: string; openings: Integer; open_until: Integer | null }
    >`SELECT ${yield* time} AS now, c.handler, c.failed, c.openings, c.open_until
      FROM (SELECT 1 AS one) AS one LEFT JOIN handler_circuits c ON 1 = 1`
    const now = Number(rows[0]?.now)
    const circuits = rows.flatMap(({ failed, handler, open_until, openings }) =>
      handler === null ? [] : [
        [Number(handler), {
          failed: JSON.parse(failed),
          openings: Number(openings),
          openUntil: open_until === null ? null : Number(open_until)
        }] as const
      ]
    )
    return { now, ahead: now - ours, circuits: new Map(circuits) } satisfies CircuitState
  })

  const save = (handler: number, { failed, openings, openUntil }: HandlerCircuit.HandlerCircuit) =>
    failed.length === 0
      ? sql`DELETE FROM handler_circuits WHERE handler = ${handler}`
      : sql`INSERT INTO handler_circuits ${
        sql.insert({ handler, failed: JSON.stringify(failed), openings, open_until: openUntil })
      }
        ON CONFLICT (handler) DO UPDATE SET
          failed = excluded.failed, openings = excluded.openings, open_until = excluded.open_until`

  return {
    read,
    /** Inside a transaction that holds the lock of deliveries: applies the results of attempts, in their order, to the result of `read`. */
    apply: Effect.fnUntraced(function*(before: CircuitState, outcomes: ReadonlyArray<AttemptOutcome>) {
      const circuits = new Map(before.circuits)
      for (const { result } of outcomes) {
        if (result === undefined) continue
        const circuit = circuits.get(result.handler) ?? HandlerCircuit.closed
        circuits.set(result.handler, HandlerCircuit.afterAttempt(circuit, result.failed, before.now))
      }
      for (const [handler, circuit] of circuits) {
        if (circuit === HandlerCircuit.closed) circuits.delete(handler)
        if (circuit !== (before.circuits.get(handler) ?? HandlerCircuit.closed)) yield* save(handler, circuit)
      }
      return { ...before, circuits } satisfies CircuitState
    }),
    /** Inside a transaction that holds the lock of deliveries: permits the next trial of every handler at once. */
    bringForward: Effect.flatMap(
      time,
      (now) => sql`UPDATE handler_circuits SET open_until = ${now} WHERE open_until > ${now}`
    )
  }
}

export type CircuitTable = ReturnType<typeof make>
