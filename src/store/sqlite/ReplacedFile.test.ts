/** A store's file that is deleted or replaced while it is open, or damaged between two processes. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { all, changeOf, headOf, reasonOf, stateOf, tags } from "../../../test/conformance/StoreSamples.ts"
import { Store } from "../Store.ts"
import * as Sqlite from "./Sqlite.ts"

const path = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-file-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
).pipe(Effect.map((directory) => join(directory, "rollcall.db")))

const content = (version: number) => JSON.stringify({ id: "r", name: `version ${version}`, text: "x".repeat(3_000) })

/** A store in `file` with a record that has three versions. */
const opened = Effect.fnUntraced(function*(file: string) {
  const store = Context.get(yield* Layer.build(Sqlite.layer({ file })), Store)
  const owner = yield* store.takeOwnership("capture")
  yield* store.ensureStreams([stateOf(tags)])
  const write = Effect.gen(function*() {
    yield* store.transact(owner, tags, (tx) =>
      Effect.gen(function*() {
        const head = (yield* tx.heads(["r"])).get("r") ?? headOf("r")
        const kind = head.version === 0 ? "created" : "updated"
        yield* tx.write([changeOf(head, kind, { after: content(head.version + 1) })])
      }))
  })
  return { store, write }
})

describe("the file of a SQLite store that is open", () => {
  const cases = [
    ["deleted", (file: string) => rmSync(file)],
    ["replaced", (file: string) => {
      copyFileSync(file, `${file}.copy`)
      renameSync(`${file}.copy`, file)
    }]
  ] as const
  for (const [change, apply] of cases) {
    it.effect(`is no longer written once it is ${change}, and the error says so (X22)`, () =>
      Effect.gen(function*() {
        const file = yield* path
        const { store, write } = yield* opened(file)
        yield* write
        apply(file)
        const { reason } = yield* Effect.flip(write)
        assert.deepStrictEqual([reason._tag, reason.retryable], ["Misconfigured", false])
        assert.include(reason.hint, `the database file ${file} was ${change} while it was open`)
        // a read may also return other data than the next process will find
        assert.strictEqual(reasonOf(yield* Effect.exit(store.readLog(all))), "Misconfigured")
      }).pipe(Effect.scoped))
  }
  it.effect("that cannot be checked for a while is used again afterwards, and the error names the cause (X22)", () =>
    Effect.gen(function*() {
      const file = yield* path
      const { store, write } = yield* opened(file)
      renameSync(file, `${file}.away`)
      symlinkSync(file, file)
      const { reason } = yield* Effect.flip(write)
      assert.deepStrictEqual([reason._tag, reason.retryable], ["Unavailable", true])
      assert.include(reason.hint, `${file}, ELOOP`)
      assert.include((yield* store.outage)?.message, "ELOOP")
      rmSync(file)
      renameSync(`${file}.away`, file)
      yield* write
    }).pipe(Effect.scoped))
})

describe("a byte of a SQLite file", () => {
  it.effect("that flips in the content of any version is detected before a reader receives it (X23)", () =>
    Effect.gen(function*() {
      const file = yield* path
      yield* Effect.scoped(Effect.gen(function*() {
        const { write } = yield* opened(file)
        for (let version = 1; version <= 6; version++) yield* write
      }))
      const sound = readFileSync(file)
      for (let version = 1; version <= 6; version++) {
        // a page that was split may still contain rows that moved to another page
        const text = sound.toString("latin1")
        assert.include(text, `version ${version}"`)
        const bytes = Buffer.from(text.replaceAll(`version ${version}"`, `version ${version ^ 1}"`), "latin1")
        writeFileSync(file, bytes)
        yield* Effect.scoped(Effect.gen(function*() {
          const store = Context.get(yield* Layer.build(Sqlite.layer({ file })), Store)
          assert.strictEqual(reasonOf(yield* Effect.exit(store.readLog({ after: version - 1, limit: 1 }))), "Damaged")
          if (version < 6) {
            assert.strictEqual(reasonOf(yield* Effect.exit(store.readLog({ after: version, limit: 1 }))), "Damaged")
          }
        }))
      }
    }))
})
