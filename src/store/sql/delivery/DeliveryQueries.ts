/** Lists of deliveries for operators: backlog, progress, dead letters with their details, the deliveries of an event, and switches. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import type { Kind } from "../../../domain/ChangeEvent.ts"
import { type IdRange, sizeOf } from "../../../domain/DeliveryProgress.ts"
import type { Model } from "../../../domain/Model.ts"
import type {
  Backlog,
  DeadLetter,
  DeadLetterCause,
  DeadLetterDetail,
  DeadLetterQuery,
  DeliveryTrace,
  Switch
} from "../../DeadLetters.ts"
import { dedupKeysOf, type FailedAttempt, type HandlerName, keysWithoutBatch } from "../../Delivery.ts"
import * as DatabaseTime from "../DatabaseTime.ts"
import { inBatches } from "../Rows.ts"
import { type DeliveryRow, toDelivery, toFailure } from "./DeliveryTable.ts"

type DeadRow = DeliveryRow & {
  readonly plugin: string
  readonly handler_name: string
  readonly event_id: string | null
  readonly model: Model | null
  readonly record: string | null
  readonly version: number | null
  readonly kind: Kind | null
  readonly parked: number
}

const eventOf = ({ event_id, kind, model, record, version }: DeadRow): DeadLetter["event"] =>
  event_id === null || model === null || record === null || version === null || kind === null
    ? null
    : { eventId: event_id, model, id: record, version, kind }

const toDeadLetter = (row: DeadRow): DeadLetter => ({
  ...toDelivery(row),
  plugin: row.plugin,
  handler: row.handler_name,
  event: eventOf(row),
  failure: toFailure(row.failure ?? "null"),
  parked: row.parked
})

type Step = DeadLetterDetail["journal"][number]
type StepRow = Omit<Step, "done"> & { readonly done: number }

const stepColumns = `step, write_name AS "write", done, begun_at AS "begunAt"`
const toStep = ({ begunAt, done, step, write }: StepRow): Step => ({ step, write, done: done === 1, begunAt })

interface AttemptRow {
  readonly delivery: number
  readonly number: number
  readonly details: string
}

const toAttempt = ({ details, number }: AttemptRow): FailedAttempt => ({ number, ...JSON.parse(details) })

const nameOf = ({ handler, plugin }: Pick<DeliveryTrace, "plugin" | "handler">): string => `${plugin} ${handler}`

/** SQLite limits the nesting depth of a condition. */
const rangesPerStatement = 100

type Filter = Omit<DeadLetterQuery, "after" | "limit">

/** The dead letters of a handler with the same cause in one integration. `newest`: the greatest id. */
interface CauseRow {
  readonly key: number
  readonly cause: string
  readonly integration: string
  readonly count: number
  readonly oldest_at: number
  readonly newest_at: number
  readonly newest: number
}

/** Means "all" in the key of a switch. */
export const all = ""

