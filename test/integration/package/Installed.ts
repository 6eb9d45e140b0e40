/**
 * The tarball of `npm publish`, installed in an empty folder. Nothing is downloaded: the tarball is unpacked like npm does it, and its
 * dependencies are links to the ones of this clone.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { assert } from "vitest"
import { root } from "./DeployedSettings.ts"

export const modules = join(root, "node_modules")
export const folder = mkdtempSync(join(tmpdir(), "rollcall-package-"))
export const home = join(folder, "node_modules/rollcall")
export const entry = join(folder, "node_modules/.bin/rollcall")
export const manifest: {
  readonly bin: Readonly<Record<string, string>>
  readonly dependencies: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, unknown>>
  readonly version: string
} = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
export const tarball = join(folder, `rollcall-${manifest.version}.tgz`)

export const environment = {
  ...process.env,
  PATH: `${dirname(process.execPath)}${delimiter}${join(modules, ".bin")}${delimiter}${process.env["PATH"]}`,
  // of this installation, whose path is another one in each run
  NODE_COMPILE_CACHE: join(folder, "compiled")
}
/** The output of a command, from both streams, and its exit code. */
export const said = (command: string, args: ReadonlyArray<string>, cwd = folder) => {
  const { status, stderr, stdout } = spawnSync(command, args, { cwd, env: environment, encoding: "utf8" })
  return { status, text: `${stdout}${stderr}` }
}
/** With several threads the compiler checks the types of libraries in each of them. */
export const compiled = (project: string) => said("tsc", ["--singleThreaded", "--project", project])
/** Links a package of this clone into a `node_modules`. */
export const link = (into: string, name: string) => {
  const path = join(into, name)
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(join(modules, name), path)
}

/** The examples of a page; each is a program. */
export const examplesOf = (page: string) =>
  [...readFileSync(join(root, page), "utf8").matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = ""], at) => ({
    name: `${page.replace(/\W/g, "-")}${at}.ts`,
    code
  }))

/** Packs this clone and installs it in `folder`, beside a `tsconfig.json` for its plugins. */
export const install = (): void => {
  const packed = said("npm", ["pack", "--silent", "--pack-destination", folder], root)
  assert.strictEqual(packed.status, 0, packed.text)
  mkdirSync(home, { recursive: true })
  const { bin, dependencies, peerDependencies } = manifest
  execFileSync("tar", ["-xzf", tarball, "--strip-components=1", "-C", home])
  const names = [...Object.keys(dependencies), ...Object.keys(peerDependencies), "@types/node", "standardwebhooks"]
  for (const name of names) link(join(folder, "node_modules"), name)
  mkdirSync(dirname(entry))
  symlinkSync(`../rollcall/${bin["rollcall"]}`, entry)
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }))
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: {
        strict: true,
        noEmit: true,
        module: "nodenext",
        target: "es2024",
        lib: ["es2024", "esnext.disposable", "dom"],
        types: ["node"],
        allowImportingTsExtensions: true,
        skipLibCheck: true
      },
      include: ["*.ts", "plugins"]
    })
  )
}
