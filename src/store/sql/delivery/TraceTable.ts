/** The deliveries of an event, as far as the store still knows them: open deliveries, failed attempts and journaled steps. */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Deliveries, DeliveryTrace } from "../../Deliveries.ts"
import { dedupKeysOf } from "../../Delivery.ts"
import { inBatches, type Integer } from "../Rows.ts"
import { withRetry } from "../SqlRetry.ts"

interface OpenRow {
  readonly id: Integer
  readonly plugin: string
  readonly handler: string
  readonly state: DeliveryTrace["state"]
  readonly attempts: Integer
  readonly due_at: Integer
}

interface StepRow {
  readonly plugin: string
  readonly handler: string
  readonly delivery: Integer
  readonly step: string
  readonly write_name: string | null
  readonly done: Integer
  readonly begun_at: Integer
}

const nameOf = ({ handler, plugin }: Pick<DeliveryTrace, "plugin" | "handler">): string => `${plugin} ${handler}`

const toStep = ({ begun_at, done, step, write_name }: StepRow) => ({
  step,
  write: write_name,
  done: Number(done) === 1,
  begunAt: Number(begun_at)
})

export const make = (sql: SqlClient): Pick<Deliveries["Service"], "traces" | "eventOf"> => ({
  traces: Effect.fnUntraced(function*(position: number) {
    const open = yield* sql<OpenRow>`
      SELECT d.id, h.plugin, h.handler, d.state, d.attempts, d.due_at
      FROM deliveries d JOIN handlers h ON h.key = d.handler WHERE d.position = ${position} ORDER BY d.id`
    const failed = yield* inBatches(
      open,
      (some) =>
        sql<{ delivery: Integer; details: string; number: Integer }>`
          SELECT delivery, number, details FROM attempts WHERE ${sql.in("delivery", some.map(({ id }) => id))}
          ORDER BY delivery, number`
    )
    const batches = yield* sql<{ batch: string }>`
      SELECT DISTINCT m.batch FROM batch_members m
      WHERE m.handler IN (SELECT key FROM handlers) AND m.position = ${position}`
    const subject = { integration: "", fresh: null, subject: { _tag: "Event", position } } as const
    const keys = [null, ...batches.map(({ batch }) => batch)].flatMap((batch) => dedupKeysOf({ ...subject, batch }))
    const steps = yield* sql<StepRow>`
      SELECT h.plugin, h.handler, j.delivery, j.step, j.write_name, j.done, j.begun_at
      FROM handlers h JOIN journal j ON j.handler = h.key WHERE ${sql.in("j.dedup_key", keys)}
      ORDER BY j.begun_at, j.step`
    const stepsOf = (trace: Pick<DeliveryTrace, "plugin" | "handler">) =>
      steps.filter((row) => nameOf(row) === nameOf(trace)).map(toStep)
    const settled = [...Map.groupBy(steps, nameOf)].filter(([name]) => !open.some((row) => nameOf(row) === name))
    return [
      ...open.map(({ attempts, due_at, handler, id, plugin, state }): DeliveryTrace => ({
        id: Number(id),
        plugin,
        handler,
        state,
        attempts: Number(attempts),
        dueAt: state === "due" || state === "waiting" ? Number(due_at) : null,
        failedAttempts: failed.filter(({ delivery }) => Number(delivery) === Number(id))
          .map(({ details, number }) => ({ number: Number(number), ...JSON.parse(details) })),
        steps: stepsOf({ plugin, handler })
      })),
      ...settled.flatMap(([, rows]): ReadonlyArray<DeliveryTrace> => {
        const [row] = rows
        return row === undefined ? [] : [{
          id: Number(row.delivery),
          plugin: row.plugin,
          handler: row.handler,
          state: "settled",
          attempts: 0,
          dueAt: null,
          failedAttempts: [],
          steps: rows.map(toStep)
        }]
      })
    ]
  }, withRetry("traces")),
  eventOf: (delivery) =>
    sql<{ dedup_key: string | null; position: Integer | null }>`
      SELECT position, NULL AS dedup_key FROM deliveries WHERE id = ${delivery}
      UNION ALL SELECT NULL AS position, dedup_key FROM journal WHERE delivery = ${delivery}`.pipe(
      Effect.map((rows) => {
        const known = rows.find(({ position }) => position !== null)?.position
        const named = rows.flatMap(({ dedup_key }) => /^e(\d+)/.exec(dedup_key ?? "")?.[1] ?? [])[0]
        return known != null ? Number(known) : named === undefined ? null : Number(named)
      }),
      withRetry("eventOf")
    )
})