export const make = (sql: SqlClient) => {
  const attemptsOf = (deliveries: ReadonlyArray<number>) =>
    inBatches(deliveries, (some) =>
      sql<AttemptRow>`
        SELECT delivery, number, details FROM attempts WHERE ${sql.in("delivery", some)} ORDER BY delivery, number`)

  const dead = (condition: Fragment, limit: number) =>
    sql<DeadRow>`
      SELECT d.*, h.plugin, h.handler AS handler_name, e.event_id, s.model, e.id AS record, e.version, e.kind,
        (SELECT count(*) FROM deliveries w
          WHERE w.handler = d.handler AND w.ordering_key = d.ordering_key AND w.state = 'waiting' AND w.id > d.id
        ) AS parked
      FROM deliveries d
      JOIN handlers h ON h.key = d.handler
      LEFT JOIN events e ON e.position = d.position
      LEFT JOIN streams s ON s.key = e.stream
      WHERE d.state = 'dead' AND ${condition} ORDER BY d.id LIMIT ${limit}`.pipe(Effect.map(Arr.map(toDeadLetter)))

  const isDead = ({ cause, handler, integration, plugin, reason, since, until }: Filter) =>
    sql.and([
      sql`d.state = 'dead'`,
      ...plugin === undefined ? [] : [sql`d.handler IN (SELECT key FROM handlers WHERE plugin = ${plugin})`],
      ...handler === undefined ? [] : [sql`d.handler IN (SELECT key FROM handlers WHERE handler = ${handler})`],
      ...integration === undefined ? [] : [sql`d.integration = ${integration}`],
      ...cause === undefined ? [] : [sql`d.cause = ${cause}`],
      ...reason === undefined ? [] : [sql`d.cause LIKE ${`${reason}-%`}`],
      ...since === undefined ? [] : [sql`d.died_at >= ${since}`],
      ...until === undefined ? [] : [sql`d.died_at < ${until}`]
    ])

  /** The causes with the most dead letters, and whether these are all. */
  const deadLetterCauses = Effect.fnUntraced(function*(filter: Filter, most: number) {
    const rows = yield* sql<CauseRow>`
      SELECT d.handler AS key, d.cause, d.integration, count(*) AS count,
        min(d.died_at) AS oldest_at, max(d.died_at) AS newest_at, max(d.id) AS newest
      FROM deliveries d WHERE ${isDead(filter)} GROUP BY d.handler, d.cause, d.integration`
    const all = [...Map.groupBy(rows, ({ cause, key }) => `${key} ${cause}`).values()].map((some) => ({
      key: some[0]!.key,
      cause: some[0]!.cause,
      count: some.reduce((sum, { count }) => sum + count, 0),
      integrations: some.map(({ integration }) => integration).sort(),
      oldestAt: Math.min(...some.map(({ oldest_at }) => oldest_at)),
      newestAt: Math.max(...some.map(({ newest_at }) => newest_at)),
      newest: Math.max(...some.map(({ newest }) => newest))
    }))
    const largest = all.toSorted((one, other) => other.count - one.count).slice(0, most)
    const names = yield* sql<HandlerName & { readonly key: number }>`SELECT key, plugin, handler FROM handlers`
    const failures = yield* inBatches(
      largest.map(({ newest }) => newest),
      (some) =>
        sql<{ id: number; failure: string | null }>`SELECT id, failure FROM deliveries WHERE ${sql.in("id", some)}`
    )
    // looks behind each dead letter, because many more deliveries may wait for other reasons
    const parked = yield* sql<Pick<CauseRow, "key" | "cause" | "count">>`
      SELECT d.handler AS key, d.cause, CAST(sum((
        SELECT count(*) FROM deliveries w
        WHERE w.handler = d.handler AND w.ordering_key = d.ordering_key AND w.state = 'waiting' AND w.id > d.id
      )) AS bigint) AS count
      FROM deliveries d WHERE ${isDead(filter)} GROUP BY d.handler, d.cause`
    const causes = largest.flatMap(({ key, newest, ...cause }): ReadonlyArray<DeadLetterCause> => {
      const name = names.find((one) => one.key === key)
      const failure = failures.find(({ id }) => id === newest)?.failure
      // sent again or discarded since it was counted
      if (name === undefined || failure === undefined || failure === null) return []
      return [{
        ...cause,
        plugin: name.plugin,
        handler: name.handler,
        parked: parked.find((one) => one.key === key && one.cause === cause.cause)?.count ?? 0,
        failure: toFailure(failure)
      }]
    })
    return { causes, areAll: all.length <= most }
  })

  return {
    backlog: Effect.flatMap(DatabaseTime.read(sql), ({ now }) =>
      sql<Backlog>`
        SELECT h.plugin, h.handler, d.integration,
          sum(CASE d.state WHEN 'waiting' THEN 1 ELSE 0 END) AS waiting,
          sum(CASE WHEN d.state = 'due' AND d.due_at <= ${now} THEN 1 ELSE 0 END) AS due,
          sum(CASE WHEN d.state = 'due' AND d.due_at > ${now} THEN 1 ELSE 0 END) AS later,
          sum(CASE d.state WHEN 'running' THEN 1 ELSE 0 END) AS running,
          sum(CASE d.state WHEN 'dead' THEN 1 ELSE 0 END) AS dead,
          min(CASE d.state WHEN 'dead' THEN NULL ELSE d.created_at END) AS oldest,
          max(CASE d.state WHEN 'dead' THEN NULL ELSE d.failure END) AS blocked
        FROM deliveries d JOIN handlers h ON h.key = d.handler
        GROUP BY h.plugin, h.handler, d.integration ORDER BY h.plugin, h.handler, d.integration`).pipe(
        Effect.map(Arr.map((row): Backlog => ({
          ...row,
          blocked: row.blocked === null ? null : toFailure(row.blocked).message
        })))
      ),
    /** In id order. */
    deadLetters: ({ after = 0, limit, ...filter }: DeadLetterQuery) =>
      dead(sql.and([sql`d.id > ${after}`, isDead(filter)]), limit),
    deadLetterCauses,
    deadLetterDetail: Effect.fnUntraced(function*(id: number) {
      const [letter] = yield* dead(sql`d.id = ${id}`, 1)
      if (letter === undefined) return null
      const steps = yield* sql<StepRow>`
        SELECT ${sql.literal(stepColumns)} FROM journal
        WHERE delivery = ${id} OR (dedup_key IN ${sql.in(keysWithoutBatch(letter))}
          AND handler = (SELECT handler FROM deliveries WHERE id = ${id}))
        ORDER BY begun_at, step`
      const failedAttempts = (yield* attemptsOf([id])).map(toAttempt)
      return { ...letter, failedAttempts, journal: steps.map(toStep) } satisfies DeadLetterDetail
    }),
    /** How many of these deliveries are settled, open, and dead. */
    progressOf: Effect.fnUntraced(function*(ranges: ReadonlyArray<IdRange>) {
      let [open, dead] = [0, 0]
      for (const some of Arr.chunksOf(ranges, rangesPerStatement)) {
        const [counted] = yield* sql<{ stored: number; dead: number }>`
          SELECT count(*) AS stored, count(CASE state WHEN 'dead' THEN 1 END) AS dead FROM deliveries
          WHERE ${sql.or(some.map(({ first, last }) => sql`id BETWEEN ${first} AND ${last}`))}`
        dead += counted!.dead
        open += counted!.stored - counted!.dead
      }
      return { done: sizeOf(ranges) - open - dead, open, dead }
    }),
    /** The deliveries of an event that are open, or that left steps in the journal. A settled delivery without steps leaves nothing. */
    traces: Effect.fnUntraced(function*(position: number) {
      const open = yield* sql<
        Pick<DeliveryTrace, "id" | "plugin" | "handler" | "state" | "attempts"> & { readonly dueAt: number }
      >`
        SELECT d.id, h.plugin, h.handler, d.state, d.attempts, d.due_at AS "dueAt"
        FROM deliveries d JOIN handlers h ON h.key = d.handler WHERE d.position = ${position} ORDER BY d.id`
      const failed = yield* attemptsOf(open.map(({ id }) => id))
      const batches = yield* sql<{ batch: string }>`
        SELECT DISTINCT m.batch FROM batch_members m
        WHERE m.handler IN (SELECT key FROM handlers) AND m.position = ${position}`
      const subject = { integration: "", fresh: null, subject: { _tag: "Event", position } } as const
      const keys = [null, ...batches.map(({ batch }) => batch)].flatMap((batch) => dedupKeysOf({ ...subject, batch }))
      const steps = Map.groupBy(
        yield* sql<StepRow & Pick<DeliveryTrace, "plugin" | "handler"> & { readonly delivery: number }>`
          SELECT h.plugin, h.handler, j.delivery, ${sql.literal(stepColumns)}
          FROM handlers h JOIN journal j ON j.handler = h.key WHERE ${sql.in("j.dedup_key", keys)}
          ORDER BY j.begun_at, j.step`,
        nameOf
      )
      return [
        ...open.map((row): DeliveryTrace => ({
          ...row,
          dueAt: row.state === "due" || row.state === "waiting" ? row.dueAt : null,
          failedAttempts: failed.filter(({ delivery }) => delivery === row.id).map(toAttempt),
          steps: (steps.get(nameOf(row)) ?? []).map(toStep)
        })),
        ...[...steps.values()].flatMap((rows): ReadonlyArray<DeliveryTrace> => {
          const { delivery, handler, plugin } = rows[0]!
          if (open.some((row) => nameOf(row) === nameOf({ plugin, handler }))) return []
          const settled = { state: "settled", attempts: 0, dueAt: null, failedAttempts: [] } as const
          return [{ id: delivery, plugin, handler, ...settled, steps: rows.map(toStep) }]
        })
      ]
    }),
    /** The position of the event whose delivery this is, or was; null if it is not known. */
    eventOf: (delivery: number) =>
      sql<{ dedup_key: string | null; position: number | null }>`
        SELECT position, NULL AS dedup_key FROM deliveries WHERE id = ${delivery}
        UNION ALL SELECT NULL AS position, dedup_key FROM journal WHERE delivery = ${delivery}`.pipe(
        Effect.map((rows) => {
          const known = rows.find(({ position }) => position !== null)?.position
          const named = rows.flatMap(({ dedup_key }) => /^e(\d+)/.exec(dedup_key ?? "")?.[1] ?? [])[0]
          return known ?? (named === undefined ? null : Number(named))
        })
      ),
    /** All switches that are off. */
    switchedOff: sql<{ plugin: string; integration: string }>`
      SELECT plugin, integration FROM switched_off ORDER BY plugin, integration`.pipe(
      Effect.map(Arr.map(({ integration, plugin }): Switch =>
        plugin === all
          ? { _tag: "Writes" }
          : { _tag: "Plugin", plugin, integration: integration === all ? null : integration }
      ))
    )
  }
}
