/** Handlers that would end the process, in the real program: the process survives, or it dies only a few times. */
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "vitest"
import { configured } from "./Configured.ts"
import { inDirectory, type Start } from "./Program.ts"

/** Each tag is delivered to both handlers; the poison handler fails on its first delivery. */
const beside = (poison: string, options = "") => `
  Plugin.make("healthy").on("ats.tag.created", { origins: ["backfill"] }, Plugin.async(async (event) => {
    await new Promise((resolve) => setTimeout(resolve, 20))
    process.stdout.write("done " + event.recordId + "\\n")
  })).with({ from: "oldest" }),
  Plugin.make("poison").on(
    "ats.tag.created",
    { origins: ["backfill"], attempts: 2, retry: { first: "10 millis" } ${options} },
    Plugin.async(async (event, { api }) => {
      const fs = process.getBuiltinModule("node:fs")
      if (!fs.existsSync("first")) fs.writeFileSync("first", event.recordId)
      const isFirst = fs.readFileSync("first", "utf8") === event.recordId
      if (isFirst) { ${poison} }
    })
  ).with({ from: "oldest" })`

interface Letter {
  readonly plugin: string
  readonly failure: string
}

const lettersIn = (file: string): ReadonlyArray<Letter> => {
  const store = new DatabaseSync(file, { readOnly: true })
  try {
    return store.prepare(
      "SELECT h.plugin, d.failure FROM deliveries d JOIN handlers h ON h.key = d.handler WHERE d.state = 'dead'"
    ).all() as unknown as ReadonlyArray<Letter>
  } finally {
    store.close()
  }
}
const leftIn = (file: string): number => {
  const store = new DatabaseSync(file, { readOnly: true })
  try {
    return Number(store.prepare("SELECT count(*) AS n FROM deliveries WHERE state <> 'dead'").get()?.["n"])
  } finally {
    store.close()
  }
}

/** Runs `start --once` again after each crash, like a supervisor, until the process ends normally. */
const supervised = async (
  start: Start,
  directory: string,
  environment: Readonly<Record<string, string>>,
  most: number
) => {
  const lives: Array<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> = []
  for (;;) {
    const life = await start(["start", "--once"], environment, directory).ended
    lives.push(life)
    if (/not everything was read, published and delivered|every stream was read once/.test(life.stderr)) return lives
    assert.isAtMost(lives.length, most, `it died ${lives.length} times:\n${life.stderr}`)
  }
}

const fileOf = (environment: Readonly<Record<string, string>>) =>
  String(environment["ROLLCALL_STORE"]).replace("sqlite:", "")

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
  it.concurrent.each(contained)(
    "%s fails only its attempt, and the process survives (L20)",
    (_, poison, words) =>
      inDirectory(async (directory, start, serve) => {
        const { environment } = await configured(serve, directory, beside(poison))
        const [life, ...others] = await supervised(start, directory, environment, 1)
        assert.strictEqual(others.length, 0)
        assert.strictEqual(leftIn(fileOf(environment)), 0, life?.stderr)
        const letters = lettersIn(fileOf(environment))
        assert.deepStrictEqual(letters.map(({ plugin }) => plugin), ["poison"], life?.stderr)
        assert.match(letters[0]?.failure ?? "", words)
        assert.match(letters[0]?.failure ?? "", /plugin poison, handler ats\.tag\.created|api\.addTag/)
      }),
    60_000
  )

  it(
    "an Effect fails if a timer that it started throws while it runs (L20)",
    () =>
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
      }),
    60_000
  )

  it(
    "an error after the end of the attempt is logged with plugin and handler, and does not end the process (L20)",
    () =>
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
      }),
    60_000
  )

  it(
    "an uncaught error of a dry run fails only the dry run (L20)",
    () =>
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
        const { code, stderr, stdout } = await start(replay, environment, directory).ended
        assert.strictEqual(code, 0, stderr)
        assert.match(stdout, /thrown in a timer or a callback/)
        assert.strictEqual((await service.stop()).code, 0)
      }),
    60_000
  )

  it(
    "an error that belongs to no attempt ends the process, and the last log line reports it (L20)",
    () =>
      inDirectory(async (directory, start, serve) => {
        const { environment } = await configured(serve, directory, beside(""))
        const service = start(["start"], {
          ...environment,
          NODE_OPTIONS: `--import data:text/javascript,setTimeout(()=>{throw%20new%20Error("ours")},4000)`
        }, directory)
        const { code, stderr } = await service.ended
        assert.strictEqual(code, 1)
        const last = JSON.parse(stderr.trimEnd().split("\n").at(-1) ?? "")
        assert.match(last.message, /the process ends: an uncaught error could not be traced to a plugin/)
        assert.include(last.error, "ours")
      }),
    60_000
  )
})

describe("a delivery that ends the process", () => {
  it.concurrent.each(
    [
      ["process.abort", `process.abort()`],
      ["SIGKILL", `process.kill(process.pid, "SIGKILL")`]
    ] as const
  )(
    "by %s runs alone after three crashes and then becomes a dead letter; all others are delivered (L21)",
    (_, poison) =>
      inDirectory(async (directory, start, serve) => {
        const { environment } = await configured(serve, directory, beside(poison))
        const lives = await supervised(start, directory, environment, 5)
        assert.strictEqual(lives.length, 5)
        const file = fileOf(environment)
        const letters = lettersIn(file)
        assert.deepStrictEqual(letters.map(({ plugin }) => plugin), ["poison"], lives.at(-1)?.stderr)
        assert.match(letters[0]?.failure ?? "", /"reason":"ProcessEnded"/)
        assert.match(letters[0]?.failure ?? "", /the process ended 4 times/)
        assert.strictEqual(leftIn(file), 0)
        const done = lives.flatMap(({ stdout }) => stdout.split("\n").filter((line) => line.startsWith("done ")))
        assert.isAbove(new Set(done).size, 3)
      }),
    120_000
  )
})
