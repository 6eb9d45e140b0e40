/** The permissions of new database files, and links in place of a file. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { stateOf, tags } from "../../../test/conformance/StoreSamples.ts"
import { Store } from "../Store.ts"
import * as Sqlite from "./Sqlite.ts"

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-mode-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

const withUmask = (mask: number) =>
  Effect.acquireRelease(Effect.sync(() => process.umask(mask)), (before) => Effect.sync(() => process.umask(before)))

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

/** Opens the store, writes to it, and returns the permissions of its files while it is open. */
const modesOf = (options: Sqlite.Options) =>
  Effect.gen(function*() {
    yield* Effect.flatMap(Store, (store) => store.ensureStreams([stateOf(tags)]))
    return ["", "-wal", "-shm"].map((suffix) => modeOf(`${options.file}${suffix}`))
  }).pipe(Effect.provide(Layer.fresh(Sqlite.layer(options))))

describe("a new database file", () => {
  for (const ownThread of [false, true]) {
    for (const mask of [0o000, 0o022, 0o277, 0o777]) {
      const how = `umask ${mask.toString(8).padStart(3, "0")}${ownThread ? ", opened in its own thread" : ""}`
      it.effect(`can be read and written by its owner only, and so can its -wal and -shm, with ${how}`, () =>
        Effect.gen(function*() {
          const file = join(yield* directory, "rollcall.db")
          const modes = yield* Effect.scoped(Effect.andThen(withUmask(mask), modesOf({ file, ownThread })))
          assert.deepStrictEqual(modes, ["600", "600", "600"])
        }))
    }
  }

  it.effect("that exists keeps its permissions", () =>
    Effect.gen(function*() {
      const file = join(yield* directory, "rollcall.db")
      writeFileSync(file, "")
      chmodSync(file, 0o640)
      assert.deepStrictEqual(yield* modesOf({ file }), ["640", "640", "640"])
    }))

  it.effect("in memory creates no file", () =>
    Effect.gen(function*() {
      yield* Effect.scoped(Layer.build(Layer.fresh(Sqlite.layer({ file: ":memory:" }))))
      assert.isFalse(existsSync(":memory:"))
    }))

  for (const ownThread of [false, true]) {
    it.effect(`is not created through a link to nothing${ownThread ? ", opened in its own thread" : ""}`, () =>
      Effect.gen(function*() {
        const path = yield* directory
        const [file, target] = [join(path, "rollcall.db"), join(path, "target")]
        symlinkSync(target, file)
        const { reason } = yield* Effect.flip(
          Effect.scoped(Layer.build(Layer.fresh(Sqlite.layer({ file, ownThread }))))
        )
        assert.strictEqual(reason._tag, "Misconfigured")
        assert.match(reason.hint, /rollcall\.db is a symbolic link to a file that does not exist; remove the link/)
        assert.deepStrictEqual(readdirSync(path), ["rollcall.db"])
        assert.strictEqual(readlinkSync(file), target)
      }))
  }

  it.effect("is found through a link to an existing file", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const [file, target] = [join(path, "rollcall.db"), join(path, "target")]
      yield* modesOf({ file: target })
      symlinkSync(target, file)
      yield* Effect.scoped(Layer.build(Layer.fresh(Sqlite.layer({ file }))))
      assert.strictEqual(modeOf(target), "600")
    }))
})
