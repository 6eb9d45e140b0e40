/** Tests for a store that several processes open, one after another or at once. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { chainOf, genesis } from "../../src/domain/ChangeEvent.ts"
import type { StreamKey } from "../../src/domain/Model.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import {
  all,
  begin,
  created,
  employees,
  ids,
  midway,
  pendingOf,
  reasonOf,
  stateOf,
  Stop,
  tags,
  testsIn
} from "./StoreSamples.ts"

/** A store's location: each build of the layer acts as one more process that opens the store. */
export type Place = Effect.Effect<Layer.Layer<Store, StoreError>, never, Scope.Scope>

export const sharedStoreSuite = (name: string, place: Place) =>
  describe(`a store that several processes open (${name})`, () => {
    /** Opens the store as one more process. */
    const opening = Effect.map(place, (layer) => Effect.map(Layer.build(Layer.fresh(layer)), Context.get(Store)))
    const test = testsIn(Layer.empty, opening)
    const live = testsIn(Layer.empty, opening, it.live)

    test("keeps all data when it is closed and opened again", function*(open) {
      const picture = Effect.gen(function*() {
        const store = yield* Store
        return {
          identity: store.identity,
          streams: yield* store.streams,
          log: yield* store.readLog(all),
          range: yield* store.logRange,
          records: yield* store.records(tags, null, 10),
          pending: yield* store.pendingRows({ limit: 10 }),
          counts: yield* store.counts,
          reader: yield* store.readerPosition("kafka")
        }
      })
      const before = yield* Effect.scoped(Effect.gen(function*() {
        const store = yield* open
        return yield* Effect.gen(function*() {
          const { change, inTags, owner } = yield* begin
          yield* change("a", "created")
          yield* change("b", "created")
          yield* change("a", "updated")
          yield* inTags((tx) =>
            Effect.all([tx.putPending([pendingOf("c")]), tx.saveState({ ...tx.state, watermark: 9 })])
          )
          yield* store.saveReaderPosition(owner, "kafka", 2)
          return { owner, picture: yield* picture }
        }).pipe(Effect.provideService(Store, store))
      }))
      const store = yield* open
      assert.deepStrictEqual(yield* Effect.provideService(picture, Store, store), before.picture)
      assert.strictEqual((yield* store.takeOwnership("capture")).epoch, before.owner.epoch + 1)
    })

    test("is new for the process that created it, and for no other", function*(open) {
      assert.isTrue((yield* open).isNew)
      assert.isFalse((yield* open).isNew)
    })

    test("has its own identity", function*(open) {
      const { identity: one } = yield* open
      const { identity: other } = yield* Effect.flatten(opening)
      assert.match(one.store, /^[0-9a-z]{8}$/)
      assert.strictEqual(one.generation, 1)
      assert.notStrictEqual(one.store, other.store)
    })

    live("is created once when many processes open it at the same time", function*(open) {
      const stores = yield* Effect.all(Array.from({ length: 4 }, () => open), { concurrency: "unbounded" })
      assert.strictEqual(new Set(stores.map((store) => store.identity.store)).size, 1)
    })

    live(
      "gives appends of two processes gap-free positions, and every reader sees them in order (X13)",
      function*(open) {
        const [first, second] = [yield* open, yield* open]
        yield* first.ensureStreams([stateOf(tags), stateOf(employees)])
        const append = (store: Store["Service"], key: StreamKey) =>
          Effect.gen(function*() {
            const owner = yield* store.takeOwnership(key.model)
            for (const id of ids(60)) {
              yield* store.transact(owner, key, (tx) => tx.write([created(id), created(`${id}x`)]))
              yield* Effect.yieldNow
            }
          })
        const seen: Array<number> = []
        const follow = Effect.gen(function*() {
          while (seen.length < 240) {
            yield* second.awaitLog(seen.length)
            const entries = yield* second.readLog({ after: seen.length, limit: 50 })
            seen.push(...entries.map((entry) => entry.position))
          }
        })
        yield* Effect.all([append(first, tags), append(second, employees), follow], { concurrency: "unbounded" })
        assert.deepStrictEqual(seen, Array.from({ length: 240 }, (_, index) => index + 1))
        const log = yield* first.readLog(all)
        assert.deepStrictEqual(log, yield* second.readLog(all))
        for (const [index, { chain, eventId }] of log.entries()) {
          assert.strictEqual(chain, chainOf(log[index - 1]?.chain ?? genesis, eventId))
        }
        assert.deepStrictEqual((yield* first.counts).map((stream) => stream.live), [120, 120])
      }
    )

    live(
      "hides no row from a continuous reader, although some appends stay open for long or roll back (X12)",
      function*(open) {
        const [first, second, reader] = [yield* open, yield* open, yield* open]
        yield* first.ensureStreams([stateOf(tags), stateOf(employees)])
        const append = (store: Store["Service"], key: StreamKey, hold: Duration.Input) =>
          Effect.gen(function*() {
            const owner = yield* store.takeOwnership(key.model)
            for (const [index, id] of ids(12).entries()) {
              yield* store.transact(owner, key, (tx) =>
                tx.write([created(id)]).pipe(
                  Effect.andThen(Effect.sleep(index % 3 === 0 ? hold : "1 millis")),
                  Effect.andThen(index % 4 === 3 ? Effect.fail(new Stop()) : Effect.void)
                )).pipe(Effect.ignore)
              yield* Effect.sleep("1 millis")
            }
          })
        const seen: Array<number> = []
        const readNext = Effect.gen(function*() {
          const { newest } = yield* reader.logRange
          const entries = yield* reader.readLog({ after: seen.length, limit: 1000 })
          seen.push(...entries.map((entry) => entry.position))
          assert.isAtLeast(seen.length, newest)
        })
        const writing = Effect.all([append(first, tags, "30 millis"), append(second, employees, "9 millis")], {
          concurrency: "unbounded"
        })
        yield* Effect.raceFirst(writing, Effect.forever(Effect.andThen(readNext, Effect.sleep("1 millis"))))
        yield* readNext
        assert.deepStrictEqual(seen, Array.from({ length: 18 }, (_, index) => index + 1))
      }
    )

    live("rejects commits of a process that another one has replaced (X9)", function*(open) {
      const [older, newer] = [yield* open, yield* open]
      yield* older.ensureStreams([stateOf(tags)])
      const frozen = yield* older.takeOwnership("capture")
      yield* older.transact(frozen, tags, (tx) => tx.write([created("a")]))
      const owner = yield* newer.takeOwnership("capture")
      yield* newer.transact(owner, tags, (tx) => tx.write([created("b")]))
      const exit = yield* Effect.exit(older.transact(frozen, tags, (tx) => tx.write([created("c")])))
      assert.strictEqual(reasonOf(exit), "Fenced")
      assert.deepStrictEqual((yield* older.readLog(all)).map((entry) => entry.id), ["a", "b"])
    })

    live(
      "makes a takeover wait for the open transaction; the older owner commits nothing after it (X20)",
      function*(open) {
        const [older, newer] = [yield* open, yield* open]
        yield* older.ensureStreams([stateOf(tags)])
        const frozen = yield* older.takeOwnership("capture")
        const inside = yield* Deferred.make<void>()
        const slow = yield* Effect.forkChild(
          older.transact(frozen, tags, (tx) =>
            tx.write([created("a")]).pipe(
              Effect.andThen(Deferred.succeed(inside, undefined)),
              Effect.andThen(Effect.sleep("300 millis"))
            ))
        )
        yield* Deferred.await(inside)
        yield* newer.takeOwnership("capture")
        // the response to the commit may arrive later than that to the takeover
        assert.deepStrictEqual((yield* newer.readLog(all)).map((entry) => entry.id), ["a"])
        yield* Fiber.join(slow)
        const late = yield* Effect.exit(older.transact(frozen, tags, (tx) => tx.write([created("b")])))
        assert.strictEqual(reasonOf(late), "Fenced")
      }
    )

    live("runs `batchReads` while another process has a transaction open, and shows committed data", function*(open) {
      const [first, second] = [yield* open, yield* open]
      yield* first.ensureStreams([stateOf(tags)])
      const owner = yield* first.takeOwnership("capture")
      yield* first.transact(owner, tags, (tx) => tx.write([created("a")]))
      const fiber = yield* midway(first, owner, tags, "b", Effect.never)
      const [entries, { newest }] = yield* second.batchReads(Effect.all([second.readLog(all), second.logRange]))
      assert.deepStrictEqual([entries.map(({ id }) => id), newest], [["a"], 1])
      yield* Fiber.interrupt(fiber)
      const failed = yield* Effect.exit(second.batchReads(Effect.andThen(second.logRange, Effect.die("given up"))))
      assert.strictEqual(failed._tag, "Failure")
      yield* second.batchReads(second.logRange)
    })

    live("waits without blocking the process while another process has a transaction open", function*(open) {
      const [first, second] = [yield* open, yield* open]
      yield* first.ensureStreams([stateOf(tags), stateOf(employees)])
      const [one, two] = [yield* first.takeOwnership("one"), yield* second.takeOwnership("two")]
      const slow = yield* midway(first, one, tags, "a", Effect.sleep("400 millis"))
      yield* second.transact(two, employees, (tx) => tx.write([created("b")]))
      yield* Fiber.join(slow)
      assert.deepStrictEqual((yield* first.readLog(all)).map((entry) => entry.id), ["a", "b"])
    })

    test("notices within a second that another process appended events", function*(open) {
      const [reader, writer] = [yield* open, yield* open]
      yield* writer.ensureStreams([stateOf(tags)])
      const owner = yield* writer.takeOwnership("capture")
      const waiter = yield* Effect.forkChild(reader.awaitLog(0), { startImmediately: true })
      // the reader's statements run in order, so the waiter has found the log empty
      yield* reader.logRange
      yield* writer.transact(owner, tags, (tx) => tx.write([created("a")]))
      assert.isUndefined(waiter.pollUnsafe())
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(waiter)
    })
  })
