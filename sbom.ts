/**
 * Prints the SBOM of an installation, as CycloneDX: every package that runs with Rollcall, those in the script of the console included, and
 * none that only its development needs.
 *
 * Gotchas
 * - `npm sbom --omit dev` leaves out a package that a development dependency uses too, such as `effect`. So it is given a
 *   manifest without development dependencies, and leaves out what only these need.
 */
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { bundledPackages } from "./console/Build.ts"

type Json = Record<string, unknown>

const read = (name: string): Json => JSON.parse(readFileSync(join(import.meta.dirname, name), "utf8"))

const { dependencies, devDependencies: _, ...rest } = read("package.json")
const lockfile = read("package-lock.json")
const packages = lockfile["packages"] as Record<string, Json>
const bundled = bundledPackages.map((name) => [name, packages[`node_modules/${name}`]?.["version"]] as const)
const manifest: Json = { ...rest, dependencies: { ...dependencies as Json, ...Object.fromEntries(bundled) } }

// npm takes the name of the SBOM's subject from the name of the folder
const parent = mkdtempSync(join(tmpdir(), "rollcall-sbom-"))
const folder = join(parent, String(manifest["name"]))
try {
  mkdirSync(folder)
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest))
  const pruned = { ...lockfile, packages: { ...packages, "": manifest } }
  writeFileSync(join(folder, "package-lock.json"), JSON.stringify(pruned))
  const options = ["--sbom-format", "cyclonedx", "--sbom-type", "application", "--package-lock-only"]
  process.stdout.write(execFileSync("npm", ["sbom", ...options], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] }))
} finally {
  rmSync(parent, { recursive: true, force: true })
}
