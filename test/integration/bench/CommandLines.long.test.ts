/** Each program that developers start refuses a mistake in its options, and has a help. */
import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"

const root = new URL("../../../", import.meta.url)

describe("the command line of a program for developers", () => {
  it.each([
    ["test/simulation/Main.ts", "--worlds", "many"],
    ["test/simulation/MutantMain.ts", "--only", "no-such-mutant"],
    ["test/fault/kill/Kills.ts", "--count", "many"],
    ["bench/Main.ts", "--only", "no-such-section"],
    ["bench/Fidelity.ts", "--repot", ""]
  ])("%s reports a mistake with exit code 2, one line, and nothing else", (file, ...args) => {
    const path = fileURLToPath(new URL(file, root))
    const { status, stderr, stdout } = spawnSync(process.execPath, [path, ...args.filter(Boolean)], {
      encoding: "utf8"
    })
    assert.deepStrictEqual([status, stdout], [2, ""])
    assert.match(stderr, /^[^\n]+ --help lists the options\n$/)
  })

  it("test/run.ts reports an unknown size with exit code 2 and one line", () => {
    const path = fileURLToPath(new URL("test/run.ts", root))
    const { status, stderr, stdout } = spawnSync(process.execPath, [path, "fsat"], { encoding: "utf8" })
    assert.deepStrictEqual([status, stdout], [2, ""])
    assert.strictEqual(stderr, 'there is no size "fsat"; the sizes are fast, standard and long\n')
  })

  it("prints its help with exit code 0", () => {
    const path = fileURLToPath(new URL("test/simulation/Main.ts", root))
    const { status, stderr, stdout } = spawnSync(process.execPath, [path, "--help"], { encoding: "utf8" })
    assert.deepStrictEqual([status, stderr], [0, ""])
    assert.include(stdout, "--worlds number")
  })
})
