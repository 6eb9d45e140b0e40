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

/** From now on, these imports lead to this program. */
export const register = () => {
  const { exports } = JSON.parse(readFileSync(here("package.json"), "utf8"))
  const entryPoints = new Map(
    Object.entries(exports).map(([path, entry]) => [path.replace(".", "rollcall"), urlOf(entry.default)])
  )
  module.registerHooks({
    resolve: (specifier, context, next) =>
      entryPoints.has(specifier)
        ? { url: entryPoints.get(specifier), format: isClone ? "module-typescript" : "module", shortCircuit: true }
        : next(specifier, /^effect(\/|$)/.test(specifier) ? { ...context, parentURL: import.meta.url } : context)
  })
}
