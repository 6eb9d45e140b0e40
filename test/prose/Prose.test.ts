import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { scan } from "./Idioms.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
/** Rows of a table quote the names that were replaced. */
const textOf = (file: string): string => {
  const text = readFileSync(join(root, file), "utf8")
  return file === "CHANGELOG.md" ? text.replace(/^\|.*$/gm, "") : text
}
const searched = [
  "src",
  "plugins",
  "templates",
  "test",
  "bench",
  "bin",
  "console",
  "deploy",
  "docs",
  "examples",
  "site/AddedPages.ts",
  "site/reference",
  "README.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md"
]
const isSearched = (file: string) => /\.(tsx?|js|md|ya?ml|json)$/.test(file) && !/(Idioms|Prose\.test)\.ts$/.test(file)

const files = (path: string): ReadonlyArray<string> =>
  statSync(join(root, path)).isDirectory()
    ? readdirSync(join(root, path)).filter((name) => name !== "node_modules").flatMap((name) => files(join(path, name)))
    : isSearched(path)
    ? [path]
    : []

describe("prose", () => {
  it("no file has a phrase that has to be read twice", () => {
    const found = searched.flatMap(files).flatMap((file) =>
      scan(textOf(file)).map(({ instead, line, phrase }) => `${file}:${line}: "${phrase}"; write: ${instead}`)
    )
    assert.deepStrictEqual(found, [])
  })

  it.each([
    ["/** Nobody waits for it. */", "Nobody"],
    ["// what\n// became of it", "became of"],
    ["/** Who asked waits. */", "Who asked"],
    [" * Whether it was told\n", "told"],
    ["`${value} is no length of time`", "is no length"],
    ["// It is kept, also\n// if it was read.", "also if"],
    ["/** The rows are not read any more. */", "any more"],
    ["/** How often the stream\n * was polled. */", "How often"],
    ["/** It waits for so long. */", "for so long"],
    ["/** The row; null = it is not stored. */", "; null ="],
    ["/** The wait, ms. */", ", ms"],
    ["// asks the store for it", "asks the store"],
    ["/** When the sweep began. */", "sweep began"]
  ])("finds a phrase in %j", (text, phrase) => {
    assert.include(scan(text).map((found) => found.phrase).join("|"), phrase)
  })

  it.each([
    "/** Returns null because of it. */",
    "There is no broker at this address.",
    "What changed?",
    "The file has no errors. Are there any more?",
    "/** The process that holds the lease. */",
    "How often does a stream poll?",
    "let last: string | null = null",
    "/** The wait, in ms. */"
  ])("finds nothing in %j", (text) => {
    assert.deepStrictEqual(scan(text), [])
  })
})
