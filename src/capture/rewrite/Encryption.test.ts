/** Encryption of stored content that is switched on, rotated and misconfigured, on a real database file. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import { SqlClient } from "effect/sql/SqlClient"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import { capturing } from "../../../test/support/capture/Capturing.ts"
import { endingAfter } from "../../../test/support/capture/EndingProcess.ts"
import { type Body, owning, run, start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import { named } from "../../../test/support/capture/Waves.ts"
import { storeFile } from "../../../test/support/TemporaryFolder.ts"
import { type EncryptionKey, parseKey } from "../../domain/EncryptionKey.ts"
import { defaultProcessing } from "../../domain/Processing.ts"
import { EncryptionKeys } from "../../store/sql/ContentCipher.ts"
import * as Ports from "../../store/sql/Ports.ts"
import * as Sqlite from "../../store/sqlite/Sqlite.ts"
import { Store } from "../../store/Store.ts"
import { Capture } from "../schedule/Capture.ts"
import { takeStreams } from "../Stream.ts"
import { redactAndRetire, redactStored } from "./Redactor.ts"

const newKey = () => parseKey(randomBytes(32).toString("base64"))!
const [first, second] = [newKey(), newKey()]

/** Encrypts stored content with the current key, and ends after this number of transactions. */
const rewrite = Effect.fnUntraced(function*(transactions: number) {
  const owner = yield* (yield* Store).takeOwnership("capture")
  yield* endingAfter(transactions, redactStored(owning(owner), ({ model }) => defaultProcessing(model)))
})

const makeWorld = Effect.gen(function*() {
  const file = yield* storeFile
  yield* TestClock.setTime(start)
  const api = Scripted.make()
  const put = (version: string) => {
    for (const id of named(0, 120)) api.put(start, { id, title: `secret ${id} ${version}`, notes: "n".repeat(500) })
  }
  put("1")
  /** A process with these keys that reads each stream once, or not at all, or on and on until `then` ends. */
  const run = <A, E>(
    keys: ReadonlyArray<EncryptionKey>,
    then: Effect.Effect<A, E, Store | SqlClient>,
    { reads = "once" }: { readonly reads?: "none" | "once" | "on" } = {}
  ) => {
    const ports = Ports.layer.pipe(
      Layer.provideMerge(Sqlite.client({ file })),
      Layer.provide(Layer.succeed(EncryptionKeys)(keys))
    )
    const capture = capturing(["ats.application"], { processingOf: ({ model }) => defaultProcessing(model) })
    const within = <A, E>(read: (capture: Capture["Service"]) => Effect.Effect<A, E>) =>
      Effect.provide(Effect.flatMap(Capture, read), Layer.provide(capture, Scripted.layer(api)))
    const both = {
      none: then,
      once: Effect.andThen(within(({ once }) => once), then),
      on: Effect.raceFirst(within(({ run }) => run), then)
    }
    return both[reads].pipe(Effect.provide(ports))
  }
  /** Number of times that a text is in the bytes of the files. */
  const inFiles = (text: string) =>
    ["", "-wal"].map((suffix) => file + suffix).filter(existsSync)
      .reduce((count, path) => count + readFileSync(path, "latin1").split(text).length - 1, 0)
  const contents = Effect.gen(function*() {
    const entries = yield* (yield* Store).readLog({ after: 0, limit: 1_000 })
    return entries.map(({ after, before, changes }) => ({ after, before, changes }))
  })
  return { api, put, run, inFiles: (text: string) => Effect.sync(() => inFiles(text)), contents }
})

const scenario = (
  test: (world: Effect.Success<typeof makeWorld>) => Body<void, Effect.Services<typeof makeWorld>>
): Effect.Effect<void, unknown> =>
  Effect.flatMap(makeWorld, (world) => run(test(world))).pipe(
    Effect.scoped,
    Effect.provideService(References.MinimumLogLevel, "None")
  )

