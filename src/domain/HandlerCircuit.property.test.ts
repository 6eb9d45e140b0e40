import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as HandlerCircuit from "./HandlerCircuit.ts"

const attempts = Schema.Array(
  Schema.Struct({
    record: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 14 })),
    succeeds: Schema.Boolean,
    after: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 700_000 }))
  })
).check(Schema.isMaxLength(60))

describe("the circuit of a handler", () => {
  it.prop("opens after ten records in a row, closes with a success, and never waits longer than ten minutes", [
    attempts
  ], ([all]) => {
    let circuit = HandlerCircuit.closed
    let failed = new Set<number>()
    let now = 0
    for (const { after, record, succeeds } of all) {
      now += after
      const before = circuit
      circuit = HandlerCircuit.afterAttempt(circuit, succeeds ? null : `r${record}`, now)
      failed = succeeds ? new Set() : failed.add(record)
      assert.strictEqual(circuit.openUntil !== null, failed.size >= 10)
      assert.strictEqual(circuit.failed.length, Math.min(10, failed.size))
      if (circuit.openUntil === null) continue
      assert.isTrue(circuit.openUntil - now <= 600_000)
      if (HandlerCircuit.isOpen(before, now)) assert.strictEqual(circuit.openUntil, before.openUntil)
      else assert.isTrue(circuit.openUntil - now >= 30_000)
    }
  })

  it("doubles its open time with each trial that fails, up to ten minutes", () => {
    let circuit = HandlerCircuit.closed
    let now = 0
    const waits: Array<number> = []
    for (let record = 0; record < 17; record++) {
      circuit = HandlerCircuit.afterAttempt(circuit, `r${record}`, now)
      if (circuit.openUntil === null) continue
      waits.push((circuit.openUntil - now) / 1000)
      now = circuit.openUntil
    }
    assert.deepStrictEqual(waits, [30, 60, 120, 240, 480, 600, 600, 600])
  })

  it("counts the open time as over if the clock was set back (W4)", () => {
    assert.isFalse(HandlerCircuit.isOpen({ failed: [], openings: 1, openUntil: 10_000_000 }, 0))
  })
})
