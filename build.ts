/**
 * Builds the parts of the npm package that a clone does not contain: `dist` (compiled code, types and the console) and
 * `examples/plugins` (the sources of the bundled plugins, as anybody's plugins import Rollcall). `node build.ts console` builds only the
 * console.
 */
import { execFileSync } from "node:child_process"
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { build as buildConsole } from "./console/Build.ts"

const root = import.meta.dirname
const inRoot = (path: string): string => join(root, path)

/** Replaces the imports that only a clone has, in all files of a folder. */
const replaceImports = (folder: string, replacement: string): void => {
  for (const path of readdirSync(inRoot(folder), { recursive: true, encoding: "utf8" })) {
    if (!/\.[jt]s$/.test(path)) continue
    const file = join(inRoot(folder), path)
    writeFileSync(file, readFileSync(file, "utf8").replaceAll('"#plugin"', `"${replacement}"`))
  }
}

const writeConsole = async (): Promise<void> => {
  const files = await buildConsole()
  mkdirSync(inRoot("dist/console"), { recursive: true })
  for (const [name, content] of files) writeFileSync(inRoot(`dist/console/${name}`), content)
}

const buildPackage = async (): Promise<void> => {
  for (const folder of ["dist", "examples/plugins"]) rmSync(inRoot(folder), { recursive: true, force: true })

  const compiler = inRoot("node_modules/typescript/bin/tsc")
  for (const project of ["tsconfig.build.json", "tsconfig.plugins.json"]) {
    // several checkers would each check the types of libraries again, and write the members of unions in another order each time
    execFileSync(process.execPath, [compiler, "--project", project, "--checkers", "1"], { cwd: root, stdio: "inherit" })
  }
  replaceImports("dist/plugins", "../../plugin/Plugin.js")

  cpSync(inRoot("plugins"), inRoot("examples/plugins"), {
    recursive: true,
    filter: (path) => !path.endsWith(".test.ts")
  })
  replaceImports("examples/plugins", "rollcall/plugin")
  await writeConsole()
}

await (process.argv[2] === "console" ? writeConsole() : buildPackage())
