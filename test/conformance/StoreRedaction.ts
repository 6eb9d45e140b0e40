/** Tests for stored content that is redacted later, which every store must pass: log rows, pending rows and the quarantine. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { LogContent, Quarantined } from "../../src/store/Records.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { all, begin, changeOf, contentsAt, created, employees, pendingOf, tags, testsIn } from "./StoreSamples.ts"

const unreadable = (hash: string, at: number): Quarantined => ({
  hash,
  reason: "no id",
  content: `{"at":${at}}`,
  redaction: "r",
  at
})

export const redactionSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`redaction of stored content (${name})`, () => {
    const test = testsIn(layer, begin)

    test(
      "rows of the log are read from the newest to the oldest with the content before them, silent rows too, and only of one stream",
      function*({ head, inTags, write }) {
        yield* write([{ ...created("a"), redaction: "r1" }, { ...created("b"), silent: true }]) // 1, 2
        yield* write([created("a")], employees) // 3
        yield* write([{ ...changeOf(yield* head("a"), "updated"), redaction: "r2" }]) // 4
        yield* write([changeOf(yield* head("b"), "deleted")]) // 5
        const seen = (before: number, limit: number) =>
          Effect.map(
            inTags((tx) => tx.logContents(before, limit)),
            (rows) =>
              rows.map(({ after, before, kind, position, redaction }) => [
                position,
                kind,
                before?.content ?? null,
                before?.redaction ?? null,
                after?.content ?? null,
                redaction
              ])
          )
        const [a1, a2, b1] = ['{"id":"a","version":1}', '{"id":"a","version":2}', '{"id":"b","version":1}']
        assert.deepStrictEqual(yield* seen(9, 3), [
          [5, "deleted", b1, null, null, null],
          [4, "updated", a1, "r1", a2, "r2"],
          [2, "created", null, null, b1, null]
        ])
        assert.deepStrictEqual(yield* seen(2, 3), [[1, "created", null, null, a1, "r1"]])
        assert.deepStrictEqual(yield* seen(1, 3), [])
      }
    )

    test(
      "removals are counted once their transaction is committed, and not if it is rolled back (I11)",
      function*({ change, inTags, store }) {
        yield* change("a", "created")
        const removals = Effect.map(store.chains([1]), ({ removals }) => removals)
        yield* Effect.exit(inTags((tx) => Effect.andThen(tx.noteRemoval, Effect.die("rolled back"))))
        assert.strictEqual(yield* removals, 0)
        yield* inTags((tx) => tx.noteRemoval)
        yield* change("a", "updated")
        yield* inTags((tx) => tx.noteRemoval)
        assert.strictEqual(yield* removals, 2)
      }
    )

    test(
      "rewritten rows are read with their new content, before and after; positions, ids, versions and chains stay (X14)",
      function*({ change, inTags, store }) {
        for (const kind of ["created", "updated", "deleted"] as const) yield* change("a", kind)
        const before = yield* store.readLog(all)
        const chains = yield* store.chains([1, 2, 3])
        const hidden = (row: LogContent) => ({
          ...row,
          remoteId: null,
          after: row.after === null ? null : `{"hidden":${row.position}}`,
          changes: row.kind === "updated" ? '[{"path":"/hidden"}]' : row.changes,
          redaction: "r"
        })
        yield* inTags((tx) => Effect.flatMap(tx.logContents(9, 9), (rows) => tx.rewriteLog(rows.map(hidden))))
        const after = yield* store.readLog(all)
        assert.deepStrictEqual(after.map((entry) => [entry.before, entry.after, entry.remoteId]), [
          [null, '{"hidden":1}', null],
          ['{"hidden":1}', '{"hidden":2}', null],
          ['{"hidden":2}', null, null]
        ])
        assert.strictEqual(after[1]!.changes, '[{"path":"/hidden"}]')
        const kept = ({ eventId, kind, position, version }: typeof after[number]) => [position, eventId, version, kind]
        assert.deepStrictEqual(after.map(kept), before.map(kept))
        assert.deepStrictEqual(yield* store.chains([1, 2, 3]), chains)
        assert.deepStrictEqual((yield* inTags((tx) => contentsAt(tx, [2]))).get(2), {
          content: '{"hidden":2}',
          redaction: "r"
        })
        assert.deepStrictEqual((yield* store.records(tags, null, 10)).records, [])
      }
    )

    test(
      "a row that was emptied because its source erased the record stays empty and is not rewritten (D11)",
      function*({ change, head, inTags, store, write }) {
        yield* change("a", "created")
        yield* write([{ ...changeOf(yield* head("a"), "deleted"), erased: true }])
        const rows = yield* inTags((tx) => tx.logContents(9, 9))
        assert.strictEqual(yield* store.purgeErased({ before: Number.MAX_SAFE_INTEGER, upTo: 2 }), 1)
        yield* inTags((tx) =>
          tx.rewriteLog(rows.map((row) => ({ ...row, after: row.after?.content ?? null, redaction: "r" })))
        )
        assert.isNull((yield* inTags((tx) => contentsAt(tx, [1]))).get(1))
        assert.deepStrictEqual((yield* store.readLog(all)).map(({ position }) => position), [2])
      }
    )

    test("pending rows of every status are read in id order, and keep the id of their rules", function*({ inTags }) {
      yield* inTags((tx) =>
        tx.putPending([
          pendingOf("b", { content: "{}", redaction: "r" }),
          pendingOf("a", { status: "held" }),
          pendingOf("c", { status: "absent" })
        ])
      )
      const rows = yield* inTags((tx) => tx.allPending(null, 2))
      assert.deepStrictEqual(rows.map(({ id, redaction }) => [id, redaction]), [["a", null], ["b", "r"]])
      assert.deepStrictEqual((yield* inTags((tx) => tx.allPending("b", 2))).map(({ id }) => id), ["c"])
    })

    test(
      "a quarantined row is one row with a count and its newest content, even if one call has it twice (S1)",
      function*({ inTags, store }) {
        yield* inTags((tx) => tx.quarantine([unreadable("h", 1), unreadable("i", 1), unreadable("h", 2)]))
        yield* inTags((tx) => tx.quarantine([unreadable("h", 3)]))
        const rows = yield* inTags((tx) => tx.quarantined(null, 10))
        assert.deepStrictEqual(rows.map((row) => [row.hash, row.occurrences, row.firstAt, row.lastAt, row.content]), [
          ["h", 3, 2, 3, '{"at":3}'],
          ["i", 1, 1, 1, '{"at":1}']
        ])
        assert.deepStrictEqual((yield* inTags((tx) => tx.quarantined("h", 10))).map(({ hash }) => hash), ["i"])
        assert.strictEqual(yield* store.pruneQuarantine(3), 1)
        assert.strictEqual((yield* store.counts)[0]?.quarantined, 1)
      }
    )

    test(
      "quarantined rows with a text are dropped, and others stay, also of other integrations",
      function*({ inTags, owner, store }) {
        yield* inTags((tx) => tx.quarantine([unreadable("h", 1), unreadable("i", 2)]))
        yield* store.transact(owner, employees, (tx) => tx.quarantine([unreadable("h", 1)]))
        assert.strictEqual(yield* store.dropQuarantinedCopies(owner, tags.integration, `{"at":1}`), 1)
        assert.deepStrictEqual((yield* inTags((tx) => tx.quarantined(null, 9))).map(({ hash }) => hash), ["i"])
        assert.deepStrictEqual((yield* store.counts).map(({ quarantined }) => quarantined), [1, 1])
      }
    )

    test("quarantined rows that are one row once they are redacted are counted together (S1)", function*({ inTags }) {
      yield* inTags((tx) => tx.quarantine([unreadable("h", 1), unreadable("i", 5), unreadable("j", 3)]))
      const rows = yield* inTags((tx) => tx.quarantined(null, 2))
      yield* inTags((tx) =>
        tx.replaceQuarantined(["h", "i"], rows.map((row) => ({ ...row, hash: "j", content: "{}", redaction: "s" })))
      )
      const [row, ...more] = yield* inTags((tx) => tx.quarantined(null, 10))
      assert.deepStrictEqual([row?.hash, row?.occurrences, row?.firstAt, row?.lastAt, more.length], ["j", 3, 1, 5, 0])
    })
  })
