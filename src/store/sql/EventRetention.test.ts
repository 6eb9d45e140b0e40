/** Statements that delete many rows of one stream, a few at a time. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import { CurrentTransformer } from "effect/sql/Statement"
import { changeOf, headOf, stateOf, tags } from "../../../test/conformance/StoreSamples.ts"
import { client } from "../../../test/support/store/MemoryStore.ts"
import { Store } from "../Store.ts"
import * as Ports from "./Ports.ts"

/** A stream with an event that readers get, and with a silent one. */
const setup = Effect.gen(function*() {
  const store = yield* Store
  yield* store.ensureStreams([stateOf(tags)])
  const owner = yield* store.takeOwnership("capture")
  yield* store.transact(
    owner,
    tags,
    (tx) => tx.write([changeOf(headOf("a"), "created"), { ...changeOf(headOf("b"), "created"), silent: true }])
  )
  return { store, owner }
})

/** Fails if a statement on events that `effect` runs sorts the rows that it selects. */
const sortsNothing = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  const sql = yield* SqlClient
  const queries: Array<readonly [string, ReadonlyArray<unknown>]> = []
  const result = yield* Effect.provideService(effect, CurrentTransformer, (statement) =>
    Effect.sync(() => {
      queries.push(statement.compile())
      return statement
    }))
  const onEvents = queries.filter(([query]) => /FROM events/.test(query))
  assert.isNotEmpty(onEvents)
  for (const [query, params] of onEvents) {
    const plan = yield* sql.unsafe<{ detail: string }>(`EXPLAIN QUERY PLAN ${query}`, params)
    assert.isEmpty(plan.filter(({ detail }) => detail.includes("ORDER BY")), query)
  }
  return result
})

const layer = () => Layer.provideMerge(Ports.layer, client())

describe("the events of a large stream", () => {
  it.effect("are erased a few at a time, without sorting those that are left (I9)", () =>
    Effect.gen(function*() {
      const { owner, store } = yield* setup
      yield* sortsNothing(store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER))
      const sql = yield* SqlClient
      assert.deepStrictEqual(yield* sql`SELECT position FROM events WHERE stream <> 0`, [])
    }).pipe(Effect.provide(layer())))

  it.effect("of earlier generations are deleted a few at a time, without sorting those that are left (I9)", () =>
    Effect.gen(function*() {
      const { owner, store } = yield* setup
      yield* store.raiseGeneration([owner], 2)
      const drop = (limit: number) =>
        sortsNothing(store.transact(owner, tags, (tx) => tx.deleteOlderGenerationEvents(2, limit)))
      assert.strictEqual(yield* drop(1), 1)
      assert.strictEqual(yield* drop(2), 1)
      assert.strictEqual(yield* drop(2), 0)
    }).pipe(Effect.provide(layer())))
})