describe("encryption of the store", () => {
  it.effect("encrypts new content, and content that was stored before it was switched on; consumers read the same events (I11)", () =>
    scenario(function*({ contents, inFiles, put, run }) {
      const before = yield* run([], contents)
      assert.strictEqual(before.length, 120)
      assert.isAbove(yield* inFiles("secret r0"), 0)
      put("2")
      yield* TestClock.adjust("1 hour")
      const after = yield* run(
        [first],
        Effect.gen(function*() {
          assert.strictEqual(yield* inFiles("secret r0"), 0)
          assert.isAtLeast(yield* inFiles(`enc1:${first.id}:`), 240)
          const [stream] = yield* (yield* Store).streams
          assert.deepStrictEqual([stream?.encryptedWith, stream?.redacting], [first.id, undefined])
          return yield* contents
        })
      )
      assert.deepStrictEqual(after.slice(0, 120), before)
      assert.strictEqual(after.length, 240)
      assert.include(after[239]!.changes, "secret r0119 2")
      assert.deepStrictEqual(yield* run([first], contents), after)
    }))

  it.effect("with a newer key encrypts everything again; then the older key is no longer needed", () =>
    scenario(function*({ contents, inFiles, run }) {
      const before = yield* run([first], contents)
      yield* run(
        [first],
        Effect.flatMap(
          Store,
          ({ streams }) =>
            Effect.map(
              streams,
              ([stream]) =>
                assert.strictEqual(stream?.encryptedWith, first.id, "a new stream has the key from its beginning")
            )
        ),
        { reads: "none" }
      )
      assert.deepStrictEqual(yield* run([second, first], contents), before)
      assert.strictEqual(yield* inFiles(`enc1:${first.id}:`), 0)
      assert.deepStrictEqual(yield* run([second], contents), before)
    }))

  it.effect("that is interrupted after any transaction is completed by the next process, and needs both keys until then (X1)", () =>
    scenario(function*({ contents, inFiles, run }) {
      const before = yield* run([first], contents)
      const interrupted = Effect.andThen(rewrite(2), contents)
      let ended = 0
      for (; (yield* inFiles(`enc1:${first.id}:`)) > 0; ended++) {
        const error = yield* Effect.flip(Effect.asVoid(run([second], contents)))
        assert.include(String(error), first.id)
        assert.deepStrictEqual(yield* run([second, first], interrupted, { reads: "none" }), before)
        assert.isBelow(ended, 10)
      }
      assert.isAtLeast(ended, 2)
      yield* run([second, first], contents)
      assert.deepStrictEqual(yield* run([second], contents), before)
    }))

  it.effect("rewrites everything again if a process with the older key as its current one has rewritten a part, before it retires that key", () =>
    scenario(function*({ contents, inFiles, run }) {
      const before = yield* run([first], contents)
      yield* run([second, first], contents)
      yield* run([first, second], rewrite(4), { reads: "none" })
      assert.isAbove(yield* inFiles(`enc1:${first.id}:`), 0)
      assert.deepStrictEqual(yield* run([second, first], contents), before)
      assert.strictEqual(yield* inFiles(`enc1:${first.id}:`), 0)
      assert.deepStrictEqual(yield* run([second], contents), before)
    }))

  it.effect("encrypts a stream again whose model only the store knows, and keeps the older key while the content of a stream needs it", () =>
    scenario(function*({ contents, inFiles, run }) {
      const before = yield* run([first], contents)
      const encrypt = (owns: boolean) =>
        Effect.gen(function*() {
          const { owners: _, ...ownership } = yield* takeStreams
          yield* redactAndRetire({ ...ownership, owns: () => owns }, () => null)
        })
      yield* run([second, first], encrypt(false), { reads: "none" })
      const error = yield* Effect.flip(Effect.asVoid(run([second], contents, { reads: "none" })))
      assert.include(String(error), first.id)
      yield* run([second, first], encrypt(true), { reads: "none" })
      assert.strictEqual(yield* inFiles(`enc1:${first.id}:`), 0)
      assert.deepStrictEqual(yield* run([second], contents), before)
    }))

  it.effect("keeps the older key while another process may encrypt with it, and retires the key a minute after that process is gone", () =>
    scenario(function*({ contents, run }) {
      yield* run([first], contents)
      /** The redactor pauses for as long as a transaction took, so the clock moves in small steps. */
      const passing = (minutes: number) => Effect.repeat(TestClock.adjust("1 second"), { times: 60 * minutes })
      const registered = Effect.flatMap(SqlClient, (sql) => sql<{ id: string }>`SELECT id FROM encryption_keys`)
      yield* run(
        [second, first],
        Effect.gen(function*() {
          const sql = yield* SqlClient
          const other = { id: "other", version: "1", host: "h", pid: 1, problems: "[]", encryption_key: first.id }
          yield* sql`INSERT INTO processes ${sql.insert({ ...other, started_at: start, seen_at: start + 10 * 60_000 })}`
          yield* passing(10)
          assert.lengthOf(yield* registered, 2)
          yield* sql`DELETE FROM processes WHERE id = 'other'`
          yield* passing(1)
          assert.deepStrictEqual(yield* registered, [{ id: second.id }])
        }),
        { reads: "on" }
      )
    }))

  it.effect("is not switched off, and not opened with another key: the message names the variable, and nothing is changed", () =>
    scenario(function*({ contents, run }) {
      const before = yield* run([first], contents)
      for (const keys of [[], [second]]) {
        const { message } = yield* Effect.flip(
          Effect.asVoid(run(keys, contents)) as Effect.Effect<void, { readonly message: string }>
        )
        assert.include(message, `encrypted with the key ${first.id}`)
        assert.include(message, "ROLLCALL_ENCRYPTION_KEY_FILE")
      }
      assert.deepStrictEqual(yield* run([first], contents), before)
    }))

  it.effect("covers the results of journal steps, which are read after the key has changed (L5)", () =>
    scenario(function*({ contents, inFiles, run }) {
      yield* run(
        [],
        Effect.gen(function*() {
          const sql = yield* SqlClient
          const row = { handler: 1, dedup_key: "e1", keep_forever: 0, delivery: 1, claim: 1, begun_at: 1, done: 1 }
          const results = Array.from({ length: 300 }, (_, index) => ({
            ...row,
            step: `s${index}`,
            result: `{"name":"journal secret ${index}"}`
          }))
          yield* Effect.forEach(results, (result) => sql`INSERT INTO journal ${sql.insert(result)}`)
        })
      )
      assert.isAbove(yield* inFiles("journal secret"), 0)
      yield* run([first], contents)
      assert.strictEqual(yield* inFiles("journal secret"), 0)
      yield* run([second, first], contents)
      assert.strictEqual(yield* inFiles(`enc1:${first.id}:`), 0)
    }))
})
