/** Tests for steps with an unknown outcome and operators' reports that every store must pass; needs a new store for each test. */
import { assert, describe } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { expectationsOf } from "../../src/domain/Expectation.ts"
import type { Intent } from "../../src/store/AttemptJournal.ts"
import type { Resolution, UnresolvedStep } from "../../src/store/DeadLetters.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import type { Claimed } from "../../src/store/DeliveryClaims.ts"
import type { Store, StoreError, StreamTx } from "../../src/store/Store.ts"
import { dead, deliveryTests, operatorAction, setup } from "./DeliveryRig.ts"
import { stateOf } from "./StoreSamples.ts"

const integration = "greenhouse:acme"
const applications = { integration, model: "ats.application" } as const
const dedupKeys = ["e1", `r:${integration}/ats.tag/a`]
const happened = (id = "x"): Resolution => ({ _tag: "Happened", result: JSON.stringify({ id }), created: {} })
const didNot: Resolution = { _tag: "DidNotHappen" }

/** One delivery whose only attempt sent a write, got no response and became a dead letter. */
const unresolved = Effect.fnUntraced(function*(more: Partial<Intent> = {}, details: Parameters<typeof setup>[1] = {}) {
  const rig = yield* setup(["a"], details)
  const { claimOne, deliveries, end, fence: fenceOf, step, store } = rig
  yield* store.ensureStreams([stateOf(applications)])
  const claimed = yield* claimOne
  const intent: Intent = {
    ...step("e1", "s/write:a"),
    integration,
    onUnknown: "deadLetter",
    sameRequestPrefix: "s/write:",
    write: {
      name: "createApplication",
      params: { job_id: "j" },
      plugin: "p",
      perHour: 1_000,
      depth: 1,
      expected: expectationsOf("createApplication", { job_id: "j" }, {
        candidate: { first_name: "Ada", last_name: "Lovelace", email_address: "ada@example.org" }
      })
    },
    allowRepeat: false,
    ...more
  }
  const fence = fenceOf(claimed)
  yield* deliveries.begin(fence, intent)
  const die = ({ id }: Claimed) => end(dead(id))
  yield* die(claimed)
  const openSteps = (id = claimed.id) => deliveries.unresolvedSteps(id, dedupKeys)
  const name = Effect.map(openSteps(), ([step]) => step?.name ?? "")
  const report = (resolution: Resolution, name: string, id = claimed.id) =>
    deliveries.resolve(id, dedupKeys, name, resolution, 0, operatorAction)
  const again = Effect.fnUntraced(function*(more: Partial<Intent> = {}) {
    const claimed = yield* claimOne
    const fence = fenceOf(claimed)
    return { claimed, fence, outcome: yield* deliveries.begin(fence, { ...intent, ...more }) }
  })
  const inApplications = <A, E>(body: (tx: StreamTx) => Effect.Effect<A, E>) =>
    Effect.flatMap(store.takeOwnership("capture"), (capture) => store.transact(capture, applications, body))
  const expected = inApplications((tx) => tx.openExpectations(["job:j", "id:new"]))
  const recordMatch = (id: string) =>
    inApplications((tx) =>
      Effect.flatMap(tx.openExpectations(["job:j"]), Effect.forEach((one) => tx.recordMatch(one, id)))
    )
  return { ...rig, claimed, attempt: fence, intent, die, openSteps, name, report, again, expected, recordMatch }
})

