/** Tests that every store must pass: statements with many rows keep every value, whatever their number. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { StreamKey } from "../../src/domain/Model.ts"
import { anyHash, queryFor, type RecordWrite } from "../../src/store/Records.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import {
  begin,
  changeOf,
  contentsAt,
  created,
  employees,
  headOf,
  headsOf,
  ids,
  pendingOf,
  tags,
  testsIn
} from "./StoreSamples.ts"

const byId = (a: { readonly id: string }, b: { readonly id: string }): number => a.id < b.id ? -1 : 1

export const manyRowsSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`many rows in one statement (${name})`, () => {
    const test = testsIn(layer, begin)

    /** Characters with a meaning in the text of an array, in JSON or in SQL. */
    const odd = `{"a",\\'é\u{1f600} NULL}$1?`
    const times: ReadonlyArray<(index: number) => number | null> = [
      () => null,
      (index) => index % 3 === 0 ? null : index % 3 === 1 ? index : 1_767_225_600_000 + index
    ]
    for (const count of [1, 5, 70, 600]) {
      for (const [form, changedAt] of times.entries()) {
        test(
          `keep every value of ${count} records ${
            form === 0 ? "with only nulls in a column" : "with nulls among numbers"
          }`,
          function*({ inTags, store, write }) {
            const heads = ids(count).map((id, index) => headOf(`${id}${odd}`, { changedAt: changedAt(index) }))
            const events = heads.map(({ changedAt, id }) => ({ cause: changedAt === null ? null : `cause of ${id}` }))
            yield* write(heads.map((head, index) => changeOf(head, "created", events[index])))
            const pending = heads.map(({ changedAt, id }) =>
              pendingOf(id, { hold: changedAt === null ? null : 2 ** 30, confirmedAt: changedAt, content: odd })
            )
            yield* inTags((tx) => tx.putPending(pending))
            const names = heads.map(({ id }) => id)
            assert.deepStrictEqual(
              [...(yield* inTags((tx) => headsOf(tx, [...names, "unknown"]))).values()].sort(byId),
              heads.map((head, index) => ({ ...head, version: 1, position: index + 1 }))
            )
            assert.deepStrictEqual(
              [...(yield* inTags((tx) => tx.read(queryFor(names, null)))).pending.values()].sort(byId),
              pending
            )
            const positions = heads.map((_, index) => index + 1)
            const contents = yield* inTags((tx) => contentsAt(tx, positions))
            assert.deepStrictEqual(
              positions.map((position) => contents.get(position)?.content),
              names.map((id) => JSON.stringify({ id, version: 1 }))
            )
            const log = yield* store.readLog({ after: 0, limit: 1000 })
            assert.deepStrictEqual(
              log.map(({ cause, id }) => [id, cause]),
              names.map((id, index) => [id, events[index]?.cause])
            )
            yield* inTags((tx) => Effect.andThen(tx.markSeen(names, 9), tx.dropPending(names.slice(1))))
            assert.deepStrictEqual(
              new Set([...(yield* inTags((tx) => headsOf(tx, names))).values()].map((head) => head.lastSeenRunId)),
              new Set([9])
            )
            assert.deepStrictEqual([...(yield* inTags((tx) => tx.read(queryFor(names, null)))).pending.keys()], [
              names[0]
            ])
            assert.strictEqual((yield* inTags((tx) => headsOf(tx, []))).size, 0)
          }
        )
      }
      test(
        `return of ${count} records of a page only those that changed, are pending, new, or read before by the run`,
        function*({ inTags, write }) {
          const names = ids(count).flatMap((id) =>
            ["changed", "pending", "new", "read", "disputed", "other", "same"]
              .map((name) => `${id} ${name}${odd}`)
          )
          const is = (name: string) => (id: string) => id.includes(` ${name}`)
          const stored = names.filter((id) => !is("new")(id))
          const heads = stored.map((id) => headOf(id, { lastSeenRunId: is("read")(id) ? 7 : 1 }))
          yield* write(heads.map((head) => changeOf(head, "created")))
          yield* inTags((tx) => tx.putPending(names.filter(is("pending")).map((id) => pendingOf(id))))
          const hashOf = (id: string) =>
            is("other")(id) ? null : is("disputed")(id) ? anyHash : is("changed")(id) ? "other" : `text of ${id}`
          const hashes = new Map(names.map((id) => [id, hashOf(id)]))
          const read = yield* inTags((tx) => tx.read({ hashes, runId: 7 }))
          assert.deepStrictEqual(names.filter(read.isUnchanged), names.filter(is("same")))
          const returned = stored.filter((id) => !is("same")(id))
          assert.deepStrictEqual(
            new Map([...read.heads].map(([id, head]) => [id, head.textHash])),
            new Map(returned.map((id) => [id, `text of ${id}`]))
          )
          assert.deepStrictEqual(
            returned.filter((id) => read.contents.get(id)?.content === JSON.stringify({ id, version: 1 })),
            returned.filter((id) => !is("read")(id) && !is("other")(id))
          )
          assert.deepStrictEqual([...read.pending.keys()].sort(), names.filter(is("pending")).sort())
        }
      )
      test(
        `find the ${count} records that repeat the old content of changed records`,
        function*({ owner, store, write }) {
          const [old, now] = [2 ** 31 + 5, 7]
          const referenceOf = (index: number, content: number) =>
            new Map([[2 ** 40 + index, { content, unannounced: true }]])
          const withReferences =
            (before: number | null, after: number) => (id: string, index: number): RecordWrite => ({
              ...created(id),
              references: {
                before: before === null ? null : referenceOf(index, before),
                after: referenceOf(index, after)
              }
            })
          yield* write(ids(count).map(withReferences(null, old)))
          yield* write(ids(count).map(withReferences(null, old)), employees)
          yield* write(ids(count).map(withReferences(old, now)))
          const stale = (key: StreamKey) => store.transact(owner, key, (tx) => tx.takeStale(1000))
          assert.deepStrictEqual(yield* stale(employees), ids(count))
          yield* store.transact(owner, employees, (tx) => tx.markRefreshed(ids(count)))
          assert.deepStrictEqual([yield* stale(tags), yield* stale(employees)], [[], []])
          // the index shows the new content: the same change again finds only the other stream
          yield* write(ids(count).map(withReferences(old, now)), employees)
          assert.deepStrictEqual([yield* stale(tags), yield* stale(employees)], [[], []])
        }
      )
    }
  })
