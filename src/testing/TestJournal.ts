/**
 * Runs the writes and steps of an attempt so that each is done only once over all attempts, by comparing them with the
 * records of earlier attempts in the test environment.
 *
 * Invariants
 * 1. A write with an unknown outcome is sent again only if the table of writes (`api/Writes.ts`) or the handler allows it   (L5)
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { type ResendPolicy, type WriteName, writes } from "../api/Writes.ts"
import type { JsonValue } from "../domain/Canonical.ts"
import type { Model } from "../domain/Model.ts"
import type { Journal, OnUnknown } from "../plugin/Capabilities.ts"
import { type HandlerError, Permanent, RateLimited } from "../plugin/Failure.ts"
import type { DedupKeys, TestEnvironment, WriteRequest } from "./TestEnvironment.ts"

/** The keys of a delivery's writes and steps. */
export interface DeliveryKeys {
  readonly handler: string
  readonly dedupKeys: DedupKeys
  readonly integration: string
  /** The record that `oncePerRecord` counts by; null for a batch, which has several. */
  readonly record: { readonly model: Model; readonly id: string } | "tick" | null
}

/** The attempt that the writes and steps belong to. */
interface AttemptControl {
  /** Runs `action` for the handler, unless the attempt has ended. */
  readonly whileRunning: <A, E = never, R = never>(action: () => Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** A point at which a crash could lead to a different result. */
  readonly crashPoint: (label: string) => Effect.Effect<void>
  /** ms */
  readonly now: () => number
}

/** The position of a step or a write among the steps that contain it. */
interface StepContext {
  readonly dedupKeys: DedupKeys
  /** Names of the enclosing steps, each followed by a slash. */
  readonly path: string
  /** Number of HTTP requests with no response, or with a 5xx response. */
  unanswered: number
}

/** The step that is running; null outside steps. */
export const CurrentStep = Context.Reference<StepContext | null>("rollcall/testing/CurrentStep", {
  defaultValue: () => null
})

const defaultOnUnknown: Readonly<Record<ResendPolicy, OnUnknown>> = {
  safe: "repeat",
  look: "verify",
  find: "verify",
  never: "deadLetter"
}
const unknownOutcome = (what: string) =>
  new Permanent({
    message: `${what} was started by an earlier attempt, and its outcome is unknown`,
    refusal: "OutcomeUnknown"
  })

/** The API may show a write's effect late. Only this long after the write, in ms, does a missing effect prove that it did not happen. */
const settlingMillis = 300_000

export class TestJournal {
  readonly #environment: TestEnvironment
  readonly #keys: DeliveryKeys
  readonly #attempt: AttemptControl
  readonly #locks = new Map<string, Semaphore.Semaphore>()
  readonly #completed = new Map<string, number>()
  /** The intents of this attempt. */
  readonly #ownIntents = new Set<string>()

  constructor(environment: TestEnvironment, keys: DeliveryKeys, attempt: AttemptControl) {
    this.#environment = environment
    this.#keys = keys
    this.#attempt = attempt
  }

  // ---- writes -----------------------------------------------------------------------------------------------------

