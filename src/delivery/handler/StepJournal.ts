/**
 * Steps that are done once, in the name of an attempt.
 *
 * Gotchas
 * - A step that fails in one of the three ways says itself that it is not done; what it leaves open is one that never came
 *   to an end, or sent a request to somebody else and heard nothing.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Journal } from "../../plugin/Capabilities.ts"
import { Permanent } from "../../plugin/Failure.ts"
import type { Deliveries, StepKey } from "../../store/Deliveries.ts"
import type { StoreError } from "../../store/Store.ts"
import { type Attempt, CurrentStep, recordDedupKeyOf, type StepContext } from "./Attempt.ts"
import * as ErrorMapping from "./ErrorMapping.ts"

type Step = Journal["Service"]["once"]

export const make = (deliveries: Deliveries["Service"], attempt: Attempt): Journal["Service"] => {
  const stored = <A>(effect: Effect.Effect<A, StoreError>) => Effect.mapError(effect, ErrorMapping.fromStore)

  const stepIn = (placeOf: (around: StepContext) => StepContext): Step =>
    Effect.fnUntraced(function*(step, schema, effect, options) {
      yield* attempt.ensureClaimed
      const place = placeOf(yield* attempt.stepContext)
      const name = place.path + step
      const key: StepKey = {
        handler: attempt.subscription.key,
        dedupKeys: place.dedupKeys,
        keepForever: place.keepForever,
        step: name
      }
      const codec = Schema.fromJsonString(Schema.toCodecJson(schema))
      const known = (text: string) =>
        Effect.mapError(
          Schema.decodeEffect(codec)(text),
          () => new Permanent({ message: `the journal's result of step "${name}" is not what its schema says` })
        )
      const declared = options?.onUnknown === "deadLetter"
      const run = Effect.gen(function*() {
        const result = yield* stored(deliveries.result(key))
        if (result !== null) return yield* known(result)
        if (declared) {
          const intent = {
            ...key,
            integration: attempt.integration,
            write: null,
            onUnknown: "deadLetter",
            allowRepeat: false
          } as const
          const begun = yield* stored(deliveries.begin(attempt.fence, intent))
          if (begun._tag === "Done") return yield* known(begun.result)
          if (begun._tag === "Unknown") return yield* ErrorMapping.outcomeUnknown(`step "${name}"`)
        }
        const within: StepContext = { ...place, path: `${name}/`, unanswered: 0 }
        const value = yield* Effect.provideService(effect, CurrentStep, within).pipe(
          Effect.tapError(() =>
            declared && within.unanswered === 0 ? stored(deliveries.withdraw(attempt.fence, key)) : Effect.void
          )
        )
        const text = yield* Effect.mapError(
          Schema.encodeEffect(codec)(value),
          () => new Permanent({ message: `the result of step "${name}" is not what its schema says` })
        )
        yield* stored(deliveries.finish(attempt.fence, key, text))
        return value
      })
      // the same step twice at once is done once
      return yield* attempt.withRequestNumber(`${place.dedupKeys[0]} step ${name}`, () => run)
    })

  const lasting = Effect.fnUntraced(function*() {
    const { integration, record } = attempt
    if (record === null) {
      return yield* new Permanent({ message: "oncePerRecord counts by one record: a batch has several, use once" })
    }
    return recordDedupKeyOf(integration, record)
  })

  return {
    once: stepIn((around) => around),
    oncePerRecord: (...step) =>
      Effect.flatMap(
        lasting(),
        (occasion) => stepIn((around) => ({ ...around, dedupKeys: [occasion], keepForever: true }))(...step)
      )
  }
}
