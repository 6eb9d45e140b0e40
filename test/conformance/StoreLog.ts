/** Tests that the event log of every store must pass. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Tracer from "effect/Tracer"
import { chainOf, genesis, type LogEntry } from "../../src/domain/ChangeEvent.ts"
import type { LogQuery, LogSearch } from "../../src/store/EventLog.ts"
import { anyHash, queryFor } from "../../src/store/Records.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import * as Tracing from "../../src/telemetry/Tracing.ts"
import {
  all,
  begin,
  changeOf,
  contentsAt,
  created,
  employees,
  eventOf,
  headOf,
  headsOf,
  ids,
  Stop,
  tags,
  testsIn
} from "./StoreSamples.ts"

/** The chain before the first of these events, and at each of them. */
const folded = (eventIds: ReadonlyArray<string>): ReadonlyArray<string> =>
  eventIds.reduce<Array<string>>((chains, eventId) => [...chains, chainOf(chains.at(-1)!, eventId)], [genesis])

export const logSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`a store's log (${name})`, () => {
    const test = testsIn(layer, begin)

    // short: on PostgreSQL, each virtual second costs a query
    const retention = 10_000

    describe("the event log", () => {
      test(
        "assigns positions 1, 2, 3 … over all streams, without gaps after a rollback (I5)",
        function*({ inTags, store, write }) {
          for (const id of ids(20)) {
            yield* write([created(id), created(`${id}x`)], employees)
            yield* Effect.exit(inTags((tx) => Effect.andThen(tx.write([created(id)]), Effect.fail(new Stop()))))
            yield* write([created(id)])
          }
          const positions = (yield* store.readLog(all)).map((entry) => entry.position)
          assert.deepStrictEqual(positions, Array.from({ length: 60 }, (_, index) => index + 1))
          assert.deepStrictEqual(yield* store.logRange, { oldest: 1, newest: 60 })
        }
      )

      test("joins each event with the record's previous content (I3)", function*({ change, store, write }) {
        yield* change("a", "created")
        yield* write([created("b")])
        yield* change("a", "updated")
        yield* change("a", "deleted")
        yield* change("a", "created")
        yield* change("a", "updated")
        const entries = (yield* store.readLog(all)).filter((entry) => entry.id === "a")
        assert.deepStrictEqual(entries.map((entry) => [entry.version, entry.kind]), [
          [1, "created"],
          [2, "updated"],
          [3, "deleted"],
          [4, "created"],
          [5, "updated"]
        ])
        assert.deepStrictEqual(entries.map((entry) => entry.before), [
          null,
          ...entries.slice(0, -1).map((entry) => entry.after)
        ])
      })

      test(
        "stores a record that is created and deleted in one write as two rows; `before` of the second is the first's content (D8)",
        function*({ inTags, store, write }) {
          yield* write([{
            head: headOf("a", { version: 2, live: false }),
            events: [eventOf("a", 1, "created"), eventOf("a", 2, "deleted", { reason: "unseen" })]
          }])
          const [first, second] = yield* store.readLog(all)
          assert.deepStrictEqual([first?.before, second?.before, second?.after], [null, first?.after, null])
          const heads = yield* inTags((tx) => headsOf(tx, ["a"]))
          assert.deepStrictEqual(heads.get("a"), headOf("a", { version: 2, live: false, position: 2 }))
        }
      )

      test(
        "has no `before` for a record that is published again in a later generation (X14)",
        function*({ head, store, write }) {
          yield* write([created("a")])
          yield* write([{
            head: { ...(yield* head("a")), version: 1 },
            events: [eventOf("a", 1, "created", { generation: 2, origin: "backfill" })]
          }])
          assert.deepStrictEqual((yield* store.readLog(all)).map((entry) => [entry.generation, entry.before]), [[
            1,
            null
          ], [
            2,
            null
          ]])
        }
      )

      test("returns every property of an event", function*({ store, write }) {
        const event = eventOf("a", 1, "created", {
          origin: "backfill",
          restored: true,
          reason: "unseen",
          remoteId: null,
          changedAt: null,
          transitions: '[{"name":"hired"}]',
          cause: '{"plugin":"p"}',
          after: '{"name":"Ω \\u0000 \'quoted\'"}'
        })
        yield* write([{ head: headOf("a", { version: 1 }), events: [event] }])
        assert.deepStrictEqual(yield* store.readLog(all), [
          { ...event, ...tags, position: 1, chain: chainOf(genesis, event.eventId), before: null, traceparent: null }
        ])
      })

      test(
        "names the span in which an event was appended, and none for an event without one",
        function*({ store, write }) {
          const tracer = Tracer.make({ span: (options) => new Tracer.NativeSpan(options) })
          yield* write([created("a")])
          const traceparent = yield* Effect.andThen(
            write([created("b"), created("c")]),
            Tracing.traceparent
          ).pipe(
            Tracing.inTrace("release", {}),
            Effect.provideService(Tracing.Tracing, { tracer, share: 1, continues: true })
          )
          assert.match(String(traceparent), /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
          yield* write([created("d")])
          const expected = [null, traceparent, traceparent, null]
          const traces = (entries: ReadonlyArray<LogEntry>) => entries.map((entry) => entry.traceparent)
          assert.deepStrictEqual(traces(yield* store.readLog(all)), expected)
          assert.deepStrictEqual(traces(yield* store.readLog({ ...all, after: 2, limit: 1 })), [traceparent])
        }
      )

      test("is read in pages, for all streams, one integration or one model", function*({ store, write }) {
        for (const id of ids(6)) {
          yield* write([created(id)])
          yield* write([created(id)], employees)
        }
        const positions = (query: Partial<LogQuery>) =>
          Effect.map(store.readLog({ ...all, ...query }), (entries) => entries.map((entry) => entry.position))
        assert.deepStrictEqual(yield* positions({ after: 3, limit: 4 }), [4, 5, 6, 7])
        assert.deepStrictEqual(yield* positions({ after: 12 }), [])
        assert.deepStrictEqual(yield* positions({ models: ["ats.tag"], after: 2, limit: 3 }), [3, 5, 7])
        assert.deepStrictEqual(yield* positions({ integrations: [employees.integration] }), [2, 4, 6, 8, 10, 12])
        assert.deepStrictEqual(
          yield* positions({
            integrations: [employees.integration, tags.integration],
            models: ["ats.tag", "hris.employee"]
          }),
          Array.from({ length: 12 }, (_, index) => index + 1)
        )
        assert.deepStrictEqual(yield* positions({ integrations: [employees.integration], models: ["ats.tag"] }), [])
        assert.deepStrictEqual(yield* positions({ integrations: [] }), [])
      })

      test("is read by kind and by transition, up to a position", function*({ change, head, store, write }) {
        const quoted = JSON.stringify([{ name: "hired", from: '"name":"declined"', to: "x" }])
        yield* change("a", "created")
        yield* write([changeOf(yield* head("a"), "updated", { transitions: quoted })])
        yield* change("a", "deleted")
        yield* change("b", "created")
        const moved = JSON.stringify([{ name: "stage_changed", from: "a", to: "b" }])
        yield* write([changeOf(yield* head("b"), "updated", { transitions: moved })])
        yield* write([changeOf(headOf("s"), "created", { transitions: moved })], employees)
        const positions = (query: Partial<LogQuery>) =>
          Effect.map(store.readLog({ ...all, ...query }), (entries) => entries.map((entry) => entry.position))
        assert.deepStrictEqual(yield* positions({ kinds: ["created", "deleted"] }), [1, 3, 4, 6])
        assert.deepStrictEqual(yield* positions({ kinds: ["created", "deleted"], after: 1, upTo: 3 }), [3])
        assert.deepStrictEqual(yield* positions({ transitions: ["hired"] }), [2])
        assert.deepStrictEqual(yield* positions({ transitions: ["declined"] }), [])
        assert.deepStrictEqual(yield* positions({ transitions: ["stage_changed", "hired"] }), [2, 5, 6])
        assert.deepStrictEqual(yield* positions({ transitions: ["stage_changed"], models: ["ats.tag"] }), [5])
        assert.deepStrictEqual(yield* positions({ transitions: ["stage_changed"], kinds: ["created"] }), [6])
        assert.deepStrictEqual(yield* positions({ kinds: [] }), [])
      })

      test(
        "finds the first row that was appended at or after a time, and says if such rows may be gone",
        function*({ change, store }) {
          yield* TestClock.setTime(1_000)
          assert.strictEqual(yield* store.positionBefore(500), 0)
          for (const [at, id] of [[1_000, "a"], [2_000, "a"], [2_000, "b"], [4_000, "b"], [5_000, "c"]] as const) {
            yield* TestClock.setTime(at)
            yield* change(id, (yield* store.logRange).newest === 0 || id !== "a" ? "created" : "updated")
          }
          const found = (times: ReadonlyArray<number>) => Effect.forEach(times, store.positionBefore)
          const places = yield* found([0, 1_000, 1_001, 2_000, 2_001, 4_000, 5_000, 5_001])
          assert.deepStrictEqual(places, [0, 0, 1, 1, 3, 3, 4, 5])
          // rows 1 to 3 are past retention; row 3, the last of them, was appended at 2,000
          yield* store.prune({ before: 3_000, upTo: 5 })
          assert.deepStrictEqual(yield* found([0, 2_000, 2_001, 3_000, 5_000, 9_000]), [null, null, 3, 3, 4, 5])
          yield* store.prune({ before: 9_000, upTo: 5 })
          assert.deepStrictEqual(yield* found([5_000, 5_001]), [null, 5])
        }
      )

      test(
        "wakes a waiting reader after the commit, and lets a reader that is behind continue at once",
        function*({ inTags, store, write }) {
          const waiter = yield* Effect.forkChild(store.awaitLog(0), { startImmediately: true })
          yield* Effect.exit(inTags((tx) => Effect.andThen(tx.write([created("a")]), Effect.fail(new Stop()))))
          assert.isUndefined(waiter.pollUnsafe())
          yield* write([created("a")])
          yield* Fiber.join(waiter)
          yield* store.awaitLog(0)
        }
      )

      test("has the content of published records, and the last content of deleted ones", function*(rig) {
        const { change, inTags } = rig
        for (const kind of ["created", "updated", "deleted"] as const) yield* change("a", kind)
        yield* change("b", "created")
        const { contents, heads } = yield* inTags((tx) => tx.read(queryFor(["a", "b", "c"], anyHash)))
        assert.deepStrictEqual(
          contents,
          new Map([
            ["a", { content: '{"id":"a","version":2}', redaction: null }],
            ["b", { content: '{"id":"b","version":1}', redaction: null }]
          ])
        )
        assert.deepStrictEqual([...heads.values()].map(({ id, live, position }) => [id, live, position]).sort(), [
          ["a", false, 3],
          ["b", true, 4]
        ])
      })
    })

    describe("silent rows", () => {
      test(
        "have positions and content like other rows, but no reader receives them",
        function*({ change, inTags, store, write }) {
          yield* write([created("a"), { ...created("b"), silent: true }])
          yield* write([{ ...created("c"), silent: true }])
          yield* change("b", "updated")
          assert.deepStrictEqual(
            (yield* store.readLog(all)).map((entry) => [entry.position, entry.id, entry.version, entry.before]),
            [[1, "a", 1, null], [4, "b", 2, '{"id":"b","version":1}']]
          )
          assert.deepStrictEqual(yield* store.logRange, { oldest: 1, newest: 4 })
          assert.deepStrictEqual(
            (yield* store.readLog({ ...all, ...tags, after: 1 })).map((entry) => entry.position),
            [4]
          )
          const { position, records } = yield* store.records(tags, null, 10)
          assert.deepStrictEqual([position, records.map((record) => [record.id, record.version])], [4, [
            ["a", 1],
            ["b", 2],
            ["c", 1]
          ]])
          assert.strictEqual((yield* inTags((tx) => contentsAt(tx, [3]))).get(3)?.content, '{"id":"c","version":1}')
        }
      )

      test("are part of the chain (X14)", function*({ store, write }) {
        yield* write([{ ...created("a"), silent: true }, created("b")])
        assert.deepStrictEqual((yield* store.chains([0, 1, 2, 3])).chains, [...folded(["a-1", "b-1"]), null])
      })
    })

    describe("the chain", () => {
      test(
        "proves at each position that event and all earlier ones, over streams and transactions (X18)",
        function*({ change, store, write }) {
          assert.deepStrictEqual(yield* store.chains([0, 1]), {
            oldest: 0,
            newest: 0,
            chain: genesis,
            removals: 0,
            chains: [genesis, null]
          })
          yield* write(ids(300).map(created))
          yield* write([created("other")], employees)
          yield* change("r00007", "updated")
          const expected = folded([...ids(300).map((id) => `${id}-1`), "other-1", "r00007-2"])
          const positions = expected.map((_, position) => position)
          const found = yield* store.chains(positions)
          assert.deepStrictEqual(found, {
            oldest: 1,
            newest: 302,
            chain: expected[302]!,
            removals: 0,
            chains: expected
          })
          assert.deepStrictEqual((yield* store.chains([9, 303, 0, 9])).chains, [
            expected[9]!,
            null,
            genesis,
            expected[9]!
          ])
          assert.deepStrictEqual((yield* store.readLog(all)).map(({ chain }) => chain), expected.slice(1))
          assert.strictEqual((yield* store.streamsAtPosition).chain, expected[302])
        }
      )

      test(
        "does not change with a rolled back transaction, and continues from the last commit",
        function*({ inTags, store, write }) {
          yield* write([created("a")])
          yield* Effect.exit(inTags((tx) => Effect.andThen(tx.write([created("b")]), Effect.fail(new Stop()))))
          assert.strictEqual((yield* store.chains([])).chain, folded(["a-1"]).at(-1))
          yield* write([created("c")])
          assert.strictEqual((yield* store.chains([])).chain, folded(["a-1", "c-1"]).at(-1))
        }
      )

      test(
        "is known at the newest pruned position, although its row is deleted, and at none before it (X14)",
        function*({ change, store, write }) {
          yield* write(ids(3).map(created))
          yield* change("r00002", "updated")
          const { chain, chains } = yield* store.chains([2, 3])
          yield* TestClock.adjust(retention)
          yield* store.prune({ before: retention, upTo: 3 })
          assert.deepStrictEqual((yield* store.chains([2, 3])).chains, [null, chains[1]!])
          // the update superseded the row at 3, so that row is pruned too
          yield* store.prune({ before: retention, upTo: 4 })
          assert.deepStrictEqual(yield* store.chains([3, 4]), {
            oldest: 5,
            newest: 4,
            chain,
            removals: 0,
            chains: [null, chain]
          })
          yield* change("r00002", "updated")
          assert.strictEqual((yield* store.chains([])).chain, chainOf(chain, "r00002-3"))
        }
      )
    })
  })

