/**
 * Builds the parts of the npm package that a clone does not contain: `dist` (compiled code and types) and `examples/plugins` (the
 * sources of the bundled plugins, as anybody's plugins import Rollcall).
 */
import { execFileSync } from "node:child_process"
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

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

for (const folder of ["dist", "examples/plugins"]) rmSync(inRoot(folder), { recursive: true, force: true })

const compiler = inRoot("node_modules/typescript/bin/tsc")
for (const project of ["tsconfig.build.json", "tsconfig.plugins.json"]) {
  execFileSync(process.execPath, [compiler, "--project", project], { cwd: root, stdio: "inherit" })
}
replaceImports("dist/plugins", "../../plugin/Plugin.js")

cpSync(inRoot("plugins"), inRoot("examples/plugins"), {
  recursive: true,
  filter: (path) => !path.endsWith(".test.ts")
})
replaceImports("examples/plugins", "rollcall/plugin")
