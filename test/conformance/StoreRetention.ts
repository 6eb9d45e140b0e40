/** Tests that the event log of every store must pass: the erasure of a stream, retention, and records that their source erased. */
import { assert, describe } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { Deliveries } from "../../src/store/Deliveries.ts"
import type { Head, RecordWrite } from "../../src/store/Records.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import {
  all,
  begin,
  changeOf,
  contentsAt,
  created,
  employees,
  eventOf,
  headOf,
  ids,
  pendingOf,
  reasonOf,
  stateOf,
  tags,
  testsIn
} from "./StoreSamples.ts"

// short: on PostgreSQL, each virtual second costs a query
const retention = 10_000

export const retentionSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`what a store's log keeps (${name})`, () => {
    const test = testsIn(layer, begin)

    describe("erasing a stream", () => {
      test(
        "keeps only positions and event ids of the stream, and leaves other streams unchanged (X19)",
        function*({ change, inTags, owner, store, write }) {
          yield* write(ids(600).map(created))
          yield* write([created("other")], employees)
          yield* change("r00001", "updated")
          yield* change("r00002", "deleted")
          yield* inTags((tx) =>
            Effect.all([
              tx.putPending([pendingOf("p")]),
              tx.quarantine([{ hash: "h", reason: "no id", content: "{}", redaction: null, at: 1 }])
            ])
          )
          const before = yield* store.chains([1, 600, 602, 603])
          assert.isFalse(yield* store.eraseStream(owner, tags, 602))
          assert.strictEqual((yield* store.readLog(all)).length, 603, "one of its events is not read yet")
          assert.isTrue(yield* store.eraseStream(owner, tags, 603))

          assert.isNull(yield* store.stream(tags))
          assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
          assert.deepStrictEqual((yield* store.counts).map(({ live, model }) => [model, live]), [["hris.employee", 1]])
          assert.deepStrictEqual((yield* store.readLog(all)).map((entry) => [entry.position, entry.id]), [[
            601,
            "other"
          ]])
          assert.deepStrictEqual(yield* store.logRange, { oldest: 1, newest: 603 })
          assert.deepStrictEqual(yield* store.chains([1, 600, 602, 603]), before)
          const kept = yield* (yield* Deliveries).entries([1, 600, 601, 602, 603])
          assert.deepStrictEqual(kept.map(({ position }) => position), [601])
        }
      )

      test(
        "never shows an event without its previous content, whenever the log is read (I3)",
        function*({ owner, store, write }) {
          const many = ids(3000)
          yield* write(many.map(created))
          yield* write(many.map((id, index) => changeOf(headOf(id, { version: 1, position: index + 1 }), "updated")))
          const erasing = yield* Effect.forkChild(store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER))
          let between = 0
          while (erasing.pollUnsafe() === undefined) {
            const oldest = yield* store.readLog({ after: 0, limit: 1 })
            const newest = yield* store.readLog({ after: 2 * many.length - 1, limit: 1 })
            const entries = yield* store.readLog({ after: many.length, limit: 50 })
            assert.isTrue(entries.every((entry) => entry.kind === "created" || entry.before !== null))
            if (entries.length > 0 && (oldest[0]?.position !== 1 || newest.length === 0)) between++
          }
          assert.isAbove(between, 0, "the log was read during the erasure")
        }
      )

      test(
        "deletes the stream's rows, except the newest row of the log, once they are past retention",
        function*({ change, owner, store, write }) {
          yield* write(ids(3).map(created))
          yield* change("r00000", "updated")
          yield* TestClock.adjust(retention)
          assert.strictEqual(yield* store.prune({ before: retention, upTo: 2 }), 0)
          const { chains } = yield* store.chains([2, 3, 4])
          yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
          assert.deepStrictEqual((yield* store.chains([2, 3, 4])).chains, chains)
          // row 2 was kept for its time
          assert.strictEqual(yield* store.prune({ before: retention, upTo: 9 }), 2)
          assert.deepStrictEqual((yield* store.chains([3, 4])).chains, [null, chains[2]!])
          assert.deepStrictEqual(yield* store.logRange, { oldest: 5, newest: 4 })
        }
      )

      test(
        "keeps the time of the last row past retention: a reader that starts at a later time misses no row",
        function*({ owner, store, write }) {
          for (const [at, id] of [[1_000, "a"], [2_000, "b"]] as const) {
            yield* TestClock.setTime(at)
            yield* write([created(id)])
          }
          yield* TestClock.setTime(9_000)
          yield* write([created("other")], employees)
          const found = Effect.forEach([2_000, 2_001, 8_000, 9_001], store.positionBefore)
          // rows 1 and 2 are past retention when the stream is erased
          yield* store.prune({ before: 5_000, upTo: 3 })
          yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
          assert.deepStrictEqual(yield* found, [null, 2, 2, 3])
          yield* TestClock.setTime(12_000)
          yield* write([created("another")], employees)
          // and now row 2 is deleted, because row 3 has the time
          yield* store.prune({ before: retention, upTo: 4 })
          assert.deepStrictEqual(yield* Effect.forEach([9_000, 9_001, 12_001], store.positionBefore), [null, 3, 4])
        }
      )

      test(
        "keeps that time if the stream was erased before its rows were past retention",
        function*({ owner, store, write }) {
          yield* TestClock.setTime(1_000)
          yield* write([created("a"), created("b")])
          yield* TestClock.setTime(9_000)
          yield* write([created("other")], employees)
          yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
          assert.strictEqual(yield* store.prune({ before: 5_000, upTo: 3 }), 1)
          assert.deepStrictEqual(yield* Effect.forEach([1_000, 1_001, 9_001], store.positionBefore), [null, 2, 3])
        }
      )

      test(
        "can be called again, and a new stream with the same key begins at version 1",
        function*({ owner, store, write }) {
          yield* write([created("a")])
          yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
          yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
          yield* store.ensureStreams([stateOf(tags, { generation: 2 })])
          yield* write([{ head: headOf("a", { version: 1 }), events: [eventOf("a", 1, "created", { generation: 2 })] }])
          assert.deepStrictEqual(
            (yield* store.readLog(all)).map((entry) => [entry.position, entry.generation, entry.version, entry.before]),
            [[2, 2, 1, null]]
          )
        }
      )

      test("does nothing for an owner that was replaced (I10)", function*({ owner, store, write }) {
        yield* write([created("a")])
        yield* store.takeOwnership("capture")
        assert.strictEqual(
          reasonOf(yield* Effect.exit(store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER))),
          "Fenced"
        )
        assert.strictEqual((yield* store.readLog(all)).length, 1)
      })
    })

    describe("retention", () => {
      test(
        "deletes a row only if it and its successor are past retention and it is not its record's latest",
        function*({ change, inTags, store }) {
          yield* change("a", "created") // 1: deleted
          yield* change("b", "created") // 2: stays, the latest of b
          yield* change("a", "updated") // 3: past retention, its successor is not
          yield* change("c", "created") // 4: stays, its successor is not past retention
          yield* TestClock.adjust(retention)
          yield* change("c", "updated") // 5
          yield* change("a", "updated") // 6
          assert.strictEqual(yield* store.prune({ before: retention, upTo: 6 }), 1)

          assert.deepStrictEqual(yield* store.logRange, { oldest: 5, newest: 6 })
          const entries = yield* store.readLog(all)
          assert.deepStrictEqual(entries.map((entry) => [entry.position, entry.before]), [
            [5, '{"id":"c","version":1}'],
            [6, '{"id":"a","version":2}']
          ])
          const contents = yield* inTags((tx) => contentsAt(tx, [1, 2, 3, 4, 5, 6]))
          assert.deepStrictEqual([...contents.keys()].sort(), [2, 3, 4, 5, 6])
          assert.strictEqual(yield* store.prune({ before: retention, upTo: 6 }), 0)
        }
      )

      test("keeps the previous content of events after `upTo`", function*({ change, store }) {
        yield* change("a", "created")
        yield* change("a", "updated")
        yield* change("a", "updated")
        yield* TestClock.adjust(retention)
        assert.strictEqual(yield* store.prune({ before: retention, upTo: 1 }), 0)
        assert.deepStrictEqual(
          (yield* store.readLog({ after: 1, limit: 10 })).map((entry) => entry.before),
          ['{"id":"a","version":1}', '{"id":"a","version":2}']
        )
        assert.strictEqual(yield* store.prune({ before: retention, upTo: 2 }), 1)
        assert.deepStrictEqual((yield* store.readLog(all)).map((entry) => entry.before), ['{"id":"a","version":2}'])
      })

      test(
        "leaves the current records readable if the whole log is past retention",
        function*({ change, store, write }) {
          yield* write(ids(1200).map(created))
          yield* write(
            ids(1200).map((id, index) => changeOf(headOf(id, { version: 1, position: index + 1 }), "updated"))
          )
          yield* TestClock.adjust(retention)
          assert.strictEqual(yield* store.prune({ before: retention, upTo: 9999 }), 1200)
          assert.deepStrictEqual(yield* store.logRange, { oldest: 2401, newest: 2400 })
          assert.deepStrictEqual(yield* store.readLog(all), [])
          assert.strictEqual((yield* store.records(tags, null, 5000)).records.length, 1200)

          yield* change("r00000", "updated")
          assert.deepStrictEqual(
            (yield* store.readLog(all)).map((entry) => [entry.position, entry.before]),
            [[2401, '{"id":"r00000","version":2}']]
          )
        }
      )

      const erase = (head: Head): RecordWrite => ({ ...changeOf(head, "deleted", { reason: "erased" }), erased: true })

      test(
        "keeps only the delete of a record that its source erased, once the readers have it (D11)",
        function*({ change, head, inTags, store, write }) {
          yield* change("a", "created") // 1
          yield* change("b", "created") // 2
          yield* change("a", "deleted") // 3
          yield* change("a", "created") // 4
          yield* change("a", "updated") // 5
          yield* write([erase(yield* head("a"))]) // 6
          const noticed = yield* Clock.currentTimeMillis
          assert.strictEqual(yield* store.purgeErased({ before: noticed + 1, upTo: 5 }), 0)
          assert.strictEqual(yield* store.purgeErased({ before: noticed, upTo: 6 }), 0)
          assert.strictEqual((yield* store.readLog(all)).length, 6)

          const chains = yield* store.chains([1, 2, 3, 4, 5, 6])
          assert.strictEqual(yield* store.purgeErased({ before: noticed + 1, upTo: 6 }), 1)
          const contents = yield* inTags((tx) => contentsAt(tx, [1, 2, 3, 4, 5]))
          assert.deepStrictEqual([...contents].filter(([, content]) => content !== null), [[
            2,
            { content: '{"id":"b","version":1}', redaction: null }
          ]])
          assert.deepStrictEqual(
            (yield* store.readLog(all)).map(({ before, id, position, version }) => [position, id, version, before]),
            [[2, "b", 1, null], [6, "a", 5, null]]
          )
          assert.deepStrictEqual(yield* store.chains([1, 2, 3, 4, 5, 6]), chains)
          assert.strictEqual(yield* store.purgeErased({ before: noticed + 1, upTo: 6 }), 0)

          yield* change("a", "created") // 7
          assert.deepStrictEqual(
            (yield* store.readLog({ after: 6, limit: 9 })).map(({ after, before }) => [before, after]),
            [[null, '{"id":"a","version":6}']]
          )
        }
      )

      test(
        "counts a tombstone that is found empty later from its delete, and ignores records that were never published (D11)",
        function*({ change, head, inTags, store, write }) {
          const foundErased = (head: Head): RecordWrite => ({ head, events: [], erased: true })
          yield* change("a", "created")
          yield* change("a", "deleted")
          yield* TestClock.adjust(retention)
          yield* write([foundErased(yield* head("a")), foundErased(headOf("never"))])
          yield* write([foundErased(yield* head("a"))])
          assert.strictEqual(yield* store.purgeErased({ before: retention + 1, upTo: 2 }), 1)
          assert.deepStrictEqual([...yield* inTags((tx) => contentsAt(tx, [1]))], [[1, null]])
          assert.strictEqual(yield* store.prune({ before: retention, upTo: 2 }), 1)
        }
      )

      test("removes the content of many erased records with long histories (D11)", function*({ store, write }) {
        const some = ids(120)
        yield* write(some.map(created))
        for (const version of [1, 2, 3]) {
          yield* write(
            some.map((id, index) =>
              changeOf(headOf(id, { version, position: (version - 1) * 120 + index + 1 }), "updated")
            )
          )
        }
        yield* write(some.map((id, index) => erase(headOf(id, { version: 4, position: 360 + index + 1 }))))
        assert.strictEqual(yield* store.purgeErased({ before: retention, upTo: 600 }), 120)
        assert.deepStrictEqual((yield* store.readLog(all)).map(({ kind }) => kind), some.map(() => "deleted"))
      })
    })
  })
