#!/usr/bin/env node
// Checks the Node version before anything newer than it is parsed, then hands over.
// In a clone the TypeScript sources run directly; the published package carries them built, in dist/.
import { existsSync, readFileSync } from "node:fs"
import module from "node:module"

const major = Number(process.versions.node.split(".")[0])
if (major < 24) {
  console.error(
    `rollcall needs Node.js 24 or newer, this is ${process.versions.node}. In a clone, run \`npm install\` and use \`npx rollcall\`: it brings Node 24 along.`
  )
  process.exit(1)
}
// Compiled code is kept between runs: half of the start-up time is compiling.
module.enableCompileCache?.()
const here = (path) => new URL(`../${path}`, import.meta.url)
const isClone = existsSync(here("src/main.ts"))
/** Beside `src/`, and under `dist/` beside what is built of that. */
const sourceOf = (built) =>
  built.replace(/\.js$/, ".ts").replace(/^\.\/dist\/(plugins\/)?/, (_, shipped) => shipped ?? "src/")
/** Of what is built, or its source. */
const urlOf = (built) => here(isClone ? sourceOf(built) : built).href

// What a configuration imports from "rollcall" is this program, and the "effect" that its plugins import is ours, wherever
// the configuration stands and whatever is installed beside it: nothing at all where this program was installed globally.
const { exports } = JSON.parse(readFileSync(here("package.json"), "utf8"))
const faces = new Map(
  Object.entries(exports).map(([path, face]) => [path.replace(".", "rollcall"), urlOf(face.default)])
)
module.registerHooks({
  resolve: (specifier, context, next) =>
    faces.has(specifier)
      ? { url: faces.get(specifier), format: isClone ? "module-typescript" : "module", shortCircuit: true }
      : next(specifier, /^effect(\/|$)/.test(specifier) ? { ...context, parentURL: import.meta.url } : context)
})
await import(urlOf("./dist/main.js"))
