import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pendingOf } from "../../../test/conformance/StoreSamples.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import * as MemorySink from "../../../test/support/publish/MemorySink.ts"
import type { LogEntry } from "../../domain/ChangeEvent.ts"
import type { ForgettableRecord } from "../../domain/Forgotten.ts"
import * as Processing from "../../domain/Processing.ts"
import { Relay } from "../../publish/Relay.ts"
import { Sink, Unreachable } from "../../publish/Sink.ts"
import { Source } from "../../source/Source.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import * as Sqlite from "../../store/sqlite/Sqlite.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { Capture, layer as captureLayer } from "../schedule/Capture.ts"
import * as Integrations from "../schedule/Integrations.ts"
import { Forgetting, type ForgettingRefused, layer } from "./Forgetting.ts"

const integration = "greenhouse:acme"
const models = ["ats.application", "ats.candidate", "ats.offer"] as const
const ann: ForgettableRecord = { integration, model: "ats.candidate", id: "c-ann" }

/** The processes of one test, with the lists that they read. */
interface World {
  readonly applications: Scripted.ScriptedApi
  readonly offers: Scripted.ScriptedApi
  /** How often this text is in the bytes of the store's files. */
  readonly inFiles: (text: string) => number
}

const candidate = (name: string, at: number) => ({
  id: `c-${name}`,
  first_name: name,
  email_addresses: [{ email_address: `${name}@people.example`, type: null }],
  tags: [],
  remote_deleted_at: null,
  changed_at: new Date(at).toISOString()
})

const apply = ({ applications }: World, id: string, name: string, at: number, details: object = {}) =>
  applications.put(at, {
    id,
    outcome: "PENDING",
    candidate_id: `c-${name}`,
    candidate: candidate(name, at),
    ...details
  })

const offer = ({ offers }: World, id: string, name: string, at: number) =>
  offers.put(at, {
    id,
    status: "SENT",
    application_id: `a-${name}`,
    application: { candidate: candidate(name, at), job: { id: "j", name: "Cook" } }
  })

const startProcess = Effect.gen(function*() {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const services = Layer.mergeAll(
    Layer.succeed(Store, yield* Store),
    Layer.succeed(Deliveries, yield* Deliveries),
    Layer.succeed(Source, yield* Source)
  )
  const settings = {
    id: integration,
    account: "default",
    models,
    interval: Duration.minutes(1),
    sweepInterval: Duration.hours(6),
    backfill: "publish"
  } as const
  const context = yield* layer({ processing: Processing.defaultProcessing }).pipe(
    Layer.provideMerge(Integrations.layer({
      declared: [settings],
      discovered: new Map(),
      processing: Processing.defaultProcessing,
      readers: []
    })),
    Layer.provideMerge(captureLayer({ overlapMin: Duration.minutes(5), confirmInterval: Duration.minutes(10) })),
    Layer.provide(services),
    Layer.fresh,
    (one) => Layer.buildWithScope(one, scope)
  )
  const capture = Context.get(context, Capture)
  yield* Effect.forkIn(capture.run, scope)
  yield* TestClock.adjust("2 minutes")
  return { ...Context.get(context, Forgetting), capture, stop: Scope.close(scope, Exit.void) }
})

const scenario = <A, E>(
  test: (world: World) => Effect.Effect<A, E, Store | Deliveries | Source | Scope.Scope>
): Effect.Effect<A, E | StoreError> => {
  const [applications, offers] = [Scripted.make(), Scripted.make()]
  return Effect.gen(function*() {
    const directory = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-forget-"))),
      (path) => Effect.sync(() => rmSync(path, { recursive: true }))
    )
    const file = join(directory, "rollcall.db")
    const inFiles = (text: string) =>
      ["", "-wal"].map((suffix) => file + suffix).filter((path) => existsSync(path))
        .reduce((sum, path) => sum + readFileSync(path, "latin1").split(text).length - 1, 0)
    const world: World = { applications, offers, inFiles }
    yield* TestClock.setTime(start)
    for (const name of ["ann", "bob"]) {
      apply(world, `a-${name}`, name, start)
      offer(world, `o-${name}`, name, start)
    }
    const api = Scripted.layerOf({ "ats.application": applications, "ats.offer": offers })
    return yield* Effect.provide(test(world), Layer.merge(api, Sqlite.layer({ file })))
  }).pipe(Effect.scoped, Effect.provideService(References.MinimumLogLevel, "None"))
}

const entries = Effect.flatMap(Store, (store) => store.readLog({ after: 0, limit: 1000 }))
/** `created 1`, `updated 2` … of the rows of a record that readers get. */
const kindsOf = (id: string) =>
  Effect.map(
    entries,
    (all) => all.filter((entry) => entry.id === id).map(({ kind, reason, version }) => [kind, version, reason])
  )
const contentOf = (model: "ats.application" | "ats.offer" | "ats.candidate", id: string) =>
  Effect.flatMap(Store, (store) =>
    Effect.map(store.records({ integration, model }, null, 100), ({ records }) => {
      const found = records.find((record) => record.id === id)
      return found === undefined ? null : JSON.parse(found.content)
    }))
