/** Rules that are added later reach everything that is stored, once, and without events. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { existsSync, readFileSync } from "node:fs"
import { capturing } from "../../../test/support/capture/Capturing.ts"
import { endingAfter } from "../../../test/support/capture/EndingProcess.ts"
import { by, dump, fill, find, hiding, plain, redact } from "../../../test/support/capture/Redactions.ts"
import { rigWith, scenario, start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import { named } from "../../../test/support/capture/Waves.ts"
import { indented } from "../../../test/support/source/Spelling.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { storeFile } from "../../../test/support/TemporaryFolder.ts"
import * as Sqlite from "../../store/sqlite/Sqlite.ts"
import { Store } from "../../store/Store.ts"
import { Capture } from "../schedule/Capture.ts"
import * as StoreAdoption from "./StoreAdoption.ts"

describe("content that was stored before a rule was added", () => {
  it.effect("is redacted everywhere, without an event, and a sweep then finds no change (V1, I11)", () =>
    scenario(function*(rig) {
      yield* fill(rig, 130)
      const before = yield* rig.events
      assert.isNotNull(yield* find("secret"))
      yield* redact(rig, hiding)
      assert.isNull(yield* find("secret"))
      const after = yield* rig.events
      const kept = (
        { chain, eventId, id, kind, position, version }: typeof before[number]
      ) => [position, chain, eventId, id, kind, version]
      assert.deepStrictEqual(after.map(kept), before.map(kept))
      for (const [index, entry] of after.entries()) {
        const content = JSON.parse(entry.after!)
        assert.deepStrictEqual(content, hiding.apply(JSON.parse(before[index]!.after!)))
        if (entry.kind !== "updated") continue
        assert.deepStrictEqual(JSON.parse(entry.changes), [
          { path: "/title", before: JSON.parse(entry.before!).title, after: content.title }
        ])
      }
      const later = rigWith(rig, hiding)
      yield* later.sweep
      yield* later.poll
      assert.strictEqual((yield* rig.events).length, before.length)
      const [hold, ...more] = yield* rig.holds
      assert.deepStrictEqual([hold?.rows, more.length], [130, 0])
      yield* later.approve(hold!.id)
      const released = (yield* rig.events).slice(before.length)
      assert.strictEqual(released.length, 130)
      assert.notInclude(JSON.stringify(released), "secret")
      assert.deepStrictEqual(JSON.parse(released[0]!.changes), [{ path: "/outcome", before: "PENDING", after: null }])
    }))

  it.effect("is redacted once: the next process has nothing to do, and neither has one without rules", () =>
    scenario(function*(rig) {
      yield* fill(rig, 3)
      assert.strictEqual(yield* redact(rig, hiding), 11)
      const stored = yield* dump
      for (const processing of [hiding, plain, hiding]) assert.strictEqual(yield* redact(rig, processing), 0)
      assert.deepStrictEqual(yield* dump, stored)
    }))

  it.effect("is redacted by a rule that changes meanwhile, and by a rule that is removed and added again", () =>
    scenario(function*(rig) {
      yield* fill(rig, 130)
      yield* endingAfter(5, redact(rig, by({ "/title": "hash" })))
      const hashed = JSON.parse((yield* rig.events).at(-1)!.after!).title
      assert.match(hashed, /^redacted:/)
      yield* redact(rig, by({ "/contact": "drop", "/remote_id": "drop" }))
      assert.isNull(yield* find("secret@example.com"))
      assert.isNotNull(yield* find("secret r0000"))
      yield* redact(rig, hiding)
      assert.isNull(yield* find("secret"))
      assert.strictEqual(JSON.parse((yield* rig.events).at(-1)!.after!).title, hashed, "hashed once")
      yield* rigWith(rig, hiding).sweep
      assert.strictEqual((yield* rig.events).length, 390)
    }))

  for (const isAdopted of [false, true]) {
    const where = isAdopted ? "in the log of an adopted store" : "in the log"
    it.effect(`${where} is not published with its value if the rule is removed before the record is read again (V1)`, () =>
      scenario(function*(rig) {
        yield* rig.fill({ id: "a", title: "secret", outcome: "PENDING" })
        if (isAdopted) {
          yield* StoreAdoption.adopt(yield* StoreAdoption.plan(0), () => hiding)
          rig = { ...rig, stream: { ...rig.stream, owner: yield* (yield* Store).takeOwnership("capture") } }
        } else yield* redact(rig, hiding)
        const redacted = yield* rig.events
        assert.match(JSON.parse(redacted[0]!.after!).title, /^redacted:/)
        rig.api.intercept = indented(2)
        yield* rigWith(rig, plain).sweep
        assert.deepStrictEqual(yield* rig.events, redacted)
        assert.deepStrictEqual(yield* rig.pending, {})
        yield* rig.wait("1 minute")
        yield* rig.put({ id: "a", title: "secret", outcome: "HIRED" })
        yield* rigWith(rig, plain).poll
        assert.strictEqual(JSON.parse((yield* rig.events).at(-1)!.after!).title, "secret")
      }, { processing: plain }))
  }

  it.effect("loses transitions whose path is redacted, and keeps the others", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", outcome: "PENDING", current_stage_id: "1" })
      yield* rig.wait("10 minutes")
      yield* rig.change({ id: "a", outcome: "HIRED", current_stage_id: "2" })
      const names = Effect.map(
        rig.events,
        (entries) => JSON.parse(entries.at(-1)!.transitions).map(({ name }: { readonly name: string }) => name)
      )
      assert.sameMembers(yield* names, ["hired", "stage_changed"])
      yield* redact(rig, by({ "/outcome": "hash" }))
      assert.deepStrictEqual(yield* names, ["stage_changed"])
    }))

  it.effect("leaves the bytes of the database file and its -wal file (I11)", () =>
    Effect.gen(function*() {
      const file = yield* storeFile
      const holds = () =>
        ["", "-wal"].some((suffix) => existsSync(file + suffix) && readFileSync(file + suffix).includes("secret"))
      const readOnce = (options: Parameters<typeof capturing>[1]) =>
        Effect.flatMap(Capture, (capture) => capture.once).pipe(
          // before the file is closed, which empties the -wal file
          Effect.andThen(Effect.sync(holds)),
          Effect.provide(
            capturing(["ats.application"], options).pipe(
              Layer.provideMerge(Layer.merge(Scripted.layer(api), Sqlite.layer({ file })))
            )
          )
        )
      const api = Scripted.make()
      yield* TestClock.setTime(start)
      for (const id of named(0, 20)) api.put(start, { id, title: `secret ${id}`, notes: "n".repeat(3_000) })
      assert.isTrue(yield* readOnce({}))
      assert.isFalse(yield* readOnce({ processingOf: () => hiding }))
    }).pipe(Effect.scoped, Effect.provideService(References.MinimumLogLevel, "None")))

  it.effect("is redacted while the stream is polled, and the progress is stored (V1)", () => {
    const api = Scripted.make()
    const layer = (options: Parameters<typeof capturing>[1]) =>
      capturing(["ats.application"], options).pipe(Layer.provideMerge(Scripted.layer(api)))
    return Effect.gen(function*() {
      yield* TestClock.setTime(start)
      for (const id of named(0, 450)) api.put(start, { id, title: `secret ${id}` })
      yield* Effect.provide(Effect.flatMap(Capture, (capture) => capture.once), layer({}))
      const store = yield* Store
      const shares: Array<number> = []
      let isStarted = false
      // the next process: once it has started, its store takes a second for every transaction that redacts
      const transact: typeof store.transact = (owner, key, body) =>
        store.transact(owner, key, body).pipe(
          Effect.tap(Effect.flatMap(store.stream(key), (state) => {
            if (state?.redacting === undefined || !isStarted) return Effect.void
            shares.push(Number(state.redacting.after ?? 0))
            return Effect.sleep("1 second")
          }))
        )
      yield* Effect.gen(function*() {
        const capture = yield* Capture
        isStarted = true
        yield* Effect.forkChild(capture.run)
        const polls = api.requests.length
        yield* TestClock.adjust("5 minutes")
        assert.isAtLeast(api.requests.length - polls, 4)
      }).pipe(
        Effect.provide(layer({ processingOf: () => hiding })),
        Effect.provideService(Store, { ...store, transact })
      )
      assert.includeMembers(shares, [351, 251, 151, 51])
      const [state] = yield* store.streams
      assert.isUndefined(state?.redacting)
      assert.notInclude(JSON.stringify(yield* store.readLog({ after: 0, limit: 1_000 })), "secret")
    }).pipe(
      Effect.scoped,
      Effect.provide(MemoryStore.layer()),
      Effect.provideService(References.MinimumLogLevel, "None")
    )
  })
})
