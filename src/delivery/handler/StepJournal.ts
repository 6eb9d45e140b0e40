/**
 * Runs the steps of an attempt once each, and stores their results.
 *
 * Invariants
 * 1. The result of a step that has run is stored even if its attempt is interrupted at that moment   (L4)
 *
 * Gotchas
 * - A step that fails with a handler error is treated as not done and runs again. The outcome of a step is unknown only if the step never
 *   ended, or if it sent a request to another service and got no response or a 5xx.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { isStorable } from "../../domain/Observation.ts"
import type { Journal } from "../../plugin/Capabilities.ts"
import { Permanent } from "../../plugin/Failure.ts"
import type { AttemptJournal, StepKey } from "../../store/AttemptJournal.ts"
import { recordDedupKeyOf } from "../../store/Delivery.ts"
import type { StoreError } from "../../store/Store.ts"
import { type Attempt, CurrentStep, type StepContext } from "./Attempt.ts"
import * as ErrorMapping from "./ErrorMapping.ts"

type Step = Journal["Service"]["once"]

/**
 * An index entry of PostgreSQL has at most 2,700 bytes, and one index has the name of a step and the id of a record, of up to 1,000 bytes.
 * The result of a step with a longer name could not be stored, so each attempt would run the step again.
 */
const maxNameBytes = 1_000

/** Why a step with this name cannot be stored; null if it can. */
const problemOf = (name: string): string | null => {
  if (!isStorable(name)) return "a null character or half a surrogate pair"
  return Buffer.byteLength(name) > maxNameBytes ? `more than ${maxNameBytes} bytes` : null
}

export const make = (journal: AttemptJournal, attempt: Attempt): Journal["Service"] => {
  const stored = <A>(effect: Effect.Effect<A, StoreError>) => Effect.mapError(effect, ErrorMapping.fromStore)

  const stepIn = (contextOf: (current: StepContext) => StepContext): Step =>
    Effect.fnUntraced(function*(step, schema, effect, options) {
      yield* attempt.ensureClaimed
      const context = contextOf(yield* attempt.stepContext)
      const name = context.path + step
      const problem = problemOf(name)
      if (problem !== null) {
        const start = JSON.stringify(name.slice(0, 60))
        return yield* new Permanent({ message: `the name of a step has ${problem}; it starts with ${start}` })
      }
      const key: StepKey = {
        handler: attempt.subscription.key,
        dedupKeys: context.dedupKeys,
        keepForever: context.keepForever,
        step: name
      }
      const codec = Schema.fromJsonString(Schema.toCodecJson(schema))
      const decoded = (text: string) =>
        Effect.mapError(
          Schema.decodeEffect(codec)(text),
          () => new Permanent({ message: `the stored result of step "${name}" does not match its schema` })
        )
      const runsAtMostOnce = options?.onUnknown === "deadLetter"
      const run = Effect.uninterruptibleMask((restore) =>
        Effect.gen(function*() {
          const result = yield* restore(stored(journal.result(key)))
          if (result !== null) return yield* decoded(result)
          if (runsAtMostOnce) {
            const intent = {
              ...key,
              integration: attempt.integration,
              write: null,
              onUnknown: "deadLetter",
              allowRepeat: false
            } as const
            const outcome = yield* restore(stored(journal.begin(attempt.fence, intent)))
            if (outcome._tag === "Done") return yield* decoded(outcome.result)
            if (outcome._tag === "Unknown") return yield* ErrorMapping.unresolved(`step "${name}"`)
          }
          const within: StepContext = { ...context, path: `${name}/`, unanswered: 0 }
          const value = yield* restore(Effect.provideService(effect, CurrentStep, within)).pipe(
            Effect.tapError(() =>
              runsAtMostOnce && within.unanswered === 0 ? stored(journal.withdraw(attempt.fence, key)) : Effect.void
            )
          )
          const text = yield* Effect.mapError(
            Schema.encodeEffect(codec)(value),
            () => new Permanent({ message: `the result of step "${name}" does not match its schema` })
          )
          yield* stored(journal.finish(attempt.fence, key, text))
          return value
        })
      )
      // concurrent calls of the same step run the step once
      return yield* attempt.withRequestNumber(`${context.dedupKeys[0]} step ${name}`, () => run)
    })

  const recordKey = Effect.fnUntraced(function*() {
    const { integration, record } = attempt
    if (record === null) {
      return yield* new Permanent({
        message: "oncePerRecord needs a single record, but a batch has several: use once"
      })
    }
    return recordDedupKeyOf(integration, record)
  })

  return {
    once: stepIn((current) => current),
    oncePerRecord: (...step) =>
      Effect.flatMap(
        recordKey(),
        (dedupKey) => stepIn((current) => ({ ...current, dedupKeys: [dedupKey], keepForever: true }))(...step)
      )
  }
}
