import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { copyFileSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { storeFile, temporaryFolder } from "../../../test/support/TemporaryFolder.ts"
import { Store } from "../Store.ts"
import * as Sqlite from "./Sqlite.ts"
import { inspect } from "./SqliteInspection.ts"

const opened = (file: string) =>
  Effect.map(Layer.build(Sqlite.layer({ file })), (context) => Context.get(context, Store))
const contents = (path: string) => readdirSync(path).sort().map((name) => [name, readFileSync(join(path, name), "hex")])
const reasonOf = (file: string) => Effect.map(Effect.flip(inspect(file)), ({ reason }) => reason)

describe("the inspection of a SQLite store", () => {
  it.effect("does not create a store that does not exist", () =>
    Effect.gen(function*() {
      const path = yield* temporaryFolder
      assert.deepInclude(yield* inspect(join(path, "rollcall.db")), { exists: false, locked: false })
      assert.deepStrictEqual(readdirSync(path), [])
    }))

  it.effect("changes no byte of a store that no process has open", () =>
    Effect.gen(function*() {
      const path = yield* temporaryFolder
      const file = join(path, "rollcall.db")
      yield* Effect.scoped(opened(file))
      const before = contents(path)
      assert.deepInclude(yield* inspect(file), { exists: true, locked: false })
      assert.deepStrictEqual(contents(path), before)
    }))

  it.effect("finds the configured handlers whose circuit is open", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      yield* Effect.scoped(opened(file))
      const database = new DatabaseSync(file)
      database.exec(`INSERT INTO handlers (key, plugin, handler, position, active, skips_dead, scheduled)
        VALUES (1, 'p', 'open', 0, 1, 0, 0), (2, 'p', 'closed', 0, 1, 0, 0), (3, 'p', 'gone', 0, 0, 0, 0)`)
      database.exec("INSERT INTO handler_circuits VALUES (1, '[]', 1, 5), (2, '[]', 0, NULL), (3, '[]', 1, 5)")
      database.close()
      assert.deepStrictEqual((yield* inspect(file)).openCircuits, [{ plugin: "p", handler: "open" }])
    }))

  it.effect("leaves the files of a killed process unchanged", () =>
    Effect.gen(function*() {
      const path = yield* temporaryFolder
      const file = join(path, "killed.db")
      const store = yield* opened(join(path, "rollcall.db"))
      yield* store.takeOwnership("capture")
      for (const end of ["", "-wal"]) copyFileSync(join(path, `rollcall.db${end}`), `${file}${end}`)
      const wal = readFileSync(`${file}-wal`)
      assert.deepInclude(yield* inspect(file), { exists: true, locked: false })
      assert.deepStrictEqual(readFileSync(`${file}-wal`), wal)
    }))

  it.effect("follows a symbolic link to the files of a killed process: their last commits are in the -wal file beside the target", () =>
    Effect.gen(function*() {
      const [path, links] = [yield* temporaryFolder, yield* temporaryFolder]
      yield* opened(join(path, "rollcall.db"))
      for (const end of ["", "-wal"]) copyFileSync(join(path, `rollcall.db${end}`), join(path, `killed.db${end}`))
      symlinkSync(join(path, "killed.db"), join(links, "link.db"))
      assert.deepInclude(yield* inspect(join(links, "link.db")), { exists: true, locked: false })
      assert.deepStrictEqual(readdirSync(links), ["link.db"])
    }))

  it.effect("reports that another program locks the store to which a symbolic link leads", () =>
    Effect.gen(function*() {
      const [path, links] = [yield* temporaryFolder, yield* temporaryFolder]
      const [file, link] = [join(path, "rollcall.db"), join(links, "link.db")]
      yield* opened(file)
      symlinkSync(file, link)
      const shell = new DatabaseSync(file)
      shell.exec("BEGIN IMMEDIATE")
      assert.deepInclude(yield* inspect(link), { exists: true, locked: true })
      shell.close()
    }))

  it.effect("leaves ownership with the process that uses the store (I10)", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      const store = yield* opened(file)
      const owner = yield* store.takeOwnership("relay")
      assert.deepInclude(yield* inspect(file), { exists: true, locked: false })
      yield* store.saveReaderPosition(owner, "relay", 0)
      assert.strictEqual((yield* store.takeOwnership("relay")).epoch, owner.epoch + 1)
    }))

  it.effect("reports that another program locks the store", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      yield* opened(file)
      const shell = new DatabaseSync(file)
      shell.exec("BEGIN IMMEDIATE")
      assert.deepInclude(yield* inspect(file), { exists: true, locked: true })
      shell.close()
    }))

  it.effect("fails as opening the store does if the file is not a store", () =>
    Effect.gen(function*() {
      const path = yield* temporaryFolder
      const notes = join(path, "notes.txt")
      writeFileSync(notes, "these are notes\n".repeat(100))
      const foreign = join(path, "foreign.db")
      const theirs = new DatabaseSync(foreign)
      theirs.exec("CREATE TABLE theirs (a)")
      theirs.close()
      const newer = join(path, "newer.db")
      yield* Effect.scoped(opened(newer))
      const later = new DatabaseSync(newer)
      later.exec(
        "INSERT INTO migrations (migration_id, name) VALUES (999, 'later'); UPDATE meta SET required_schema = 999"
      )
      later.close()
      const files = [join(path, "missing", "a.db"), notes, foreign, newer]
      const reasons = yield* Effect.forEach(files, reasonOf)
      for (
        const [index, words] of ["does not exist", "is not a SQLite database", "another program", "schema 999"]
          .entries()
      ) {
        assert.include(reasons[index]?.hint, words)
      }
      for (const [index, file] of files.entries()) {
        const { reason } = yield* Effect.flip(Effect.scoped(opened(file)))
        assert.strictEqual(reason.hint, reasons[index]?.hint)
      }
    }))
})
