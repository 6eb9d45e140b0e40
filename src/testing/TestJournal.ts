/**
 * What is done once, however many attempts there are: the writes and steps of an attempt, held against what earlier ones
 * left in the kit's world.
 *
 * Invariants
 * 1. A write with an unknown outcome is sent again only where the table of writes, or the handler, says so   (L5)
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

/** What keys the writes and steps of a delivery. */
export interface DeliveryKeys {
  readonly handler: string
  readonly dedupKeys: DedupKeys
  readonly integration: string
  /** What `oncePerRecord` counts by; null: a batch, which has several. */
  readonly record: { readonly model: Model; readonly id: string } | "tick" | null
}

/** The attempt that writes. */
interface AttemptControl {
  /** Does something for the handler, unless the attempt is over. */
  readonly whileRunning: <A, E = never, R = never>(act: () => Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** A moment at which it makes a difference to die. */
  readonly crashPoint: (label: string) => Effect.Effect<void>
  /** ms */
  readonly now: () => number
}

/** Where a step stands, or a write that belongs to it. */
interface StepContext {
  readonly dedupKeys: DedupKeys
  /** Names of the steps around, each with a slash. */
  readonly path: string
  /** HTTP requests that were not, or badly, answered. */
  unanswered: number
}

/** The step that is being run, if one is. */
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
    message: `${what} was begun by an earlier attempt, and nobody knows whether it took effect`,
    refusal: "OutcomeUnknown"
  })

/** What is not shown yet may have been done: an effect's absence counts only so long after the write, ms. */
const settlingMillis = 300_000

export class TestJournal {
  readonly #world: TestEnvironment
  readonly #keys: DeliveryKeys
  readonly #life: AttemptControl
  readonly #locks = new Map<string, Semaphore.Semaphore>()
  readonly #concluded = new Map<string, number>()
  /** Intents of its own. */
  readonly #begun = new Set<string>()

  constructor(world: TestEnvironment, keys: DeliveryKeys, life: AttemptControl) {
    this.#world = world
    this.#keys = keys
    this.#life = life
  }

  // ---- writes -----------------------------------------------------------------------------------------------------

