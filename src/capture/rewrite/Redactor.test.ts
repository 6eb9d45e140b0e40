/** Rules that are added later reach everything that is stored, once, without events, and in whatever order processes end. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as References from "effect/References"
import { SqlClient } from "effect/sql/SqlClient"
import { TestClock } from "effect/testing"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { capturing } from "../../../test/support/capture/Capturing.ts"
import { owning, type Rig, rigWith, scenario, start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import { named } from "../../../test/support/capture/Waves.ts"
import { indented } from "../../../test/support/source/Spelling.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import type { ReadModel } from "../../domain/BuiltInModels.ts"
import * as Processing from "../../domain/Processing.ts"
import * as Sqlite from "../../store/sqlite/Sqlite.ts"
import { Damaged, Store, StoreError } from "../../store/Store.ts"
import { sweep } from "../read/Sweep.ts"
import { Capture } from "../schedule/Capture.ts"
import { takeStreams } from "../Stream.ts"
import { redactAndRetire, redactStored } from "./Redactor.ts"
import * as StoreAdoption from "./StoreAdoption.ts"

const by = (redact: Processing.ProcessingRules["redact"], model: ReadModel = "ats.application") =>
  Processing.make(model, { remoteData: "drop", redact, key: "k" })
const plain = by({})
const hiding = by({ "/title": "hash", "/contact": "drop", "/remote_id": "drop" })

const redact = (rig: Rig, processing: Processing.Processing) =>
  redactStored(owning(rig.stream.owner), (key) => key.model === "ats.application" ? processing : null)

/** Every text of the store's tables, to search it. */
const dump = Effect.gen(function*() {
  const sql = yield* SqlClient
  const tables = ["events", "pending", "quarantine", "streams"]
  const rows = yield* Effect.forEach(tables, (table) => sql`SELECT * FROM ${sql(table)}`)
  return rows.flat().map((row) => JSON.stringify(row))
})

/** The value of the gauge of streams whose content could not be rewritten. */
const failedStreams = Effect.map(Metric.snapshot, (all) => {
  const found = all.find(({ id }) => id === "rollcall_redaction_failed_streams")
  return found?.type === "Gauge" ? Number(found.state.value) : null
})

/** The first of the stored rows with this text. */
const find = (text: string) => Effect.map(dump, (rows) => rows.find((row) => row.includes(text)) ?? null)

