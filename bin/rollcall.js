#!/usr/bin/env node
// Checks the Node version before anything newer than it is parsed, then hands over.
// In a clone the TypeScript sources run directly; the published package carries them built, in dist/.
import { existsSync } from "node:fs"
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
const isBuilt = existsSync(new URL("../dist/main.js", import.meta.url))
const fileOf = (name) => new URL(isBuilt ? `../dist/${name}.js` : `../src/${name}.ts`, import.meta.url).href

// What a configuration imports from "rollcall" is this program, wherever the configuration stands and whatever is
// installed beside it: nothing at all where this program was installed globally.
const faces = { rollcall: fileOf("ConfigFile") }
module.registerHooks({
  resolve: (specifier, context, next) =>
    Object.hasOwn(faces, specifier)
      ? { url: faces[specifier], format: isBuilt ? "module" : "module-typescript", shortCircuit: true }
      : next(specifier, context)
})
await import(fileOf("main"))
