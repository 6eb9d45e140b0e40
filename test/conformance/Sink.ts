/**
 * What every sink must do, whatever is behind it.
 */
import { assert, type Vitest } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Scope } from "effect/Scope"
import { randomUUID } from "node:crypto"
import { type LogIdentity, partitionKey } from "../../src/domain/ChangeEvent.ts"
import { reachedBy, Sink, type SinkError } from "../../src/publish/Sink.ts"
import { entries, entry } from "../integration/publish/Entries.ts"

/** One event as a reader of the other end sees it. */
export interface Seen {
  readonly key: string
  readonly eventId: string
  readonly stub: boolean
}

export interface Subject<R> {
  /** Another publisher to the same other end. */
  readonly sink: Effect.Effect<Layer.Layer<Sink, SinkError>, never, R>
  /** All that was published of an integration's tags, in order per key. */
  readonly seen: (integration: string) => Effect.Effect<ReadonlyArray<Seen>, never, R>
  /** More characters than the other end takes in one event. */
  readonly tooLarge: number
}

const identity = (): LogIdentity => ({ store: randomUUID().replaceAll("-", ""), lineage: 1 })
/** Every test has an integration of its own: tests share the other end. */
const integration = () => `test:${randomUUID()}`

const service = <R>(subject: Subject<R>): Effect.Effect<Sink["Service"], SinkError, R | Scope> =>
  Effect.gen(function*() {
    const context = yield* Layer.build(yield* subject.sink)
    return yield* Effect.provide(Sink, context)
  })

export const conformance = <R>(it: Vitest.MethodsNonLive<R>, subject: Subject<R>) => {
  it.effect("a store that never published is told so", () =>
    Effect.gen(function*() {
      const sink = yield* service(subject)
      assert.isNull(yield* sink.open(identity()))
    }))

  it.effect("what was published last is remembered, per store, across publishers", () =>
    Effect.gen(function*() {
      const [mine, other, name] = [identity(), identity(), integration()]
      const sink = yield* service(subject)
      yield* sink.open(mine)
      yield* sink.publish(mine, entries(1, 3, { integration: name }))
      yield* sink.publish(mine, entries(4, 5, { integration: name }))
      const next = yield* service(subject)
      assert.deepStrictEqual(yield* next.open(mine), { ...mine, ...reachedBy(entries(4, 5))! })
      assert.isNull(yield* next.open(other))
    }))

  it.effect("I5: events of a record come out in the order they went in", () =>
    Effect.gen(function*() {
      const [mine, name] = [identity(), integration()]
      const sink = yield* service(subject)
      yield* sink.open(mine)
      for (let first = 1; first <= 200; first += 40) {
        yield* sink.publish(mine, entries(first, first + 39, { integration: name }))
      }
      const seen = yield* subject.seen(name)
      assert.strictEqual(seen.length, 200)
      for (const [key, events] of Map.groupBy(seen, (event) => event.key)) {
        const expected = entries(1, 200, { integration: name }).filter((one) => partitionKey(one) === key)
        assert.deepStrictEqual(events.map((one) => one.eventId), expected.map((one) => one.eventId))
      }
    }))

  it.effect("X14: a place beyond the last event is remembered with it, and without any", () =>
    Effect.gen(function*() {
      const [mine, name] = [identity(), integration()]
      const sink = yield* service(subject)
      yield* sink.open(mine)
      yield* sink.publish(mine, entries(1, 2, { integration: name }), { position: 5, chain: "c5" })
      const second = yield* service(subject)
      assert.deepStrictEqual(yield* second.open(mine), { ...mine, position: 5, chain: "c5" })
      yield* second.publish(mine, [], { position: 9, chain: "c9" })
      const third = yield* service(subject)
      assert.deepStrictEqual(yield* third.open(mine), { ...mine, position: 9, chain: "c9" })
      assert.strictEqual((yield* subject.seen(name)).length, 2)
    }))

  it.effect("an empty batch changes nothing", () =>
    Effect.gen(function*() {
      const mine = identity()
      const sink = yield* service(subject)
      yield* sink.open(mine)
      yield* sink.publish(mine, [])
      assert.isNull(yield* sink.open(mine))
    }))

  it.effect("X15: a publisher is fenced by the next one, and nothing of it is seen", () =>
    Effect.gen(function*() {
      const [mine, name] = [identity(), integration()]
      const old = yield* service(subject)
      yield* old.open(mine)
      yield* old.publish(mine, entries(1, 2, { integration: name }))
      const next = yield* service(subject)
      yield* next.open(mine)
      const error = yield* Effect.flip(old.publish(mine, entries(3, 3, { integration: name })))
      assert.strictEqual(error.reason._tag, "Fenced")
      yield* next.publish(mine, entries(3, 4, { integration: name }))
      assert.deepStrictEqual((yield* subject.seen(name)).map((one) => one.eventId).sort(), [
        "event-1",
        "event-2",
        "event-3",
        "event-4"
      ])
    }))

  it.effect("K1: an event too large becomes a stub in its place and the stream goes on", () =>
    Effect.gen(function*() {
      const [mine, name] = [identity(), integration()]
      const sink = yield* service(subject)
      yield* sink.open(mine)
      const after = JSON.stringify({ id: "r0", text: "x".repeat(subject.tooLarge) })
      const batch = [1, 2, 3].map((position) =>
        entry({ position, id: "r0", version: position, integration: name, ...(position === 2 ? { after } : {}) })
      )
      yield* sink.publish(mine, batch)
      const seen = yield* subject.seen(name)
      assert.deepStrictEqual(seen.map((one) => [one.eventId, one.stub]), [
        ["event-1", false],
        ["event-2", true],
        ["event-3", false]
      ])
    }))
}
