import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { IdRanges } from "./Schemas.ts"

describe("ranges of deliveries", () => {
  it("ascend and do not overlap, so that each delivery is counted once", () => {
    const isValid = Schema.is(IdRanges)
    assert.isTrue(isValid([]))
    assert.isTrue(isValid([{ first: 1, last: 3 }, { first: 4, last: 4 }]))
    assert.isFalse(isValid([{ first: 3, last: 1 }]))
    assert.isFalse(isValid([{ first: 1, last: 3 }, { first: 3, last: 5 }]))
    assert.isFalse(isValid([{ first: 4, last: 5 }, { first: 1, last: 2 }]))
  })
})