export const reportSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`reports for steps of unknown outcome in a store (${name})`, () => {
    const test = deliveryTests(layer)

    test(
      "an unresolved step shows the write and its target until its outcome is reported (L5)",
      unresolved(),
      function*({ again, claimed, name, openSteps, report, store }) {
        const [step] = yield* openSteps()
        assert.deepStrictEqual(step, {
          name: step?.name ?? "",
          step: "s/write:a",
          write: "createApplication",
          target: { integration, params: { job_id: "j" } },
          begunAt: yield* Clock.currentTimeMillis,
          delivery: claimed.id,
          state: "unknown",
          shownBy: null
        })
        assert.deepStrictEqual(yield* report(happened(), yield* name), { _tag: "Resolved", left: 0 })
        assert.deepStrictEqual((yield* again()).outcome, { _tag: "Done", result: '{"id":"x"}' })
        assert.deepStrictEqual(yield* openSteps(), [])
        const [entry, ...others] = yield* store.auditLog(9)
        assert.deepInclude(entry, operatorAction)
        assert.lengthOf(others, 0)
      }
    )

    test(
      "a step that did not happen can begin again, and the dead letter is retried at once (L5)",
      unresolved(),
      function*({ again, deliveries, name, report }) {
        assert.deepStrictEqual(yield* report(didNot, yield* name), { _tag: "Resolved", left: 0 })
        assert.deepStrictEqual(yield* deliveries.deadLetters({ limit: 9 }), [])
        assert.strictEqual((yield* again()).outcome._tag, "Begun")
      }
    )

    test("a second operator's report changes nothing (L5)", unresolved(), function*({ again, name, report, store }) {
      const stepName = yield* name
      const both = yield* Effect.all([report(happened("x"), stepName), report(didNot, stepName)], {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(both.map(({ _tag }) => _tag).sort(), ["NotDeadLetter", "Resolved"])
      assert.strictEqual((yield* again()).outcome._tag, both[0]._tag === "Resolved" ? "Done" : "Begun")
      assert.lengthOf(yield* store.auditLog(9), 1)
    })

    test(
      "a report is rejected for a step that was sent again since, and while an attempt is running (L5, X16)",
      unresolved(),
      function*({ claimOne, claimed, deliveries, die, fence, intent, name, openSteps, redrive, report }) {
        const stepName = yield* name
        yield* redrive([claimed.id])
        assert.deepStrictEqual(yield* report(happened(), stepName), { _tag: "NotDeadLetter" })
        const again = yield* claimOne
        assert.deepStrictEqual(yield* report(happened(), stepName), { _tag: "NotDeadLetter" })
        yield* deliveries.begin(fence(again), { ...intent, allowRepeat: true })
        yield* die(again)
        assert.deepStrictEqual(yield* report(happened(), stepName), { _tag: "Outdated" })
        assert.deepStrictEqual((yield* openSteps()).map(({ state }) => state), ["unknown"])
      }
    )

    test(
      "a step once per record can be resolved through any dead letter of the record, but not while it is running (L5)",
      unresolved({ dedupKeys: [`r:${integration}/ats.tag/a`], keepForever: true }, { skipsDeadLetters: true }),
      function*({ claimOne, claimed, deliveries, die, dispatch, fence, intent, made, openSteps, owner, report }) {
        yield* deliveries.discard([claimed.id], operatorAction)
        yield* dispatch(owner, [made("a", 2), made("a", 3)], 3)
        const second = yield* claimOne
        yield* die(second)
        const third = yield* claimOne
        const [before] = yield* openSteps(second.id)
        assert.deepStrictEqual([before?.state, before?.delivery], ["unknown", claimed.id])
        yield* deliveries.begin(fence(third), { ...intent, allowRepeat: true })
        const [running] = yield* openSteps(second.id)
        assert.strictEqual(running?.state, "running")
        assert.deepStrictEqual(yield* report(didNot, running?.name ?? "", second.id), { _tag: "Running" })
        yield* die(third)
        const [after] = yield* openSteps(second.id)
        assert.deepStrictEqual(yield* report(happened(), after?.name ?? "", second.id), { _tag: "Resolved", left: 0 })
        assert.deepStrictEqual((yield* deliveries.deadLetters({ limit: 9 })).map(({ id }) => id), [third.id])
      }
    )

    test(
      "a dead letter with several unresolved steps is redriven after the last report; earlier reports can be corrected (L5)",
      unresolved(),
      function*({ claimOne, claimed, deliveries, die, fence, intent, name, openSteps, redrive, report }) {
        yield* redrive([claimed.id])
        const again = yield* claimOne
        const { sameRequestPrefix: _, ...step } = intent
        yield* deliveries.begin(fence(again), { ...step, step: "other", write: null })
        yield* deliveries.begin(fence(again), { ...step, step: "safe", onUnknown: "repeat" })
        yield* die(again)
        assert.deepStrictEqual((yield* openSteps()).map(({ step }) => step).sort(), ["other", "s/write:a"])
        const nameOf = (state: UnresolvedStep["state"], step?: string) =>
          Effect.map(
            openSteps(),
            (steps) => steps.find((one) => one.state === state && one.step === (step ?? one.step))?.name ?? ""
          )
        const stepName = yield* nameOf("unknown", "s/write:a")
        assert.deepStrictEqual(yield* report(happened("x"), stepName), { _tag: "Resolved", left: 1 })
        assert.deepStrictEqual(yield* report(happened("y"), stepName), { _tag: "Outdated" })
        assert.deepStrictEqual(yield* report(happened("y"), yield* nameOf("answered")), { _tag: "Resolved", left: 1 })
        assert.strictEqual(yield* deliveries.result(intent), '{"id":"y"}')
        assert.deepStrictEqual(yield* report(didNot, yield* nameOf("unknown")), { _tag: "Resolved", left: 0 })
        assert.notStrictEqual(yield* name, stepName)
      }
    )

    for (const resolution of [happened("operator"), didNot]) {
      test(
        `a late result is saved unless an operator gave one: ${resolution._tag} (X16)`,
        unresolved(),
        function*({ attempt, deliveries, intent, name, report }) {
          yield* report(resolution, yield* name)
          yield* deliveries.finish(attempt, intent, '{"id":"late"}')
          const kept = resolution._tag === "Happened" ? '{"id":"operator"}' : '{"id":"late"}'
          assert.strictEqual(yield* deliveries.result(intent), kept)
        }
      )

      test(
        `a request with different content than a resolved one needs a report of its own: ${resolution._tag} (L5)`,
        unresolved(),
        function*({ again, die, name, openSteps, report }) {
          yield* report(happened(), yield* name)
          const second = yield* again({ step: "s/write:b" })
          assert.strictEqual(second.outcome._tag, "NeedsReport")
          yield* die(second.claimed)
          const [unsent, ...others] = yield* openSteps()
          assert.deepStrictEqual([unsent?.state, unsent?.step, others], ["unsent", "s/write:b", []])
          assert.deepStrictEqual(yield* report(resolution, unsent?.name ?? ""), { _tag: "Resolved", left: 0 })
          const third = yield* again({ step: "s/write:b" })
          assert.strictEqual(third.outcome._tag, resolution._tag === "Happened" ? "Done" : "Begun")
        }
      )

      test(
        `the expectations of a write follow the report: ${resolution._tag} (E2)`,
        unresolved(),
        function*({ expected, name, report }) {
          assert.deepStrictEqual((yield* expected).map(({ key }) => key), ["job:j"])
          const created = resolution._tag === "Happened" ? { created: { "ats.application": "new" } as const } : {}
          yield* report({ ...resolution, ...created }, yield* name)
          assert.deepStrictEqual(
            (yield* expected).map(({ key }) => key),
            resolution._tag === "Happened" ? ["id:new"] : []
          )
        }
      )
    }

    for (
      const [title, received] of [
        ["a request that repeats a resolved one gets its result permanently", {
          step: "s/write:b",
          isSameRequest: true
        }],
        ["a reported result that the same request has received is not given to another one", {}]
      ] as const
    ) {
      test(
        `${title}, and the next request is a new one (L5)`,
        unresolved(),
        function*({ again, deliveries, intent, name, report }) {
          yield* report(happened(), yield* name)
          const { fence, outcome } = yield* again(received)
          assert.strictEqual(outcome._tag, "Done")
          const begin = (more: Partial<Intent>) =>
            Effect.map(deliveries.begin(fence, { ...intent, ...more }), ({ _tag }) => _tag)
          const next = { step: "s/write:c", isSameRequest: true }
          assert.deepStrictEqual([yield* begin(received), yield* begin(next)], ["Done", "Begun"])
        }
      )
    }

    test(
      "the first record that shows a write with unknown outcome is saved with the step (E2)",
      unresolved(),
      function*({ openSteps, recordMatch }) {
        assert.isNull((yield* openSteps())[0]?.shownBy)
        yield* recordMatch("new")
        assert.deepInclude((yield* openSteps())[0]?.shownBy, { model: "ats.application", id: "new" })
      }
    )
  })
