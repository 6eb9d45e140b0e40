/** What every store must do with steps of unknown outcome and what operators say of them; needs a fresh store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { expectationsOf } from "../../src/domain/Expectation.ts"
import { type Claimed, Deliveries, type Intent, type Resolution } from "../../src/store/Deliveries.ts"
import type { Store, StoreError, StreamTx } from "../../src/store/Store.ts"
import { act, attempted, begun, fenceOf } from "./Deliveries.ts"
import { stateOf } from "./StoreSamples.ts"

const integration = "greenhouse:acme"
const applications = { integration, model: "ats.application" } as const
const occasions = ["e1", `r:${integration}/ats.tag/a`]
const happened = (id = "x"): Resolution => ({ _tag: "Happened", result: JSON.stringify({ id }), created: {} })
const didNot: Resolution = { _tag: "DidNotHappen" }

/** One delivery whose only attempt sent a write, heard nothing, and died of it. */
const dead = Effect.fnUntraced(function*(more: Partial<Intent> = {}, details: Parameters<typeof begun>[1] = {}) {
  const rig = yield* begun(["a"], details)
  const { claim, deliveries, key, owner, store } = rig
  yield* store.ensureStreams([stateOf(applications)])
  const [claimed] = yield* claim
  if (claimed === undefined) return assert.fail("nothing claimed")
  const intent: Intent = {
    handler: key,
    dedupKeys: ["e1"],
    step: "s/write:a",
    keepForever: false,
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
  const fence = fenceOf(owner, claimed)
  yield* deliveries.begin(fence, intent)
  const die = ({ id }: Claimed) =>
    deliveries.settleAndClaim(owner, [{ _tag: "Dead", deliveries: [id], attempts: 1, attempted }], [])
  yield* die(claimed)
  const open = (id = claimed.id) => deliveries.unresolvedSteps(id, occasions)
  const name = Effect.map(open(), ([step]) => step?.name ?? "")
  const answer = (what: Resolution, name: string, id = claimed.id) =>
    deliveries.resolve(id, occasions, name, what, 0, act)
  const again = Effect.fnUntraced(function*(more: Partial<Intent> = {}) {
    const [claimed] = yield* claim
    if (claimed === undefined) return assert.fail("it is not tried again")
    const fence = fenceOf(owner, claimed)
    return { claimed, fence, begun: yield* deliveries.begin(fence, { ...intent, ...more }) }
  })
  const inApplications = <A, E>(body: (tx: StreamTx) => Effect.Effect<A, E>) =>
    Effect.flatMap(store.takeOwnership("capture"), (capture) => store.transact(capture, applications, body))
  const expected = inApplications((tx) => tx.openExpectations(["job:j", "id:new"]))
  const meet = (id: string) =>
    inApplications((tx) =>
      Effect.flatMap(tx.openExpectations(["job:j"]), Effect.forEach((one) => tx.recordMatch(one, id)))
    )
  return { ...rig, claimed, fence, intent, die, open, name, answer, again, expected, meet }
})

export const answerSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`answers for steps of unknown outcome in a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store | Deliveries>) =>
      it.effect(title, () => Effect.provide(body, layer))

    test(
      "an open step says what was sent where, until it has an answer (L5)",
      Effect.gen(function*() {
        const { again, answer, claimed, name, open, store } = yield* dead()
        const [step] = yield* open()
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
        assert.deepStrictEqual(yield* answer(happened(), yield* name), { _tag: "Answered", left: 0 })
        assert.deepStrictEqual((yield* again()).begun, { _tag: "Done", result: '{"id":"x"}' })
        assert.deepStrictEqual(yield* open(), [])
        assert.deepStrictEqual(yield* store.auditLog(9), [act])
      })
    )

    test(
      "a step that did not happen is begun again, and the dead letter is tried again at once (L5)",
      Effect.gen(function*() {
        const { again, answer, deliveries, name } = yield* dead()
        assert.deepStrictEqual(yield* answer(didNot, yield* name), { _tag: "Answered", left: 0 })
        assert.deepStrictEqual(yield* deliveries.deadLetters({ limit: 9 }), [])
        assert.strictEqual((yield* again()).begun._tag, "Begun")
      })
    )

    test(
      "of two operators the second changes nothing (L5)",
      Effect.gen(function*() {
        const { again, answer, name, store } = yield* dead()
        const it = yield* name
        const both = yield* Effect.all([answer(happened("x"), it), answer(didNot, it)], { concurrency: "unbounded" })
        assert.deepStrictEqual(both.map(({ _tag }) => _tag).sort(), ["Answered", "NotDeadLetter"])
        assert.strictEqual((yield* again()).begun._tag, both[0]._tag === "Answered" ? "Done" : "Begun")
        assert.lengthOf(yield* store.auditLog(9), 1)
      })
    )

    test(
      "an answer for what was sent again since is refused, and so is one while an attempt is under way (L5, X16)",
      Effect.gen(function*() {
        const { answer, claim, claimed, deliveries, die, intent, name, open, owner } = yield* dead()
        const it = yield* name
        yield* deliveries.redrive([claimed.id], { dueAt: 0, fresh: null }, act)
        assert.deepStrictEqual(yield* answer(happened(), it), { _tag: "NotDeadLetter" })
        const [again] = yield* claim
        if (again === undefined) return assert.fail("nothing claimed")
        assert.deepStrictEqual(yield* answer(happened(), it), { _tag: "NotDeadLetter" })
        yield* deliveries.begin(fenceOf(owner, again), { ...intent, allowRepeat: true })
        yield* die(again)
        assert.deepStrictEqual(yield* answer(happened(), it), { _tag: "Outdated" })
        assert.deepStrictEqual((yield* open()).map(({ state }) => state), ["unknown"])
      })
    )

    test(
      "a step once per record is answered for through any dead letter of the record, but not while it is being done (L5)",
      Effect.gen(function*() {
        const permanent = { dedupKeys: [`r:${integration}/ats.tag/a`], keepForever: true } as const
        const { answer, claim, claimed, deliveries, die, dispatch, intent, made, open, owner } = yield* dead(
          permanent,
          {
            skipsDeadLetters: true
          }
        )
        yield* deliveries.discard([claimed.id], act)
        yield* dispatch(owner, [made("a", 2), made("a", 3)], 3)
        const [second] = yield* claim
        if (second === undefined) return assert.fail("nothing claimed")
        yield* die(second)
        const [third] = yield* claim
        if (third === undefined) return assert.fail("nothing claimed")
        const [before] = yield* open(second.id)
        assert.deepStrictEqual([before?.state, before?.delivery], ["unknown", claimed.id])
        yield* deliveries.begin(fenceOf(owner, third), { ...intent, allowRepeat: true })
        const [running] = yield* open(second.id)
        assert.strictEqual(running?.state, "running")
        assert.deepStrictEqual(yield* answer(didNot, running?.name ?? "", second.id), { _tag: "Running" })
        yield* die(third)
        const [after] = yield* open(second.id)
        assert.deepStrictEqual(yield* answer(happened(), after?.name ?? "", second.id), { _tag: "Answered", left: 0 })
        assert.deepStrictEqual((yield* deliveries.deadLetters({ limit: 9 })).map(({ id }) => id), [third.id])
      })
    )

    test(
      "a dead letter with several open steps is tried again with the last answer; earlier ones can be corrected (L5)",
      Effect.gen(function*() {
        const { answer, claim, claimed, deliveries, die, intent, name, open, owner } = yield* dead()
        yield* deliveries.redrive([claimed.id], { dueAt: 0, fresh: null }, act)
        const [again] = yield* claim
        if (again === undefined) return assert.fail("nothing claimed")
        const { sameRequestPrefix: _, ...step } = intent
        yield* deliveries.begin(fenceOf(owner, again), { ...step, step: "other", write: null })
        yield* deliveries.begin(fenceOf(owner, again), { ...step, step: "safe", onUnknown: "repeat" })
        yield* die(again)
        assert.deepStrictEqual((yield* open()).map(({ step }) => step).sort(), ["other", "s/write:a"])
        const it = yield* Effect.map(open(), (steps) => steps.find(({ step }) => step === "s/write:a")?.name ?? "")
        assert.deepStrictEqual(yield* answer(happened("x"), it), { _tag: "Answered", left: 1 })
        assert.deepStrictEqual(yield* answer(happened("y"), it), { _tag: "Outdated" })
        const corrected = yield* Effect.map(open(), (steps) => steps.find(({ state }) => state === "answered"))
        assert.deepStrictEqual(yield* answer(happened("y"), corrected?.name ?? ""), { _tag: "Answered", left: 1 })
        assert.strictEqual(yield* deliveries.result(intent), '{"id":"y"}')
        const other = yield* Effect.map(open(), (steps) => steps.find(({ state }) => state === "unknown"))
        assert.deepStrictEqual(yield* answer(didNot, other?.name ?? ""), { _tag: "Answered", left: 0 })
        assert.notStrictEqual(yield* name, it)
      })
    )

    for (const said of [happened("operator"), didNot]) {
      test(
        `a result that comes late is kept, unless an operator gave one: ${said._tag} (X16)`,
        Effect.gen(function*() {
          const { answer, deliveries, fence, intent, name } = yield* dead()
          yield* answer(said, yield* name)
          yield* deliveries.finish(fence, intent, '{"id":"late"}')
          const kept = said._tag === "Happened" ? '{"id":"operator"}' : '{"id":"late"}'
          assert.strictEqual(yield* deliveries.result(intent), kept)
        })
      )

      test(
        `a request in other words than an answered one is asked about, once: ${said._tag} (L5)`,
        Effect.gen(function*() {
          const { again, answer, die, name, open } = yield* dead()
          yield* answer(happened(), yield* name)
          const second = yield* again({ step: "s/write:b" })
          assert.strictEqual(second.begun._tag, "Unclear")
          yield* die(second.claimed)
          const [unsent, ...others] = yield* open()
          assert.deepStrictEqual([unsent?.state, unsent?.step, others], ["unsent", "s/write:b", []])
          assert.deepStrictEqual(yield* answer(said, unsent?.name ?? ""), { _tag: "Answered", left: 0 })
          const third = yield* again({ step: "s/write:b" })
          assert.strictEqual(third.begun._tag, said._tag === "Happened" ? "Done" : "Begun")
        })
      )

      test(
        `what is expected to be seen follows the answer: ${said._tag} (E2)`,
        Effect.gen(function*() {
          const { answer, expected, name } = yield* dead()
          assert.deepStrictEqual((yield* expected).map(({ key }) => key), ["job:j"])
          const created = said._tag === "Happened" ? { created: { "ats.application": "new" } as const } : {}
          yield* answer({ ...said, ...created }, yield* name)
          assert.deepStrictEqual((yield* expected).map(({ key }) => key), said._tag === "Happened" ? ["id:new"] : [])
        })
      )
    }

    test(
      "a request that restates an answered one has its result for good, and the next one is another (L5)",
      Effect.gen(function*() {
        const { again, answer, deliveries, intent, name } = yield* dead()
        yield* answer(happened(), yield* name)
        const { begun, fence } = yield* again({ step: "s/write:b", isSameRequest: true })
        assert.strictEqual(begun._tag, "Done")
        const begin = (step: string) =>
          Effect.map(deliveries.begin(fence, { ...intent, step, isSameRequest: true }), ({ _tag }) => _tag)
        assert.deepStrictEqual([yield* begin("s/write:b"), yield* begin("s/write:c")], ["Done", "Begun"])
      })
    )

    test(
      "an answer that the same request was given is not given to another one (L5)",
      Effect.gen(function*() {
        const { again, answer, deliveries, intent, name } = yield* dead()
        yield* answer(happened(), yield* name)
        const { begun, fence } = yield* again()
        assert.strictEqual(begun._tag, "Done")
        const other = yield* deliveries.begin(fence, { ...intent, step: "s/write:b", isSameRequest: true })
        assert.strictEqual(other._tag, "Begun")
      })
    )

    test(
      "the first record that shows a write of unknown outcome is noted with it (E2)",
      Effect.gen(function*() {
        const { meet, open } = yield* dead()
        assert.isNull((yield* open())[0]?.shownBy)
        yield* meet("new")
        assert.deepInclude((yield* open())[0]?.shownBy, { model: "ats.application", id: "new" })
      })
    )
  })
