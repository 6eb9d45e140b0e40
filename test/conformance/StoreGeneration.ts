/** Tests for raising the generation of a store, and for the queries that an adoption needs. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { genesis } from "../../src/domain/ChangeEvent.ts"
import type { StreamKey } from "../../src/domain/Model.ts"
import { publishingStart } from "../../src/store/EventLog.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { all, begin, created, employees, eventOf, ids, reasonOf, tags, testsIn } from "./StoreSamples.ts"

export const generationSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`a store's generation (${name})`, () => {
    const test = testsIn(layer, begin)

    test(
      "raising it restarts the log: earlier rows are not read, every reader moves to the new beginning, and positions continue",
      function*({ owner, store, write }) {
        yield* write(ids(20).map(created))
        yield* store.saveReaderPosition(owner, "relay", 7)
        const before = yield* store.chains([20])
        yield* store.raiseGeneration([owner], 5)
        assert.deepStrictEqual(yield* store.chains([20, 19]), { ...before, oldest: 21, chains: [before.chain, null] })
        assert.deepStrictEqual(yield* store.readLog(all), [])
        assert.deepStrictEqual(yield* store.logRange, { oldest: 21, newest: 20 })
        assert.strictEqual(yield* store.readerPosition("relay"), 20)
        assert.strictEqual(yield* store.readerPosition(publishingStart), 20)
        assert.strictEqual((yield* store.records(tags, null, 100)).records.length, 20)
        yield* write([created("new")])
        assert.deepStrictEqual((yield* store.readLog(all)).map((entry) => entry.position), [21])
      }
    )

    test("raising it to the current or an earlier generation changes nothing", function*({ owner, store, write }) {
      yield* write([created("a")])
      yield* store.raiseGeneration([owner], 1)
      assert.strictEqual((yield* store.readLog(all)).length, 1)
    })

    test("an owner that was replaced cannot raise it (I10)", function*({ owner, store, write }) {
      yield* write([created("a")])
      yield* store.takeOwnership(owner.scope)
      assert.strictEqual(reasonOf(yield* Effect.exit(store.raiseGeneration([owner], 2))), "Fenced")
      assert.strictEqual((yield* store.readLog(all)).length, 1)
    })

    test(
      "records last published in an earlier generation are listed in id order with their row, until they are published again",
      function*({ change, inTags, owner, store, write }) {
        yield* write(ids(3).map(created))
        yield* change("r00001", "updated")
        yield* change("r00002", "deleted")
        yield* write([created("other")], employees)
        yield* store.raiseGeneration([owner], 2)
        const olderRecords = (after: string | null, limit: number) =>
          inTags((tx) => tx.olderGenerationRecords(2, after, limit))
        assert.deepStrictEqual(
          (yield* olderRecords(null, 2)).map(({ content, head }) => [head.id, head.live, content]),
          [
            ["r00000", true, '{"id":"r00000","version":1}'],
            ["r00001", true, '{"id":"r00001","version":2}']
          ]
        )
        assert.deepStrictEqual(
          (yield* olderRecords("r00001", 9)).map(({ content, head }) => [head.id, head.live, content]),
          [
            ["r00002", false, null]
          ]
        )
        yield* inTags((tx) =>
          Effect.gen(function*() {
            const { head, remoteId } = (yield* tx.olderGenerationRecords(2, null, 1))[0]!
            assert.strictEqual(remoteId, "remote r00000")
            const event = eventOf(head.id, 1, "created", { generation: 2 })
            yield* tx.write([{ head: { ...head, position: null, version: 1 }, events: [event] }])
          })
        )
        assert.deepStrictEqual((yield* olderRecords(null, 9)).map(({ head }) => head.id), ["r00001", "r00002"])
      }
    )

    test(
      "rows of earlier generations are deleted stream by stream; rows of the new generation stay",
      function*({ inTags, owner, store, write }) {
        yield* write(ids(5).map(created))
        yield* write([created("other")], employees)
        yield* store.raiseGeneration([owner], 2)
        yield* write([{
          head: { ...created("new").head },
          events: [eventOf("new", 1, "created", { generation: 2 })]
        }])
        const drop = inTags((tx) => tx.deleteOlderGenerationEvents(2, 3))
        assert.deepStrictEqual([yield* drop, yield* drop, yield* drop], [3, 2, 0])
        const keptIn = (key: StreamKey) =>
          Effect.map(
            store.transact(owner, key, (tx) => tx.logContents(9, 9)),
            (rows) => rows.map((row) => row.position)
          )
        assert.deepStrictEqual([yield* keptIn(tags), yield* keptIn(employees)], [[7], [6]])
      }
    )

    test(
      "streams and position are read at one moment, and live records are distinguished from the others",
      function*({ change, store, write }) {
        yield* write(ids(300).map(created))
        yield* change("r00007", "deleted")
        const snapshot = yield* store.streamsAtPosition
        const { chain } = yield* store.chains([])
        assert.deepStrictEqual(snapshot, { position: 301, chain, streams: yield* store.streams })
        const live = yield* store.liveIds(tags, [...ids(300), "none"])
        assert.strictEqual(live.size, 299)
        assert.isFalse(live.has("r00007") || live.has("none"))
        assert.strictEqual((yield* store.liveIds(employees, ids(3))).size, 0)
      }
    )

    testsIn(layer, Store)("a store without streams has a position too", function*(store) {
      assert.deepStrictEqual(yield* store.streamsAtPosition, { position: 0, chain: genesis, streams: [] })
      assert.strictEqual((yield* store.liveIds(tags, [])).size, 0)
    })
  })
