import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { begin, changeOf, headOf, pendingOf, tags } from "../../../test/conformance/StoreSamples.ts"
import * as Retention from "../../publish/Retention.ts"
import type { RecordWrite } from "../Records.ts"
import * as Sqlite from "./Sqlite.ts"

const file = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-reclaim-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
).pipe(Effect.map((directory) => join(directory, "rollcall.db")))

/** Some contents are larger than a page, so that they have overflow pages. */
const contentOf = (id: string, letter: string): string =>
  JSON.stringify({
    id,
    email: `${letter}.${id}@people.example`,
    notes: "n".repeat(Number(id) % 20 === 0 ? 20_000 : 1500)
  })

const people = Array.from({ length: 200 }, (_, index) => String(index))
const created = (id: string): RecordWrite => changeOf(headOf(id), "created", { after: contentOf(id, "a") })

/** How many e-mail addresses are in the bytes of the store's files. */
const addressesIn = (path: string, letters = "abpq"): number =>
  ["", "-wal", "-shm", "-journal"].filter((suffix) => existsSync(path + suffix))
    .flatMap((suffix) =>
      readFileSync(path + suffix, "latin1").match(new RegExp(`[${letters}][.]\\d+@people`, "g")) ?? []
    )
    .length

const filled = Effect.gen(function*() {
  const own = yield* begin
  yield* own.write(people.map(created))
  for (const id of people) {
    const head = yield* own.head(id)
    yield* own.write([changeOf(head, "updated", { after: contentOf(id, "b") })])
  }
  yield* own.inTags((tx) =>
    Effect.andThen(
      tx.putPending(people.map((id) => pendingOf(id, { content: contentOf(id, "p") }))),
      tx.quarantine(
        people.map((id) => ({ hash: id, reason: "no string id", content: contentOf(id, "q"), redaction: null, at: 1 }))
      )
    )
  )
  return own
})

describe("the files of a SQLite store", () => {
  it.effect("contain no e-mail address of an integration once it is erased and the space is reclaimed", () =>
    Effect.gen(function*() {
      const path = yield* file
      yield* Effect.gen(function*() {
        const { owner, store } = yield* filled
        assert.isAbove(addressesIn(path), 0)
        yield* store.eraseStream(owner, tags)
        assert.isTrue(yield* store.reclaim)
        assert.strictEqual(addressesIn(path), 0)
      }).pipe(Effect.provide(Sqlite.layer({ file: path, ownThread: true })))
    }))

  it.effect("contain no earlier version of a record once the retention is over", () =>
    Effect.gen(function*() {
      const path = yield* file
      yield* Effect.gen(function*() {
        yield* filled
        yield* Layer.build(Retention.layer({ retention: Duration.days(7), readers: [] }))
        yield* TestClock.adjust("8 days")
        assert.strictEqual(addressesIn(path, "a"), 0)
        assert.strictEqual(addressesIn(path, "b"), people.length)
      }).pipe(Effect.scoped, Effect.provide(Sqlite.layer({ file: path })))
    }))

  it.effect("are not reclaimed while another process reads them, and are once it has ended its read", () =>
    Effect.gen(function*() {
      const path = yield* file
      yield* Effect.gen(function*() {
        const { owner, store } = yield* filled
        const reader = new DatabaseSync(path)
        reader.exec("BEGIN")
        reader.prepare("SELECT count(*) FROM events").get()
        yield* store.eraseStream(owner, tags)
        assert.isFalse(yield* store.reclaim)
        reader.exec("COMMIT")
        reader.close()
        assert.isTrue(yield* store.reclaim)
        assert.strictEqual(addressesIn(path), 0)
      }).pipe(Effect.provide(Sqlite.layer({ file: path })))
    }))
})
