/**
 * One attempt at a delivery: hands out the capabilities over the kit's world, and ends as an attempt can end, by dying too.
 *
 * Invariants
 * 1. An attempt that is over does nothing more, whatever still runs of it   (X16)
 * 2. A write with an unknown outcome is sent again only where the table of writes, or the handler, says so   (L5)
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { type Repeat, type WriteName, writeNames, writes, writeSchemas } from "../../api/Writes.ts"
import type { JsonValue } from "../../domain/Canonical.ts"
import type { Model, StreamModel } from "../../domain/Model.ts"
import {
  Api,
  type Capabilities,
  Events,
  type Handled,
  Journal,
  type OnUnknown,
  type Reads,
  Records,
  type UnifiedApi,
  type Writes
} from "../Capabilities.ts"
import type { EventOf, RecordOf, Trigger } from "../Event.ts"
import { type HandlerError, Permanent, RateLimited, Transient } from "../Failure.ts"
import { received } from "../Reception.ts"
import { asAnswered, asSent, harmless } from "./Http.ts"
import { VirtualClock } from "./VirtualClock.ts"
import type { Fault, Order, World } from "./World.ts"

/** What is delivered: to whom, and what keys its steps. */
export interface Delivery {
  readonly handler: string
  /** What its steps are done once for: the event, the tick; the batch, then those that it was a part of. */
  readonly occasions: Occasions
  readonly integration: string
  /** What `oncePer` counts by; null: a batch, which has several. */
  readonly record: { readonly model: Model; readonly id: string } | "tick" | null
  readonly timeout: Duration.Duration
  readonly run: () => Handled
}

export type Occasions = readonly [string, ...ReadonlyArray<string>]

/** Where an attempt dies: at the `at`-th moment at which it makes a difference; never, if null. */
export interface Death {
  readonly at: number | null
  moment: number
  label: string | null
}

/** A mistake in the handler: something else was thrown than the three failures. */
export interface Defect {
  readonly _tag: "Defect"
  readonly message: string
  readonly cause: unknown
}

export type End =
  | { readonly _tag: "Done" }
  | { readonly _tag: "Failed"; readonly failure: HandlerError | Defect }
  | { readonly _tag: "Died" }

/** Where a step stands, or a write that belongs to it. */
interface Place {
  readonly occasions: Occasions
  /** Names of the steps around, each with a slash. */
  readonly path: string
  /** HTTP requests that were not, or badly, answered. */
  unanswered: number
}
/** The step that is being run, if one is. */
const CurrentStep = Context.Reference<Place | null>("rollcall/testing/CurrentStep", { defaultValue: () => null })

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

/**
 * Nothing but capabilities is waited for: who is busy otherwise for so many turns in real time is taken to hang. Turns are
 * counted, for on a busy machine a single timer is due as soon as anything goes on.
 */
const patience = { turns: 6, millis: 400 }

export class Attempt {
  readonly #world: World
  readonly #delivery: Delivery
  readonly #death: Death
  readonly #logs: Array<string>
  readonly #locks = new Map<string, Semaphore.Semaphore>()
  readonly #concluded = new Map<string, number>()
  /** Intents of its own. */
  readonly #begun = new Set<string>()
  readonly #clock: VirtualClock
  #end: ((end: End) => void) | null = null
  #stirred = () => {}

  constructor(world: World, delivery: Delivery, death: Death, logs: Array<string>) {
    this.#world = world
    this.#delivery = delivery
    this.#death = death
    this.#logs = logs
    this.#clock = new VirtualClock(world.state.now)
  }

