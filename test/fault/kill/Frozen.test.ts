/** A process that is frozen while another one takes its store over, and continues later. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { DatabaseSync } from "node:sqlite"
import * as Home from "./Home.ts"
import { contentsOf, judge, quiet } from "./Lives.ts"
import { launch, type Service } from "./Service.ts"

const taken = /another process owns \\"capture\\" now/

const takeOver = { command: ["start", "--take-over"] }

const ownershipsIn = (file: string) => {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    return database.prepare("SELECT scope, epoch FROM ownership ORDER BY scope").all()
  } finally {
    database.close()
  }
}

/** Checks that the remaining process publishes the whole world, each event once. */
const assertConsistent = Effect.fnUntraced(function*(service: Service, sandbox: Home.Home["sandbox"]) {
  const url = yield* service.url
  yield* sandbox.freeze
  yield* quiet(url)
  const { differences, oracle } = yield* judge(url, contentsOf(sandbox, Home.models))
  assert.deepStrictEqual(oracle.breaches, [])
  assert.deepStrictEqual(differences, [])
})

describe("a process frozen by SIGSTOP", () => {
  it.live(
    "is fenced when it wakes after a takeover: its commits have no effect, it logs that and exits (X9)",
    () =>
      Effect.gen(function*() {
        const { file, sandbox, settings } = yield* Home.make({ speed: 400 })
        // After the commit the process holds no lock, and is about to start the next run.
        const frozen = yield* launch(settings, { doom: { of: "poll's end", n: 2, side: "after", signal: "SIGSTOP" } })
        assert.strictEqual(yield* frozen.doomed, "poll's end")
        const successor = yield* launch(settings, takeOver)
        yield* quiet(yield* successor.url)
        const ownerships = ownershipsIn(file)
        assert.isNotEmpty(ownerships)
        const stepCount = frozen.steps.length
        yield* frozen.signal("SIGCONT")
        assert.strictEqual(yield* frozen.ended, 1)
        assert.match(frozen.log(), taken)
        assert.deepStrictEqual(frozen.steps.slice(stepCount), [])
        assert.deepStrictEqual(ownershipsIn(file), ownerships)
        assert.isTrue(successor.alive())
        yield* assertConsistent(successor, sandbox)
      })
  )

  it.live(
    "frozen between taking the position counter and its commit: the successor waits and logs it (X21)",
    () =>
      Effect.gen(function*() {
        const { sandbox, settings } = yield* Home.make({ speed: 400 })
        const frozen = yield* launch(settings, { doom: { of: "poll's end", n: 2, side: "before", signal: "SIGSTOP" } })
        assert.strictEqual(yield* frozen.doomed, "poll's end")
        const successor = yield* launch(settings, takeOver)
        yield* successor.says("waiting for the store: another process is writing to it")
        // longer than a conflict is retried
        yield* Effect.sleep("8 seconds")
        assert.isTrue(successor.alive(), successor.log())
        assert.deepStrictEqual(successor.steps, [])
        const resumedAt = Date.now()
        yield* frozen.signal("SIGCONT")
        yield* successor.says("the store is no longer locked")
        assert.isBelow(Date.now() - resumedAt, 5000)
        assert.strictEqual(yield* frozen.ended, 1)
        assert.match(frozen.log(), taken)
        yield* assertConsistent(successor, sandbox)
      })
  )

  it.live(
    "killed while it holds the lock: the lock is released and the successor continues (X21)",
    () =>
      Effect.gen(function*() {
        const { sandbox, settings } = yield* Home.make({ speed: 400 })
        const frozen = yield* launch(settings, { doom: { of: "poll's end", n: 2, side: "before", signal: "SIGSTOP" } })
        yield* frozen.doomed
        const successor = yield* launch(settings, takeOver)
        yield* successor.says("waiting for the store: another process is writing to it")
        yield* frozen.end("SIGKILL")
        yield* successor.says("the store is no longer locked")
        yield* assertConsistent(successor, sandbox)
      })
  )
})
