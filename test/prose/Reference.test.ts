/** The pages of `docs/reference` are those that `npm run docs:reference` writes. */
import { assert, describe, it } from "@effect/vitest"
import { globSync } from "node:fs"
import { referencePages } from "../../site/reference/Main.ts"
import { read, root } from "../../site/reference/Markdown.ts"
import { metrics } from "../../site/reference/Metrics.ts"

describe("docs/reference", () => {
  it("is what `npm run docs:reference` writes", () => {
    const files = globSync("docs/reference/*.md", { cwd: root })
    assert.sameMembers(files, [...referencePages.keys()])
    for (const [path, text] of referencePages) assert.strictEqual(read(path), text, path)
  })

  it("has every metric, once, without a sentence's end", () => {
    const names = metrics().map(({ name }) => name)
    assert.deepStrictEqual(names, [...new Set(names)])
    const files = globSync("src/**/*.ts", { cwd: root, exclude: (name) => name.endsWith(".test.ts") })
    const quoted = new Set(
      files.flatMap((file) => read(file).match(/(?<=")(?:rollcall|process|nodejs)_\w+_\w+(?=")/g) ?? [])
    )
    assert.deepStrictEqual([...quoted].filter((name) => !names.includes(name)), [])
    assert.deepStrictEqual(metrics().filter(({ description }) => description.endsWith(".")), [])
  })
})
