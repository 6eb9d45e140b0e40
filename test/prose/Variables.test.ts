/** The help of `rollcall start` names every variable. */
import { assert, describe, it } from "@effect/vitest"
import { variableDefinitions, variableNames, variablesHelp } from "../../src/config/Variables.ts"

describe("the help of `rollcall start`", () => {
  it("has one line for each variable, with a description, and for those of OpenTelemetry together", () => {
    const lines = variablesHelp().split("\n").slice(1).map((line) => line.trim().split(/\s{2,}/))
    const others = variableNames.filter((name) => !name.startsWith("OTEL_"))
    assert.deepStrictEqual(lines.map(([name]) => name), [...others, "OTEL_…"])
    for (const name of variableNames) assert.isNotEmpty(variableDefinitions[name].description, name)
  })

  it("fits into 100 columns", () => {
    assert.deepStrictEqual(variablesHelp().split("\n").filter((line) => line.length > 100), [])
  })
})