const later = (minutes: number) => start + minutes * 60_000
const reasonOf = <A>(effect: Effect.Effect<A, ForgettingRefused | StoreError>) =>
  Effect.map(Effect.flip(effect), (error) => error._tag === "ForgettingRefused" ? error.reason : error.message)

/** Plans, confirms the plan, and waits until nothing is left. */
const forgetNow = Effect.fnUntraced(
  function*({ forget, plan }: Pick<Forgetting["Service"], "plan" | "forget">, record: ForgettableRecord) {
    const { hash } = yield* plan(record)
    return yield* forget(record, hash)
  }
)

describe("forgetting a candidate", () => {
  it.effect("removes it from its record, from the records that repeat it, and from the bytes of the files (I11)", () =>
    scenario(Effect.fnUntraced(function*(world) {
      const process = yield* startProcess
      yield* TestClock.adjust("1 minute")
      apply(world, "a-ann", "ann", later(4), { outcome: "HIRED" })
      yield* TestClock.adjust("5 minutes")
      assert.isAbove(world.inFiles("ann@people"), 3)
      const { hash, ...counts } = yield* process.plan(ann)
      assert.deepStrictEqual(counts, {
        live: true,
        versions: 1,
        pending: 0,
        deliveries: 0,
        steps: 0,
        copies: [
          { model: "ats.application", records: 1, ids: ["a-ann"] },
          { model: "ats.offer", records: 1, ids: ["o-ann"] }
        ]
      })
      assert.match(hash, /^[0-9a-f]{16}$/)
      const done = yield* process.forget(ann, hash)
      assert.deepInclude(done, { ...ann, state: "forgotten" })
      assert.deepStrictEqual(yield* kindsOf("c-ann"), [["deleted", 2, "forgotten"]])
      assert.deepStrictEqual(yield* kindsOf("a-ann"), [["deleted", 3, "forgotten"], ["created", 4, null]])
      assert.deepStrictEqual(yield* kindsOf("o-ann"), [["deleted", 2, "forgotten"], ["created", 3, null]])
      assert.deepInclude(yield* contentOf("ats.application", "a-ann"), { outcome: "HIRED", candidate: null })
      assert.deepStrictEqual((yield* contentOf("ats.offer", "o-ann")).application, {
        candidate: null,
        job: { id: "j", name: "Cook" }
      })
      assert.isNull(yield* contentOf("ats.candidate", "c-ann"))
      assert.strictEqual(world.inFiles("ann@people"), 0)
      assert.strictEqual((yield* contentOf("ats.candidate", "c-bob")).first_name, "bob")
      const { auditLog, forgotten } = yield* Store
      assert.deepInclude((yield* auditLog(1))[0], { command: "forget", target: `${integration}/ats.candidate/c-ann` })
      assert.strictEqual((yield* forgotten).length, 1)
    })))

  it.effect("lasts through polls, sweeps, audits and other records that repeat it, without events or differences", () =>
    scenario(Effect.fnUntraced(function*(world) {
      const process = yield* startProcess
      yield* forgetNow(process, ann)
      const before = (yield* entries).length
      yield* TestClock.adjust("10 minutes")
      for (const model of ["ats.application", "ats.offer"] as const) {
        yield* process.capture.sweep({ integration, model })
        const report = yield* process.capture.audit({ integration, model })
        assert.deepStrictEqual([report.differing, report.read], [0, 2])
      }
      assert.strictEqual((yield* entries).length, before)
      apply(world, "a-2", "ann", later(13))
      apply(world, "a-ann", "ann", later(13), { outcome: "DECLINED" })
      yield* TestClock.adjust("5 minutes")
      assert.deepInclude(yield* contentOf("ats.application", "a-2"), { candidate: null })
      assert.deepInclude(yield* contentOf("ats.application", "a-ann"), { candidate: null, outcome: "DECLINED" })
      assert.deepStrictEqual((yield* kindsOf("c-ann")).length, 1)
      assert.strictEqual(world.inFiles("ann@people"), 0)
    })))

  it.effect("removes its pending changes and quarantined rows, also of the records that repeat it", () =>
    scenario(Effect.fnUntraced(function*(world) {
      const process = yield* startProcess
      const store = yield* Store
      const row = { id: "a-ann", candidate: candidate("ann", start) }
      yield* store.transact(process.capture.owner, { integration, model: "ats.application" }, (tx) =>
        Effect.andThen(
          tx.putPending([pendingOf("a-ann", { status: "held", content: JSON.stringify(row) })]),
          tx.quarantine([{
            hash: "q",
            reason: "no string id",
            redaction: null,
            content: JSON.stringify({ ...row, id: 7 }),
            at: 1
          }])
        ))
      yield* forgetNow(process, ann)
      assert.strictEqual(world.inFiles("ann@people"), 0)
      const [pending] = yield* store.pendingRows({ limit: 10 })
      assert.deepInclude(pending, { id: "a-ann", status: "held" })
      assert.strictEqual((yield* store.counts).reduce((sum, { quarantined }) => sum + quarantined, 0), 0)
    })))

  it.effect("continues at the next start if the process ended after the request was committed", () =>
    scenario(Effect.fnUntraced(function*(world) {
      const first = yield* startProcess
      const store = yield* Store
      const at = later(3)
      yield* store.requestForgetting(
        first.capture.owner,
        { ...ann, state: "erasing", requestedAt: at, doneAt: null },
        { at, command: "forget", target: "", detail: "" }
      )
      assert.strictEqual(yield* reasonOf(first.plan(ann)), "known")
      assert.strictEqual(yield* reasonOf(first.allow(ann)), "erasing")
      yield* first.stop
      yield* startProcess
      assert.deepStrictEqual((yield* store.forgotten).map(({ state }) => state), ["forgotten"])
      assert.strictEqual(world.inFiles("ann@people"), 0)
    })))

  it.effect("publishes no content that the sink did not have before, and the delete once the sink is back", () =>
    scenario(Effect.fnUntraced(function*(world) {
      const broker = new MemorySink.MemoryBroker()
      const got: Array<LogEntry> = []
      const recording = Layer.effect(
        Sink,
        Effect.map(Sink, (sink) =>
          Sink.of({
            ...sink,
            publish: (identity, batch, reached) =>
              Effect.andThen(sink.publish(identity, batch, reached), Effect.sync(() => got.push(...batch)))
          }))
      ).pipe(Layer.provide(MemorySink.layer(broker)))
      yield* Layer.build(Relay.layer.pipe(Layer.provide(recording), Layer.provide(Layer.succeed(Store, yield* Store))))
      const process = yield* startProcess
      assert.deepStrictEqual(got.filter(({ id }) => id === "c-ann").map(({ kind }) => kind), ["created"])
      broker.failure = new Unreachable({ message: "away", cause: null })
      apply(world, "a-ann", "ann", later(4), { candidate: { ...candidate("ann", later(4)), title: "Sommelier" } })
      yield* TestClock.adjust("5 minutes")
      yield* forgetNow(process, ann)
      broker.failure = null
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(
        got.filter(({ id }) => id === "c-ann").map(({ kind, reason, version }) => [kind, version, reason]),
        [["created", 1, null], ["deleted", 3, "forgotten"]]
      )
      assert.isFalse(got.some(({ after, before, changes }) => `${after}${before}${changes}`.includes("Sommelier")))
    })))

  it.effect("is undone by an operator: the next sweep stores the candidate again, with the next version", () =>
    scenario(Effect.fnUntraced(function*() {
      const process = yield* startProcess
      yield* forgetNow(process, ann)
      yield* process.allow(ann)
      const { forgotten } = yield* Store
      assert.deepStrictEqual(yield* forgotten, [])
      for (const model of ["ats.application", "ats.offer"] as const) {
        yield* process.capture.sweep({ integration, model })
      }
      assert.deepStrictEqual(yield* kindsOf("c-ann"), [["deleted", 2, "forgotten"], ["created", 3, null]])
      assert.strictEqual((yield* contentOf("ats.application", "a-ann")).candidate.first_name, "ann")
    })))
})