  write(order: WriteRequest): Effect.Effect<JsonValue, HandlerError> {
    return this.#life.whileRunning(() =>
      Effect.flatMap(this.#place, ({ dedupKeys: [occasion, ...wider], path }) => {
        const refusal = this.#world.rejectionOf(order)
        if (refusal !== null) return Effect.fail(refusal)
        const { body, id, integration, write } = order
        const named = (occasion: string) => JSON.stringify([occasion, path, write, integration, id, body])
        return this.#numbered(named(occasion), (number) => {
          const intents = [occasion, ...wider].map((occasion) => `${named(occasion)}${number}`)
          return this.#intend(intents.find((intent) => this.#world.state.intents.has(intent)) ?? intents[0]!, order)
        })
      })
    )
  }

  /** Equal requests have numbers: the next is another one only after the one before was done. */
  #numbered<A, E, R>(name: string, run: (number: number) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    const lock = this.#locks.get(name) ?? Semaphore.makeUnsafe(1)
    this.#locks.set(name, lock)
    return Effect.suspend(() => {
      const number = this.#concluded.get(name) ?? 0
      return Effect.tap(run(number), () => Effect.sync(() => this.#concluded.set(name, number + 1)))
    }).pipe(lock.withPermits(1))
  }

  #intend(intent: string, order: WriteRequest): Effect.Effect<JsonValue, HandlerError> {
    const { intents } = this.#world.state
    const { integration, options, write } = order
    return Effect.gen({ self: this }, function*() {
      yield* this.#life.whileRunning(() => Effect.void)
      const known = intents.get(intent)
      if (known?.data !== undefined) return known.data
      if (known !== undefined) {
        const found = yield* this.#unknown(intent, known.begunAt, write, options.onUnknown)
        if (found !== null) return this.#kept(intent, found)
      } else if (
        (options.onUnknown ?? defaultOnUnknown[writes[write].resendPolicy]) === "deadLetter" && this.#hasKin(intent)
      ) {
        return yield* unknownOutcome(write)
      }
      this.#begun.add(intent)
      intents.set(intent, { begunAt: this.#life.now() })
      yield* this.#life.crashPoint(`${write}: about to be sent`)
      const fault = this.#world.fault(write, integration)
      if (fault !== null && fault.fail !== "response lost") {
        if (fault.fail !== "request lost") intents.delete(intent)
        return yield* Effect.fail(fault.error)
      }
      const data = this.#world.apply(intent, order)
      if (fault !== null) return yield* Effect.fail(fault.error)
      yield* this.#life.crashPoint(`${write}: done, its answer not kept`)
      this.#kept(intent, data)
      yield* this.#life.crashPoint(`${write}: done`)
      return data
    })
  }

  /** Whether an earlier attempt may have asked the same in other words. */
  #hasKin(intent: string): boolean {
    const kinOf = (name: string): string =>
      JSON.stringify(JSON.parse(name.slice(0, name.lastIndexOf("]") + 1)).slice(0, -1))
    return [...this.#world.state.intents].some(([name, { data }]) =>
      data === undefined && !this.#begun.has(name) && kinOf(name) === kinOf(intent)
    )
  }

  /** Of a write that may have taken effect: what it made; null: it is to be sent. */
  *#unknown(intent: string, begunAt: number, write: WriteName, declared: OnUnknown | undefined) {
    const { resendPolicy } = writes[write]
    const how = declared ?? defaultOnUnknown[resendPolicy]
    if (how === "repeat") return null
    if (how === "deadLetter" || (resendPolicy !== "look" && resendPolicy !== "find")) {
      return yield* unknownOutcome(write)
    }
    const found = this.#world.appliedWrite(intent)
    if (found !== undefined) return found.data
    const left = begunAt + settlingMillis - this.#life.now()
    if (left > 0) return yield* new RateLimited({ retryAfter: Duration.millis(left) })
    return resendPolicy === "find" ? yield* unknownOutcome(write) : null
  }

  #kept(intent: string, data: JsonValue): JsonValue {
    this.#world.state.intents.set(intent, { begunAt: this.#life.now(), data })
    return data
  }

  // ---- journal ----------------------------------------------------------------------------------------------------

  get #place(): Effect.Effect<StepContext> {
    const { dedupKeys } = this.#keys
    return Effect.map(CurrentStep, (step) => step ?? { dedupKeys, path: "", unanswered: 0 })
  }

  get #lasting(): Effect.Effect<string, Permanent> {
    const { handler, integration, record } = this.#keys
    if (record !== null) return Effect.succeed(JSON.stringify([handler, integration, record]))
    return Effect.fail(new Permanent({ message: "oncePerRecord counts by one record: a batch has several, use once" }))
  }

  get journal(): Journal["Service"] {
    const { journal } = this.#world.state
    const { handler } = this.#keys
    type Step = Journal["Service"]["once"]
    const stepIn = (placeOf: (around: StepContext) => StepContext): Step =>
      Effect.fnUntraced({ self: this }, function*(name, schema, effect, options) {
        yield* this.#life.whileRunning(() => Effect.void)
        const place = placeOf(yield* this.#place)
        const step = place.path + name
        const [own, ...wider] = place.dedupKeys.map((occasion) => JSON.stringify([occasion, step]))
        const key = wider.find((key) => journal.has(key)) ?? own!
        const codec = Schema.toCodecJson(schema)
        const declared = options?.onUnknown === "deadLetter"
        const misfit = () => new Permanent({ message: `the result of step "${step}" is not what its schema says` })
        const run = Effect.gen({ self: this }, function*() {
          const known = journal.get(key)
          if (known?.result !== undefined) {
            return yield* Effect.mapError(Schema.decodeUnknownEffect(codec)(known.result), misfit)
          }
          if (known !== undefined) return yield* unknownOutcome(`step "${step}"`)
          if (declared) journal.set(key, { handler, step })
          yield* this.#life.crashPoint(`step "${step}": about to run`)
          const within: StepContext = { ...place, path: `${step}/`, unanswered: 0 }
          const value = yield* Effect.provideService(effect, CurrentStep, within).pipe(
            // who fails says that it is not done, but for what nobody answered
            Effect.tapError(() => Effect.sync(() => within.unanswered === 0 && journal.delete(key)))
          )
          const result = yield* Effect.mapError(Schema.encodeEffect(codec)(value), misfit)
          yield* this.#life.crashPoint(`step "${step}": done, its result not kept`)
          journal.set(key, { handler, step, result: JSON.parse(JSON.stringify(result)) })
          yield* this.#life.crashPoint(`step "${step}": done`)
          return value
        })
        return yield* this.#numbered(key, () => run)
      })
    return {
      once: stepIn((around) => around),
      oncePerRecord: (...step) =>
        Effect.flatMap(this.#lasting, (occasion) => stepIn((around) => ({ ...around, dedupKeys: [occasion] }))(...step))
    }
  }
}
