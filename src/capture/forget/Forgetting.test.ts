import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { pendingOf } from "../../../test/conformance/StoreSamples.ts"
import {
  ann,
  apply,
  candidate,
  contentOf,
  entries,
  forgetNow,
  integration,
  later,
  reasonOf,
  scenario,
  startProcess
} from "../../../test/support/capture/ForgettingWorld.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as MemorySink from "../../../test/support/publish/MemorySink.ts"
import { received } from "../../../test/support/publish/Relaying.ts"
import { Unreachable } from "../../publish/Sink.ts"
import { Store } from "../../store/Store.ts"

/** `created 1`, `updated 2` … of the rows of a record that readers get. */
const kindsOf = (id: string) =>
  Effect.map(
    entries,
    (all) => all.filter((entry) => entry.id === id).map(({ kind, reason, version }) => [kind, version, reason])
  )

describe("forgetting a candidate", () => {
  it.effect("removes it from its record, from the records that repeat it, and from the bytes of the files (I11)", () =>
    scenario(function*(world) {
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
        ],
        mentions: [],
        unreadable: []
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
    }))

  it.effect("lasts through polls, sweeps, audits and other records that repeat it, without events or differences", () =>
    scenario(function*(world) {
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
    }))

  it.effect("removes its pending changes and quarantined rows, also of the records that repeat it", () =>
    scenario(function*(world) {
      const process = yield* startProcess
      const store = yield* Store
      const row = { id: "a-ann", candidate: candidate("ann", start) }
      yield* store.transact(
        process.capture.ownerOf(integration),
        { integration, model: "ats.application" },
        (tx) =>
          Effect.andThen(
            tx.putPending([pendingOf("a-ann", { status: "held", content: JSON.stringify(row) })]),
            tx.quarantine([{
              hash: "q",
              reason: "no string id",
              redaction: null,
              content: JSON.stringify({ ...row, id: 7 }),
              at: 1
            }])
          )
      )
      yield* forgetNow(process, ann)
      assert.strictEqual(world.inFiles("ann@people"), 0)
      const [pending] = yield* store.pendingRows({ limit: 10 })
      assert.deepInclude(pending, { id: "a-ann", status: "held" })
      assert.strictEqual((yield* store.counts).reduce((sum, { quarantined }) => sum + quarantined, 0), 0)
    }))

  it.effect("publishes nothing about a record of which only a pending change repeats it (world 884553646)", () =>
    scenario(function*(world) {
      const process = yield* startProcess
      apply(world, "a-new", "bob", later(3), { candidate: null, candidate_id: null })
      yield* TestClock.adjust("5 minutes")
      const store = yield* Store
      const content = JSON.stringify({ id: "a-new", candidate: candidate("ann", start) })
      yield* store.transact(
        process.capture.ownerOf(integration),
        { integration, model: "ats.application" },
        (tx) => tx.putPending([pendingOf("a-new", { status: "held", content })])
      )
      yield* forgetNow(process, ann)
      assert.deepStrictEqual(yield* kindsOf("a-new"), [["created", 1, null]])
      assert.strictEqual(world.inFiles("ann@people"), 0)
    }))

  it.effect("continues at the next start if the process ended after the request was committed", () =>
    scenario(function*(world) {
      const first = yield* startProcess
      const store = yield* Store
      const at = later(3)
      yield* store.requestForgetting(
        first.capture.ownerOf(integration),
        { ...ann, state: "erasing", requestedAt: at, doneAt: null, progress: null },
        { at, command: "forget", target: "", detail: "" }
      )
      assert.strictEqual(yield* reasonOf(first.plan(ann)), "known")
      assert.strictEqual(yield* reasonOf(first.allow(ann)), "erasing")
      yield* first.stop
      yield* startProcess
      const states = Effect.map(store.forgotten, (records) => records.map(({ state }) => state))
      for (let seconds = 0; seconds < 60 && (yield* states).includes("erasing"); seconds++) {
        yield* TestClock.adjust("1 second")
      }
      assert.deepStrictEqual(yield* states, ["forgotten"])
      assert.strictEqual(world.inFiles("ann@people"), 0)
    }))

  it.effect("publishes no content that the sink did not have before, and the delete once the sink is back", () =>
    scenario(function*(world) {
      const broker = new MemorySink.MemoryBroker()
      const got = yield* received(broker)
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
    }))

  it.effect("is undone by an operator: the next sweep stores the candidate again, with the next version", () =>
    scenario(function*() {
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
    }))

  it.effect("is undone although the application with the newest copy was deleted meanwhile (world 991102890)", () =>
    scenario(function*(world) {
      const process = yield* startProcess
      apply(world, "a-2", "ann", later(3), { candidate: { ...candidate("ann", later(3)), title: "Cook" } })
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual((yield* contentOf("ats.candidate", "c-ann")).title, "Cook")
      world.applications.flag(later(8), "a-2")
      yield* TestClock.adjust("5 minutes")
      yield* forgetNow(process, ann)
      yield* process.allow(ann)
      yield* process.capture.sweep({ integration, model: "ats.application" })
      assert.deepStrictEqual((yield* kindsOf("c-ann")).at(-1), ["created", 4, null])
      assert.deepInclude(yield* contentOf("ats.candidate", "c-ann"), { changed_at: new Date(start).toISOString() })
    }))
})

