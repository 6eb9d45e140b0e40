/**
 * Commits/s of the store on PostgreSQL, from one process with ten connections: of polls that found nothing, and of pages with changes,
 * which wait for each other because they number their events. Then the time to read the state of many streams, and sizes on disk.
 *
 * `node bench/Commits.ts [seconds]`, default 5 per row.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import { captureScopeOf, captureScopes } from "../src/domain/Shard.ts"
import * as Postgres from "../src/store/postgres/Postgres.ts"
import { Store } from "../src/store/Store.ts"
import { created, stateOf } from "../test/conformance/StoreSamples.ts"
import { say } from "../test/integration/postgres/Server.ts"
import { server } from "./Postgres.ts"

const seconds = Number(process.argv[2] ?? 5)
const writers = 10
const many = 20_000

/** 2.4 KB that PostgreSQL cannot compress. */
const content = (id: string) => JSON.stringify({ id, text: randomBytes(1_800).toString("base64") })

await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  const url = yield* server
  const layer = Postgres.layer({ url: Redacted.make(url), name: "bench" })
  yield* Effect.gen(function*() {
    const store = yield* Store
    const owners = yield* store.takeOwnerships(Arr.make(captureScopes[0]!, ...captureScopes.slice(1)))
    const keys = Array.from(
      { length: writers },
      (_, index) => ({ integration: `bench:${index}`, model: "ats.tag" as const })
    )
    yield* store.ensureStreams(keys.map((key) => stateOf(key)))
    let id = 0
    const measure = Effect.fnUntraced(function*(name: string, concurrency: number, events: number) {
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
      console.log(
        `| ${name} | ${concurrency} | ${Math.round(commits / seconds)} | ${
          Math.round((commits * events) / seconds)
        } | ${(millis / commits).toFixed(2)} |`
      )
    })
    console.log(
      "| | at once | commits/s | events/s | CPU ms of the process per commit |\n| --- | ---: | ---: | ---: | ---: |"
    )
    for (const concurrency of [1, writers]) {
      yield* measure("a poll without changes", concurrency, 0)
      yield* measure("a page with 1 event", concurrency, 1)
      yield* measure("a page with 25 events", concurrency, 25)
    }
    yield* store.ensureStreams(
      Array.from({ length: many }, (_, index) => stateOf({ integration: `many:${index}`, model: "ats.tag" }))
    )
    const before = Date.now()
    const { length } = yield* store.streams
    console.log(`the state of ${length} streams is read in ${Date.now() - before} ms`)
  }).pipe(Effect.provide(Layer.fresh(layer)))
  const { rows } = yield* say(
    url,
    `SELECT (pg_total_relation_size('rollcall.events') / (SELECT count(*) FROM rollcall.events))::integer AS event,
      (pg_total_relation_size('rollcall.heads') / (SELECT count(*) FROM rollcall.heads))::integer AS head`
  )
  console.log(`on disk: ${String(rows[0]?.["event"])} bytes per event, ${String(rows[0]?.["head"])} per record`)
})))
