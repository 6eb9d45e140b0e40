/** Handlers that would end the process, and what a store shows after a process with such handlers. */
import { DatabaseSync } from "node:sqlite"
import { assert } from "vitest"
import { configured } from "./Configured.ts"
import { inDirectory, type Start } from "./Program.ts"

/** Each tag is delivered to this plugin, whose handler succeeds. */
export const healthy = `
  Plugin.make("healthy").on("ats.tag.created", { origins: ["backfill"] }, async (event) => {
    await new Promise((resolve) => setTimeout(resolve, 20))
    process.stdout.write("done " + event.recordId + "\\n")
  }).with({ from: "oldest" })`

/** Each tag is delivered to this plugin too; its handler runs the code for the first tag. */
export const poisoned = (name: string, poison: string) => `
  Plugin.make("${name}", { needs: { writes: ["addTag"] } }).on(
    "ats.tag.created",
    { origins: ["backfill"], attempts: 2, retry: { first: "10 millis" } },
    async (event, { api }) => {
      const fs = process.getBuiltinModule("node:fs")
      if (!fs.existsSync("${name}")) fs.writeFileSync("${name}", event.recordId)
      const isFirst = fs.readFileSync("${name}", "utf8") === event.recordId
      if (isFirst) { ${poison} }
    }
  ).with({ from: "oldest" })`

/** A healthy plugin, and one named `poison`. */
export const beside = (poison: string) => `${healthy},${poisoned("poison", poison)}`

export interface Letter {
  readonly plugin: string
  readonly failure: string
}

export const lettersIn = (file: string): ReadonlyArray<Letter> => {
  const store = new DatabaseSync(file, { readOnly: true })
  try {
    return store.prepare(
      "SELECT h.plugin, d.failure FROM deliveries d JOIN handlers h ON h.key = d.handler WHERE d.state = 'dead'"
    ).all() as unknown as ReadonlyArray<Letter>
  } finally {
    store.close()
  }
}
export const leftIn = (file: string): number => {
  const store = new DatabaseSync(file, { readOnly: true })
  try {
    return Number(store.prepare("SELECT count(*) AS n FROM deliveries WHERE state <> 'dead'").get()?.["n"])
  } finally {
    store.close()
  }
}

/** Runs `start --once` again after each crash, like a supervisor, until the process ends normally. */
export const supervised = async (
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

export const fileOf = (environment: Readonly<Record<string, string>>) =>
  String(environment["ROLLCALL_STORE"]).replace("sqlite:", "")

/** A handler ends the process by the code for one delivery, in each life of the process: that delivery runs alone and dies, the others succeed. */
export const checkCrashes = (poison: string) =>
  inDirectory(async (directory, start, serve) => {
    const { environment } = await configured(serve, directory, beside(poison))
    const lives = await supervised(start, directory, environment, 5)
    assert.strictEqual(lives.length, 5)
    const file = fileOf(environment)
    const letters = lettersIn(file)
    assert.deepStrictEqual(letters.map(({ plugin }) => plugin), ["poison"], lives.at(-1)?.stderr)
    assert.match(letters[0]?.failure ?? "", /"reason":"ProcessEnded"/)
    assert.match(letters[0]?.failure ?? "", /the process ended or was blocked 4 times/)
    assert.strictEqual(leftIn(file), 0)
    const done = lives.flatMap(({ stdout }) => stdout.split("\n").filter((line) => line.startsWith("done ")))
    assert.isAbove(new Set(done).size, 3)
  })
