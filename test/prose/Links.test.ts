import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))
const pages = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "CHANGELOG.md",
  "examples/README.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`)
]

/** Files that a page names, relative to the root: paths of sources in backticks, and targets of links. */
const filesIn = (page: string): ReadonlyArray<string> => {
  const text = readFileSync(join(root, page), "utf8")
  const sources = [...text.matchAll(/`((?:src|test|plugins)\/[\w./-]+\.ts)`/g)].map(([, path = ""]) => path)
  const links = [...text.matchAll(/\]\((?!\w+:|#)([^)#\s]+)/g)].map(([, path = ""]) => join(dirname(page), path))
  return [...sources, ...links]
}

/** The names under which links reach the headings of a page. */
const anchorsIn = (page: string): ReadonlySet<string> => {
  const text = readFileSync(join(root, page), "utf8").replaceAll(/^```[^]*?^```/gm, "")
  const names = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-")
  )
  return new Set(names)
}

/** Links of a page to headings, of the same page or of another one. */
const headingsIn = (page: string) =>
  [...readFileSync(join(root, page), "utf8").matchAll(/\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)/g)]
    .map(([, path = "", anchor = ""]) => ({ target: path === "" ? page : join(dirname(page), path), anchor }))
    .filter(({ target }) => target.endsWith(".md"))

const sourceNames: ReadonlySet<string> = new Set(
  ["src", "test", "plugins", "bench", "console"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((path) => basename(path))
  )
)

/** Sources that a page names without a folder, because its text names the folder. */
const namedSourcesIn = (page: string): ReadonlyArray<string> =>
  page === "CHANGELOG.md"
    ? []
    : [...readFileSync(join(root, page), "utf8").matchAll(/`([A-Z]\w*(?:\.\w+)*\.tsx?)`/g)].map(([, name = ""]) => name)

describe("documentation", () => {
  it("names only existing files", () => {
    const missing = pages.flatMap((page) => [
      ...filesIn(page).filter((path) => !existsSync(join(root, path))).map((path) => `${page}: ${path}`),
      ...namedSourcesIn(page).filter((name) => !sourceNames.has(name)).map((name) => `${page}: ${name}`)
    ])
    assert.deepStrictEqual(missing, [])
  })

  it("lists no failure case without a test", () => {
    const cases = readFileSync(join(root, "docs/failure-cases.md"), "utf8").matchAll(/^\| ([A-Z]\d+) \|/gm)
    const tests = ["src", "test", "plugins"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
        .filter((path) => path.endsWith(".test.ts") || (folder === "test" && path.endsWith(".ts")))
        .map((path) => readFileSync(join(root, folder, path), "utf8"))
    )
    const named = new Set(tests.flatMap((text) => text.match(/\b[A-Z]\d+\b/g) ?? []))
    assert.deepStrictEqual([...cases].flatMap(([, id = ""]) => named.has(id) ? [] : [id]), [])
  })

  it("links only to headings that exist", () => {
    const missing = pages.flatMap((page) =>
      headingsIn(page).filter(({ anchor, target }) => !anchorsIn(target).has(anchor))
        .map(({ anchor, target }) => `${page}: ${target}#${anchor}`)
    )
    assert.deepStrictEqual(missing, [])
  })

  it("has every heading that a comment names as the source of its code", () => {
    const missing = ["src/api", "src/sandbox"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
        .filter((name) => name.endsWith(".ts"))
        .flatMap((name) => {
          const [, page = "", named = ""] =
            /^ \* Source: (docs\/[\w-]+\.md), (.*)$/m.exec(readFileSync(join(root, folder, name), "utf8")) ?? []
          return [...named.matchAll(/"([^"]+)"/g)]
            .filter(([, heading]) => !readFileSync(join(root, page), "utf8").includes(`# ${heading}\n`))
            .map(([, heading]) => `${folder}/${name}: ${heading}`)
        })
    )
    assert.deepStrictEqual(missing, [])
  })
})
