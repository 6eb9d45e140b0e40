import { assert, describe, it } from "@effect/vitest"
import { lateSweeps, notReady } from "./AddressCheck.ts"

describe("the doctor's report of a process that is not ready", () => {
  it("has a line for each part, and one line for all streams, however many there are", () => {
    const streams = Array.from({ length: 24 }, (_, index) => ({
      name: `stream greenhouse:${index}/ats.tag`,
      ok: false,
      reason: `greenhouse:${index}/ats.tag failed 4 times`
    }))
    const checks = [
      { name: "store", ok: true, reason: null },
      ...streams,
      { name: "kafka", ok: false, reason: "no broker responds. Check KAFKA_BROKERS." }
    ]
    assert.deepStrictEqual(notReady(checks).map(({ message }) => message), [
      "is not ready: no broker responds. Check KAFKA_BROKERS",
      "is not ready: greenhouse:0/ats.tag failed 4 times; 23 other streams are not ready either"
    ])
    assert.deepStrictEqual(notReady(streams.slice(0, 1)).map(({ message }) => message), [
      "is not ready: greenhouse:0/ats.tag failed 4 times"
    ])
  })

  it("has a warning about late sweeps, although the process is ready (R5)", () => {
    const check = (reason: string | null) => [{ name: "sweeps", ok: true, reason }]
    assert.deepStrictEqual(lateSweeps(check(null)), [])
    const [line] = lateSweeps(check("The last complete sweep of a:1/ats.tag ended 13h ago."))
    assert.deepInclude(line, { message: "The last complete sweep of a:1/ats.tag ended 13h ago", status: "warning" })
  })
})
