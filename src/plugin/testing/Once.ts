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
import { type Repeat, type WriteName, writes } from "../../api/Writes.ts"
import type { JsonValue } from "../../domain/Canonical.ts"
import type { Model } from "../../domain/Model.ts"
import type { Journal, OnUnknown } from "../Capabilities.ts"
import { type HandlerError, Permanent, RateLimited } from "../Failure.ts"
import type { Occasions, Order, World } from "./World.ts"

/** What keys the writes and steps of a delivery. */
export interface Keys {
  readonly handler: string
  readonly occasions: Occasions
  readonly integration: string
  /** What `oncePer` counts by; null: a batch, which has several. */
  readonly record: { readonly model: Model; readonly id: string } | "tick" | null
}

/** The attempt that writes. */
interface Life {
  /** Does something for the handler, unless the attempt is over. */
  readonly act: <A, E = never, R = never>(act: () => Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** A moment at which it makes a difference to die. */
  readonly moment: (label: string) => Effect.Effect<void>
  /** ms */
  readonly now: () => number
}

/** Where a step stands, or a write that belongs to it. */
interface Place {
  readonly occasions: Occasions
  /** Names of the steps around, each with a slash. */
  readonly path: string
  /** HTTP requests that were not, or badly, answered. */
  unanswered: number
}

/** The step that is being run, if one is. */
export const CurrentStep = Context.Reference<Place | null>("rollcall/testing/CurrentStep", { defaultValue: () => null })

const onUnknown: Readonly<Record<Repeat, OnUnknown>> = {
  safe: "repeat",
  look: "ask",
  find: "ask",
  never: "deadLetter"
}
const unknownOutcome = (what: string) =>
  new Permanent({
    message: `${what} was begun by an earlier attempt, and nobody knows whether it took effect`,
    refusal: "OutcomeUnknown"
  })

/** What is not shown yet may have been done: an effect's absence counts only so long after the write, ms. */
const settling = 300_000

export class Once {
  readonly #world: World
  readonly #keys: Keys
  readonly #life: Life
  readonly #locks = new Map<string, Semaphore.Semaphore>()
  readonly #concluded = new Map<string, number>()
  /** Intents of its own. */
  readonly #begun = new Set<string>()

  constructor(world: World, keys: Keys, life: Life) {
    this.#world = world
    this.#keys = keys
    this.#life = life
  }

  // ---- writes -----------------------------------------------------------------------------------------------------

  write(order: Order): Effect.Effect<JsonValue, HandlerError> {
    return this.#life.act(() =>
      Effect.flatMap(this.#place, ({ occasions: [occasion, ...wider], path }) => {
        const refusal = this.#world.refusal(order)
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

  #intend(intent: string, order: Order): Effect.Effect<JsonValue, HandlerError> {
    const { intents } = this.#world.state
    const { integration, options, write } = order
    return Effect.gen({ self: this }, function*() {
      yield* this.#life.act(() => Effect.void)
      const known = intents.get(intent)
      if (known?.data !== undefined) return known.data
      if (known !== undefined) {
        const found = yield* this.#unknown(intent, known.begunAt, write, options.onUnknown)
        if (found !== null) return this.#kept(intent, found)
      } else if ((options.onUnknown ?? onUnknown[writes[write].repeat]) === "deadLetter" && this.#hasKin(intent)) {
        return yield* unknownOutcome(write)
      }
      this.#begun.add(intent)
      intents.set(intent, { begunAt: this.#life.now() })
      yield* this.#life.moment(`${write}: about to be sent`)
      const fault = this.#world.fault(write, integration)
      if (fault !== null && fault.fail !== "answer lost") {
        if (fault.fail !== "request lost") intents.delete(intent)
        return yield* Effect.fail(fault.error)
      }
      const data = this.#world.apply(intent, order)
      if (fault !== null) return yield* Effect.fail(fault.error)
      yield* this.#life.moment(`${write}: done, its answer not kept`)
      this.#kept(intent, data)
      yield* this.#life.moment(`${write}: done`)
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
    const { repeat } = writes[write]
    const how = declared ?? onUnknown[repeat]
    if (how === "repeat") return null
    if (how === "deadLetter" || (repeat !== "look" && repeat !== "find")) return yield* unknownOutcome(write)
    const found = this.#world.found(intent)
    if (found !== undefined) return found.data
    const left = begunAt + settling - this.#life.now()
    if (left > 0) return yield* new RateLimited({ retryAfter: Duration.millis(left) })
    return repeat === "find" ? yield* unknownOutcome(write) : null
  }

  #kept(intent: string, data: JsonValue): JsonValue {
    this.#world.state.intents.set(intent, { begunAt: this.#life.now(), data })
    return data
  }

  // ---- journal ----------------------------------------------------------------------------------------------------

  get #place(): Effect.Effect<Place> {
    const { occasions } = this.#keys
    return Effect.map(CurrentStep, (step) => step ?? { occasions, path: "", unanswered: 0 })
  }

  get #lasting(): Effect.Effect<string, Permanent> {
    const { handler, integration, record } = this.#keys
    if (record !== null) return Effect.succeed(JSON.stringify([handler, integration, record]))
    return Effect.fail(new Permanent({ message: "oncePer counts by one record: a batch has several, use once" }))
  }

  get journal(): Journal["Service"] {
    const { journal } = this.#world.state
    const { handler } = this.#keys
    type Step = Journal["Service"]["once"]
    const stepIn = (placeOf: (around: Place) => Place): Step =>
      Effect.fnUntraced({ self: this }, function*(name, schema, effect, options) {
        yield* this.#life.act(() => Effect.void)
        const place = placeOf(yield* this.#place)
        const step = place.path + name
        const [own, ...wider] = place.occasions.map((occasion) => JSON.stringify([occasion, step]))
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
          yield* this.#life.moment(`step "${step}": about to run`)
          const within: Place = { ...place, path: `${step}/`, unanswered: 0 }
          const value = yield* Effect.provideService(effect, CurrentStep, within).pipe(
            // who fails says that it is not done, but for what nobody answered
            Effect.tapError(() => Effect.sync(() => within.unanswered === 0 && journal.delete(key)))
          )
          const result = yield* Effect.mapError(Schema.encodeEffect(codec)(value), misfit)
          yield* this.#life.moment(`step "${step}": done, its result not kept`)
          journal.set(key, { handler, step, result: JSON.parse(JSON.stringify(result)) })
          yield* this.#life.moment(`step "${step}": done`)
          return value
        })
        return yield* this.#numbered(key, () => run)
      })
    return {
      once: stepIn((around) => around),
      oncePer: (...step) =>
        Effect.flatMap(this.#lasting, (occasion) => stepIn((around) => ({ ...around, occasions: [occasion] }))(...step))
    }
  }
}
