/** Tests for stored records that every store must pass: heads, published content, pending rows and the quarantine. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { queryFor } from "../../src/store/Records.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import {
  begin,
  changeOf,
  created,
  employees,
  headOf,
  headsOf,
  ids,
  pendingOf,
  Stop,
  tags,
  testsIn
} from "./StoreSamples.ts"

export const recordSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`records of a store (${name})`, () => {
    const test = testsIn(layer, begin)

    describe("live records", () => {
      const liveIn = ({ counts }: Store["Service"]) => Effect.map(counts, (rows) => rows.map(({ live }) => live))

      test(
        "are counted as they appear, vanish and come back",
        function*({ change, inTags, store, write }) {
          yield* write([...ids(600).map(created), { head: headOf("tombstone", { live: false }), events: [] }])
          yield* write([created("other")], employees)
          assert.deepStrictEqual(yield* liveIn(store), [600, 1])
          yield* write(ids(300).map((id) => ({ head: headOf(id, { version: 1 }), events: [] })))
          assert.deepStrictEqual(yield* liveIn(store), [600, 1])
          yield* change("r00001", "deleted")
          yield* change("r00002", "updated")
          yield* write([{ head: headOf("r00003", { live: false }), events: [], wasLive: true }])
          assert.deepStrictEqual(yield* liveIn(store), [598, 1])
          yield* change("r00001", "created")
          // several writes in one transaction
          yield* inTags(Effect.fnUntraced(function*(tx) {
            const head = (yield* headsOf(tx, ["a"])).get("a") ?? headOf("a")
            yield* tx.write([changeOf(head, "created")])
            yield* tx.write([changeOf({ ...head, version: 1 }, "deleted"), created("b")])
            assert.strictEqual(yield* tx.liveCount, 600)
          }))
          assert.deepStrictEqual(yield* liveIn(store), [600, 1])
        }
      )

      test("are not counted if their transaction is rolled back", function*({ inTags, store, write }) {
        yield* write([created("a")])
        yield* Effect.exit(inTags((tx) => Effect.andThen(tx.write([created("b")]), Effect.fail(new Stop()))))
        assert.deepStrictEqual(yield* liveIn(store), [1, 0])
      })
    })

    describe("heads", () => {
      test("keep every property, and keep their position if nothing is published", function*({ inTags, write }) {
        const head = headOf("a", {
          textHash: "t",
          canonicalHash: "c",
          fingerprint: "f",
          changedAt: 5,
          lastSeenRunId: 3
        })
        yield* write([{ head, events: [] }])
        assert.deepStrictEqual((yield* inTags((tx) => headsOf(tx, ["a"]))).get("a"), head)
        yield* write([changeOf(head, "created")])
        const published = { ...head, version: 1, position: 1 }
        assert.deepStrictEqual((yield* inTags((tx) => headsOf(tx, ["a"]))).get("a"), published)
        yield* write([{ head: { ...published, textHash: "other", live: false }, events: [] }])
        assert.deepStrictEqual((yield* inTags((tx) => headsOf(tx, ["a"]))).get("a"), {
          ...published,
          textHash: "other",
          live: false
        })
      })

      test("of two streams are separate, even with the same ids", function*({ inTags, store, write }) {
        yield* write([created("a")], employees)
        assert.strictEqual((yield* inTags((tx) => headsOf(tx, ["a"]))).size, 0)
        assert.deepStrictEqual((yield* store.records(tags, null, 10)).records, [])
      })

      test("keep the newest run as the last seen run when an older run marks them", function*({ head, inTags, write }) {
        yield* write([created("a"), created("b")])
        yield* inTags((tx) => tx.markSeen(["a", "unknown"], 7))
        yield* inTags((tx) => tx.markSeen(["a", "b"], 5))
        assert.deepStrictEqual([(yield* head("a")).lastSeenRunId, (yield* head("b")).lastSeenRunId], [7, 5])
        yield* write([changeOf({ ...(yield* head("a")), lastSeenRunId: 2 }, "updated")])
        assert.strictEqual((yield* head("a")).lastSeenRunId, 7)
      })

      test(
        "not seen since a run are found, and controls are chosen from those seen",
        function*({ change, inTags, store, write }) {
          yield* write(ids(6).map(created))
          yield* inTags((tx) => tx.markSeen(["r00001", "r00003"], 2))
          yield* change("r00004", "deleted")
          assert.deepStrictEqual(yield* store.liveNotSeenSince(tags, 2, null, 2), ["r00000", "r00002"])
          assert.deepStrictEqual(yield* store.liveNotSeenSince(tags, 2, "r00002", 2), ["r00005"])
          assert.deepStrictEqual(yield* store.controlIds(tags, 2, 5), ["r00001", "r00003"])
          assert.deepStrictEqual(yield* store.controlIds(tags, 1, 1), ["r00000", "r00005"])
          assert.deepStrictEqual(yield* store.liveNotSeenSince(employees, 2, null, 2), [])
        }
      )
    })

    describe("the page that a transaction reads when it starts", () => {
      const forget = { integration: tags.integration, model: "ats.candidate", id: "c" } as const
      const page = (...ids: ReadonlyArray<string>) => ({
        hashes: new Map(ids.map((id) => [id, `text of ${id}`])),
        runId: 7
      })

      test("is the one that the body would read", function*({ owner, store, write }) {
        yield* write([created("a"), changeOf(headOf("b", { textHash: "older" }), "created")])
        const [ahead, later] = [page("a", "b", "c"), page("a", "b", "c")]
        const found = yield* store.transact(
          owner,
          tags,
          (tx) => Effect.all([tx.read(ahead), tx.read(later), tx.read(page("a"))]),
          () => ahead
        )
        for (const { contents, heads, isUnchanged } of found.slice(0, 2)) {
          assert.deepStrictEqual([isUnchanged("a"), isUnchanged("b"), isUnchanged("c")], [true, false, false])
          assert.deepStrictEqual([...heads.keys()], ["b"])
          assert.strictEqual(contents.get("b")?.content, '{"id":"b","version":1}')
        }
        assert.strictEqual(found[2].heads.size, 0)
      })

      test("is made without the forgotten records that the last transaction read", function*({ owner, store }) {
        const made: Array<number> = []
        const read = store.transact(owner, tags, (tx) => Effect.map(tx.forgotten, ({ size }) => size), ({ size }) => {
          made.push(size)
          return page("a")
        })
        assert.strictEqual(yield* read, 0)
        const request = { state: "erasing", requestedAt: 1, doneAt: null, progress: null } as const
        yield* store.requestForgetting(owner, { ...forget, ...request }, { at: 1, command: "", target: "", detail: "" })
        assert.deepStrictEqual([yield* read, yield* read], [1, 1])
        yield* store.allowForgotten(owner, forget, { at: 1, command: "", target: "", detail: "" })
        assert.deepStrictEqual([yield* read, yield* read], [0, 0])
        assert.deepStrictEqual(made, [0, 0, 1, 1, 0])
      })
    })

    describe("records", () => {
      test(
        "are the live records in id order, page by page, with the newest position",
        function*({ change, store, write }) {
          yield* write(["b", "a", "Z", "é", "c"].map(created))
          yield* change("c", "deleted")
          yield* change("a", "updated")
          const first = yield* store.records(tags, null, 2)
          const { chain } = yield* store.chains([])
          assert.deepStrictEqual(first, {
            position: 7,
            chain,
            records: [
              { id: "Z", version: 1, generation: 1, content: '{"id":"Z","version":1}', redaction: null },
              { id: "a", version: 2, generation: 1, content: '{"id":"a","version":2}', redaction: null }
            ]
          })
          const second = yield* store.records(tags, "a", 2)
          assert.deepStrictEqual(second.records.map((record) => record.id), ["b", "é"])
          assert.deepStrictEqual(yield* store.records(tags, "é", 2), { position: 7, chain, records: [] })
        }
      )

      test("is one record if its id is given; none if it is deleted or unknown", function*({ change, store, write }) {
        yield* write(["a", "b", "c"].map(created))
        yield* change("c", "deleted")
        const found = yield* Effect.forEach(["b", "c", "x"], (id) => store.records(tags, null, 2, id))
        assert.deepStrictEqual(found.map(({ records }) => records.map(({ id }) => id)), [["b"], [], []])
        assert.deepStrictEqual(found.map(({ position }) => position), [4, 4, 4])
      })

      test(
        "a reader that continues from the first page's position misses no change made between pages (R4)",
        function*({ change, store, write }) {
          yield* write(ids(10).map(created))
          const content = new Map<string, string | null>()
          const first = yield* store.records(tags, null, 4)
          for (const record of first.records) content.set(record.id, record.content)
          yield* change("r00001", "updated")
          yield* change("r00008", "updated")
          yield* change("r00009", "deleted")
          const rest = yield* store.records(tags, "r00003", 100)
          for (const record of rest.records) content.set(record.id, record.content)
          for (const entry of yield* store.readLog({ after: first.position, limit: 100 })) {
            content.set(entry.id, entry.after)
          }
          const { records } = yield* store.records(tags, null, 100)
          const now = new Map<string, string | null>(records.map((record) => [record.id, record.content]))
          for (const [id, after] of content) if (after === null) content.delete(id)
          assert.deepStrictEqual(content, now)
        }
      )
    })

    describe("pending and quarantine", () => {
      test(
        "pending rows keep every property, and the newest observation replaces the older one",
        function*({ inTags }) {
          const older = pendingOf("a")
          const newer = pendingOf("a", {
            status: "absent",
            runId: 4,
            origin: "sweep",
            content: null,
            deleted: true,
            reason: "absent",
            textHash: "t",
            canonicalHash: "c",
            remoteId: "r",
            changedAt: "2026-01-02T00:00:00Z",
            detectedAt: 8,
            confirmations: 1,
            confirmedAt: 9
          })
          yield* inTags((tx) => tx.putPending([older]))
          assert.deepStrictEqual((yield* inTags((tx) => tx.read(queryFor(["a"], null)))).pending.get("a"), older)
          yield* inTags((tx) => tx.putPending([newer]))
          assert.deepStrictEqual((yield* inTags((tx) => tx.read(queryFor(["a", "b"], null)))).pending.get("a"), newer)
        }
      )

      test("pending rows of one status are listed in id order, page by page", function*({ inTags }) {
        yield* inTags((tx) =>
          tx.putPending(ids(7).map((id, index) => pendingOf(id, { status: index % 2 === 0 ? "staged" : "held" })))
        )
        const page = (after: string | null) =>
          Effect.map(inTags((tx) => tx.pendingWithStatus("staged", after, 3)), (rows) => rows.map((row) => row.id))
        assert.deepStrictEqual(yield* page(null), ["r00000", "r00002", "r00004"])
        assert.deepStrictEqual(yield* page("r00004"), ["r00006"])
      })

      test(
        "pending rows are listed without content for all streams or one stream, and counted by status",
        function*({ inTags, owner, store }) {
          const secret = JSON.stringify({ name: "Ada" })
          yield* inTags((tx) =>
            Effect.all([
              tx.putPending([pendingOf("b", { content: secret }), pendingOf("a", { status: "held" })]),
              tx.quarantine([{ hash: "h", reason: "no id", content: secret, redaction: null, at: 1 }]),
              tx.quarantine([{ hash: "h", reason: "no id", content: secret, redaction: null, at: 2 }])
            ])
          )
          yield* store.transact(owner, employees, (tx) => tx.putPending([pendingOf("c")]))
          const rows = yield* store.pendingRows({ limit: 10 })
          assert.deepStrictEqual(rows.map((row) => [row.model, row.id]), [
            ["ats.tag", "a"],
            ["ats.tag", "b"],
            ["hris.employee", "c"]
          ])
          assert.notInclude(JSON.stringify(rows), "Ada")
          assert.strictEqual((yield* store.pendingRows({ key: employees, limit: 10 })).length, 1)
          assert.strictEqual((yield* store.pendingRows({ limit: 2 })).length, 2)
          assert.deepStrictEqual(yield* store.counts, [
            { ...tags, live: 0, quarantined: 1, stale: 0, pending: { staged: 1, held: 1 } },
            { ...employees, live: 0, quarantined: 0, stale: 0, pending: { staged: 1 } }
          ])
        }
      )
    })
  })
