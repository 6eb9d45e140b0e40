/** A second process on a SQLite store that another process works on. */
import { assert, describe, it } from "@effect/vitest"
import { symlinkSync } from "node:fs"
import { join } from "node:path"
import { inDirectory, type Program, sandboxed } from "./Program.ts"

const settings = { ROLLCALL_MODELS: "ats.tag", ROLLCALL_INTERVAL: "1 second" }
const polls = (service: Program) => service.stderr.match(/"message":"poll complete"/g)?.length ?? 0

describe("a process on a SQLite store that another process works on", () => {
  it("does not start, says why and ends with 3, and the other one goes on; after `kill -9` the next one starts at once (X9)", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await sandboxed(serve, directory)
      const all = { ...environment, ...settings, ROLLCALL_LOG_LEVEL: "debug", ROLLCALL_HTTP_PORT: "0" }
      const service = start(["start"], all)
      await service.says(/"message":"poll complete"/, "stderr")

      const link = join(directory, "link.db")
      symlinkSync(join(directory, "rollcall.db"), link)
      for (const more of [{}, { ROLLCALL_STORE: `sqlite:${link}` }]) {
        const { code, stderr } = await start(["start", "--once"], { ...all, ...more }).ended
        assert.strictEqual(code, 3)
        assert.match(stderr, /another process of Rollcall works on .*\.db, so this one does not start/)
        assert.match(stderr, /"hint":"a SQLite store allows only one process: .*--take-over/)
      }
      const { stdout } = await start(["doctor", "--json"], all).ended
      assert.match(stdout, /"check": ?"store",\s*"status": ?"ok"/)
      const before = polls(service)
      while (polls(service) === before) await new Promise((resolve) => setTimeout(resolve, 20))

      await service.stop("SIGKILL")
      assert.strictEqual((await start(["start", "--once"], all).ended).code, 0)
    }))

  it("takes its work over with --take-over, and then has the store alone (X9)", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await sandboxed(serve, directory)
      const all = { ...environment, ...settings, ROLLCALL_HTTP_PORT: "0" }
      const first = start(["start"], all)
      await first.says(/"message":"backfill complete"/, "stderr")
      const second = start(["start", "--take-over"], all)
      await second.says(/"message":"taking the store over from another process/, "stderr")
      assert.strictEqual((await first.ended).code, 1)
      await second.says(/"message":"started"/, "stderr")
      for (;;) {
        const { code } = await start(["start", "--once"], all).ended
        // the second process has the lock soon after the first one has ended
        assert.include([1, 3], code)
        if (code === 3) break
      }
      assert.strictEqual((await second.stop()).code, 0)
    }))

  it("does not end it when runs of `start --once` overlap: one is done, and the others end with 3 (X9)", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await sandboxed(serve, directory)
      const runs = Array.from({ length: 5 }, () => start(["start", "--once"], { ...environment, ...settings }).ended)
      const codes = (await Promise.all(runs)).map(({ code }) => code)
      assert.include(codes, 0)
      assert.deepStrictEqual(codes.filter((code) => code !== 0 && code !== 3), [])
    }))
})
