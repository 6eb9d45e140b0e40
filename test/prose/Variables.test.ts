/** The documentation names every variable, and for every secret the variable of its file. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { isSecretVariable, variableNames } from "../../src/config/RawConfig.ts"

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