const caused = (delivery: number) => JSON.stringify({ plugin: "p", delivery: String(delivery), depth: 1, paths: [""] })

export const searchSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`a search in a store's log (${name})`, () => {
    const test = testsIn(layer, begin)

    const find = (query: Partial<LogSearch> = {}) =>
      Effect.gen(function*() {
        const { searchLog } = yield* Store
        const { entries, next } = yield* searchLog({ limit: 10, positions: 100, ...query })
        return [entries.map(({ id, version }) => `${id}${version}`), next]
      })

    test("finds events from the newest to the oldest, by stream, kind and record", function*({ change, write }) {
      yield* change("a", "created")
      yield* write([created("a"), created("b")], employees)
      yield* change("a", "updated")
      yield* change("a", "deleted")
      assert.deepStrictEqual(yield* find(), [["a3", "a2", "b1", "a1", "a1"], null])
      assert.deepStrictEqual(yield* find({ models: [employees.model] }), [["b1", "a1"], null])
      assert.deepStrictEqual(yield* find({ kinds: ["deleted"] }), [["a3"], null])
      assert.deepStrictEqual(yield* find({ id: "a", integrations: [tags.integration] }), [["a3", "a2", "a1"], null])
      assert.deepStrictEqual(yield* find({ id: "a" }), [["a3", "a2", "a1", "a1"], null])
      assert.deepStrictEqual(yield* find({ id: "c" }), [[], null])
    })

    test("reads a bounded part of the log, and says where to continue", function*({ write }) {
      for (let count = 0; count < 5; count++) yield* write([created(`s${count}`)], employees)
      yield* write([created("t")])
      assert.deepStrictEqual(yield* find({ models: [employees.model], positions: 2 }), [["s41"], 5])
      assert.deepStrictEqual(yield* find({ models: [employees.model], positions: 2, before: 5 }), [["s31", "s21"], 3])
      assert.deepStrictEqual(yield* find({ models: [employees.model], positions: 2, before: 3 }), [
        ["s11", "s01"],
        null
      ])
      assert.deepStrictEqual(yield* find({ limit: 2 }), [["t1", "s41"], 5])
      assert.deepStrictEqual(yield* find({ from: 3, limit: 2, before: 6 }), [["s41", "s31"], 4])
      assert.deepStrictEqual(yield* find({ from: 3, limit: 2, before: 4 }), [["s21"], null])
      assert.deepStrictEqual(yield* find({ from: 3, positions: 2, before: 6 }), [["s41", "s31"], 4])
      assert.deepStrictEqual(yield* find({ from: 1, before: 1 }), [[], null])
    })

    test("finds the changes that the writes of a delivery caused, and no others", function*({ store, write }) {
      yield* write([changeOf(headOf("a"), "created", { cause: caused(1) })])
      yield* write([changeOf(headOf("b"), "created", { cause: caused(11) }), created("c")], employees)
      const echoes = (delivery: number, after = 0) =>
        Effect.map(store.echoesOf({ delivery, after, positions: 100 }), (found) => found.map(({ id }) => id))
      assert.deepStrictEqual(yield* echoes(1), ["a"])
      assert.deepStrictEqual(yield* echoes(11), ["b"])
      assert.deepStrictEqual(yield* echoes(1, 1), [])
    })
  })
