/** Tests that every journal must pass: a step runs once or is reported as unknown. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { AttemptJournal, FencingToken, Intent, StepKey } from "../../src/store/AttemptJournal.ts"
import { ids, reasonOf } from "./StoreSamples.ts"

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
}
