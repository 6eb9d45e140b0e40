/** Tests of where published events are, that every store must pass. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { type EventPlaces, relayReader } from "../../src/store/EventLog.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { reasonOf, testsIn } from "./StoreSamples.ts"

const inTags = (partition: number, offset: number, positions: ReadonlyArray<number>): EventPlaces => ({
  topic: "rollcall.ats.tag",
  partition,
  offset,
  positions
})

export const placeSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`the places of published events in a store (${name})`, () => {
    const test = testsIn(
      layer,
      Effect.flatMap(Store, (store) => Effect.map(store.takeOwnership(relayReader), (relay) => ({ relay, store })))
    )

    test("are saved with the position, and found by the position of each event", function*({ relay, store }) {
      assert.isNull(yield* store.placeOf(1))
      yield* store.saveReaderPosition(relay, relayReader, 7, {
        at: 1_000,
        // position 3 has two messages; 5 is a silent row, and 6 was answered without an offset
        places: [inTags(0, 40, [1, 3, 3, 4]), inTags(2, 9_007_199_254_740_000, [2])]
      })
      yield* store.saveReaderPosition(relay, relayReader, 9, { at: 2_000, places: [inTags(0, 50, [8])] })
      const found = yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], store.placeOf)
      const tag = (partition: number, offset: number, at = 1_000) => ({
        topic: "rollcall.ats.tag",
        partition,
        offset,
        at
      })
      assert.deepStrictEqual(found, [
        tag(0, 40),
        tag(2, 9_007_199_254_740_000),
        tag(0, 41),
        tag(0, 43),
        null,
        null,
        null,
        tag(0, 50, 2_000),
        null,
        null
      ])
    })

    test("stay as they were first saved, if the same position is saved again", function*({ relay, store }) {
      yield* store.saveReaderPosition(relay, relayReader, 1, { at: 1_000, places: [inTags(0, 5, [1])] })
      yield* store.saveReaderPosition(relay, relayReader, 1, { at: 2_000, places: [inTags(0, 6, [1])] })
      yield* store.saveReaderPosition(relay, relayReader, 1)
      assert.deepStrictEqual(yield* store.placeOf(1), {
        topic: "rollcall.ats.tag",
        partition: 0,
        offset: 5,
        at: 1_000
      })
      assert.strictEqual(yield* store.readerPosition(relayReader), 1)
    })

    test("are not saved by a relay that was replaced (I10)", function*({ relay: old, store }) {
      yield* store.takeOwnership(relayReader)
      const late = store.saveReaderPosition(old, relayReader, 1, { at: 1_000, places: [inTags(0, 5, [1])] })
      assert.strictEqual(reasonOf(yield* Effect.exit(late)), "Fenced")
      assert.isNull(yield* store.placeOf(1))
    })

    test("are deleted by their age, however many there are (I9)", function*({ relay, store }) {
      for (let position = 1; position <= 1_100; position++) {
        yield* store.saveReaderPosition(relay, relayReader, position, {
          at: position,
          places: [inTags(0, position, [position])]
        })
      }
      // more than one statement deletes
      yield* store.prunePlaces(1_050)
      const found = yield* Effect.forEach([1, 1_000, 1_001, 1_049, 1_050, 1_100], store.placeOf)
      assert.deepStrictEqual(found.map((place) => place?.at ?? null), [null, null, null, null, 1_050, 1_100])
    })
  })
