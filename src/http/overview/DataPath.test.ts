import { assert, describe, it } from "@effect/vitest"
import { dataPath } from "./DataPath.ts"

describe("DataPath", () => {
  it("says of a new installation that there is no stream to read, instead of that reading works", () => {
    const [source] = dataPath({
      now: { at: 0, newest: 0, published: 0, dispatched: null },
      before: null,
      streams: [],
      rows: [],
      holds: [],
      plugins: { items: [], next: null, writes: "on", delivering: { state: "running", reason: null } },
      publishes: false,
      unpublishedSince: null
    })
    assert.deepInclude(source, { step: "source", state: "unused", remark: "There is no stream to read" })
  })
})
