/** Tests for holds and decisions that every store must pass. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import type { Hold, Pending } from "../../src/store/Records.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { begin, employees, headOf, ids, pendingOf, stateOf, tags, testsIn } from "./StoreSamples.ts"

const opening: Omit<Hold, "id"> = {
  kind: "deletes",
  state: "open",
  reason: "all 3 records deleted",
  paths: [],
  openedAt: 1_767_225_600_000,
  decidedAt: null,
  released: 0,
  release: null,
  published: null
}
const approving = { state: "approving", release: { origin: "backfill", silent: false } } as const

/** A store with one open hold of three rows. */
const withHold = Effect.gen(function*() {
  const store = yield* begin
  const hold = yield* store.inTags((tx) =>
    Effect.tap(
      tx.openHold(opening),
      ({ id }) => tx.putPending(ids(3).map((row) => pendingOf(row, { status: "held", hold: id })))
    )
  )
  const statuses = Effect.map(store.store.pendingRows({ limit: 10 }), (rows) => rows.map(({ status }) => status))
  return { ...store, hold, statuses }
})

export const holdSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`holds of a store (${name})`, () => {
    const test = testsIn(layer, withHold)
    const plain = testsIn(layer, begin)

    test(
      "are listed newest first with their stream and number of rows until they are approved or canceled",
      function*({ hold, inTags, owner, store }) {
        const other = yield* store.transact(
          owner,
          employees,
          (tx) => tx.openHold({ ...opening, kind: "scope", paths: ["/interviews/*/title"] })
        )
        assert.isAbove(other.id, hold.id)
        const listed = yield* store.holds({ limit: 10 })
        assert.deepStrictEqual(listed.map(({ id, model, paths, rows }) => [id, model, paths, rows]), [
          [other.id, "hris.employee", ["/interviews/*/title"], 0],
          [hold.id, "ats.tag", [], 3]
        ])
        assert.deepStrictEqual((yield* store.holds({ limit: 1 })).map(({ id }) => id), [other.id])
        assert.deepStrictEqual((yield* store.holds({ before: other.id, limit: 1 })).map(({ id }) => id), [hold.id])
        yield* inTags((tx) => tx.saveHold({ ...hold, state: "canceled", decidedAt: 7 }))
        assert.deepStrictEqual((yield* store.holds({ limit: 10 })).map(({ id }) => id), [other.id])
        assert.deepStrictEqual((yield* store.holds({ states: ["canceled"], limit: 10 })).map(({ id }) => id), [
          hold.id
        ])
        assert.strictEqual((yield* store.hold(hold.id))?.decidedAt, 7)
        assert.isNull(yield* store.hold(other.id + 1))
      }
    )

    test(
      "are visible with their rows to transactions on their stream until they are decided",
      function*({ hold, inTags, owner, store }) {
        assert.deepStrictEqual(yield* inTags((tx) => tx.holds), [hold])
        assert.deepStrictEqual(yield* store.transact(owner, employees, (tx) => tx.holds), [])
        const page = { hashes: new Map(ids(3).map((id) => [id, null])), runId: 2 }
        assert.deepStrictEqual((yield* inTags((tx) => tx.read(page))).holds, [hold])
        assert.strictEqual(yield* inTags((tx) => tx.holdSize(hold.id)), 3)
        const [first, ...others] = ids(3)
        assert.deepStrictEqual(
          (yield* inTags((tx) => tx.pendingOfHold(hold.id, first!, 10))).map(({ content, id }) => [id, content]),
          others.map((id) => [id, JSON.stringify({ id })])
        )
        const rows = yield* store.heldRows(hold.id, first!, 1)
        assert.deepStrictEqual(rows.map(({ content, hold, id, published }) => [id, hold, content, published]), [
          [others[0]!, hold.id, JSON.stringify({ id: others[0] }), null]
        ])
        yield* inTags((tx) => tx.dropPending(ids(3)))
        assert.strictEqual(yield* inTags((tx) => tx.holdSize(hold.id)), 0)
      }
    )

    test("are deleted when their stream is erased (X19)", function*({ hold, owner, statuses, store }) {
      yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
      yield* store.ensureStreams([stateOf(tags)])
      assert.isNull(yield* store.hold(hold.id))
      assert.deepStrictEqual(yield* statuses, [])
    })

    plain("are not opened by a transaction that fails (I2)", function*({ inTags, store }) {
      yield* Effect.flip(inTags((tx) => Effect.andThen(tx.openHold(opening), Effect.fail("no"))))
      assert.deepStrictEqual(yield* store.holds({ limit: 10 }), [])
    })

    test(
      "a rejection applies to the rows once, and an approval can replace it (D17)",
      function*({ hold, statuses, store }) {
        assert.isTrue(yield* store.decide(hold.id, { state: "rejected" }, 7))
        assert.deepStrictEqual(yield* statuses, ["rejected", "rejected", "rejected"])
        assert.isFalse(yield* store.decide(hold.id, { state: "rejected" }, 8))
        const rejected = yield* store.hold(hold.id)
        assert.deepStrictEqual([rejected?.state, rejected?.decidedAt, rejected?.release], ["rejected", 7, null])
        assert.isTrue(yield* store.decide(hold.id, approving, 9))
        assert.isFalse(yield* store.decide(hold.id, { state: "rejected" }, 10))
        assert.deepStrictEqual((yield* store.auditLog(10)).map(({ command, at, target }) => [at, command, target]), [
          [9, "holds.approve", String(hold.id)],
          [7, "holds.reject", String(hold.id)]
        ])
      }
    )

    test("an approval is saved with its release mode, and only once (X7)", function*({ hold, inTags, store }) {
      assert.isTrue(yield* store.decide(hold.id, approving, 7))
      assert.isFalse(yield* store.decide(hold.id, { ...approving, release: { origin: null, silent: true } }, 8))
      assert.isFalse(yield* store.decide(hold.id + 1, approving, 8))
      const [stored] = yield* inTags((tx) => tx.holds)
      assert.deepStrictEqual(stored, { ...hold, ...approving, decidedAt: 7 })
    })

    test(
      "a planned approval is refused once the rows or their content have changed, and applies to the same rows",
      function*({ hold, inTags, store }) {
        const [first, second] = ids(2)
        const put = (...rows: ReadonlyArray<Partial<Pending>>) =>
          inTags((tx) => tx.putPending(rows.map((row) => pendingOf(first!, { status: "held", hold: hold.id, ...row }))))
        const plans = new Set<string | undefined>()
        /** Expects that the plan differs from all earlier ones, and that they are refused. */
        const changed = Effect.fnUntraced(function*(rows: number) {
          const plan = yield* store.holdPlan(hold.id)
          assert.strictEqual(plan?.rows, rows)
          for (const outdated of plans) {
            assert.isFalse(yield* store.decide(hold.id, { ...approving, plan: outdated }, 7))
          }
          plans.add(plan?.hash)
          return plan!.hash
        })
        assert.isNull(yield* store.holdPlan(hold.id + 1))
        const planned = yield* changed(3)
        yield* put({ runId: 99, detectedAt: 99, textHash: "another notation" })
        assert.deepStrictEqual((yield* store.holdPlan(hold.id))?.hash, planned)
        yield* put({ canonicalHash: "other content" })
        yield* changed(3)
        yield* put({ canonicalHash: "other content", deleted: true })
        yield* changed(3)
        yield* inTags((tx) => tx.dropPending([second!]))
        yield* changed(2)
        yield* put({ id: "another" }, { id: "and one more" })
        const plan = yield* changed(4)
        assert.strictEqual(plans.size, 5)
        assert.strictEqual((yield* store.hold(hold.id))?.state, "open")
        assert.isEmpty(yield* store.auditLog(10))
        assert.isTrue(yield* store.decide(hold.id, { ...approving, plan }, 7))
        assert.strictEqual((yield* store.hold(hold.id))?.state, "approving")
      }
    )

    test("a plan counts every row of a large hold", function*({ hold, inTags, store }) {
      const many = Array.from({ length: 10_001 }, (_, row) => String(row))
      yield* inTags((tx) => tx.putPending(many.map((id) => pendingOf(id, { status: "held", hold: hold.id }))))
      const plan = yield* store.holdPlan(hold.id)
      assert.strictEqual(plan?.rows, 10_004)
      yield* inTags((tx) => tx.putPending([pendingOf(many.at(-1)!, { hold: hold.id, canonicalHash: "other" })]))
      assert.notStrictEqual((yield* store.holdPlan(hold.id))?.hash, plan?.hash)
    })

    test("wake a fiber that waits for a decision", function*({ hold, store }) {
      const waiting = yield* Effect.forkChild(store.awaitDecision(0), { startImmediately: true })
      assert.isUndefined(waiting.pollUnsafe())
      yield* store.decide(hold.id, { state: "rejected" }, 7)
      assert.strictEqual(yield* Fiber.join(waiting), 1)
      assert.strictEqual(yield* store.awaitDecision(0), 1)
    })

    plain("live and absent records are counted for the guard", function*({ inTags, write }) {
      yield* write(ids(5).map((id, index) => ({ head: headOf(id, { live: index !== 0 }), events: [], wasLive: false })))
      yield* inTags((tx) =>
        tx.putPending(
          ids(4).map((id, index) =>
            pendingOf(id, { status: index < 3 ? "absent" : "staged", confirmations: index === 0 ? 0 : 1 })
          )
        )
      )
      assert.deepStrictEqual(yield* inTags((tx) => Effect.all([tx.liveCount, tx.absentCount])), [4, 2])
    })
  })
