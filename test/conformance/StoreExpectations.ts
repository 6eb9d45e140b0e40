/** Tests for expectations of writes that every store must pass; each build of the layer opens the same store. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import { keysOf } from "../../src/domain/Echo.ts"
import { createdIds, expectationsOf } from "../../src/domain/Expectation.ts"
import type { Health } from "../../src/store/sql/Health.ts"
import * as Ports from "../../src/store/sql/Ports.ts"
import * as ExpectationTable from "../../src/store/sql/stream/ExpectationTable.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { stateOf, Stop, testsIn } from "./StoreSamples.ts"

const applications = { integration: "greenhouse:acme", model: "ats.application" } as const
const { integration } = applications
const own = { integration, write: "w", name: "addTag", plugin: "tagger", delivery: "1", depth: 1 } as const
const tagged = (name: string) => expectationsOf("addTag", { candidate_id: "c" }, { tag: { name } })

const begin = Effect.gen(function*() {
  const store = yield* Store
  const sql = yield* SqlClient
  yield* store.ensureStreams([stateOf(applications)])
  const owner = yield* store.takeOwnership("capture")
  const table = ExpectationTable.make(sql)
  const open = store.transact(owner, applications, (tx) => tx.openExpectations(["candidate:c"]))
  return { store, sql, owner, table, open }
})

export const expectationSuite = (
  name: string,
  place: Effect.Effect<Layer.Layer<SqlClient | Health, StoreError>, never, Scope.Scope>
) =>
  describe(`expectations of a store (${name})`, () => {
    const opened = Effect.map(place, (client) => Layer.fresh(Layer.provideMerge(Ports.layer, client)))
    const test = testsIn(Layer.unwrap(opened), begin)

    test("are committed with the transaction that writes them, or not at all", function*({ open, sql, table }) {
      const write = table.expect(own, tagged("a"))
      yield* Effect.exit(sql.withTransaction(Effect.andThen(write, Effect.fail(new Stop()))))
      assert.deepStrictEqual(yield* open, [])
      yield* sql.withTransaction(write)
      assert.deepStrictEqual((yield* open).map(({ depth, name, plugin }) => [plugin, name, depth]), [[
        "tagger",
        "addTag",
        1
      ]])
    })

    test("are found for a record that shows ids which the store cannot hold (S1)", function*({ owner, store, table }) {
      yield* table.expect(own, tagged("a"))
      const shown = { candidate_id: "c\0", candidate: { id: "c" }, job_id: "j\0", job: { id: "j\ud800" } }
      const found = yield* store.transact(
        owner,
        applications,
        (tx) => tx.openExpectations(keysOf("ats.application", "a", shown))
      )
      assert.lengthOf(found, 1)
    })

    test(
      "follow a record that the write created only if the store can hold its id (E2)",
      function*({ owner, store, table }) {
        const body = { candidate: { first_name: "A", last_name: "B", email_address: "a@example.org" } }
        yield* table.expect(
          { ...own, name: "createApplication" },
          expectationsOf("createApplication", { job_id: "j" }, body)
        )
        const of = (key: string) => store.transact(owner, applications, (tx) => tx.openExpectations([key]))
        for (const id of ["a\0", "\ud800", "x".repeat(1_001), ""]) {
          yield* table.tookEffect("w", createdIds("createApplication", { id } as never))
        }
        assert.lengthOf(yield* of("job:j"), 1)
        yield* table.tookEffect("w", createdIds("createApplication", { id: "a" } as never))
        assert.lengthOf(yield* of("id:a"), 1)
      }
    )

    test("are replaced when a write is sent again", function*({ open, table }) {
      yield* table.expect(own, tagged("a"))
      yield* table.expect(own, tagged("b"))
      assert.deepStrictEqual((yield* open).map(({ matcher }) => matcher), [tagged("b")[0]!.matcher])
    })

    it.effect("are still there after the store is opened again", () =>
      Effect.gen(function*() {
        const layer = yield* opened
        yield* Effect.provide(Effect.flatMap(begin, ({ table }) => table.expect(own, tagged("a"))), layer)
        assert.lengthOf(yield* Effect.provide(Effect.flatMap(begin, ({ open }) => open), layer), 1)
      }))

    test("are deleted when their stream is erased (X19)", function*({ owner, sql, store, table }) {
      yield* table.expect(own, tagged("a"))
      yield* store.eraseStream(owner, applications, Number.MAX_SAFE_INTEGER)
      assert.deepStrictEqual(yield* sql`SELECT id FROM expectations`, [])
    })

    test("contain no value of the write (I11)", function*({ sql, table }) {
      yield* table.expect(own, tagged("confidential"))
      yield* table.expect(
        { ...own, write: "v", name: "createApplication" },
        expectationsOf("createApplication", { job_id: "j" }, {
          candidate: {
            first_name: "Confidential",
            last_name: "Confidential",
            email_address: "confidential@example.com"
          }
        })
      )
      yield* table.expect(
        { ...own, write: "u", name: "updateInterview" },
        expectationsOf("updateInterview", { application_id: "a" }, {
          interview_id: "i",
          title: "confidential",
          location: { address: "confidential" }
        })
      )
      const rows = yield* sql`SELECT * FROM expectations`
      assert.lengthOf(rows, 4)
      assert.notInclude(JSON.stringify(rows).toLowerCase(), "confidential")
    })
  })
