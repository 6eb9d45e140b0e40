/** A running service whose SQLite file is removed or changed. */
import { assert, describe, it } from "@effect/vitest"
import { copyFileSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { inDirectory, sandboxed, type Serve, type Start } from "./Program.ts"

const models = { ROLLCALL_MODELS: "ats.tag" }

/** ms */
const soon = 15_000

/** Ends every thread except the main thread once the file `end` exists. */
const endingThreads = `
import { existsSync } from "node:fs"
import { isMainThread } from "node:worker_threads"
if (!isMainThread) setInterval(() => { if (existsSync(import.meta.dirname + "/end")) throw new RangeError("of Erika") }, 20)
`

describe("a service whose database thread", () => {
  const begun = async (directory: string, start: Start, serve: Serve) => {
    const { environment } = await sandboxed(serve, directory)
    writeFileSync(join(directory, "ending.mjs"), endingThreads)
    const service = start(["start"], {
      ...environment,
      ...models,
      ROLLCALL_INTERVAL: "1 hour",
      NODE_OPTIONS: `--import ${join(directory, "ending.mjs")}`
    })
    await service.says(/"message":"backfill complete"/, "stderr")
    return service
  }

  it("ends unexpectedly stops at once and reports why (X2)", () =>
    inDirectory(async (directory, start, serve) => {
      const service = await begun(directory, start, serve)
      writeFileSync(join(directory, "end"), "")
      const { code, stderr } = await service.ended
      assert.strictEqual(code, 1)
      assert.match(stderr, /the thread that held the database file .*rollcall\.db open ended \(RangeError\)/)
      assert.notInclude(stderr, "Erika")
    }))

  it("is busy stops on SIGTERM (X2)", () =>
    inDirectory(async (directory, start, serve) => {
      const service = await begun(directory, start, serve)
      assert.strictEqual((await service.stop()).code, 0)
    }))
})

describe("a service whose database file", () => {
  const cases = [
    ["is deleted", (file: string) => rmSync(file)],
    ["is replaced by a copy", (file: string) => {
      copyFileSync(file, `${file}.copy`)
      renameSync(`${file}.copy`, file)
    }]
  ] as const
  for (const [what, happens] of cases) {
    it(`${what} stops at once and reports why (X22)`, () =>
      inDirectory(async (directory, start, serve) => {
        const { environment } = await sandboxed(serve, directory)
        const service = start(["start"], { ...environment, ...models, ROLLCALL_INTERVAL: "1 hour" })
        await service.says(/"message":"backfill complete"/, "stderr")
        happens(join(directory, "rollcall.db"))
        const began = performance.now()
        const { code, stderr } = await service.ended
        assert.isBelow(performance.now() - began, soon)
        assert.strictEqual(code, 1)
        assert.match(stderr, /the database file .*rollcall\.db was (deleted|replaced) while it was open/)
      }))
  }

  it("was changed while it was closed stops before it publishes wrong events, and reports why (X23)", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment, api } = await sandboxed(serve, directory)
      const own = { ...environment, ...models }
      assert.strictEqual((await start(["start", "--once"], own).ended).code, 0)
      const file = join(directory, "rollcall.db")
      const spoilt = readFileSync(file).toString("latin1").replaceAll('"changed_at":', '"changed_au":')
      writeFileSync(file, Buffer.from(spoilt, "latin1"))
      const service = start(["start"], own)
      await service.says(/"message":"started"/, "stderr")
      const answer = await fetch(`${api}/v1/events?limit=10`)
      assert.isAtLeast(answer.status, 500)
      assert.include(await answer.text(), "row 1 of the event log in the store is not what was written there")
    }))
})
