/**
 * Tests that every sink must pass.
 */
import { assert, type Vitest } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
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

export const conformance = <R>(it: Vitest.MethodsNonLive<R>, shared: TestSink<R>) => {
  /** An open publisher with a store, an integration and a destination of its own. `service`: a further publisher, not open yet. */
  const begin = Effect.gen(function*() {
    const [destination, mine, name] = [randomUUID(), identity(), `test:${randomUUID()}`]
    const service = Effect.map(
      Effect.flatMap(shared.sink(destination), (layer) => Layer.build(layer)),
      (context) => Context.get(context, Sink)
    )
    const sink = yield* service
    assert.isNull(yield* sink.open(mine))
    return {
      mine,
      name,
      service,
      sink,
      seen: shared.seen(destination, name),
      topic: shared.topic(destination, name),
      /** Entries of the integration. */
      events: (first: number, last: number, hand: Parameters<typeof entries>[2] = {}) =>
        entries(first, last, { ...hand, integration: name })
    }
  })

  it.effect("a store that never published gets no checkpoint, and a new publisher gets that of the last publication", () =>
    Effect.gen(function*() {
      const { events, mine, service, sink } = yield* begin
      yield* sink.publish(mine, events(1, 3))
      yield* sink.publish(mine, events(4, 5))
      const next = yield* service
      assert.deepStrictEqual(yield* openBare(next, mine), { ...mine, ...checkpointOf(entries(4, 5))! })
    }))

  it.effect("the publisher learns where each event is, and the next publisher learns it of the last batch", () =>
    Effect.gen(function*() {
      const { events, mine, name, seen, service, sink, topic } = yield* begin
      // deletes, some of which have a second message; and an event that does not fit into a send with others
      const first = [
        ...events(1, 20),
        ...events(21, 24, { kind: "deleted" }),
        entry({ position: 25, integration: name, after: JSON.stringify({ id: "r4", text: "x".repeat(900_000) }) }),
        ...events(26, 30)
      ]
      const second = events(31, 34)
      const places = [...yield* sink.publish(mine, first), ...yield* sink.publish(mine, second)]
      const found = places.flatMap(({ offset, partition, positions, topic }) =>
        positions.flatMap((position, index) =>
          positions.indexOf(position) < index ? [] : [{ topic, partition, offset: offset + index, position }]
        )
      )
      const published = yield* seen
      const expected = [...first, ...second].map(({ eventId, position }) => {
        const { offset, partition } = published.find((event) => event.eventId === eventId)!
        return { topic, partition, offset, position }
      })
      assert.deepStrictEqual(found.toSorted((one, other) => one.position - other.position), expected)
      const { published: last } = (yield* (yield* service).open(mine))!
      assert.deepStrictEqual(last?.places.flatMap(({ positions }) => positions).toSorted(), [31, 32, 33, 34])
      assert.deepStrictEqual(last?.places, places.slice(-(last?.places.length ?? 0)))
    }))

  it.effect("a store cannot publish where another store has published, until it is adopted in a later generation (X14)", () =>
    Effect.gen(function*() {
      const { events, mine: first, seen, service, sink } = yield* begin
      const second = identity()
      yield* sink.publish(first, events(1, 3))
      const other = yield* service
      const error = yield* Effect.flip(other.open(second))
      assert.strictEqual(error.reason._tag, "ForeignStore")
      for (const part of [first.store, second.store, "rollcall store adopt", "ROLLCALL_TOPIC"]) {
        assert.include(error.message, part)
      }
      const adopted = { ...second, generation: 2 }
      assert.deepStrictEqual(yield* openBare(other, adopted), { ...first, ...checkpointOf(entries(1, 3))! })
      yield* other.publish(adopted, events(1, 2, { eventId: "adopted" }))
      assert.strictEqual((yield* Effect.flip(sink.open(first))).reason._tag, "ForeignStore")
      assert.strictEqual((yield* seen).length, 5)
    }))

  it.effect("a store that was frozen while another one took over publishes no event when it wakes (X15)", () =>
    Effect.gen(function*() {
      const { events, mine: frozen, seen, service, sink: old } = yield* begin
      const next = { ...identity(), generation: 2 }
      yield* old.publish(frozen, events(1, 2))
      const sink = yield* service
      yield* sink.open(next)
      yield* sink.publish(next, events(1, 2))
      const error = yield* Effect.flip(old.publish(frozen, events(3, 3)))
      assert.strictEqual(error.reason._tag, "Fenced")
      // its own store still has it as the owner, so it opens the sink again
      assert.strictEqual((yield* Effect.flip(old.open(frozen))).reason._tag, "ForeignStore")
      assert.strictEqual((yield* Effect.flip(sink.publish(next, entries(3, 3)))).reason._tag, "Fenced")
      assert.strictEqual((yield* sink.open(next))?.store, next.store)
      assert.strictEqual((yield* seen).length, 4)
    }))

  it.effect("events of a record are published in order (I5)", () =>
    Effect.gen(function*() {
      const { events, mine, seen, sink } = yield* begin
      for (let first = 1; first <= 200; first += 40) {
        yield* sink.publish(mine, events(first, first + 39))
      }
      const found = yield* seen
      assert.strictEqual(found.length, 200)
      for (const [key, own] of Map.groupBy(found, (event) => event.key)) {
        const expected = events(1, 200).filter((one) => partitionKey(one) === key)
        assert.deepStrictEqual(own.map((one) => one.eventId), expected.map((one) => one.eventId))
      }
    }))

  it.effect("a position after the last event is saved, with and without events in the batch (X14)", () =>
    Effect.gen(function*() {
      const { events, mine, seen, service, sink } = yield* begin
      yield* sink.publish(mine, events(1, 2), { position: 5, chain: "c5" })
      const second = yield* service
      assert.deepStrictEqual(yield* openBare(second, mine), { ...mine, position: 5, chain: "c5" })
      yield* second.publish(mine, [], { position: 9, chain: "c9" })
      const third = yield* service
      assert.deepStrictEqual(yield* third.open(mine), { ...mine, position: 9, chain: "c9" })
      assert.strictEqual((yield* seen).length, 2)
    }))

  it.effect("an empty batch changes nothing", () =>
    Effect.gen(function*() {
      const { mine, sink } = yield* begin
      yield* sink.publish(mine, [])
      assert.isNull(yield* sink.open(mine))
    }))

  it.effect("the next publisher fences the previous one, whose events are not visible (X15)", () =>
    Effect.gen(function*() {
      const { events, mine, seen, service, sink: old } = yield* begin
      yield* old.publish(mine, events(1, 2))
      const next = yield* service
      yield* next.open(mine)
      const error = yield* Effect.flip(old.publish(mine, events(3, 3)))
      assert.strictEqual(error.reason._tag, "Fenced")
      yield* next.publish(mine, events(3, 4))
      assert.sameMembers((yield* seen).map((one) => one.eventId), events(1, 4).map((one) => one.eventId))
    }))

  it.effect("an event that is too large becomes a stub at its position, and publishing continues (K1)", () =>
    Effect.gen(function*() {
      const { mine, name, seen, sink } = yield* begin
      const after = JSON.stringify({ id: "r0", text: "x".repeat(shared.tooLarge) })
      const batch = [1, 2, 3].map((position) =>
        entry({ position, id: "r0", version: position, integration: name, ...(position === 2 ? { after } : {}) })
      )
      yield* sink.publish(mine, batch)
      const found = yield* seen
      assert.deepStrictEqual(found.map((one) => [one.eventId, one.stub]), [
        ["event-1", false],
        ["event-2", true],
        ["event-3", false]
      ])
    }))
}
