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
const built = new URL("../dist/main.js", import.meta.url)
await import(existsSync(built) ? built.href : new URL("../src/main.ts", import.meta.url).href)
