/** How the program finds the modules that it imports, and those that a configuration file imports. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "vitest"
import { Program } from "./Program.ts"

interface Found {
  readonly url: string
  readonly format: string
  readonly shortCircuit?: boolean
}
type Resolve = (
  specifier: string,
  context: { readonly parentURL?: string },
  next: (specifier: string, context: { readonly parentURL?: string }) => Found
) => Found

const root = new URL("../../../", import.meta.url)
const at = (path: string): string => new URL(path, root).href

/** Counts the imports for which Node searches. */
const counting = `
  import module from "node:module"
  let searches = 0
  module.registerHooks({ resolve: (specifier, context, next) => { searches++; return next(specifier, context) } })
  process.on("exit", () => console.error(searches))
`

describe("the imports of the program", () => {
  const setUp = async () => {
    const { resolver } = await import(at("bin/Imports.js")) as { readonly resolver: () => Resolve }
    const resolve = resolver()
    const searches: Array<readonly [specifier: string, parentURL: string | undefined]> = []
    /** The module of an import in the file at `parentURL`. */
    const find = (specifier: string, parentURL: string) =>
      resolve(specifier, { parentURL }, (specifier, { parentURL }) => {
        searches.push([specifier, parentURL])
        return { url: `searched:${specifier}`, format: "module" }
      })
    return { find, searches }
  }

  it("of files of the program and of Effect that are beside each other need no search", async () => {
    const { find, searches } = await setUp()
    assert.deepInclude(find("./cli/terminal/Process.ts", at("src/main.ts")), {
      url: at("src/cli/terminal/Process.ts"),
      format: "module-typescript"
    })
    const effect = at("node_modules/effect/dist/Effect.js")
    assert.include(readFileSync(fileURLToPath(effect), "utf8"), '"./internal/effect.js"')
    const internal = find("./internal/effect.js", import.meta.resolve("effect/Effect"))
    assert.deepInclude(internal, {
      url: new URL("internal/effect.js", import.meta.resolve("effect/Effect")).href,
      format: "module"
    })
    assert.deepStrictEqual(searches, [])
  })

  it("of Effect lead to the copy of the program, for whichever file imports it, after one search", async () => {
    const { find, searches } = await setUp()
    const [first, second] = [at("src/main.ts"), "file:///elsewhere/rollcall.config.ts"].map((file) =>
      find("effect/Effect", file)
    )
    assert.deepStrictEqual([first?.url, second], ["searched:effect/Effect", first])
    assert.deepStrictEqual(searches, [["effect/Effect", at("bin/Imports.js")]])
  })

  it("of other files and packages are searched as everywhere", async () => {
    const { find, searches } = await setUp()
    const imports: ReadonlyArray<readonly [string, string]> = [
      ["./words.ts", "file:///elsewhere/plugin.ts"],
      ["../bin/Imports.js", at("src/main.ts")],
      ["./data.json", at("src/main.ts")],
      ["kafkajs", at("src/main.ts")],
      ["effective", at("src/main.ts")]
    ]
    for (const [specifier, file] of imports) assert.strictEqual(find(specifier, file).url, `searched:${specifier}`)
    assert.sameDeepOrderedMembers(searches, [...imports])
    assert.strictEqual(find("rollcall/plugin", "file:///elsewhere/plugin.ts").url, at("src/plugin/Plugin.ts"))
    assert.lengthOf(searches, imports.length)
  })

  it("are few enough to search for when a command starts", async () => {
    const hook = `--import=data:text/javascript,${encodeURIComponent(counting)}`
    const { code, stderr } = await new Program(["--version"], { NODE_OPTIONS: hook }).ended
    assert.strictEqual(code, 0, stderr)
    // of about 4,500 imports
    assert.isBelow(Number(stderr), 600)
  })
})
