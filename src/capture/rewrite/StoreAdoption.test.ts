import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as References from "effect/References"
import * as TestClock from "effect/testing/TestClock"
import { endingAfter } from "../../../test/support/capture/EndingProcess.ts"
import { type Rig, rigWith, scenario } from "../../../test/support/capture/Rig.ts"
import { acme, make, recorder } from "../../../test/support/delivery/Rig.ts"
import type { LogEntry } from "../../domain/ChangeEvent.ts"
import * as Processing from "../../domain/Processing.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import { Store } from "../../store/Store.ts"
import { poll } from "../read/Poll.ts"
import { takeStreams } from "../Stream.ts"
import * as StoreAdoption from "./StoreAdoption.ts"

const asIs = () => null

const adopted = Effect.gen(function*() {
  const plan = yield* StoreAdoption.plan(0)
  yield* StoreAdoption.adopt(plan, asIs)
  return plan
})

const brief = ({ id, kind, generation, origin, position, version }: LogEntry) =>
  `${position} ${id} ${generation}/${version} ${kind} ${origin}`

/** Three records: one has changed, one is published as deleted, and one has a staged delete. */
const history = Effect.fnUntraced(function*(rig: Rig) {
  yield* rig.backfill(...["a", "b", "c"].map((id) => ({ id, title: "1" })))
  yield* rig.put({ id: "a", title: "2" })
  yield* rig.flag("b")
  yield* rig.poll
})

describe("Adoption", () => {
  it.effect("an adoption publishes every live record in a later generation, without deleted ones, at the next positions (X11)", () =>
    scenario(function*(rig) {
      const store = yield* Store
      yield* history(rig)
      const before = yield* rig.events
      const plan = yield* adopted
      const after = yield* rig.events
      assert.deepStrictEqual(after.map(brief), [
        `6 a ${plan.to}/1 created backfill`,
        `7 c ${plan.to}/1 created backfill`
      ])
      assert.deepStrictEqual(after.map((event) => event.before), [null, null])
      assert.deepStrictEqual(after[0]?.after, before.find((event) => event.id === "a" && event.version === 2)?.after)
      const ids = new Set([...before, ...after].map((event) => event.eventId))
      assert.strictEqual(ids.size, before.length + after.length)
      assert.strictEqual((yield* rig.state).generation, plan.to)
      assert.deepStrictEqual(yield* store.logRange, { oldest: 6, newest: 7 })
    }))

  it.effect("changes after an adoption continue in the new generation: a live record gets version 2, a restored one version 1", () =>
    scenario(function*(rig) {
      yield* history(rig)
      const { to } = yield* adopted
      const owner = yield* Effect.flatMap(Store, (store) => store.takeOwnership("capture"))
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "3" })
      yield* rig.put({ id: "b", title: "back" })
      yield* poll({ ...rig.stream, owner })
      const events = (yield* rig.events).slice(2)
      assert.deepStrictEqual(events.map(brief), [`8 a ${to}/2 updated poll`, `9 b ${to}/1 created poll`])
      assert.strictEqual(JSON.parse(events[0]?.before ?? "").title, "2")
    }))

  it.effect("deliveries that are not settled run after an adoption, with their events (X11)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { note, received } = recorder()
      const plugin = Plugin.make("p").on(
        "ats.application.updated",
        {},
        ({ after, before }) => note(JSON.stringify([before, after]))
      )
      yield* rig.append("a1")
      yield* rig.setState(acme, "removed")
      const first = yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.quiet(first.delivery)
      yield* first.stop
      yield* Effect.provideService(adopted, Store, rig.store)
      yield* rig.setState(acme, "active")
      yield* rig.start([plugin])
      yield* rig.empty
      assert.deepStrictEqual(received, ['[{"id":"a1","version":1},{"id":"a1","version":2}]'])
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None")))

  it.effect("an adoption keeps watermarks and pending rows", () =>
    scenario(function*(rig) {
      const store = yield* Store
      yield* history(rig)
      yield* store.transact(rig.stream.owner, rig.stream.key, (tx) =>
        tx.putPending([{
          id: "a",
          status: "held",
          runId: 3,
          origin: "poll",
          content: null,
          deleted: true,
          reason: "erased",
          textHash: "t",
          canonicalHash: "c",
          remoteId: null,
          changedAt: null,
          detectedAt: 0,
          confirmations: 0,
          confirmedAt: null,
          redaction: null,
          hold: null
        }]))
      const before = yield* rig.state
      const plan = yield* adopted
      assert.strictEqual(plan.pending, 1)
      assert.deepStrictEqual(yield* rig.state, { ...before, generation: plan.to })
      assert.deepStrictEqual(yield* rig.pending, { a: "held" })
    }))

  it.effect("the second adoption of the same copy has a greater generation than the first (X11)", () =>
    scenario(function*(rig) {
      yield* history(rig)
      const first = yield* StoreAdoption.plan(0)
      yield* TestClock.adjust("5 minutes")
      const second = yield* StoreAdoption.plan(0)
      assert.isAbove(second.to, first.to)
      assert.strictEqual((yield* StoreAdoption.plan(second.to + 9)).to, second.to + 10)
    }))

  it.effect("an adoption that is killed after any transaction and repeated has the same result as an uninterrupted one (X11)", () =>
    Effect.gen(function*() {
      const outcome = (killedAfter: number) =>
        scenario(function*(rig) {
          for (let i = 0; i < 600; i++) yield* rig.put({ id: `r${i}`, title: "1" })
          yield* history(rig)
          const plan = yield* StoreAdoption.plan(0)
          const exit = yield* endingAfter(killedAfter, StoreAdoption.adopt(plan, asIs))
          if (Exit.isFailure(exit)) yield* StoreAdoption.finish(yield* takeStreams, plan.to, asIs)
          const events = yield* rig.events
          return { died: Exit.isFailure(exit), state: yield* rig.state, events: events.map(brief) }
        })
      const { died, ...whole } = yield* outcome(1000)
      assert.isFalse(died)
      assert.strictEqual(whole.events.length, 602)
      for (let killedAfter = 0; killedAfter < 12; killedAfter++) {
        const { died, ...other } = yield* outcome(killedAfter)
        if (!died) return assert.isAbove(killedAfter, 6)
        assert.deepStrictEqual(other, whole)
      }
      assert.fail("it was killed every time")
    }))

  const redacting = Processing.make("ats.application", { remoteData: "drop", redact: { "/title": "drop" }, key: "" })
  for (
    const [when, readBefore] of [["", false], [
      ", even if the record was already read with the redaction and did not change",
      true
    ]] as const
  ) {
    it.effect(`an adoption does not publish values that are redacted now${when}`, () =>
      scenario(function*(rig) {
        yield* history(rig)
        if (readBefore) yield* rigWith(rig, redacting).sweep
        const before = (yield* rig.events).at(-1)!.position
        yield* StoreAdoption.adopt(yield* StoreAdoption.plan(0), () => redacting)
        const republished = (yield* rig.events).filter(({ position }) => position > before)
        assert.isNotEmpty(republished)
        for (const event of republished) assert.notProperty(JSON.parse(event.after ?? ""), "title")
      }))
  }
})
