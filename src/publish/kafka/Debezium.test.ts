import { assert, describe, it } from "@effect/vitest"
import { entry } from "../../../test/integration/publish/Entries.ts"
import { envelopeTextOf } from "./Debezium.ts"

const identity = { store: "k3f9a2c1", generation: 1 }

describe("the envelope of Debezium", () => {
  it("has the time of the change in any form in which the API sends it, else the time of its detection (W9)", () => {
    const timeOf = (changedAt: string | null) =>
      JSON.parse(envelopeTextOf(identity, { ...entry({ position: 1 }), changedAt, detectedAt: 7 }, null)).source.ts_ms
    const time = Date.parse("2026-03-29T01:30:00Z")
    for (const text of ["2026-03-29T01:30:00Z", "2026-03-29T01:30:00", "2026-03-29T03:30:00+02"]) {
      assert.strictEqual(timeOf(text), time, text)
    }
    for (const none of [null, "", "soon"]) assert.strictEqual(timeOf(none), 7)
  })
})
