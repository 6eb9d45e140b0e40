/** How SQLite executes statements whose cost must not grow with the tables, and what an erased stream leaves in them. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as Statement from "effect/sql/Statement"
import {
  changeOf,
  created,
  headOf,
  ids,
  pendingOf,
  stateOf,
  tags,
  testsIn
} from "../../../test/conformance/StoreSamples.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { Deliveries } from "../Deliveries.ts"
import * as Ports from "../sql/Ports.ts"
import { Store } from "../Store.ts"

const test = testsIn(
  Layer.fresh(Layer.provideMerge(Ports.layer, MemoryStore.client())),
  Effect.gen(function*() {
    return { store: yield* Store, deliveries: yield* Deliveries, sql: yield* SqlClient.SqlClient }
  })
)

type Query = readonly [text: string, params: ReadonlyArray<unknown>]

/** The statements that an effect runs. */
const queriesOf = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  const queries: Array<Query> = []
  yield* Effect.provideService(effect, Statement.CurrentTransformer, (statement) => {
    queries.push(statement.compile())
    return Effect.succeed(statement)
  })
  return queries
})

/** The steps in which the database executes statements. */
const plansOf = (sql: SqlClient.SqlClient, queries: ReadonlyArray<Query>) =>
  Effect.map(
    Effect.forEach(queries, ([text, params]) => sql.unsafe<{ detail: string }>(`EXPLAIN QUERY PLAN ${text}`, params)),
    (rows) => rows.flat().map(({ detail }) => detail)
  )