  /** Runs the handler until it ends, its time is up, or it dies. */
  readonly run: Effect.Effect<End> = Effect.callback((resume) => {
    const { run, timeout } = this.#delivery
    const late = () => {
      const message = `the handler took longer than ${Duration.format(timeout)}`
      this.#end?.({ _tag: "Failed", failure: new Transient({ message }) })
    }
    let turns = 0
    this.#stirred = () => {
      turns = 0
    }
    const hanging = setInterval(() => ++turns > patience.turns && late(), patience.millis)
    this.#clock.at(this.#clock.currentTimeMillisUnsafe() + Duration.toMillis(timeout), late)
    const logger = Logger.make<unknown, void>(({ logLevel, message }) => {
      this.#logs.push(`${logLevel}: ${Array.isArray(message) ? message.map(String).join(" ") : String(message)}`)
    })
    const stop = new AbortController()
    this.#end = (end) => {
      this.#end = null
      clearInterval(hanging)
      this.#clock.stop()
      this.#world.state.now = this.#clock.currentTimeMillisUnsafe()
      resume(Effect.succeed(end))
      stop.abort()
    }
    const fiber = Effect.suspend(run).pipe(
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(Clock.Clock, this.#clock),
      (handled) => Effect.runForkWith(this.#capabilities)(handled, { signal: stop.signal })
    )
    fiber.addObserver((exit) => this.#end?.(endOf(exit)))
  })

  /** Does something for the handler, unless the attempt is over. */
  #act<A, E = never, R = never>(act: () => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      this.#stirred()
      return this.#end === null ? Effect.never : act()
    })
  }

  /** A moment at which it makes a difference to die. */
  #moment(label: string): Effect.Effect<void> {
    return this.#act(() => {
      if (this.#death.moment++ !== this.#death.at) return Effect.void
      this.#death.label = label
      this.#end?.({ _tag: "Died" })
      return Effect.never
    })
  }

  get #capabilities(): Context.Context<Capabilities> {
    const { integration } = this.#delivery
    return Context.make(
      Api,
      Object.assign(this.#api(integration), { for: (integration: string) => this.#api(integration) })
    ).pipe(
      Context.add(Records, {
        get: <M extends Model>(model: M, id: string, where = integration) =>
          this.#act(() => Effect.sync(() => this.#world.published(where, model, id) as RecordOf<M> | null)),
        applicationsOf: (candidate, where = integration) =>
          this.#act(() =>
            Effect.sync(() => this.#world.applicationsOf(where, candidate) as Array<RecordOf<"ats.application">>)
          )
      }),
      Context.add(Events, { between: (trigger, from, to) => this.#act(() => this.#between(trigger, from, to)) }),
      Context.add(Journal, this.#journal),
      Context.add(HttpClient.HttpClient, HttpClient.make((request) => this.#http(request)))
    )
  }

  // ---- API --------------------------------------------------------------------------------------------------------

  #api(integration: string): UnifiedApi {
    const world = this.#world
    const read = <A>(on: Fault["on"], answer: () => A): Effect.Effect<A, HandlerError> =>
      this.#act(() => {
        const fault = world.fault(on, integration)
        return fault === null ? Effect.sync(answer) : Effect.fail(fault.error)
      })
    const reads: Reads = {
      attachments: (id) => read("attachments", () => world.attachments(integration, id)),
      employeeForm: (id) => read("employeeForm", () => world.employeeForm(integration, id)),
      assessmentPackages: () => read("assessmentPackages", () => world.packages(integration)),
      tools: () => read("tools", () => world.tools()),
      live: <M extends StreamModel>(model: M, id: string) =>
        read("live", () => world.shown(integration, model, id) as RecordOf<M> | null)
    }
    const writes = writeNames.map((write) => [
      write,
      (...request: ReadonlyArray<never>) => this.#write(orderOf(integration, write, request))
    ])
    return { integration, ...reads, ...(Object.fromEntries(writes) as Writes) }
  }

  #write(order: Order): Effect.Effect<JsonValue, HandlerError> {
    return this.#act(() =>
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
      yield* this.#act(() => Effect.void)
      const known = intents.get(intent)
      if (known?.data !== undefined) return known.data
      if (known !== undefined) {
        const found = yield* this.#unknown(intent, known.begunAt, write, options.onUnknown)
        if (found !== null) return this.#kept(intent, found)
      } else if ((options.onUnknown ?? onUnknown[writes[write].repeat]) === "deadLetter" && this.#hasKin(intent)) {
        return yield* unknownOutcome(write)
      }
      this.#begun.add(intent)
      intents.set(intent, { begunAt: this.#clock.currentTimeMillisUnsafe() })
      yield* this.#moment(`${write}: about to be sent`)
      const fault = this.#world.fault(write, integration)
      if (fault !== null && fault.fail !== "answer lost") {
        if (fault.fail !== "request lost") intents.delete(intent)
        return yield* Effect.fail(fault.error)
      }
      const data = this.#world.apply(intent, order)
      if (fault !== null) return yield* Effect.fail(fault.error)
      yield* this.#moment(`${write}: done, its answer not kept`)
      this.#kept(intent, data)
      yield* this.#moment(`${write}: done`)
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
    const left = begunAt + settling - this.#clock.currentTimeMillisUnsafe()
    if (left > 0) return yield* new RateLimited({ retryAfter: Duration.millis(left) })
    return repeat === "find" ? yield* unknownOutcome(write) : null
  }

  #kept(intent: string, data: JsonValue): JsonValue {
    this.#world.state.intents.set(intent, { begunAt: this.#clock.currentTimeMillisUnsafe(), data })
    return data
  }

  // ---- journal ----------------------------------------------------------------------------------------------------

  get #place(): Effect.Effect<Place> {
    const { occasions } = this.#delivery
    return Effect.map(CurrentStep, (step) => step ?? { occasions, path: "", unanswered: 0 })
  }

  get #lasting(): Effect.Effect<string, Permanent> {
    const { handler, integration, record } = this.#delivery
    if (record !== null) return Effect.succeed(JSON.stringify([handler, integration, record]))
    return Effect.fail(new Permanent({ message: "oncePer counts by one record: a batch has several, use once" }))
  }

  get #journal(): Journal["Service"] {
    const { journal } = this.#world.state
    const { handler } = this.#delivery
    type Step = Journal["Service"]["once"]
    const stepIn = (placeOf: (around: Place) => Place): Step =>
      Effect.fnUntraced({ self: this }, function*(name, schema, effect, options) {
        yield* this.#act(() => Effect.void)
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
          yield* this.#moment(`step "${step}": about to run`)
          const within: Place = { ...place, path: `${step}/`, unanswered: 0 }
          const value = yield* Effect.provideService(effect, CurrentStep, within).pipe(
            // who fails says that it is not done, but for what nobody answered
            Effect.tapError(() => Effect.sync(() => within.unanswered === 0 && journal.delete(key)))
          )
          const result = yield* Effect.mapError(Schema.encodeEffect(codec)(value), misfit)
          yield* this.#moment(`step "${step}": done, its result not kept`)
          journal.set(key, { handler, step, result: JSON.parse(JSON.stringify(result)) })
          yield* this.#moment(`step "${step}": done`)
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

  // ---- log and HTTP -----------------------------------------------------------------------------------------------

  #between<T extends Trigger>(trigger: T, from: string, to: string): Effect.Effect<ReadonlyArray<EventOf<T>>> {
    const [after, upTo] = [from, to].map((position) => Number(position.split("-").at(-1)))
    const occasion = { _tag: "Event", triggers: [trigger], changed: null } as const
    return Effect.sync(() =>
      this.#world.state.log.slice(after, upTo).flatMap((event) => {
        const given = received("", { occasion, options: { echo: "deliver", origins: [event.origin] } }, event)
        return given === null || event.integration !== this.#delivery.integration ? [] : [given as EventOf<T>]
      })
    )
  }

  #http(request: HttpClientRequest.HttpClientRequest) {
    return Effect.gen({ self: this }, function*() {
      const sent = yield* asSent(request)
      const what = `${sent.method} ${sent.url}`
      const step = harmless.has(sent.method) ? null : yield* CurrentStep
      if (step !== null) step.unanswered++
      yield* this.#moment(`${what}: about to be sent`)
      const answer = this.#world.answer(sent)
      yield* this.#moment(`${what}: answered, nothing done with it`)
      if (step !== null && typeof answer === "object" && answer.status < 500) step.unanswered--
      return yield* asAnswered(request, answer)
    })
  }
}

/** Id, body and options stand in this order, where a write has them. */
const orderOf = (integration: string, write: WriteName, request: ReadonlyArray<unknown>): Order => {
  const { body, params } = writeSchemas[write]
  const left = [...request]
  const id = Object.keys(params).length === 0 ? null : String(left.shift())
  return {
    integration,
    write,
    id,
    body: body === writeSchemas.deactivateCourse.body ? {} : left.shift(),
    options: left.shift() ?? {}
  }
}

const isFailure = (error: unknown): error is HandlerError =>
  error instanceof Transient || error instanceof RateLimited || error instanceof Permanent

const endOf = (exit: Exit.Exit<void, unknown>): End => {
  if (Exit.isSuccess(exit)) return { _tag: "Done" }
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (isFailure(error)) return { _tag: "Failed", failure: error }
  const cause = Cause.squash(exit.cause)
  const message = cause instanceof Error ? cause.message : String(cause)
  return { _tag: "Failed", failure: { _tag: "Defect", message, cause } }
}
