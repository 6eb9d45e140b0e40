/** A process that stands still while another one takes its store over, and goes on later. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { DatabaseSync } from "node:sqlite"
import * as Home from "./Home.ts"
import { contentsOf, judge, quiet } from "./Lives.ts"
import { launch, type Service } from "./Service.ts"

const taken = /another process owns \\"capture\\" now/

const epochIn = (file: string): unknown => {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    return database.prepare("SELECT epoch FROM ownership WHERE scope = 'capture'").get()?.["epoch"]
  } finally {
    database.close()
  }
}

/** Everything the world has is told once, by the one that is left. */
const isTrue = Effect.fnUntraced(function*(service: Service, sandbox: Home.Home["sandbox"]) {
  const url = yield* service.url
  yield* sandbox.freeze
  yield* quiet(url)
  const { differences, oracle } = yield* judge(url, contentsOf(sandbox, Home.models))
  assert.deepStrictEqual(oracle.breaches, [])
  assert.deepStrictEqual(differences, [])
})

describe("a process frozen by SIGSTOP", () => {
  it.live(
    "X9: wakes fenced after another took over: what it then commits has no effect, it says so and exits",
    () =>
      Effect.gen(function*() {
        const { file, sandbox, settings } = yield* Home.make({ speed: 400 })
        // after a commit it holds no lock, and is about to begin the next reading
        const frozen = yield* launch(settings, { doom: { of: "poll's end", n: 2, side: "after", signal: "SIGSTOP" } })
        assert.strictEqual(yield* frozen.doomed, "poll's end")
        const heir = yield* launch(settings)
        yield* quiet(yield* heir.url)
        const epoch = epochIn(file)
        const told = frozen.steps.length
        yield* frozen.signal("SIGCONT")
        assert.strictEqual(yield* frozen.ended, 1)
        assert.match(frozen.log(), taken)
        assert.strictEqual(frozen.steps.length, told)
        assert.strictEqual(epochIn(file), epoch)
        assert.isTrue(heir.alive())
        yield* isTrue(heir, sandbox)
      }),
    90_000
  )

  it.live(
    "X21: frozen between taking the position counter and its commit, it is waited for, which is said; then the others go on",
    () =>
      Effect.gen(function*() {
        const { sandbox, settings } = yield* Home.make({ speed: 400 })
        const frozen = yield* launch(settings, { doom: { of: "poll's end", n: 2, side: "before", signal: "SIGSTOP" } })
        assert.strictEqual(yield* frozen.doomed, "poll's end")
        const heir = yield* launch(settings)
        yield* heir.says("waiting for the store: another process is writing to it")
        // longer than a conflict is tried again
        yield* Effect.sleep("8 seconds")
        assert.isTrue(heir.alive(), heir.log())
        assert.deepStrictEqual(heir.steps, [])
        const wokenAt = Date.now()
        yield* frozen.signal("SIGCONT")
        yield* heir.says("the store is no longer locked")
        assert.isBelow(Date.now() - wokenAt, 5000)
        assert.strictEqual(yield* frozen.ended, 1)
        assert.match(frozen.log(), taken)
        yield* isTrue(heir, sandbox)
      }),
    90_000
  )

  it.live(
    "X21: killed while it stands there, its lock is gone with it and the others go on",
    () =>
      Effect.gen(function*() {
        const { sandbox, settings } = yield* Home.make({ speed: 400 })
        const frozen = yield* launch(settings, { doom: { of: "poll's end", n: 2, side: "before", signal: "SIGSTOP" } })
        yield* frozen.doomed
        const heir = yield* launch(settings)
        yield* heir.says("waiting for the store: another process is writing to it")
        yield* frozen.end("SIGKILL")
        yield* heir.says("the store is no longer locked")
        yield* isTrue(heir, sandbox)
      }),
    90_000
  )
})
