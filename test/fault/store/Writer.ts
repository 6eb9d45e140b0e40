/** A process that commits to the store in `argv[2]` until it is killed. It prints a line after each commit. */
import * as Effect from "effect/Effect"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../../src/store/Store.ts"
import { changeOf, headOf, headsOf, pendingOf, stateOf, tags } from "../../conformance/StoreSamples.ts"

const recordsPerCommit = 40

const program = Effect.gen(function*() {
  const store = yield* Store
  yield* store.ensureStreams([stateOf(tags)])
  const owner = yield* store.takeOwnership("capture")
  while (true) {
    const runId = yield* store.transact(owner, tags, (tx) =>
      Effect.gen(function*() {
        const next = tx.state.lastRunId + 1
        const ids = Array.from({ length: recordsPerCommit }, (_, index) => `r${(next * 7 + index * 13) % 500}`)
        const heads = yield* headsOf(tx, ids)
        yield* tx.putPending([pendingOf(`p${next}`)])
        yield* tx.write(ids.map((id) => {
          const head = heads.get(id) ?? headOf(id)
          const after = JSON.stringify({ id, version: head.version + 1, text: "x".repeat(2000) })
          return changeOf(head, head.version === 0 ? "created" : "updated", { after })
        }))
        yield* tx.saveState({ ...tx.state, lastRunId: next, watermark: next * recordsPerCommit })
        return next
      }))
    process.stdout.write(`${runId}\n`)
    yield* Effect.yieldNow
  }
})

await Effect.runPromise(
  Effect.provide(
    program,
    Sqlite.layer({ file: process.argv[2] ?? ":memory:", ownThread: process.argv[3] === "thread" })
  )
)
