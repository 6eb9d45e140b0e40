/**
 * Tests that every sink must pass.
 */
import { assert, type Vitest } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Scope } from "effect/Scope"
import { randomUUID } from "node:crypto"
import { type LogIdentity, partitionKey } from "../../src/domain/ChangeEvent.ts"
import { checkpointOf, Sink, type SinkCheckpoint, type SinkError } from "../../src/publish/Sink.ts"
import { entries, entry } from "../integration/publish/Entries.ts"

/** One published event as a consumer sees it. */
export interface Seen {
  readonly key: string
  readonly eventId: string
  readonly stub: boolean
  readonly partition: number
  readonly offset: number
}

/** The checkpoint without the places of its events. */
const bare = ({ chain, generation, position, store }: SinkCheckpoint) => ({ chain, generation, position, store })
const openBare = (sink: Sink["Service"], identity: LogIdentity) =>
  Effect.map(sink.open(identity), (found) => found && bare(found))

export interface TestSink<R> {
  /** A new publisher to a destination; the same name is the same destination. */
  readonly sink: (destination: string) => Effect.Effect<Layer.Layer<Sink, SinkError>, never, R>
  /** All published events of an integration's tags at a destination, in order per key. */
  readonly seen: (destination: string, integration: string) => Effect.Effect<ReadonlyArray<Seen>, never, R>
  /** The topic of an integration's tags at a destination. */
  readonly topic: (destination: string, integration: string) => string
  /** More characters than the destination accepts in one event. */
  readonly tooLarge: number
}

const identity = (): LogIdentity => ({ store: randomUUID().replaceAll("-", ""), generation: 1 })
const integration = () => `test:${randomUUID()}`

const publisher = <R>(tested: TestSink<R>, destination: string): Effect.Effect<Sink["Service"], SinkError, R | Scope> =>
  Effect.gen(function*() {
    const context = yield* Layer.build(yield* tested.sink(destination))
    return yield* Effect.provide(Sink, context)
  })

