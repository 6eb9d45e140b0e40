/** The permissions of new database files, and links in place of a file. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { stateOf, tags } from "../../../test/conformance/StoreSamples.ts"
import { storeFile, temporaryFolder } from "../../../test/support/TemporaryFolder.ts"
import { Store } from "../Store.ts"
import { findExposed } from "./FilePermissions.ts"
import * as Sqlite from "./Sqlite.ts"

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
          const file = yield* storeFile
          const modes = yield* Effect.scoped(Effect.andThen(withUmask(mask), modesOf({ file, ownThread })))
          assert.deepStrictEqual(modes, ["600", "600", "600"])
        }))
    }
  }

  it.effect("that exists keeps its permissions", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
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
        const path = yield* temporaryFolder
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
      const path = yield* temporaryFolder
      const [file, target] = [join(path, "rollcall.db"), join(path, "target")]
      yield* modesOf({ file: target })
      symlinkSync(target, file)
      yield* Effect.scoped(Layer.build(Layer.fresh(Sqlite.layer({ file }))))
      assert.strictEqual(modeOf(target), "600")
    }))
})

describe("the permissions of a database file", () => {
  /** The messages without the path of the test's directory. */
  const exposed = (file: string, path: string) =>
    findExposed(file).map(({ hint, message }) => [message, hint].map((text) => text.replaceAll(path, "")))

  it.effect("are reported if other users can read or change it, or its -wal and -shm", () =>
    Effect.gen(function*() {
      const path = yield* temporaryFolder
      const file = join(path, "rollcall.db")
      for (const suffix of ["", "-wal", "-shm"]) writeFileSync(`${file}${suffix}`, "", { mode: 0o600 })
      assert.deepStrictEqual(exposed(file, path), [])
      chmodSync(`${file}-wal`, 0o640)
      assert.deepStrictEqual(exposed(file, path), [
        ["/rollcall.db-wal can be read by other users (mode 640)", "Run: chmod 600 /rollcall.db-wal"]
      ])
      chmodSync(file, 0o666)
      assert.deepStrictEqual(exposed(file, path), [
        [
          "/rollcall.db, /rollcall.db-wal can be changed by other users (mode 666)",
          "Run: chmod 600 /rollcall.db /rollcall.db-wal"
        ]
      ])
    }))

  it.effect("include those of every directory around it, and of the one behind a link, whether it exists or not", () =>
    Effect.gen(function*() {
      const path = yield* temporaryFolder
      const [outer, inner] = [join(path, "outer"), join(path, "outer", "inner")]
      mkdirSync(inner, { recursive: true })
      for (const folder of [outer, inner]) chmodSync(folder, 0o755)
      const [file, link, missing] = [join(inner, "rollcall.db"), join(path, "link.db"), join(inner, "missing.db")]
      writeFileSync(file, "", { mode: 0o600 })
      symlinkSync(file, link)
      const hints = [
        [inner, 0o777, "Run: chmod go-w /outer/inner; or move the store to a directory of its own"],
        [inner, 0o770, "Run: chmod go-w /outer/inner; or move the store to a directory of its own"],
        [inner, 0o1777, "Move the store to a directory of its own, because this one is shared on purpose"],
        [outer, 0o775, "Run: chmod go-w /outer; or move the store to a directory of its own"]
      ] as const
      for (const [folder, mode, hint] of hints) {
        chmodSync(folder, mode)
        for (const each of [file, link, missing]) {
          const message = `other users can write to the directory ${folder.replace(path, "")} (mode ${
            mode.toString(8)
          }), and so put another database in place of the store`
          assert.deepStrictEqual(exposed(each, path), [[message, hint]])
        }
        chmodSync(folder, 0o755)
      }
      const aside = join(path, "aside")
      mkdirSync(aside)
      symlinkSync(file, join(aside, "link.db"))
      chmodSync(aside, 0o777)
      assert.deepStrictEqual(exposed(join(aside, "link.db"), path).map(([, hint]) => hint), [
        "Run: chmod go-w /aside; or move the store to a directory of its own"
      ])
      // in a directory with the sticky bit, others cannot replace a directory of this user
      chmodSync(outer, 0o1777)
      assert.deepStrictEqual(exposed(file, path), [])
      assert.deepStrictEqual(exposed(join(path, "none", "rollcall.db"), path), [])
    }))
})