  write(request: WriteRequest): Effect.Effect<JsonValue, HandlerError> {
    return this.#attempt.whileRunning(() =>
      Effect.flatMap(this.#stepContext, ({ dedupKeys: [dedupKey, ...enclosing], path }) => {
        const refusal = this.#environment.rejectionOf(request)
        if (refusal !== null) return Effect.fail(refusal)
        const { body, id, integration, write } = request
        const intentName = (dedupKey: string) => JSON.stringify([dedupKey, path, write, integration, id, body])
        return this.#withRequestNumber(intentName(dedupKey), (number) => {
          const intents = [dedupKey, ...enclosing].map((dedupKey) => `${intentName(dedupKey)}${number}`)
          return this.#send(
            intents.find((intent) => this.#environment.state.intents.has(intent)) ?? intents[0]!,
            request
          )
        })
      })
    )
  }

  /** Numbers equal requests. A repeated request gets the next number, and is sent, only after the previous one completed. */
  #withRequestNumber<A, E, R>(name: string, run: (number: number) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    const lock = this.#locks.get(name) ?? Semaphore.makeUnsafe(1)
    this.#locks.set(name, lock)
    return Effect.suspend(() => {
      const number = this.#completed.get(name) ?? 0
      return Effect.tap(run(number), () => Effect.sync(() => this.#completed.set(name, number + 1)))
    }).pipe(lock.withPermits(1))
  }

  #send(intent: string, request: WriteRequest): Effect.Effect<JsonValue, HandlerError> {
    const { intents } = this.#environment.state
    const { integration, options, write } = request
    return Effect.gen({ self: this }, function*() {
      yield* this.#attempt.whileRunning(() => Effect.void)
      const known = intents.get(intent)
      if (known?.data !== undefined) return known.data
      if (known !== undefined) {
        const found = yield* this.#resolveUnknown(intent, known.startedAt, write, options.onUnknown)
        if (found !== null) return this.#recordResponse(intent, found)
      } else if (
        (options.onUnknown ?? defaultOnUnknown[writes[write].resendPolicy]) === "deadLetter" &&
        this.#hasUnresolvedVariant(intent)
      ) {
        return yield* unknownOutcome(write)
      }
      this.#ownIntents.add(intent)
      intents.set(intent, { startedAt: this.#attempt.now() })
      yield* this.#attempt.crashPoint(`${write}: about to be sent`)
      const fault = this.#environment.fault(write, integration)
      if (fault !== null && fault.fail !== "response lost") {
        if (fault.fail !== "request lost") intents.delete(intent)
        return yield* Effect.fail(fault.error)
      }
      const data = this.#environment.apply(intent, request)
      if (fault !== null) return yield* Effect.fail(fault.error)
      yield* this.#attempt.crashPoint(`${write}: done, response not recorded`)
      this.#recordResponse(intent, data)
      yield* this.#attempt.crashPoint(`${write}: done`)
      return data
    })
  }

  /** Whether an earlier attempt sent the same write with another body, and its outcome is unknown. */
  #hasUnresolvedVariant(intent: string): boolean {
    const requestKeyOf = (name: string): string =>
      JSON.stringify(JSON.parse(name.slice(0, name.lastIndexOf("]") + 1)).slice(0, -1))
    return [...this.#environment.state.intents].some(([name, { data }]) =>
      data === undefined && !this.#ownIntents.has(name) && requestKeyOf(name) === requestKeyOf(intent)
    )
  }

  /** Resolves a write of unknown outcome: returns its data if it took effect; null if it must be sent. Otherwise it fails. */
  *#resolveUnknown(intent: string, startedAt: number, write: WriteName, declared: OnUnknown | undefined) {
    const { resendPolicy } = writes[write]
    const how = declared ?? defaultOnUnknown[resendPolicy]
    if (how === "repeat") return null
    if (how === "deadLetter" || (resendPolicy !== "look" && resendPolicy !== "find")) {
      return yield* unknownOutcome(write)
    }
    const found = this.#environment.appliedWrite(intent)
    if (found !== undefined) return found.data
    const left = startedAt + settlingMillis - this.#attempt.now()
    if (left > 0) return yield* new RateLimited({ retryAfter: Duration.millis(left) })
    return resendPolicy === "find" ? yield* unknownOutcome(write) : null
  }

  #recordResponse(intent: string, data: JsonValue): JsonValue {
    this.#environment.state.intents.set(intent, { startedAt: this.#attempt.now(), data })
    return data
  }

  // ---- journal ----------------------------------------------------------------------------------------------------

  get #stepContext(): Effect.Effect<StepContext> {
    const { dedupKeys } = this.#keys
    return Effect.map(CurrentStep, (step) => step ?? { dedupKeys, path: "", unanswered: 0 })
  }

  get #recordKey(): Effect.Effect<string, Permanent> {
    const { handler, integration, record } = this.#keys
    if (record !== null) return Effect.succeed(JSON.stringify([handler, integration, record]))
    return Effect.fail(
      new Permanent({ message: "oncePerRecord needs a single record, but a batch has several: use once" })
    )
  }

  get journal(): Journal["Service"] {
    const { journal } = this.#environment.state
    const { handler } = this.#keys
    type Step = Journal["Service"]["once"]
    const stepIn = (contextOf: (around: StepContext) => StepContext): Step =>
      Effect.fnUntraced({ self: this }, function*(name, schema, effect, options) {
        yield* this.#attempt.whileRunning(() => Effect.void)
        const context = contextOf(yield* this.#stepContext)
        const step = context.path + name
        const [own, ...enclosing] = context.dedupKeys.map((dedupKey) => JSON.stringify([dedupKey, step]))
        const key = enclosing.find((key) => journal.has(key)) ?? own!
        const codec = Schema.toCodecJson(schema)
        const declared = options?.onUnknown === "deadLetter"
        const invalidResult = () => new Permanent({ message: `the result of step "${step}" does not match its schema` })
        const run = Effect.gen({ self: this }, function*() {
          const known = journal.get(key)
          if (known?.result !== undefined) {
            return yield* Effect.mapError(Schema.decodeUnknownEffect(codec)(known.result), invalidResult)
          }
          if (known !== undefined) return yield* unknownOutcome(`step "${step}"`)
          if (declared) journal.set(key, { handler, step })
          yield* this.#attempt.crashPoint(`step "${step}": about to run`)
          const within: StepContext = { ...context, path: `${step}/`, unanswered: 0 }
          const value = yield* Effect.provideService(effect, CurrentStep, within).pipe(
            // a step that fails did not happen, unless one of its HTTP requests got no response
            Effect.tapError(() => Effect.sync(() => within.unanswered === 0 && journal.delete(key)))
          )
          const result = yield* Effect.mapError(Schema.encodeEffect(codec)(value), invalidResult)
          yield* this.#attempt.crashPoint(`step "${step}": done, result not recorded`)
          journal.set(key, { handler, step, result: JSON.parse(JSON.stringify(result)) })
          yield* this.#attempt.crashPoint(`step "${step}": done`)
          return value
        })
        return yield* this.#withRequestNumber(key, () => run)
      })
    return {
      once: stepIn((around) => around),
      oncePerRecord: (...step) =>
        Effect.flatMap(
          this.#recordKey,
          (dedupKey) => stepIn((around) => ({ ...around, dedupKeys: [dedupKey] }))(...step)
        )
    }
  }
}