describe("statements of SQLite", () => {
  test("answer frequent queries from narrow indexes", function*({ sql }) {
    const query = "SELECT position FROM events WHERE stream IN (1, 2) AND position > 5 ORDER BY position LIMIT 9"
    assert.include((yield* plansOf(sql, [[query, []]])).join("; "), "COVERING INDEX events_stream")
  })

  test("never scan the event log to read one page (I9)", function*({ sql, store }) {
    const page = { after: 0, upTo: undefined, limit: 25 } as const
    const queries = yield* queriesOf(Effect.all([
      store.chains([]),
      store.chains([1, 2]),
      store.positionBefore(5),
      store.readLog(page),
      store.readLog({ ...page, integrations: ["a"], models: ["ats.tag"] }),
      store.readLog({ ...page, upTo: 9, kinds: ["deleted"], transitions: ["hired"] }),
      store.records(tags, null, 25)
    ]))
    assert.isAbove(queries.length, 6)
    for (const detail of yield* plansOf(sql, queries)) assert.notMatch(detail, /^SCAN (events|e|p)\b(?! USING)/)
  })

  test(
    "count dead letters by cause from an index, and find those that wait behind each",
    function*({ deliveries, sql }) {
      const count = Effect.flatMap(queriesOf(deliveries.deadLetterCauses({}, 9)), (queries) => plansOf(sql, queries))
      const filter = {
        plugin: "p",
        handler: "h",
        integration: "greenhouse:acme",
        reason: "Permanent",
        since: 1
      } as const
      const filtered = yield* queriesOf(deliveries.deadLetterCauses(filter, 9))
      for (const plan of [yield* count, yield* plansOf(sql, filtered)]) {
        const steps = plan.filter((step) => /\b[dw]\b/.test(step))
        assert.match(steps[0] ?? "", /^(SCAN|SEARCH) d USING COVERING INDEX deliveries_causes/)
        assert.match(steps[1] ?? "", /^(SCAN|SEARCH) d USING INDEX deliveries_causes/)
        assert.match(steps[2] ?? "", /^SEARCH w USING INDEX deliveries_ordering_key/)
        assert.lengthOf(steps, 3)
      }
      assert.notInclude((yield* count).join("; "), "TEMP B-TREE")
    }
  )

  test(
    "read no decided hold to list the holds that wait, and no other integration to find one",
    function*({ sql, store }) {
      const queries = yield* queriesOf(Effect.all([
        store.holds({ limit: 9 }),
        store.holds({ states: ["approving"], before: 7, limit: 9 }),
        store.holds({ states: ["open"], limit: 9 }),
        store.integration("greenhouse:acme")
      ]))
      assert.lengthOf(queries, 4)
      for (const detail of yield* plansOf(sql, queries)) {
        assert.notMatch(detail, /^SCAN (?!h USING INDEX holds_undecided)/)
      }
    }
  )

  test(
    "of a step of the delivery engine read ticks and their deliveries up to the first that needs the log, and the few unavailable integrations",
    function*({ deliveries, sql, store }) {
      const owner = yield* store.takeOwnership("dispatch")
      yield* deliveries.registerHandlers(owner, [])
      const queries = yield* queriesOf(Effect.all([
        deliveries.dispatch(owner, { deliveries: [], handlers: [1], position: 0 }),
        store.unavailableIntegrations(),
        store.unavailableIntegrations(new Set(["default"]))
      ]))
      const details = yield* plansOf(sql, queries.filter(([query]) => /SELECT|UPDATE/.test(query)))
      for (const detail of details) assert.notMatch(detail, /^SCAN (t|ticks|d|deliveries|integrations)\b/)
      for (const index of ["ticks_on", "deliveries_spans", "integrations_account"]) {
        assert.isTrue(details.some((detail) => detail.includes(index)), `${index} in ${details.join("\n")}`)
      }
    }
  )

  test("that read a page and its candidates read no other records of the stream (I9)", function*({ sql, store }) {
    yield* store.ensureStreams([stateOf(tags)])
    const owner = yield* store.takeOwnership("capture")
    const copies = [{ id: "c", parent: "a", textHash: "hash" }]
    const queries = yield* queriesOf(store.transact(owner, tags, (tx) =>
      Effect.all([
        tx.read({ hashes: new Map([["a", "hash"]]), runId: 1 }),
        tx.sources("ats.candidate", { changed: ["a"], copies, limit: 9 })
      ])))
    const details = yield* plansOf(sql, queries.filter(([query]) => /JOIN|derivations/.test(query)))
    assert.isAbove(details.length, 20)
    for (const detail of details) assert.notMatch(detail, /^SCAN (h|s|d|e|derivations)\b|\(stream=\?\)/)
  })

  test(
    "count the live records of a stream without reading records; the count is right while the stream is erased",
    function*({ sql, store }) {
      yield* store.ensureStreams([stateOf(tags)])
      const owner = yield* store.takeOwnership("capture")
      yield* store.transact(owner, tags, (tx) => tx.write(ids(600).map(created)))
      const queries = yield* queriesOf(Effect.all([
        store.counts,
        store.streamPage({ limit: 9 }),
        store.transact(owner, tags, (tx) => tx.liveCount)
      ]))
      assert.isAbove(queries.length, 4)
      for (const [query] of queries) assert.notMatch(query, /\bheads\b/)

      const counts: Array<number> = []
      // each transaction of the erasure begins with this query
      const note: Statement.Transformer = (statement) =>
        statement.compile()[0].startsWith("SELECT key FROM streams WHERE")
          ? sql<
            { live: number; heads: number }
          >`SELECT live_records AS live, (SELECT count(*) FROM heads) AS heads FROM streams`
            .pipe(
              Effect.map(([row]) => {
                assert.strictEqual(row?.live, row?.heads)
                counts.push(Number(row?.live))
                return statement
              }),
              Effect.orDie
            )
          : Effect.succeed(statement)
      yield* Effect.provideService(
        store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER),
        Statement.CurrentTransformer,
        note
      )
      assert.deepStrictEqual([...new Set(counts)].slice(0, 4), [600, 350, 100, 0])
    }
  )

  test("an erased stream leaves no row in any table except empty ones in the log (X19)", function*({ sql, store }) {
    const references = { before: new Map(), after: new Map([[1, { content: 2, unannounced: true }]]) }
    yield* store.ensureStreams([stateOf(tags)])
    const owner = yield* store.takeOwnership("capture")
    yield* store.transact(
      owner,
      tags,
      Effect.fnUntraced(function*(tx) {
        yield* tx.openHold({
          kind: "scope",
          state: "open",
          reason: "a test",
          paths: ["/name"],
          openedAt: 1,
          decidedAt: null,
          released: 0,
          release: null,
          published: null
        })
        yield* tx.putPending([pendingOf("p")])
        yield* tx.setDerivedIds(new Map([["a", "c"]]))
        yield* tx.quarantine([{ hash: "h", reason: "no id", content: "{}", redaction: null, at: 1 }])
        yield* tx.write([{ ...changeOf(headOf("a"), "created"), references }])
      })
    )
    yield* sql`INSERT INTO runs (stream, id, run) SELECT key, 1, '{}' FROM streams`
    yield* sql`INSERT INTO stale_records (stream, id, requested) SELECT key, 'a', 0 FROM streams`
    yield* sql`
      INSERT INTO expectations (stream, key, target, write, name, plugin, delivery, depth, matcher, all_records, required,
        matched_records, since_run, missed_sweeps)
      SELECT key, 'id:a', 'a', 'w', 'addTag', 'p', 'd', 1, '{}', 0, 1, '[]', 1, 0 FROM streams`
    const tables = yield* sql<{ name: string }>`
      SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'stream'`
    const filled = Effect.map(
      Effect.forEach(
        tables,
        ({ name }) => sql`SELECT 1 FROM ${sql(name)}`.pipe(Effect.map((rows) => [name, rows.length]))
      ),
      (counts) => counts.filter(([, count]) => count !== 0).map(([name]) => name)
    )
    assert.sameMembers(yield* filled, tables.map(({ name }) => name))
    yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
    assert.deepStrictEqual(yield* filled, ["events"])
    assert.deepStrictEqual(yield* sql`SELECT content, changes FROM events`, [{ content: null, changes: "[]" }])
  })
})
