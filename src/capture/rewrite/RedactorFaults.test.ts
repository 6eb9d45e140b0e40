/** Redaction by processes that end, overtake each other or find damaged rows: it is completed, or counted as failed. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as References from "effect/References"
import { SqlClient } from "effect/sql/SqlClient"
import { TestClock } from "effect/testing"
import { capturing } from "../../../test/support/capture/Capturing.ts"
import { endingAfter } from "../../../test/support/capture/EndingProcess.ts"
import { dump, fill, find, hiding, plain, redact } from "../../../test/support/capture/Redactions.ts"
import { owning, scenario, start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import { named } from "../../../test/support/capture/Waves.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import * as Processing from "../../domain/Processing.ts"
import { Damaged, Store, StoreError } from "../../store/Store.ts"
import { Capture } from "../schedule/Capture.ts"
import { takeStreams } from "../Stream.ts"
import { redactAndRetire, redactStored } from "./Redactor.ts"
import * as StoreAdoption from "./StoreAdoption.ts"

/** The value of the gauge of streams whose content could not be rewritten. */
const failedStreams = Effect.map(Metric.snapshot, (all) => {
  const found = all.find(({ id }) => id === "rollcall_redaction_failed_streams")
  return found?.type === "Gauge" ? Number(found.state.value) : null
})

describe("content that was stored before a rule was added", () => {
  it.effect("is redacted without a pause of a day if our clock is set forward by a day meanwhile (W4)", () =>
    scenario(function*(rig) {
      yield* fill(rig, 130)
      const store = yield* Store
      const clock = yield* Clock.Clock
      let transactions = 0
      const transact: typeof store.transact = (...args) =>
        Effect.tap(store.transact(...args), () => Effect.sync(() => transactions++))
      const currentTimeMillis = Effect.map(clock.currentTimeMillis, (now) => now + (transactions < 3 ? 0 : 86_400_000))
      const redacting = yield* redact(rig, hiding).pipe(
        Effect.provideService(Store, { ...store, transact }),
        Effect.provideService(Clock.Clock, { ...clock, currentTimeMillis }),
        Effect.forkChild({ startImmediately: true })
      )
      yield* Effect.repeat(TestClock.adjust("1 second"), {
        until: () => redacting.pollUnsafe() !== undefined,
        times: 600
      })
      assert.isAbove(transactions, 3)
      assert.strictEqual(redacting.pollUnsafe()?._tag, "Success")
    }))

  it.effect("is redacted to its end by the next process if this one ends after any transaction (X1)", () =>
    scenario(function*(rig) {
      yield* fill(rig, 130)
      for (let last = "", ended = 0;; ended++) {
        const exit = yield* endingAfter(1, redact(rig, hiding))
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
        yield* endingAfter(4, redactStored(yield* takeStreams, () => hiding))
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
        Effect.suspend(() =>
          ++transactions === 2 ? store.eraseStream(owner, key, Number.MAX_SAFE_INTEGER) : Effect.void
        ).pipe(
          Effect.andThen(store.transact(owner, key, body))
        )
      const run = redactStored(owning(rig.stream.owner), () => hiding)
      assert.strictEqual(yield* Effect.provideService(run, Store, { ...store, transact }), 0)
    }))
})
