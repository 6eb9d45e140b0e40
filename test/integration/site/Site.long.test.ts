/** The documentation site is built from the Markdown files. The build fails if a page links to a page that does not exist. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { generated, linkedPages, pages, pathOf } from "../../../site/AddedPages.ts"
import { root } from "../../../site/reference/Markdown.ts"

const built = (path: string): string => join(root, "site/.vitepress/dist", `${path}.html`)

describe("npm run docs:build", () => {
  it("builds every page, and none loads anything from other servers", () => {
    execFileSync("npm", ["run", "docs:build"], { cwd: root, encoding: "utf8" })
    const paths = [
      ...pages.map(pathOf),
      ...linkedPages().map(([path]) => path),
      ...Object.keys(generated).map((name) => `reference/${name}`)
    ]
    assert.isAbove(paths.length, 50)
    assert.deepStrictEqual(paths.filter((path) => !existsSync(built(path))), [])
    const loading = paths.filter((path) =>
      /<(script|img|iframe)[^>]* src="http|<link[^>]* href="http/.test(readFileSync(built(path), "utf8"))
    )
    assert.deepStrictEqual(loading, [])
    assert.include(readFileSync(built("architecture"), "utf8"), '<img alt="diagram"')
    assert.include(readFileSync(built("reference/commands"), "utf8"), "rollcall deadletters redrive")
  })
})