describe("forgetting", () => {
  it.effect("an application removes its row from all later reads, and erases the candidate that only it showed", () =>
    scenario(function*(world) {
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
    }))

  it.effect("an application removes its change that the guard holds back", () =>
    scenario(function*(world) {
      const process = yield* startProcess
      const store = yield* Store
      const content = JSON.stringify({ id: "a-ann", note: "about ann@people" })
      const held = pendingOf("a-ann", { status: "held", content })
      yield* store.transact(
        process.capture.ownerOf(integration),
        { integration, model: "ats.application" },
        (tx) => tx.putPending([held])
      )
      const application = { integration, model: "ats.application", id: "a-ann" } as const
      assert.strictEqual((yield* process.plan(application)).pending, 1)
      yield* forgetNow(process, application)
      assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
      assert.strictEqual(world.inFiles("about ann@people"), 0)
    }))

  it.effect("an application that is flagged as deleted erases the candidate that only it showed (D11)", () =>
    scenario(function*(world) {
      const process = yield* startProcess
      world.applications.flag(later(3), "a-ann")
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual((yield* kindsOf("a-ann")).at(-1), ["deleted", 2, "flagged"])
      yield* forgetNow(process, { integration, model: "ats.application", id: "a-ann" })
      assert.deepStrictEqual((yield* kindsOf("a-ann")).at(-1), ["deleted", 2, "flagged"])
      assert.deepStrictEqual((yield* kindsOf("c-ann")).at(-1), ["deleted", 2, "erased"])
    }))

  it.effect("is refused for an id that is not stored, for an outdated plan, and for a record that is forgotten already", () =>
    scenario(function*(world) {
      const process = yield* startProcess
      assert.strictEqual(yield* reasonOf(process.plan({ ...ann, id: "ann@people.example" })), "unknown")
      const elsewhere = yield* Effect.flip(process.plan({ ...ann, integration: "greenhouse:acne" }))
      assert.match(elsewhere._tag === "ForgettingRefused" ? elsewhere.hint : "", /integrations list/)
      const { hash } = yield* process.plan(ann)
      apply(world, "a-3", "ann", later(3))
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(yield* reasonOf(process.forget(ann, hash)), "outdated")
      assert.strictEqual(yield* reasonOf(process.allow(ann)), "unknown")
      yield* forgetNow(process, ann)
      assert.strictEqual(yield* reasonOf(process.plan(ann)), "known")
      assert.strictEqual(yield* reasonOf(process.forget(ann, hash)), "known")
    }))
})
