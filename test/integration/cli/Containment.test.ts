/** Handlers that would end the process, in the real program: the process survives, or it dies only a few times. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { assert, beforeAll, describe, it } from "vitest"
import { configured } from "./Configured.ts"
import {
  beside,
  checkCrashes,
  fileOf,
  healthy,
  leftIn,
  type Letter,
  lettersIn,
  poisoned,
  supervised
} from "./Poison.ts"
import { inDirectory, runCommand } from "./Program.ts"

const contained = [
  [
    "a rejected promise that nothing awaits",
    `Promise.reject(new Error("lost")); await new Promise((resolve) => setTimeout(resolve, 100))`,
    /a promise was rejected that nothing awaited/
  ],
  ["a rejected promise at the very end", `Promise.reject(new Error("lost"))`, /rejected that nothing awaited/],
  [
    "a write that is not awaited and is refused",
    `void api.addTag(event.recordId, { tag: {} })`,
    /api\.addTag failed, and its promise was not awaited/
  ],
  [
    "a helper that is not awaited, whose write is refused",
    `void (async () => { await api.addTag(event.recordId, { tag: {} }) })()`,
    /its promise was not awaited/
  ],
  [
    "an error thrown in a timer",
    `setTimeout(() => { throw new Error("lost") }, 10); await new Promise((resolve) => setTimeout(resolve, 100))`,
    /thrown in a timer or a callback/
  ],
  ["process.exit", `process.exit(3)`, /process\.exit was called/],
  ["process.exit whose exception is caught", `try { process.exit(3) } catch {}`, /process\.exit was called/]
] as const

describe("a handler that would end the process", () => {
  describe("in one process with all of its kind", () => {
    let life: { readonly stderr: string }
    let letters: ReadonlyArray<Letter>
    const nameOf = (index: number) => `poison-${index}`

    beforeAll(() =>
      inDirectory(async (directory, start, serve) => {
        const poisons = contained.map(([, poison], index) => poisoned(nameOf(index), poison))
        const { environment } = await configured(serve, directory, [healthy, ...poisons].join())
        const [first, ...others] = await supervised(start, directory, environment, 1)
        assert.strictEqual(others.length, 0)
        life = first!
        letters = lettersIn(fileOf(environment))
        assert.strictEqual(leftIn(fileOf(environment)), 0, life.stderr)
        assert.notInclude(letters.map(({ plugin }) => plugin), "healthy", life.stderr)
      })
    )

    for (const [index, [name, , words]] of contained.entries()) {
      it(`${name} fails only its attempt, and the process survives (L20)`, () => {
        const plugin = nameOf(index)
        const [letter, ...others] = letters.filter((one) => one.plugin === plugin)
        assert.strictEqual(others.length, 0, life.stderr)
        assert.match(letter?.failure ?? "", words, life.stderr)
        assert.match(letter?.failure ?? "", new RegExp(`plugin ${plugin}, handler ats\\.tag\\.created|api\\.addTag`))
      })
    }
  })

  it("an Effect fails if a timer that it started throws while it runs (L20)", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await configured(
        serve,
        directory,
        `Plugin.make("effect").on("ats.tag.created", { origins: ["backfill"], attempts: 1, onDeadLetter: "skip" }, () =>
          Effect.gen(function*() {
            yield* Effect.sleep("5 millis")
            yield* Effect.sync(() => setTimeout(() => { throw new Error("lost") }, 5))
            yield* Effect.sleep("1 second")
          })).with({ from: "oldest" })`
      )
      const [life] = await supervised(start, directory, environment, 1)
      const letters = lettersIn(fileOf(environment))
      assert.isAbove(letters.length, 3, life?.stderr)
      for (const { failure } of letters) assert.match(failure, /thrown in a timer or a callback/)
    }))

  it("an error after the end of the attempt is logged with plugin and handler, and does not end the process (L20)", () =>
    inDirectory(async (directory, start, serve) => {
      const { api, environment } = await configured(
        serve,
        directory,
        beside(`setTimeout(() => { throw new Error("lost") }, 300)`)
      )
      const service = start(["start"], environment, directory)
      await service.says(/uncaught error of an attempt that had already ended/, "stderr")
      assert.match(service.stderr, /"plugin":"poison","handler":"ats\.tag\.created"/)
      const metrics = await (await fetch(`${api}/metrics`)).text()
      assert.match(metrics, /rollcall_handler_uncaught_errors_total\{.*plugin="poison".*\} 1/)
      const { code } = await service.stop()
      assert.strictEqual(code, 0, service.stderr)
      assert.deepStrictEqual(lettersIn(fileOf(environment)), [])
    }))

  it("an uncaught error of a dry run fails only the dry run (L20)", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await configured(
        serve,
        directory,
        beside(
          `setTimeout(() => { throw new Error("lost") }, 10); await new Promise((done) => setTimeout(done, 100))`
        )
      )
      const service = start(["start"], environment, directory)
      await service.says(/delivery became a dead letter/, "stderr")
      const replay = ["plugins", "replay", "poison", "ats.tag.created", "--from", "2020-01-01T00:00:00Z", "--dry-run"]
      const { code, stderr, stdout } = await runCommand(replay, environment, directory)
      assert.strictEqual(code, 0, stderr)
      assert.match(stdout, /thrown in a timer or a callback/)
      assert.strictEqual((await service.stop()).code, 0)
    }))

  it("an error that belongs to no attempt ends the process, and the last log line reports it (L20)", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await configured(serve, directory, beside(""))
      const signal = join(directory, "throw")
      // the threads of the process import this file too: their end would be the last line of the log
      const ours = `import { existsSync } from "node:fs"
import { isMainThread } from "node:worker_threads"
if (isMainThread) setInterval(() => { if (existsSync(${JSON.stringify(signal)})) throw new Error("ours") }, 50).unref()`
      writeFileSync(join(directory, "ours.mjs"), ours)
      const service = start(["start"], {
        ...environment,
        NODE_OPTIONS: `--import ${pathToFileURL(join(directory, "ours.mjs")).href}`
      }, directory)
      await service.says(/"message":"started"/, "stderr")
      writeFileSync(signal, "")
      const { code, stderr } = await service.ended
      assert.strictEqual(code, 1)
      const last = JSON.parse(stderr.trimEnd().split("\n").at(-1) ?? "")
      assert.match(last.message, /the process ends: an uncaught error could not be traced to a plugin/)
      assert.include(last.error, "ours")
    }))
})

// `Containment.long.test.ts` repeats it with another end
describe("a delivery that ends the process", () => {
  it(
    "by SIGKILL runs alone after three crashes and then becomes a dead letter; all others are delivered (L21)",
    () => checkCrashes(`process.kill(process.pid, "SIGKILL")`)
  )
})
