// A configuration that imports "rollcall" gets this program, and its plugins that import "effect" get the copy of this
// program. This must not depend on the folder of the configuration or the packages installed there: if Rollcall is
// installed globally, none are.
import { existsSync, readFileSync } from "node:fs"
import module from "node:module"

const here = (path) => new URL(`../${path}`, import.meta.url)
/** Whether the program runs from its sources. */
export const isClone = existsSync(here("src/main.ts"))

/** The source of a compiled file. `plugins/` is next to `src/` in a clone, but inside `dist/` in the package. */
const sourceOf = (built) =>
  built.replace(/\.js$/, ".ts").replace(/^\.\/dist\/(plugins\/)?/, (_, bundled) => bundled ?? "src/")
/** The URL of a compiled file, or of its source in a clone. */
export const urlOf = (built) => here(isClone ? sourceOf(built) : built).href

const relative = /^\.\.?\/.*\.[jt]s$/

/**
 * The hook that finds the module of an import. In the folders of this program and of Effect a relative import is the path of a file, and
 * an import of Effect leads to the same file everywhere: Node's own search for each of 4,500 imports would take a third of the start-up
 * time.
 */
export const resolver = () => {
  const { exports } = JSON.parse(readFileSync(here("package.json"), "utf8"))
  const format = isClone ? "module-typescript" : "module"
  const found = new Map(
    Object.entries(exports).map(([path, entry]) => [
      path.replace(".", "rollcall"),
      { url: urlOf(entry.default), format, shortCircuit: true }
    ])
  )
  const folders = [
    [here(isClone ? "src/" : "dist/").href, format],
    [new URL("dist/", import.meta.resolve("effect/package.json")).href, "module"]
  ]
  return (specifier, context, next) => {
    if (relative.test(specifier)) {
      for (const [folder, format] of folders) {
        if (!context.parentURL?.startsWith(folder)) continue
        const { href } = new URL(specifier, context.parentURL)
        if (href.startsWith(folder)) return { url: href, format, shortCircuit: true }
      }
    }
    if (found.has(specifier)) return found.get(specifier)
    if (!/^effect(\/|$)/.test(specifier)) return next(specifier, context)
    const { format, url } = next(specifier, { ...context, parentURL: import.meta.url })
    found.set(specifier, { url, format, shortCircuit: true })
    return found.get(specifier)
  }
}

/** From now on, these imports lead to this program. */
export const register = () => {
  module.registerHooks({ resolve: resolver() })
}
