import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { sequenceOf } from "./ChangeEvent.ts"

const Place = Schema.Struct({
  generation: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2 ** 31 - 1 })),
  position: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))
})

describe("the sequence of an event", () => {
  it.prop(
    "sorts as text by generation, then by position, for any two events of a store",
    [Place, Place],
    ([one, other]) => {
      const [first, second] = [one, other].map(({ generation, position }) =>
        sequenceOf({ store: "s", generation }, position)
      )
      const later = one.generation - other.generation || one.position - other.position
      assert.strictEqual(first?.length, second?.length)
      assert.strictEqual(String(first).localeCompare(String(second), "en"), Math.sign(later))
      assert.strictEqual(String(first) < String(second), later < 0)
    }
  )
})