/** Records with two versions each, pending changes in a hold, and quarantined rows; `secret` is in all of them. */
const fill = Effect.fnUntraced(function*(rig: Rig, count: number) {
  const ids = named(0, count)
  const row = (id: string, version: string) => ({
    id,
    remote_id: `secret-${id}`,
    title: `secret ${id} ${version}`,
    contact: { mail: "secret@example.com" },
    outcome: "PENDING"
  })
  yield* rig.fill(...ids.map((id) => row(id, "1")))
  yield* rig.wait("10 minutes")
  for (const id of ids) yield* rig.put(row(id, "2"))
  rig.api.intercept = (_, page) => ({
    ...page,
    results: [...page.results, { title: "secret nameless" }, "secret text"]
  })
  yield* rig.poll
  rig.api.intercept = (_, page) => page
  yield* rig.wait("10 minutes")
  yield* rig.change(...ids.map((id) => ({ ...row(id, "3"), outcome: null })))
  yield* rig.wait("10 minutes")
  return { ids, row }
})

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

  it.effect("is redacted to its end by the next process if this one ends after any transaction (X1)", () =>
    scenario(function*(rig) {
      yield* fill(rig, 130)
      const store = yield* Store
      for (let last = "", ended = 0;; ended++) {
        let transactions = 0
        const transact: typeof store.transact = (owner, key, body) =>
          Effect.suspend(() => ++transactions > 1 ? Effect.die("ended") : store.transact(owner, key, body))
        const exit = yield* Effect.exit(Effect.provideService(redact(rig, hiding), Store, { ...store, transact }))
        const { redacting } = yield* rig.state
        if (exit._tag === "Success") {
          assert.isAtLeast(ended, 6)
          assert.isUndefined(redacting)
          break
        }
        const progress = JSON.stringify(redacting)
        assert.notStrictEqual(progress, last, "each process makes progress")
        last = progress
      }
      assert.isNull(yield* find("secret"))
    }))

  it.effect("is redacted by a rule that changes meanwhile, and by a rule that is removed and added again", () =>
    scenario(function*(rig) {
      yield* fill(rig, 130)
      const store = yield* Store
      let transactions = 0
      const transact: typeof store.transact = (owner, key, body) =>
        Effect.suspend(() => ++transactions > 5 ? Effect.die("ended") : store.transact(owner, key, body))
      yield* Effect.exit(
        Effect.provideService(redact(rig, by({ "/title": "hash" })), Store, { ...store, transact })
      )
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

  it.effect("of a candidate is not published with its value if the rules of its applications change too, and back (V1)", () => {
    const rulesOf = (remoteData: Processing.RemoteData, redact: Processing.ProcessingRules["redact"]) => {
      const source = { remoteData: "carry", redact } as const
      return {
        processing: Processing.make("ats.application", { ...source, key: "k" }),
        derivedProcessing: Processing.make("ats.candidate", { remoteData, redact: {}, key: "k", source })
      }
    }
    const first = rulesOf("carry", {})
    const later = rulesOf("track", { "/candidate/title": "drop" })
    const row = (stage: string, changed: number) => ({
      id: "a",
      stage,
      candidate: {
        id: "c",
        title: "secret",
        remote_data: { a: 1 },
        changed_at: new Date(start + changed).toISOString()
      }
    })
    return scenario(function*(rig) {
      yield* rig.backfill(row("1", 0))
      yield* redactStored(
        owning(rig.stream.owner),
        ({ model }) => model === "ats.candidate" ? later.derivedProcessing : later.processing
      )
      assert.isNull(yield* find("secret"))
      yield* rig.change(row("2", 1_000))
      const events = yield* rig.events
      assert.deepStrictEqual(events.map(({ id, kind }) => `${id} ${kind}`), ["a created", "c created", "a updated"])
    }, first)
  })

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

  it.effect("of a candidate is not published with its value if the rule is removed before its content changes (V1)", () => {
    const of = (remoteData: Processing.RemoteData, redact: Processing.ProcessingRules["redact"]) =>
      Processing.make("ats.candidate", { remoteData, redact, key: "k" })
    const hidden = of("drop", { "/first_name": "hash" })
    const shown = (changed: string, details: object) => ({
      id: "c",
      tags: [],
      remote_data: { raw: 1 },
      changed_at: `${changed}T00:00:00.000Z`,
      ...details
    })
    return scenario(function*(rig) {
      yield* rig.fill({ id: "a", candidate: shown("2025-01-01", { first_name: "secret" }) })
      yield* redactStored(owning(rig.stream.owner), ({ model }) => model === "ats.candidate" ? hidden : null)
      const published = Effect.map(rig.events, (all) => all.filter(({ model }) => model === "ats.candidate"))
      const redacted = yield* published
      assert.match(JSON.parse(redacted[0]!.after!).first_name, /^redacted:/)
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", note: "1", candidate: shown("2025-01-02", { first_name: "secret" }) })
      assert.deepStrictEqual(yield* published, redacted)
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", note: "1", candidate: shown("2025-01-03", { first_name: "secret", title: "x" }) })
      assert.strictEqual(JSON.parse((yield* published).at(-1)!.after!).first_name, "secret")
    }, {
      processing: Processing.make("ats.application", { remoteData: "carry", redact: {}, key: "k" }),
      derivedProcessing: of("carry", {})
    })
  })

  it.effect("of a candidate is redacted by the rules of its application", () => {
    const derivedProcessing = Processing.defaultProcessing("ats.candidate")
    const source = { remoteData: "drop", redact: { "/candidate/first_name": "hash" } } as const
    const processingOf = ({ model }: { readonly model: string }) =>
      model === "ats.application"
        ? Processing.make(model, { ...source, key: "k" })
        : Processing.make("ats.candidate", { remoteData: "drop", redact: {}, key: "k", source })
    return scenario(function*(rig) {
      yield* rig.fill({ id: "a", candidate: { id: "c", first_name: "secret", tags: [] } })
      yield* redactStored(owning(rig.stream.owner), processingOf)
      assert.isNull(yield* find("secret"))
      const processing = processingOf({ model: "ats.application" })
      yield* sweep(
        { ...rig.stream, processing, derivedProcessing: processingOf({ model: "ats.candidate" }) },
        Effect.succeed(false)
      )
      const [application, candidate, ...more] = yield* rig.events
      assert.strictEqual(more.length, 0)
      assert.strictEqual(
        JSON.parse(candidate!.after!).first_name,
        JSON.parse(application!.after!).candidate.first_name
      )
    }, { derivedProcessing })
  })

  it.effect("leaves the bytes of the database file and its -wal file (I11)", () =>
    Effect.gen(function*() {
      const directory = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-redaction-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true }))
      )
      const file = join(directory, "rollcall.db")
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

  const key = { integration: "greenhouse:acme", model: "ats.application" } as const
  for (const what of ["has read a record", "has adopted the store"]) {
    it.effect(`is redacted from the beginning again if a process without the rule ${what} meanwhile (V1, I11)`, () => {
      const api = Scripted.make()
      const withoutRule = <A, E>(read: (capture: Capture["Service"]) => Effect.Effect<A, E>) =>
        Effect.flatMap(Capture, read).pipe(
          Effect.provide(capturing(["ats.application"], { processingOf: () => plain })),
          Effect.provide(Scripted.layer(api))
        )
      return Effect.gen(function*() {
        yield* TestClock.setTime(start)
        for (const id of named(0, 130)) api.put(start, { id, title: `secret ${id}` })
        yield* withoutRule((capture) => capture.once)
        const store = yield* Store
        let transactions = 0
        const transact: typeof store.transact = (owner, key, body) =>
          Effect.suspend(() => ++transactions > 4 ? Effect.die("ended") : store.transact(owner, key, body))
        yield* Effect.exit(
          Effect.provideService(redactStored(yield* takeStreams, () => hiding), Store, { ...store, transact })
        )
        assert.strictEqual((yield* store.stream(key))?.redacting?.after, 31)
        yield* TestClock.adjust("1 minute")
        api.put(start + 60_000, { id: "late", title: "secret late" })
        // its redactor has not come to the stream, because it rewrites others
        if (what === "has read a record") yield* withoutRule((capture) => capture.poll(key))
        else yield* StoreAdoption.adopt(yield* StoreAdoption.plan(0), () => plain)
        yield* redactStored(yield* takeStreams, () => hiding)
        assert.notInclude(JSON.stringify(yield* store.readLog({ after: 0, limit: 1_000 })), "secret")
      }).pipe(
        Effect.scoped,
        Effect.provide(MemoryStore.layer()),
        Effect.provideService(References.MinimumLogLevel, "None")
      )
    })
  }

  it.effect("is not rewritten by a process that no longer owns the streams (I10)", () =>
    scenario(function*(rig) {
      yield* fill(rig, 3)
      const stored = yield* dump
      yield* (yield* Store).takeOwnership("capture")
      const error = yield* Effect.flip(redactStored(owning(rig.stream.owner), () => hiding))
      assert.strictEqual(error.reason._tag, "Fenced")
      assert.deepStrictEqual(yield* dump, stored)
    }))

  it.effect("is left as it is if a row is damaged, and the process continues", () =>
    scenario(function*(rig) {
      yield* fill(rig, 3)
      const sql = yield* SqlClient
      yield* sql`UPDATE events SET content = replace(content, 'secret', 'Secret') WHERE position = 1`
      assert.strictEqual(yield* redactStored(owning(rig.stream.owner), () => hiding), 0)
      assert.strictEqual((yield* rig.state).redacting?.table, "events")
      assert.strictEqual(yield* failedStreams, 1)
      yield* sql`UPDATE events SET content = replace(content, 'Secret', 'secret') WHERE position = 1`
      assert.isAbove(yield* redactStored(owning(rig.stream.owner), () => hiding), 0)
      assert.strictEqual(yield* failedStreams, 0)
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))

  it.effect("counts as failed if not even the states of the streams can be read", () =>
    scenario(function*(rig) {
      const store = yield* Store
      const streams = Effect.fail(new StoreError({ reason: new Damaged({ message: "a stream's state" }) }))
      const run = redactAndRetire(owning(rig.stream.owner), () => hiding)
      assert.isTrue(yield* Effect.provideService(run, Store, { ...store, streams }))
      assert.strictEqual(yield* failedStreams, 1)
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))

  it.effect("is redacted in the other streams if a row of one stream is damaged", () => {
    const rules = { remoteData: "drop", redact: { "/first_name": "drop" }, key: "k" } as const
    return scenario(function*(rig) {
      yield* rig.fill({ id: "a", candidate: { id: "c", first_name: "secret", tags: [] } })
      const sql = yield* SqlClient
      yield* sql`UPDATE events SET content = replace(content, 'secret', 'Secret') WHERE position = 1`
      const all = redactStored(
        owning(rig.stream.owner),
        ({ model }) => model === "ats.application" ? hiding : Processing.make(model, rules)
      )
      assert.strictEqual(yield* all, 1)
      assert.isNull(yield* find("secret"))
    }, { derivedProcessing: Processing.defaultProcessing("ats.candidate") })
  })

  it.effect("does not end the process if the stream is erased meanwhile", () =>
    scenario(function*(rig) {
      yield* fill(rig, 3)
      const store = yield* Store
      let transactions = 0
      const transact: typeof store.transact = (owner, key, body) =>
        Effect.suspend(() => ++transactions === 2 ? store.eraseStream(owner, key) : Effect.void).pipe(
          Effect.andThen(store.transact(owner, key, body))
        )
      const run = redactStored(owning(rig.stream.owner), () => hiding)
      assert.strictEqual(yield* Effect.provideService(run, Store, { ...store, transact }), 0)
    }))
})
