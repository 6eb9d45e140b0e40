#!/usr/bin/env node
// Checks the Node version before any code is parsed that an older version does not support, then starts the program.
// In a clone the TypeScript sources run directly; the published package contains the compiled code in dist/.
import { readFileSync } from "node:fs"
import * as CompileCache from "./CompileCache.js"
import * as Imports from "./Imports.js"
import { installedVersion, satisfies } from "./PeerVersion.js"
import * as YoungGeneration from "./YoungGeneration.js"

const [major, minor] = process.versions.node.split(".").map(Number)
if (major < 24 || (major === 24 && minor < 9)) {
  console.error(`rollcall needs Node.js 24.9 or newer, but this is Node.js ${process.versions.node}.`)
  console.error(
    Imports.isClone
      ? "  Run `npm install` and then `npx rollcall`, which uses the clone's own Node.js 24."
      : "  Install Node.js 24 for everything (https://nodejs.org/en/download, or `nvm install 24`), or only for the project that\n" +
        "  Rollcall is installed in: run `npm install node@24` there, and start Rollcall with `npx --no rollcall`."
  )
  process.exit(1)
}

const { peerDependencies } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))
// Package managers install a peer dependency of another version with only a warning, and then nothing works.
const wanted = peerDependencies.effect
const found = installedVersion("effect")
if (found === null || !satisfies(found, wanted)) {
  const state = found === null ? "is not installed" : `is installed as ${found}`
  console.error(`rollcall needs the package effect ${wanted}, which ${state}.`)
  console.error(
    Imports.isClone
      ? "  Run `npm install` in the clone."
      : found === null
      ? `  Run \`npm install effect@${wanted}\` in the project that Rollcall is installed in.`
      : "  A project that uses another version of Effect keeps Rollcall and its plugins in a package of their own, for example in a\n" +
        `  folder with its own package.json. Otherwise run \`npm install effect@${wanted}\`.`
  )
  process.exit(1)
}
// other commands end soon, or run in the terminal of a developer
if (process.argv[2] === "start") YoungGeneration.bound()
CompileCache.enable()

Imports.register()
await import(Imports.urlOf("./dist/main.js"))