describe("forgetting", () => {
  it.effect("an application removes its row from all later reads, and erases the candidate that only it showed", () =>
    scenario(Effect.fnUntraced(function*(world) {
      const process = yield* startProcess
      yield* forgetNow(process, { integration, model: "ats.application", id: "a-ann" })
      apply(world, "a-ann", "ann", later(3), { outcome: "HIRED" })
      yield* TestClock.adjust("5 minutes")
      yield* process.capture.sweep({ integration, model: "ats.application" })
      assert.deepStrictEqual(yield* kindsOf("a-ann"), [["deleted", 2, "forgotten"]])
      assert.deepStrictEqual((yield* kindsOf("c-ann")).at(-1), ["deleted", 2, "erased"])
      assert.isNull((yield* contentOf("ats.offer", "o-ann")).application)
      const report = yield* process.capture.audit({ integration, model: "ats.application" })
      assert.strictEqual(report.differing, 0)
    })))

  it.effect("is refused for an id that is not stored, for an outdated plan, and for a record that is forgotten already", () =>
    scenario(Effect.fnUntraced(function*(world) {
      const process = yield* startProcess
      assert.strictEqual(yield* reasonOf(process.plan({ ...ann, id: "ann@people.example" })), "unknown")
      const { hash } = yield* process.plan(ann)
      apply(world, "a-3", "ann", later(3))
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(yield* reasonOf(process.forget(ann, hash)), "outdated")
      assert.strictEqual(yield* reasonOf(process.allow(ann)), "unknown")
      yield* forgetNow(process, ann)
      assert.strictEqual(yield* reasonOf(process.plan(ann)), "known")
      assert.strictEqual(yield* reasonOf(process.forget(ann, hash)), "known")
    })))
})
