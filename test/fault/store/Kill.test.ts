import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../../src/store/Store.ts"
import { headsOf, tags } from "../../conformance/StoreSamples.ts"
import { storeFile } from "../../support/TemporaryFolder.ts"

const rounds = 5
const writer = fileURLToPath(new URL("./Writer.ts", import.meta.url))

/** Lets the writer commit for a while, kills it, and returns the last commit that the writer reported. */
const writeUntilKilled = (file: string, millis: number, where: "main" | "thread") =>
  Effect.promise(async () => {
    const child = spawn(process.execPath, [writer, file, where], { stdio: ["ignore", "pipe", "inherit"] })
    let output = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text))
    await once(child.stdout, "data")
    await new Promise((resolve) => setTimeout(resolve, millis))
    child.kill("SIGKILL")
    await once(child, "close")
    return Number(output.slice(0, output.lastIndexOf("\n")).split("\n").at(-1))
  })

/** Reads the whole log and compares it with heads, state and pending rows. */
const inspect = Effect.gen(function*() {
  const store = yield* Store
  const latest = new Map<string, { position: number; version: number; after: string | null }>()
  let position = 0
  while (true) {
    const entries = yield* store.readLog({ after: position, limit: 500 })
    if (entries.length === 0) break
    for (const entry of entries) {
      position += 1
      assert.strictEqual(entry.position, position, "positions have no gap")
      const before = latest.get(entry.id)
      assert.strictEqual(entry.version, (before?.version ?? 0) + 1, "versions have no gap")
      assert.strictEqual(entry.before, before?.after ?? null, "before is the previous after")
      latest.set(entry.id, entry)
    }
  }
  assert.deepStrictEqual(yield* store.logRange, { oldest: 1, newest: position })
  const state = yield* store.stream(tags)
  assert.strictEqual(state?.watermark, position, "state and events are of the same commit")
  assert.strictEqual((yield* store.pendingRows({ limit: 100_000 })).length, state?.lastRunId)
  const owner = yield* store.takeOwnership("capture")
  const heads = yield* store.transact(owner, tags, (tx) => headsOf(tx, [...latest.keys()]))
  assert.strictEqual(heads.size, latest.size)
  for (const head of heads.values()) {
    assert.strictEqual(head.position, latest.get(head.id)?.position)
    assert.strictEqual(head.version, latest.get(head.id)?.version)
  }
  return state?.lastRunId ?? 0
})

describe("the SQLite store of a killed process", () => {
  it.live(`has every commit, and no partial one, after SIGKILL at ${rounds} random moments (X1, X2)`, () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      for (let round = 0; round < rounds; round++) {
        const returned = yield* writeUntilKilled(
          file,
          yield* Random.nextIntBetween(0, 300),
          round % 2 === 0 ? "thread" : "main"
        )
        const committed = yield* Effect.provide(inspect, Sqlite.layer({ file }))
        assert.isAtLeast(committed, returned)
      }
    }))
})
