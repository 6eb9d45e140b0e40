/** Node's option that bounds the memory for new objects: `rollcall start` sets it, whatever starts the process. */
import { fork } from "node:child_process"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { inDirectory, Program } from "./Program.ts"

/** Node loads this module before the program, in each image of the process. */
const report = "console.log(JSON.stringify([process.pid,process.execArgv,process.argv.slice(2)]))"

/** The images of one process: their options and arguments. The program ends because nothing is configured. */
const imagesOf = (args: ReadonlyArray<string>, options = "") =>
  inDirectory(async (directory) => {
    const environment = { NODE_OPTIONS: `--import=data:text/javascript,${report} ${options}` }
    const program = new Program(args, environment, directory, undefined, true)
    const { stdout } = await program.ended
    const lines = stdout.split("\n").filter((line) => line.startsWith("[")).map((line) => JSON.parse(line))
    for (const [pid] of lines) assert.strictEqual(pid, program.process.pid)
    return lines.map(([, execArgv, argv]) => [execArgv, argv])
  })

describe("the memory for new objects", () => {
  it("is bounded by the start command, in a process with the same id and arguments", async () => {
    const args = ["start", "--config", "a b.json"]
    assert.deepStrictEqual(await imagesOf(args), [[[], args], [["--max-semi-space-size=8"], args]])
  })

  it("is bounded as the operator says, in any spelling of Node's option", async () => {
    for (const option of ["--max-semi-space-size=16", "--max_semi_space_size=16"]) {
      assert.deepStrictEqual(await imagesOf(["start"], option), [[[], ["start"]]])
    }
  })

  it("is not bounded if a parent reaches the process over a channel, which a new image would not have", async () => {
    const seen: Array<unknown> = []
    let errors = ""
    const code = await new Promise((resolve) => {
      const child = fork(join(import.meta.dirname, "../../../bin/rollcall.js"), ["start"], {
        execArgv: ["--import", `data:text/javascript,process.send(process.execArgv.length)`],
        silent: true,
        cwd: tmpdir(),
        env: { PATH: process.env["PATH"] }
      })
      child.on("message", (message) => seen.push(message)).on("close", resolve)
      child.stderr?.on("data", (chunk) => errors += chunk)
    })
    assert.include(errors, "the configuration has")
    assert.deepStrictEqual([seen, code], [[2], 1])
  })

  it("is not bounded for other commands", async () => {
    assert.deepStrictEqual(await imagesOf(["--version"]), [[[], ["--version"]]])
  })
})
