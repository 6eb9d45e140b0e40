import { assert, describe, it } from "@effect/vitest"
import { fencedError } from "./sql/Fencing.ts"

describe("the error of a process that was replaced", () => {
  it("names the streams and not the shard, and says what to do with each database (X9)", () => {
    const { message } = fencedError({ scope: "capture/12", epoch: 3 })
    assert.match(message, /^another process owns "capture" now; this process stops writing\. Nothing is lost\./)
    assert.match(message, /SQLite store allows only one process: .* give each its own store/)
    assert.match(
      message,
      /PostgreSQL, .*share the work\..*take it back from .*start --once.*repeat it.*store adopt.*start this process again/
    )
  })
})
