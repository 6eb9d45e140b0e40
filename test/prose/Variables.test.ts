/** The documentation and the help of `rollcall start` name every variable; the documentation also names the file of every secret. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { isSecretVariable, variableDefinitions, variableNames, variablesHelp } from "../../src/config/Variables.ts"

const page = readFileSync(new URL("../../docs/configuration.md", import.meta.url), "utf8")

describe("docs/configuration.md", () => {
  it("names every variable", () => {
    assert.deepStrictEqual(variableNames.filter((name) => !page.includes(`\`${name}\``)), [])
  })

  it("names the _FILE of every secret", () => {
    const files = variableNames.filter(isSecretVariable).map((name) => `${name}_FILE`)
    assert.deepStrictEqual(files.filter((name) => !page.includes(`\`${name}\``)), [])
  })
})

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
