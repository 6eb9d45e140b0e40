/** Commands whose output or log cannot be written: the reader of a pipe is gone, or the disk is full (`/dev/full`). */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, openSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { freePort } from "../../support/services/FreePort.ts"
import { inDirectory, sandboxed } from "./Program.ts"

const bin = fileURLToPath(new URL("../../../bin/rollcall.js", import.meta.url))
const environment = { HOME: process.env["HOME"] ?? "", PATH: process.env["PATH"] ?? "" }

describe("start", () => {
  it("finishes its work and exits with 0 on a signal if the reader of its log is gone", () =>
    inDirectory(async (directory, start, serve) => {
      const service = start(["start"], (await sandboxed(serve, directory)).environment)
      await service.says(/"message":"started"/, "stderr")
      service.process.stderr?.destroy()
      assert.deepStrictEqual((await service.stop("SIGINT")).code, 0)
    }))
})

describe.skipIf(!existsSync("/dev/full"))("on a full disk", () => {
  it("the log of start is lost, and the service continues", () =>
    inDirectory(async (directory, _, serve) => {
      const port = String(await freePort())
      const own = { ...environment, ...(await sandboxed(serve, directory)).environment, ROLLCALL_HTTP_PORT: port }
      const service = spawn(process.execPath, [bin, "start"], {
        env: own,
        stdio: ["ignore", "ignore", openSync("/dev/full", "w")]
      })
      const ended = once(service, "exit")
      let over = false
      void ended.then(() => over = true)
      const isReady = () =>
        fetch(`http://127.0.0.1:${port}/health/ready`).then(({ status }) => status === 200, () => false)
      while (!over && !(await isReady())) await new Promise((resolve) => setTimeout(resolve, 20))
      service.kill("SIGTERM")
      assert.deepStrictEqual((await ended)[0], 0)
    }))

  it("a command whose output is lost exits with 1 and a message without a stack", async () => {
    const command = spawn(process.execPath, [bin, "schema"], {
      env: environment,
      stdio: ["ignore", openSync("/dev/full", "w"), "pipe"]
    })
    let stderr = ""
    command.stderr?.on("data", (chunk) => stderr += chunk)
    const [code] = await once(command, "close")
    assert.deepStrictEqual([code, stderr], [
      1,
      "rollcall: the output cannot be written (ENOSPC)\n  Check the disk that it is written to.\n"
    ])
  })
})
