/**
 * Commits/s of the store on PostgreSQL, from one process with ten connections: of polls that found nothing, and of pages with changes,
 * which wait for each other because they number their events. Then sizes on disk.
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
import type { Options, Run, Section } from "../Section.ts"
import { formatted, medianOf, table, valueOf } from "../Table.ts"

const rows = { "0": "poll without changes", "1": "page with 1 event", "25": "page with 25 events" }

/** 2.4 KB that PostgreSQL cannot compress. */
const content = (id: string) => JSON.stringify({ id, text: randomBytes(1_800).toString("base64") })

const commitsOf = (seconds: number) =>
  Effect.gen(function*() {
    const store = yield* Store
    const owners = yield* store.takeOwnerships(Arr.make(captureScopes[0]!, ...captureScopes.slice(1)))
    const keys = Array.from(
      { length: 10 },
      (_, index) => ({ integration: `bench:${index}`, model: "ats.tag" as const })
    )
    yield* store.ensureStreams(keys.map((key) => stateOf(key)))
    let id = 0
    const values: Record<string, number> = {}
    for (const events of Object.keys(rows)) {
      let commits = 0
      const until = Date.now() + seconds * 1000
      yield* Effect.forEach(keys, (key) =>
        Effect.whileLoop({
          while: () => Date.now() < until,
          body: () =>
            store.transact(owners.get(captureScopeOf(key.integration))!, key, (tx) => {
              const records = Array.from({ length: Number(events) }, () => {
                const record = created(`record-${id++}`)
                return {
                  ...record,
                  events: record.events.map((event) => ({ ...event, after: content(record.head.id) }))
                }
              })
              return Effect.andThen(tx.saveState(tx.state), events === "0" ? Effect.void : tx.write(records))
            }),
          step: () => void commits++
        }), { concurrency: "unbounded" })
      values[`${events}.commitsPerSecond`] = commits / seconds
    }
    return values
  })

const sizes = `
  SELECT (pg_total_relation_size('rollcall.events') / (SELECT count(*) FROM rollcall.events))::integer AS event,
    (pg_total_relation_size('rollcall.heads') / (SELECT count(*) FROM rollcall.heads))::integer AS head`

/** `--records` divides the length: 20,000 is the default. */
const measure = async ({ postgres, records = 20_000 }: Options) => {
  const url = await (await postgres()).database()
  const layer = Postgres.layer({ url: Redacted.make(url), name: "bench" })
  const commits: Run = await Effect.runPromise(
    commitsOf(Math.min(4, records / 1000)).pipe(Effect.provide(Layer.fresh(layer)))
  )
  const [size] = (await Effect.runPromise(say(url, sizes))).rows
  const bytes = { bytesPerEvent: Number(size?.["event"]), bytesPerHead: Number(size?.["head"]) }
  return { commits: [{ ...commits, ...bytes }] }
}

export const commits: Section = {
  name: "commits",
  title: "Commits on PostgreSQL",
  measure,
  table: (runs) => {
    const shown = (name: string) => formatted(medianOf(runs, valueOf(name)))
    return `${
      table(
        ["", "commits/s, ten at once"],
        Object.entries(rows).map(([events, name]) => [name, shown(`${events}.commitsPerSecond`)])
      )
    }

An event takes ${shown("bytesPerEvent")} bytes on disk, a record ${shown("bytesPerHead")} besides its newest event.`
  },
  explanation: `
The store alone, from one process, on a server that waits for the disk at each commit. An event has 2.4 KB that cannot be compressed. Transactions
that add events wait for each other, because they number the events.`
}
