/**
 * Commits/s of the store on PostgreSQL, from one process with ten connections: of polls that found nothing, and of pages with changes,
 * which wait for each other because they number their events. Then the time to read the state of many streams, and sizes on disk.
 *
 * `node bench/programs/Commits.ts <seconds for each row> <streams>`; prints a line of values.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import { captureScopeOf, captureScopes } from "../../src/domain/Shard.ts"
import * as Postgres from "../../src/store/postgres/Postgres.ts"
import { Store } from "../../src/store/Store.ts"
import { created, stateOf } from "../../test/conformance/StoreSamples.ts"
import { say } from "../../test/integration/postgres/Server.ts"
import { server } from "../Postgres.ts"
import type { Run } from "../Section.ts"
import { named } from "../Table.ts"

const [seconds = 5, many = 20_000] = process.argv.slice(2).map(Number)
const writers = 10

/** 2.4 KB that PostgreSQL cannot compress. */
const content = (id: string) => JSON.stringify({ id, text: randomBytes(1_800).toString("base64") })

await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  const url = yield* server
  const layer = Postgres.layer({ url: Redacted.make(url), name: "bench" })
  const values = yield* Effect.gen(function*() {
    const store = yield* Store
    const owners = yield* store.takeOwnerships(Arr.make(captureScopes[0]!, ...captureScopes.slice(1)))
    const keys = Array.from(
      { length: writers },
      (_, index) => ({ integration: `bench:${index}`, model: "ats.tag" as const })
    )
    yield* store.ensureStreams(keys.map((key) => stateOf(key)))
    let id = 0
    const measure = Effect.fnUntraced(function*(concurrency: number, events: number) {
      let commits = 0
      const cpu = process.cpuUsage()
      const until = Date.now() + seconds * 1000
      yield* Effect.forEach(keys.slice(0, concurrency), (key) =>
        Effect.whileLoop({
          while: () => Date.now() < until,
          body: () =>
            store.transact(owners.get(captureScopeOf(key.integration))!, key, (tx) => {
              const records = Array.from({ length: events }, () => {
                const record = created(`record-${id++}`)
                return {
                  ...record,
                  events: record.events.map((event) => ({ ...event, after: content(record.head.id) }))
                }
              })
              return Effect.andThen(tx.saveState(tx.state), events === 0 ? Effect.void : tx.write(records))
            }),
          step: () => void commits++
        }), { concurrency: "unbounded" })
      const { system, user } = process.cpuUsage(cpu)
      const millis = (user + system) / 1000
      return {
        concurrency,
        commitsPerSecond: commits / seconds,
        eventsPerSecond: (commits * events) / seconds,
        cpuMillis: millis / commits
      }
    })
    let values: Run = {}
    for (const concurrency of [1, writers]) {
      for (const events of [0, 1, 25]) {
        values = { ...values, ...named(`${concurrency}-${events}`, yield* measure(concurrency, events)) }
      }
    }
    yield* store.ensureStreams(
      Array.from({ length: many }, (_, index) => stateOf({ integration: `many:${index}`, model: "ats.tag" }))
    )
    const before = Date.now()
    const { length } = yield* store.streams
    return { ...values, streams: length, readStreamsMillis: Date.now() - before }
  }).pipe(Effect.provide(Layer.fresh(layer)))
  const { rows } = yield* say(
    url,
    `SELECT (pg_total_relation_size('rollcall.events') / (SELECT count(*) FROM rollcall.events))::integer AS event,
      (pg_total_relation_size('rollcall.heads') / (SELECT count(*) FROM rollcall.heads))::integer AS head`
  )
  console.log(JSON.stringify({
    ...values,
    bytesPerEvent: Number(rows[0]?.["event"]),
    bytesPerHead: Number(rows[0]?.["head"])
  }))
})))
