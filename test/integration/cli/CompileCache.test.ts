/** Where the program keeps compiled code between runs. A user who can write there runs code as the user of Rollcall. */
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, statSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { inDirectory, Program } from "./Program.ts"

const entries = (directory: string) => existsSync(directory) ? readdirSync(directory) : []
const mode = (path: string) => statSync(path).mode & 0o777

/** The module of the program that chooses the directory. */
const module = import(new URL("../../../bin/CompileCache.js", import.meta.url).href)

/** Runs a program with its cache in `home`; returns what the cache contains then. Without `entry`, the program is `rollcall --version`. */
const cachedBy =
  (entry?: string) =>
  async (home: string, environment: Readonly<Record<string, string>> = {}): Promise<ReadonlyArray<string>> => {
    const variables = { XDG_CACHE_HOME: home, ...environment }
    const { code, stderr } = await new Program(["--version"], variables, process.cwd(), entry).ended
    assert.deepStrictEqual([code, stderr], [0, ""])
    return entries(join(home, "rollcall"))
  }
const caching = join(import.meta.dirname, "Caching.ts")
const cachedIn = cachedBy(caching)

describe("the cache of compiled code", () => {
  it("is a directory that only its owner can open, and is used again by the next run", () =>
    inDirectory(async (directory) => {
      const home = join(directory, "cache")
      const cachedByRollcall = cachedBy()
      const [compiled, ...others] = await cachedByRollcall(home)
      assert.isDefined(compiled)
      assert.isEmpty(others)
      assert.strictEqual(mode(join(home, "rollcall")), 0o700)
      const files = entries(join(home, "rollcall", compiled!))
      assert.isNotEmpty(files)
      await cachedByRollcall(home)
      assert.sameMembers(entries(join(home, "rollcall", compiled!)), files)
    }))

  it("is below the home directory if XDG_CACHE_HOME is missing or relative", () =>
    inDirectory(async (directory) => {
      for (const XDG_CACHE_HOME of ["", "relative"]) {
        const HOME = join(directory, `home${XDG_CACHE_HOME}`)
        mkdirSync(HOME)
        await new Program([], { HOME, XDG_CACHE_HOME }, directory, caching).ended
        assert.isNotEmpty(entries(join(HOME, ".cache", "rollcall")))
        assert.notInclude(entries(directory), "relative")
      }
    }))

  it("is never in the directory for temporary files that all users share", () =>
    inDirectory(async (directory) => {
      const home = join(directory, "cache")
      await cachedIn(home, { TMPDIR: directory })
      assert.deepStrictEqual(entries(directory), ["cache"])
    }))

  it("is not used if others may write to it or to a directory above it", () =>
    inDirectory(async (directory) => {
      const { privateDirectory } = await module
      const uid = process.getuid!()
      const planted = join(directory, "planted")
      mkdirSync(join(planted, "rollcall"), { recursive: true, mode: 0o700 })
      chmodSync(join(planted, "rollcall"), 0o770)
      assert.isUndefined(privateDirectory(planted, uid))
      assert.isEmpty(await cachedIn(planted))
      chmodSync(join(planted, "rollcall"), 0o700)
      chmodSync(planted, 0o777)
      assert.isUndefined(privateDirectory(planted, uid))
      chmodSync(planted, 0o755)
      assert.isString(privateDirectory(planted, uid))
    }))

  it("is not used through a symbolic link", () =>
    inDirectory(async (directory) => {
      const home = join(directory, "cache")
      const elsewhere = join(directory, "elsewhere")
      mkdirSync(home, { mode: 0o700 })
      mkdirSync(elsewhere, { mode: 0o700 })
      symlinkSync(elsewhere, join(home, "rollcall"))
      await cachedIn(home)
      assert.isEmpty(entries(elsewhere))
    }))

  it("is not used if it or a directory above it belongs to another user", () =>
    inDirectory(async (directory) => {
      const { privateDirectory } = await module
      const uid = process.getuid!()
      const home = join(directory, "cache")
      mkdirSync(home, { mode: 0o700 })
      assert.isString(privateDirectory(home, uid))
      assert.isUndefined(privateDirectory(home, uid + 1))
      if (uid !== 0) return
      chownSync(join(home, "rollcall"), 1, 1)
      assert.isUndefined(privateDirectory(home, uid))
      chownSync(join(home, "rollcall"), 0, 0)
      chownSync(home, 1, 1)
      assert.isUndefined(privateDirectory(home, uid))
    }))

  it("is the one of NODE_COMPILE_CACHE if the user has set it", () =>
    inDirectory(async (directory) => {
      const home = join(directory, "cache")
      const chosen = join(directory, "chosen")
      assert.isEmpty(await cachedIn(home, { NODE_COMPILE_CACHE: chosen }))
      assert.isNotEmpty(entries(chosen))
      assert.isEmpty(await cachedIn(home, { NODE_DISABLE_COMPILE_CACHE: "1" }))
    }))

  it("is left out, and the program works, if there is no place for it", async () => {
    const { code } = await new Program(["--version"], { HOME: "/nonexistent", XDG_CACHE_HOME: "/dev/null" }).ended
    assert.strictEqual(code, 0)
  })
})
