/** Tests that every journal must pass: a step runs once or is reported as unknown, and writes are counted. */
import { assert, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { AttemptJournal, FencingToken, Intent, StepKey } from "../../src/store/AttemptJournal.ts"
import { ids, reasonOf } from "./StoreSamples.ts"

const hour = 3_600_000
const write = { name: "addTag", plugin: "p", perHour: 2, depth: 1, expected: [] } as const

/** Runs at a time of the clock, in ms. The test clock would run the background work until then. */
const at = (time: number) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Clock.Clock, (clock) =>
    Effect.provideService(
      effect,
      Clock.Clock,
      Object.assign(Object.create(clock), {
        currentTimeMillisUnsafe: () => time,
        currentTimeMillis: Effect.succeed(time)
      })
    ))

/** An attempt in a new journal. */
export interface Attempting {
  readonly journal: AttemptJournal
  readonly fence: FencingToken
  /** The step of `intent`; its only key is `e1`. */
  readonly step: StepKey
  /** Not a write, and not to be repeated. */
  readonly intent: Intent
  /** The next attempt after this one was lost. */
  readonly following: Effect.Effect<FencingToken, unknown>
}

export const attemptJournalSuite = <R>(
  attempting: Effect.Effect<Attempting, unknown, R>,
  layer: Layer.Layer<R, unknown>
) => {
  const test = (title: string, body: (attempting: Attempting) => Effect.Effect<void, unknown>) =>
    it.effect(title, () => Effect.provide(Effect.flatMap(attempting, body), layer))

  test(
    "have an unknown outcome until they are finished, begin again only on request, and are deleted if they had no effect (L5)",
    Effect.fnUntraced(function*({ fence, intent, journal, step }) {
      const begin = Effect.map(journal.begin(fence, intent), ({ _tag }) => _tag)
      assert.strictEqual(yield* begin, "Begun")
      assert.strictEqual(yield* begin, "Unknown")
      assert.strictEqual((yield* journal.begin(fence, { ...intent, allowRepeat: true }))._tag, "Begun")
      yield* journal.withdraw(fence, step)
      assert.strictEqual(yield* begin, "Begun")
      yield* journal.finish(fence, step, '{"id":"x"}')
      yield* journal.withdraw(fence, step)
      assert.strictEqual(yield* journal.result({ ...step, dedupKeys: ["e2", "e1"] }), '{"id":"x"}')
      assert.deepStrictEqual(yield* journal.begin(fence, intent), { _tag: "Done", result: '{"id":"x"}' })
    })
  )

  test(
    "have an unknown outcome while the same request with different content has one (L5)",
    Effect.fnUntraced(function*({ fence, following, intent, journal }) {
      yield* journal.begin(fence, { ...intent, step: "hire 100%_a" })
      const later = yield* following
      const begin = (step: string, sameRequestPrefix: string) =>
        Effect.map(journal.begin(later, { ...intent, step, sameRequestPrefix }), ({ _tag }) => _tag)
      assert.strictEqual(yield* begin("hire 100%_b", "hire 100%_"), "Unknown")
      assert.strictEqual(yield* begin("hire 100_b", "hire 100_"), "Begun")
    })
  )

  test(
    "begin for one of two concurrent calls (X16)",
    Effect.fnUntraced(function*({ fence, intent, journal }) {
      for (const step of ids(20)) {
        const begin = journal.begin(fence, { ...intent, step })
        const both = yield* Effect.all([begin, begin], { concurrency: "unbounded" })
        assert.deepStrictEqual(both.map(({ _tag }) => _tag).sort(), ["Begun", "Unknown"])
      }
    })
  )

  test(
    "begin, end and are withdrawn only for the latest attempt (X16)",
    Effect.fnUntraced(function*({ fence, following, intent, journal, step }) {
      yield* journal.begin(fence, intent)
      const later = yield* following
      for (const refused of [journal.check(fence), journal.begin(fence, intent), journal.checkBegin(fence, intent)]) {
        assert.strictEqual(reasonOf(yield* Effect.exit(refused)), "Fenced")
      }
      assert.strictEqual((yield* journal.begin(later, { ...intent, allowRepeat: true }))._tag, "Begun")
      yield* journal.withdraw(fence, step)
      yield* journal.finish(fence, step, "1")
      assert.strictEqual((yield* journal.begin(later, intent))._tag, "Unknown")
      yield* journal.finish(later, step, "2")
      assert.strictEqual(yield* journal.result(step), "2")
    })
  )

  test(
    "`checkBegin` returns the refusal that `begin` would return, and begins no step",
    Effect.fnUntraced(function*({ fence, intent, journal, step }) {
      const check = (details: Partial<Intent> = {}) =>
        Effect.map(journal.checkBegin(fence, { ...intent, ...details }), (refused) => refused?._tag ?? null)
      assert.deepStrictEqual([yield* check(), yield* check()], [null, null])
      yield* journal.begin(fence, intent)
      assert.deepStrictEqual([yield* check(), yield* check({ allowRepeat: true })], ["Unknown", null])
      yield* journal.finish(fence, step, "1")
      assert.strictEqual(yield* check(), "Done")
    })
  )

  test(
    "count in the hourly budget of the plugin in the integration, and wait for the next hour after it is used up",
    Effect.fnUntraced(function*({ fence, intent, journal }) {
      const begin = (step: string, details: Partial<Intent> = {}, time = 10 * hour + 20) =>
        at(time)(journal.begin(fence, { ...intent, write, step, ...details }))
      const exhausted = { _tag: "BudgetExhausted", until: 11 * hour } as const
      const begun = { _tag: "Begun" } as const
      assert.deepStrictEqual([yield* begin("a"), yield* begin("b"), yield* begin("c")], [begun, begun, exhausted])
      assert.isNull(yield* journal.checkBegin(fence, { ...intent, write, step: "c" }))
      assert.deepStrictEqual(yield* begin("d", { integration: "workday:acme" }), begun)
      assert.deepStrictEqual(yield* begin("e", { write: { ...write, plugin: "q" } }), begun)
      assert.deepStrictEqual(yield* begin("f", { write: null }), begun)
      assert.deepStrictEqual(yield* begin("g", { write: { ...write, perHour: 3 } }), begun)
      assert.deepStrictEqual(yield* begin("c", {}, 11 * hour - 1), exhausted)
      assert.deepStrictEqual(yield* begin("c", {}, 11 * hour), begun)
      assert.deepStrictEqual(yield* begin("h", { write: { ...write, perHour: 0 } }, 20 * hour), {
        _tag: "BudgetExhausted",
        until: 21 * hour
      })
    })
  )

  test(
    "count once in the hour's budget, however often the same request begins, and not at all if they had no effect",
    Effect.fnUntraced(function*({ fence, intent, journal, step }) {
      const begin = (name: string, perHour: number | null) =>
        Effect.map(
          journal.begin(fence, { ...intent, allowRepeat: true, step: name, write: { ...write, perHour } }),
          ({ _tag }) => _tag
        )
      assert.strictEqual(yield* begin(step.step, 1), "Begun")
      assert.strictEqual(yield* begin(step.step, null), "Begun")
      assert.strictEqual(yield* begin("other", 1), "BudgetExhausted")
      // it had no effect
      yield* journal.withdraw(fence, step)
      assert.strictEqual(yield* begin("other", 1), "Begun")
      yield* journal.withdraw(fence, step)
      assert.strictEqual(yield* begin(step.step, 1), "BudgetExhausted")
    })
  )

  test(
    "count in the hour's budget once, although the clocks of two processes differ or the clock is set back (W4)",
    Effect.fnUntraced(function*({ fence, intent, journal }) {
      const beginAt = (time: number, step: string) =>
        Effect.map(at(time)(journal.begin(fence, { ...intent, step, write })), ({ _tag }) => _tag)
      const found = [
        yield* beginAt(10 * hour + 10_000, "a"),
        yield* beginAt(10 * hour - 20_000, "b"),
        yield* beginAt(10 * hour + 20_000, "c"),
        yield* beginAt(10 * hour - 10_000, "d"),
        yield* beginAt(11 * hour, "e"),
        // the clock had been wrong by more than an hour
        yield* beginAt(2 * hour, "f")
      ]
      assert.deepStrictEqual(found, ["Begun", "Begun", "BudgetExhausted", "BudgetExhausted", "Begun", "Begun"])
    })
  )

  test(
    "do not exceed the hour's budget if they begin at the same time",
    Effect.fnUntraced(function*({ fence, intent, journal }) {
      const begin = (step: string) => journal.begin(fence, { ...intent, step, write })
      const all = yield* Effect.forEach(ids(12), begin, { concurrency: "unbounded" })
      assert.lengthOf(all.filter(({ _tag }) => _tag === "Begun"), 2)
    })
  )
}
