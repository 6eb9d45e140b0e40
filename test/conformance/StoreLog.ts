/** Tests that the event log of every store must pass. `logSuite` needs a layer that creates a new store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Tracer from "effect/Tracer"
import { chainOf, genesis, type LogEntry } from "../../src/domain/ChangeEvent.ts"
import type { LogQuery } from "../../src/store/EventLog.ts"
import type { Head, RecordWrite } from "../../src/store/Records.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import * as Tracing from "../../src/telemetry/Tracing.ts"
import {
  all,
  begin,
  changeOf,
  created,
  eventOf,
  headOf,
  ids,
  pendingOf,
  reasonOf,
  skills,
  stateOf,
  Stop,
  tags
} from "./StoreSamples.ts"

/** The chain before the first of these events, and at each of them. */
const folded = (eventIds: ReadonlyArray<string>): ReadonlyArray<string> =>
  eventIds.reduce<Array<string>>((chains, eventId) => [...chains, chainOf(chains.at(-1)!, eventId)], [genesis])

export const logSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`a store's log (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store>) =>
      it.effect(title, () => Effect.provide(body, layer))

    // short: on PostgreSQL, each virtual second costs a query
    const retention = 10_000

    describe("the event log", () => {
      test(
        "assigns positions 1, 2, 3 … over all streams, without gaps after a rollback (I5)",
        Effect.gen(function*() {
          const { inTags, store, write } = yield* begin
          for (const id of ids(20)) {
            yield* write([created(id), created(`${id}x`)], skills)
            yield* Effect.exit(inTags((tx) => Effect.andThen(tx.write([created(id)]), Effect.fail(new Stop()))))
            yield* write([created(id)])
          }
          const positions = (yield* store.readLog(all)).map((entry) => entry.position)
          assert.deepStrictEqual(positions, Array.from({ length: 60 }, (_, index) => index + 1))
          assert.deepStrictEqual(yield* store.logRange, { oldest: 1, newest: 60 })
        })
      )

      test(
        "joins each event with the record's previous content (I3)",
        Effect.gen(function*() {
          const { change, store, write } = yield* begin
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
      )

      test(
        "stores a record that is created and deleted in one write as two rows; `before` of the second is the first's content (D8)",
        Effect.gen(function*() {
          const { inTags, store, write } = yield* begin
          yield* write([{
            head: headOf("a", { version: 2, live: false }),
            events: [eventOf("a", 1, "created"), eventOf("a", 2, "deleted", { reason: "unseen" })]
          }])
          const [first, second] = yield* store.readLog(all)
          assert.deepStrictEqual([first?.before, second?.before, second?.after], [null, first?.after, null])
          const heads = yield* inTags((tx) => tx.heads(["a"]))
          assert.deepStrictEqual(heads.get("a"), headOf("a", { version: 2, live: false, position: 2 }))
        })
      )

      test(
        "has no `before` for a record that is published again in a later generation (X14)",
        Effect.gen(function*() {
          const { head, store, write } = yield* begin
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
        })
      )

      test(
        "returns every property of an event",
        Effect.gen(function*() {
          const { store, write } = yield* begin
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
      )

      test(
        "names the span in which an event was appended, and none for an event without one",
        Effect.gen(function*() {
          const { store, write } = yield* begin
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
        })
      )

      test(
        "is read in pages, for all streams, one integration or one model",
        Effect.gen(function*() {
          const { store, write } = yield* begin
          for (const id of ids(6)) {
            yield* write([created(id)])
            yield* write([created(id)], skills)
          }
          const positions = (query: Partial<LogQuery>) =>
            Effect.map(store.readLog({ ...all, ...query }), (entries) => entries.map((entry) => entry.position))
          assert.deepStrictEqual(yield* positions({ after: 3, limit: 4 }), [4, 5, 6, 7])
          assert.deepStrictEqual(yield* positions({ after: 12 }), [])
          assert.deepStrictEqual(yield* positions({ models: ["ats.tag"], after: 2, limit: 3 }), [3, 5, 7])
          assert.deepStrictEqual(yield* positions({ integrations: [skills.integration] }), [2, 4, 6, 8, 10, 12])
          assert.deepStrictEqual(
            yield* positions({
              integrations: [skills.integration, tags.integration],
              models: ["ats.tag", "hris.skill"]
            }),
            Array.from({ length: 12 }, (_, index) => index + 1)
          )
          assert.deepStrictEqual(yield* positions({ integrations: [skills.integration], models: ["ats.tag"] }), [])
          assert.deepStrictEqual(yield* positions({ integrations: [] }), [])
        })
      )

      test(
        "is read by kind and by transition, up to a position",
        Effect.gen(function*() {
          const { change, head, store, write } = yield* begin
          const quoted = JSON.stringify([{ name: "hired", from: '"name":"declined"', to: "x" }])
          yield* change("a", "created")
          yield* write([changeOf(yield* head("a"), "updated", { transitions: quoted })])
          yield* change("a", "deleted")
          yield* change("b", "created")
          const moved = JSON.stringify([{ name: "stage_changed", from: "a", to: "b" }])
          yield* write([changeOf(yield* head("b"), "updated", { transitions: moved })])
          yield* write([changeOf(headOf("s"), "created", { transitions: moved })], skills)
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
      )

      test(
        "finds the first row that was appended at or after a time, and says if such rows may be gone",
        Effect.gen(function*() {
          const { change, store } = yield* begin
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
        })
      )

      test(
        "wakes a waiting reader after the commit, and lets a reader that is behind continue at once",
        Effect.gen(function*() {
          const { inTags, store, write } = yield* begin
          const waiter = yield* Effect.forkChild(store.awaitLog(0), { startImmediately: true })
          yield* Effect.exit(inTags((tx) => Effect.andThen(tx.write([created("a")]), Effect.fail(new Stop()))))
          assert.isUndefined(waiter.pollUnsafe())
          yield* write([created("a")])
          yield* Fiber.join(waiter)
          yield* store.awaitLog(0)
        })
      )

      test(
        "returns content by position, and the record's previous content",
        Effect.gen(function*() {
          const { change, inTags } = yield* begin
          yield* change("a", "created")
          yield* change("a", "updated")
          yield* change("a", "deleted")
          const [contents, before] = yield* inTags((tx) =>
            Effect.all([tx.contents([1, 2, 3]), tx.beforeImages([1, 3])])
          )
          assert.deepStrictEqual([...contents].sort(), [
            [1, { content: '{"id":"a","version":1}', redaction: null }],
            [2, { content: '{"id":"a","version":2}', redaction: null }],
            [3, null]
          ])
          assert.deepStrictEqual([...before].sort(), [
            [1, null],
            [3, { content: '{"id":"a","version":2}', redaction: null }]
          ])
        })
      )
    })

    describe("silent rows", () => {
      test(
        "have positions and content like other rows, but no reader receives them",
        Effect.gen(function*() {
          const { change, inTags, store, write } = yield* begin
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
          assert.strictEqual((yield* inTags((tx) => tx.contents([3]))).get(3)?.content, '{"id":"c","version":1}')
        })
      )

      test(
        "are part of the chain (X14)",
        Effect.gen(function*() {
          const { store, write } = yield* begin
          yield* write([{ ...created("a"), silent: true }, created("b")])
          assert.deepStrictEqual((yield* store.chains([0, 1, 2, 3])).chains, [...folded(["a-1", "b-1"]), null])
        })
      )
    })

    describe("the chain", () => {
      test(
        "proves at each position that event and all earlier ones, over streams and transactions (X18)",
        Effect.gen(function*() {
          const { change, store, write } = yield* begin
          assert.deepStrictEqual(yield* store.chains([0, 1]), {
            oldest: 0,
            newest: 0,
            chain: genesis,
            removals: 0,
            chains: [genesis, null]
          })
          yield* write(ids(300).map(created))
          yield* write([created("other")], skills)
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
        })
      )

      test(
        "does not change with a rolled back transaction, and continues from the last commit",
        Effect.gen(function*() {
          const { inTags, store, write } = yield* begin
          yield* write([created("a")])
          yield* Effect.exit(inTags((tx) => Effect.andThen(tx.write([created("b")]), Effect.fail(new Stop()))))
          assert.strictEqual((yield* store.chains([])).chain, folded(["a-1"]).at(-1))
          yield* write([created("c")])
          assert.strictEqual((yield* store.chains([])).chain, folded(["a-1", "c-1"]).at(-1))
        })
      )

      test(
        "is known at the newest pruned position, although its row is deleted, and at none before it (X14)",
        Effect.gen(function*() {
          const { change, store, write } = yield* begin
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
        })
      )
    })

    describe("erasing a stream", () => {
      test(
        "keeps only positions and event ids of the stream, and leaves other streams unchanged (X19)",
        Effect.gen(function*() {
          const { change, inTags, owner, store, write } = yield* begin
          yield* write(ids(600).map(created))
          yield* write([created("other")], skills)
          yield* change("r00001", "updated")
          yield* change("r00002", "deleted")
          yield* inTags((tx) =>
            Effect.all([
              tx.putPending([pendingOf("p")]),
              tx.quarantine([{ hash: "h", reason: "no id", content: "{}", redaction: null, at: 1 }])
            ])
          )
          const before = yield* store.chains([1, 600, 602, 603])
          yield* store.eraseStream(owner, tags)

          assert.isNull(yield* store.stream(tags))
          assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
          assert.deepStrictEqual((yield* store.counts).map(({ live, model }) => [model, live]), [["hris.skill", 1]])
          assert.deepStrictEqual((yield* store.readLog(all)).map((entry) => [entry.position, entry.id]), [[
            601,
            "other"
          ]])
          assert.deepStrictEqual(yield* store.logRange, { oldest: 1, newest: 603 })
          assert.deepStrictEqual(yield* store.chains([1, 600, 602, 603]), before)
          const contents = yield* store.transact(owner, skills, (tx) => tx.contents([1, 600, 601, 602, 603]))
          assert.deepStrictEqual([...contents].filter(([, content]) => content !== null).map(([at]) => at), [601])
        })
      )

      test(
        "never shows an event without its previous content, whenever the log is read (I3)",
        Effect.gen(function*() {
          const { owner, store, write } = yield* begin
          const many = ids(3000)
          yield* write(many.map(created))
          yield* write(many.map((id, index) => changeOf(headOf(id, { version: 1, position: index + 1 }), "updated")))
          const erasing = yield* Effect.forkChild(store.eraseStream(owner, tags))
          let between = 0
          while (erasing.pollUnsafe() === undefined) {
            const oldest = yield* store.readLog({ after: 0, limit: 1 })
            const newest = yield* store.readLog({ after: 2 * many.length - 1, limit: 1 })
            const entries = yield* store.readLog({ after: many.length, limit: 50 })
            assert.isTrue(entries.every((entry) => entry.kind === "created" || entry.before !== null))
            if (entries.length > 0 && (oldest[0]?.position !== 1 || newest.length === 0)) between++
          }
          assert.isAbove(between, 0, "the log was read during the erasure")
        })
      )

      test(
        "deletes the stream's rows, except the newest row of the log, once they are past retention",
        Effect.gen(function*() {
          const { change, owner, store, write } = yield* begin
          yield* write(ids(3).map(created))
          yield* change("r00000", "updated")
          yield* TestClock.adjust(retention)
          assert.strictEqual(yield* store.prune({ before: retention, upTo: 2 }), 0)
          const { chains } = yield* store.chains([2, 3, 4])
          yield* store.eraseStream(owner, tags)
          assert.deepStrictEqual((yield* store.chains([2, 3, 4])).chains, chains)
          // row 2 was kept for its time
          assert.strictEqual(yield* store.prune({ before: retention, upTo: 9 }), 2)
          assert.deepStrictEqual((yield* store.chains([3, 4])).chains, [null, chains[2]!])
          assert.deepStrictEqual(yield* store.logRange, { oldest: 5, newest: 4 })
        })
      )

      test(
        "keeps the time of the last row past retention: a reader that starts at a later time misses no row",
        Effect.gen(function*() {
          const { owner, store, write } = yield* begin
          for (const [at, id] of [[1_000, "a"], [2_000, "b"]] as const) {
            yield* TestClock.setTime(at)
            yield* write([created(id)])
          }
          yield* TestClock.setTime(9_000)
          yield* write([created("other")], skills)
          const found = Effect.forEach([2_000, 2_001, 8_000, 9_001], store.positionBefore)
          // rows 1 and 2 are past retention when the stream is erased
          yield* store.prune({ before: 5_000, upTo: 3 })
          yield* store.eraseStream(owner, tags)
          assert.deepStrictEqual(yield* found, [null, 2, 2, 3])
          yield* TestClock.setTime(12_000)
          yield* write([created("another")], skills)
          // and now row 2 is deleted, because row 3 has the time
          yield* store.prune({ before: retention, upTo: 4 })
          assert.deepStrictEqual(yield* Effect.forEach([9_000, 9_001, 12_001], store.positionBefore), [null, 3, 4])
        })
      )

      test(
        "keeps that time if the stream was erased before its rows were past retention",
        Effect.gen(function*() {
          const { owner, store, write } = yield* begin
          yield* TestClock.setTime(1_000)
          yield* write([created("a"), created("b")])
          yield* TestClock.setTime(9_000)
          yield* write([created("other")], skills)
          yield* store.eraseStream(owner, tags)
          assert.strictEqual(yield* store.prune({ before: 5_000, upTo: 3 }), 1)
          assert.deepStrictEqual(yield* Effect.forEach([1_000, 1_001, 9_001], store.positionBefore), [null, 2, 3])
        })
      )

      test(
        "can be called again, and a new stream with the same key begins at version 1",
        Effect.gen(function*() {
          const { owner, store, write } = yield* begin
          yield* write([created("a")])
          yield* store.eraseStream(owner, tags)
          yield* store.eraseStream(owner, tags)
          yield* store.ensureStreams([stateOf(tags, { generation: 2 })])
          yield* write([{ head: headOf("a", { version: 1 }), events: [eventOf("a", 1, "created", { generation: 2 })] }])
          assert.deepStrictEqual(
            (yield* store.readLog(all)).map((entry) => [entry.position, entry.generation, entry.version, entry.before]),
            [[2, 2, 1, null]]
          )
        })
      )

      test(
        "does nothing for an owner that was replaced (I10)",
        Effect.gen(function*() {
          const { owner, store, write } = yield* begin
          yield* write([created("a")])
          yield* store.takeOwnership("capture")
          assert.strictEqual(reasonOf(yield* Effect.exit(store.eraseStream(owner, tags))), "Fenced")
          assert.strictEqual((yield* store.readLog(all)).length, 1)
        })
      )
    })

    describe("retention", () => {
      test(
        "deletes a row only if it and its successor are past retention and it is not its record's latest",
        Effect.gen(function*() {
          const { change, inTags, store } = yield* begin
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
          const contents = yield* inTags((tx) => tx.contents([1, 2, 3, 4, 5, 6]))
          assert.deepStrictEqual([...contents.keys()].sort(), [2, 3, 4, 5, 6])
          assert.strictEqual(yield* store.prune({ before: retention, upTo: 6 }), 0)
        })
      )

      test(
        "keeps the previous content of events after `upTo`",
        Effect.gen(function*() {
          const { change, store } = yield* begin
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
      )

      test(
        "leaves the current records readable if the whole log is past retention",
        Effect.gen(function*() {
          const { change, store, write } = yield* begin
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
        })
      )

      const erase = (head: Head): RecordWrite => ({ ...changeOf(head, "deleted", { reason: "erased" }), erased: true })

      test(
        "keeps only the delete of a record that its source erased, once the readers have it (D11)",
        Effect.gen(function*() {
          const { change, head, inTags, store, write } = yield* begin
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
          const contents = yield* inTags((tx) => tx.contents([1, 2, 3, 4, 5]))
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
        })
      )

      test(
        "counts a tombstone that is found empty later from its delete, and ignores records that were never published (D11)",
        Effect.gen(function*() {
          const { change, head, inTags, store, write } = yield* begin
          const foundErased = (head: Head): RecordWrite => ({ head, events: [], erased: true })
          yield* change("a", "created")
          yield* change("a", "deleted")
          yield* TestClock.adjust(retention)
          yield* write([foundErased(yield* head("a")), foundErased(headOf("never"))])
          yield* write([foundErased(yield* head("a"))])
          assert.strictEqual(yield* store.purgeErased({ before: retention + 1, upTo: 2 }), 1)
          assert.deepStrictEqual([...yield* inTags((tx) => tx.contents([1]))], [[1, null]])
          assert.strictEqual(yield* store.prune({ before: retention, upTo: 2 }), 1)
        })
      )

      test(
        "removes the content of many erased records with long histories (D11)",
        Effect.gen(function*() {
          const { store, write } = yield* begin
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
      )
    })
  })