export const conformance = <R>(it: Vitest.MethodsNonLive<R>, shared: TestSink<R>) => {
  /** Every test has its own destination. */
  const ownDestination = () => {
    const destination = randomUUID()
    return {
      service: publisher(shared, destination),
      seen: (integration: string) => shared.seen(destination, integration),
      topic: (integration: string) => shared.topic(destination, integration)
    }
  }

  it.effect("a store that never published gets no checkpoint", () =>
    Effect.gen(function*() {
      const { service } = ownDestination()
      const sink = yield* service
      assert.isNull(yield* sink.open(identity()))
    }))

  it.effect("a new publisher gets the checkpoint of the last publication", () =>
    Effect.gen(function*() {
      const { service } = ownDestination()
      const [mine, name] = [identity(), integration()]
      const sink = yield* service
      yield* sink.open(mine)
      yield* sink.publish(mine, entries(1, 3, { integration: name }))
      yield* sink.publish(mine, entries(4, 5, { integration: name }))
      const next = yield* service
      assert.deepStrictEqual(yield* openBare(next, mine), { ...mine, ...checkpointOf(entries(4, 5))! })
    }))

  it.effect("the publisher learns where each event is, and the next publisher learns it of the last batch", () =>
    Effect.gen(function*() {
      const { seen, service, topic } = ownDestination()
      const [mine, name] = [identity(), integration()]
      const sink = yield* service
      yield* sink.open(mine)
      // deletes, some of which have a second message; and an event that does not fit into a send with others
      const first = [
        ...entries(1, 20, { integration: name }),
        ...entries(21, 24, { integration: name, kind: "deleted" }),
        entry({ position: 25, integration: name, after: JSON.stringify({ id: "r4", text: "x".repeat(900_000) }) }),
        ...entries(26, 30, { integration: name })
      ]
      const second = entries(31, 34, { integration: name })
      const places = [...yield* sink.publish(mine, first), ...yield* sink.publish(mine, second)]
      const found = places.flatMap(({ offset, partition, positions, topic }) =>
        positions.flatMap((position, index) =>
          positions.indexOf(position) < index ? [] : [{ topic, partition, offset: offset + index, position }]
        )
      )
      const events = yield* seen(name)
      const expected = [...first, ...second].map(({ eventId, position }) => {
        const { offset, partition } = events.find((event) => event.eventId === eventId)!
        return { topic: topic(name), partition, offset, position }
      })
      assert.deepStrictEqual(found.toSorted((one, other) => one.position - other.position), expected)
      const { published } = (yield* (yield* service).open(mine))!
      assert.deepStrictEqual(published?.places.flatMap(({ positions }) => positions).toSorted(), [31, 32, 33, 34])
      assert.deepStrictEqual(published?.places, places.slice(-(published?.places.length ?? 0)))
    }))

  it.effect("a store cannot publish where another store has published, until it is adopted in a later generation (X14)", () =>
    Effect.gen(function*() {
      const { seen, service } = ownDestination()
      const [first, second, name] = [identity(), identity(), integration()]
      const sink = yield* service
      yield* sink.open(first)
      yield* sink.publish(first, entries(1, 3, { integration: name }))
      const other = yield* service
      const error = yield* Effect.flip(other.open(second))
      assert.strictEqual(error.reason._tag, "ForeignStore")
      for (const part of [first.store, second.store, "rollcall store adopt", "ROLLCALL_TOPIC"]) {
        assert.include(error.message, part)
      }
      const adopted = { ...second, generation: 2 }
      assert.deepStrictEqual(yield* openBare(other, adopted), { ...first, ...checkpointOf(entries(1, 3))! })
      yield* other.publish(adopted, entries(1, 2, { integration: name, eventId: "adopted" }))
      assert.strictEqual((yield* Effect.flip(sink.open(first))).reason._tag, "ForeignStore")
      assert.strictEqual((yield* seen(name)).length, 5)
    }))

  it.effect("a store that was frozen while another one took over publishes no event when it wakes (X15)", () =>
    Effect.gen(function*() {
      const { seen, service } = ownDestination()
      const [frozen, next, name] = [identity(), { ...identity(), generation: 2 }, integration()]
      const old = yield* service
      yield* old.open(frozen)
      yield* old.publish(frozen, entries(1, 2, { integration: name }))
      const sink = yield* service
      yield* sink.open(next)
      yield* sink.publish(next, entries(1, 2, { integration: name }))
      const error = yield* Effect.flip(old.publish(frozen, entries(3, 3, { integration: name })))
      assert.strictEqual(error.reason._tag, "Fenced")
      // its own store still has it as the owner, so it opens the sink again
      assert.strictEqual((yield* Effect.flip(old.open(frozen))).reason._tag, "ForeignStore")
      assert.strictEqual((yield* Effect.flip(sink.publish(next, entries(3, 3)))).reason._tag, "Fenced")
      assert.strictEqual((yield* sink.open(next))?.store, next.store)
      assert.strictEqual((yield* seen(name)).length, 4)
    }))

  it.effect("events of a record are published in order (I5)", () =>
    Effect.gen(function*() {
      const { seen, service } = ownDestination()
      const [mine, name] = [identity(), integration()]
      const sink = yield* service
      yield* sink.open(mine)
      for (let first = 1; first <= 200; first += 40) {
        yield* sink.publish(mine, entries(first, first + 39, { integration: name }))
      }
      const found = yield* seen(name)
      assert.strictEqual(found.length, 200)
      for (const [key, events] of Map.groupBy(found, (event) => event.key)) {
        const expected = entries(1, 200, { integration: name }).filter((one) => partitionKey(one) === key)
        assert.deepStrictEqual(events.map((one) => one.eventId), expected.map((one) => one.eventId))
      }
    }))

  it.effect("a position after the last event is saved, with and without events in the batch (X14)", () =>
    Effect.gen(function*() {
      const { seen, service } = ownDestination()
      const [mine, name] = [identity(), integration()]
      const sink = yield* service
      yield* sink.open(mine)
      yield* sink.publish(mine, entries(1, 2, { integration: name }), { position: 5, chain: "c5" })
      const second = yield* service
      assert.deepStrictEqual(yield* openBare(second, mine), { ...mine, position: 5, chain: "c5" })
      yield* second.publish(mine, [], { position: 9, chain: "c9" })
      const third = yield* service
      assert.deepStrictEqual(yield* third.open(mine), { ...mine, position: 9, chain: "c9" })
      assert.strictEqual((yield* seen(name)).length, 2)
    }))

  it.effect("an empty batch changes nothing", () =>
    Effect.gen(function*() {
      const { service } = ownDestination()
      const mine = identity()
      const sink = yield* service
      yield* sink.open(mine)
      yield* sink.publish(mine, [])
      assert.isNull(yield* sink.open(mine))
    }))

  it.effect("the next publisher fences the previous one, whose events are not visible (X15)", () =>
    Effect.gen(function*() {
      const { seen, service } = ownDestination()
      const [mine, name] = [identity(), integration()]
      const old = yield* service
      yield* old.open(mine)
      yield* old.publish(mine, entries(1, 2, { integration: name }))
      const next = yield* service
      yield* next.open(mine)
      const error = yield* Effect.flip(old.publish(mine, entries(3, 3, { integration: name })))
      assert.strictEqual(error.reason._tag, "Fenced")
      yield* next.publish(mine, entries(3, 4, { integration: name }))
      assert.deepStrictEqual((yield* seen(name)).map((one) => one.eventId).sort(), [
        "event-1",
        "event-2",
        "event-3",
        "event-4"
      ])
    }))

  it.effect("an event that is too large becomes a stub at its position, and publishing continues (K1)", () =>
    Effect.gen(function*() {
      const { seen, service } = ownDestination()
      const [mine, name] = [identity(), integration()]
      const sink = yield* service
      yield* sink.open(mine)
      const after = JSON.stringify({ id: "r0", text: "x".repeat(shared.tooLarge) })
      const batch = [1, 2, 3].map((position) =>
        entry({ position, id: "r0", version: position, integration: name, ...(position === 2 ? { after } : {}) })
      )
      yield* sink.publish(mine, batch)
      const found = yield* seen(name)
      assert.deepStrictEqual(found.map((one) => [one.eventId, one.stub]), [
        ["event-1", false],
        ["event-2", true],
        ["event-3", false]
      ])
    }))
}
