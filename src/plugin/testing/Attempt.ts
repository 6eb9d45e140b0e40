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
import * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type Repeat, type WriteName, writeNames, writes, writeSchemas } from "../../api/Writes.ts"
import type { JsonValue } from "../../domain/Canonical.ts"
import type { Model } from "../../domain/Model.ts"
import {
  Api,
  type Capabilities,
  Events,
  type Handled,
  Journal,
  type OnUnknown,
  Records,
  type StepOptions,
  type UnifiedApi
} from "../Capabilities.ts"
import type { EventOf, RecordOf, Trigger } from "../Event.ts"
import { type HandlerError, Permanent, RateLimited, Transient } from "../Failure.ts"
import { received } from "../Reception.ts"
import { VirtualClock } from "./VirtualClock.ts"
import type { Fault, Order, Request, World } from "./World.ts"

/** What is delivered: to whom, and what keys its steps. */
export interface Delivery {
  readonly handler: string
  /** Of the event, the batch's events, or the tick. */
  readonly id: string
  readonly integration: string
  /** null: a batch, or a tick. */
  readonly event: { readonly model: Model; readonly recordId: string } | null
  readonly timeout: Duration.Duration
  readonly run: () => Handled
}

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

/** The step that a write belongs to. */
const Enclosing = Context.Reference<string | null>("rollcall/testing/Enclosing", { defaultValue: () => null })

const onUnknown: Readonly<Record<Repeat, OnUnknown>> = { safe: "repeat", look: "ask", never: "deadLetter" }
const unknownOutcome = (what: string) =>
  new Permanent({
    message: `${what} was begun by an earlier attempt, and nobody knows whether it took effect`,
    refusal: "OutcomeUnknown"
  })

/** Nothing but capabilities is waited for; who is busy otherwise for so long in real time is taken to hang. */
const patience = 2_000

export class Attempt {
  readonly #world: World
  readonly #delivery: Delivery
  readonly #death: Death
  readonly #logs: Array<string>
  /** Equal writes under one step that are done or under way: they are told apart by their number. */
  readonly #numbers = new Map<string, number>()
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
    const hanging = setTimeout(late, patience)
    this.#stirred = () => void hanging.refresh()
    this.#clock.at(this.#clock.currentTimeMillisUnsafe() + Duration.toMillis(timeout), late)
    const logger = Logger.make<unknown, void>(({ logLevel, message }) => {
      this.#logs.push(`${logLevel}: ${Array.isArray(message) ? message.map(String).join(" ") : String(message)}`)
    })
    const stop = new AbortController()
    this.#end = (end) => {
      this.#end = null
      clearTimeout(hanging)
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
      Context.add(Journal, {
        once: (step, schema, effect, options) => this.#once(this.#ofDelivery(step), step, schema, effect, options),
        oncePer: (step, schema, effect, options) => this.#once(this.#ofRecord(step), step, schema, effect, options)
      }),
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
    const api: Record<string, unknown> = {
      integration,
      attachments: (id: string) => read("attachments", () => world.attachments(integration, id)),
      employeeForm: (id?: string) => read("employeeForm", () => world.employeeForm(integration, id)),
      assessmentPackages: () =>
        read("assessmentPackages", () => ({ packages: world.list(integration, "assessment.package") })),
      tools: () => read("tools", () => world.tools()),
      live: (model: Model, id: string) => read("live", () => world.shown(integration, model, id))
    }
    for (const write of writeNames) {
      api[write] = (...request: ReadonlyArray<unknown>) => this.#write(orderOf(integration, write, request))
    }
    return api as unknown as UnifiedApi
  }

  #write(order: Order): Effect.Effect<JsonValue, HandlerError> {
    return this.#act(() =>
      Effect.flatMap(Enclosing, (step) => {
        const refusal = this.#world.refusal(order)
        if (refusal !== null) return Effect.fail(refusal)
        const { body, id, integration, write } = order
        const place = JSON.stringify([step ?? this.#ofDelivery(""), write, integration, id, body])
        // A write that failed leaves its number to the next: who tries again within the handler means the same write.
        const number = this.#numbers.get(place) ?? 0
        this.#numbers.set(place, number + 1)
        const release = Effect.sync(() => this.#numbers.set(place, (this.#numbers.get(place) ?? 1) - 1))
        return Effect.onError(this.#intend(`${place}${number}`, order), () => release)
      })
    )
  }

  #intend(intent: string, order: Order): Effect.Effect<JsonValue, HandlerError> {
    const { intents } = this.#world.state
    const { integration, options, write } = order
    const known = intents.get(intent)
    if (known?.data !== undefined) return Effect.succeed(known.data)
    if (known !== undefined) {
      const how = options.onUnknown ?? onUnknown[writes[write].repeat]
      if (how === "deadLetter") return Effect.fail(unknownOutcome(write))
      const found = how === "ask" ? this.#world.found(intent) : undefined
      if (found !== undefined) return Effect.sync(() => this.#kept(intent, found.data))
    }
    return Effect.gen({ self: this }, function*() {
      intents.set(intent, {})
      yield* this.#moment(`${write}: about to be sent`)
      const fault = this.#world.fault(write, integration)
      const lost = fault?.fail === "answer lost" || fault?.fail === "request lost"
      if (fault !== null && !lost) {
        intents.delete(intent)
        return yield* Effect.fail(fault.error)
      }
      if (fault?.fail === "request lost") return yield* Effect.fail(fault.error)
      const data = this.#world.apply(intent, order)
      if (fault !== null) return yield* Effect.fail(fault.error)
      yield* this.#moment(`${write}: done, its answer not kept`)
      this.#kept(intent, data)
      yield* this.#moment(`${write}: done`)
      return data
    })
  }

  #kept(intent: string, data: JsonValue): JsonValue {
    this.#world.state.intents.set(intent, { data })
    return data
  }

  // ---- journal ----------------------------------------------------------------------------------------------------

  #ofDelivery(step: string): string {
    return JSON.stringify([this.#delivery.handler, this.#delivery.id, step])
  }

  #ofRecord(step: string): string {
    const { event, handler, integration } = this.#delivery
    if (event === null) {
      throw new Error(`oncePer("${step}") is for events: a batch and a tick have no record, use once`)
    }
    return JSON.stringify([handler, integration, event.model, event.recordId, step])
  }

  #once<A, I, E, R>(
    key: string,
    step: string,
    schema: Schema.Codec<A, I>,
    effect: Effect.Effect<A, E, R>,
    options: StepOptions = {}
  ): Effect.Effect<A, E | HandlerError, R> {
    const { journal } = this.#world.state
    const { handler } = this.#delivery
    return Effect.gen({ self: this }, function*() {
      yield* this.#act(() => Effect.void)
      const known = journal.get(key)
      if (known?.result !== undefined) return yield* Effect.orDie(Schema.decodeUnknownEffect(schema)(known.result))
      if (known !== undefined && options.onUnknown === "deadLetter") {
        return yield* unknownOutcome(`step "${step}"`)
      }
      journal.set(key, { handler, step })
      yield* this.#moment(`step "${step}": about to run`)
      const value = yield* Effect.provideService(effect, Enclosing, key).pipe(
        // Who fails says what is to be done next: only what was cut off is unknown.
        Effect.tapError(() => Effect.sync(() => void journal.delete(key)))
      )
      const result: JsonValue = JSON.parse(JSON.stringify(yield* Effect.orDie(Schema.encodeEffect(schema)(value))))
      yield* this.#moment(`step "${step}": done, its result not kept`)
      journal.set(key, { handler, step, result })
      yield* this.#moment(`step "${step}": done`)
      return value
    })
  }

  // ---- log and HTTP -----------------------------------------------------------------------------------------------

  #between<T extends Trigger>(trigger: T, from: string, to: string): Effect.Effect<ReadonlyArray<EventOf<T>>> {
    const [after, upTo] = [from, to].map((position) => Number(position.split("-").at(-1)))
    const occasion = { _tag: "Event", triggers: [trigger], changed: null } as const
    return Effect.sync(() =>
      this.#world.state.log.slice(after, upTo).flatMap((event) => {
        const given = received("", { occasion, options: { echo: "deliver" } }, event)
        return given === null || event.integration !== this.#delivery.integration ? [] : [given as EventOf<T>]
      })
    )
  }

  #http(request: HttpClientRequest.HttpClientRequest) {
    const failed = (description: string) =>
      new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, description }) })
    return Effect.gen({ self: this }, function*() {
      const sent = yield* asSent(request)
      const what = `${sent.method} ${sent.url}`
      yield* this.#moment(`${what}: about to be sent`)
      const answer = this.#world.answer(sent)
      yield* this.#moment(`${what}: answered, nothing done with it`)
      if (typeof answer === "string") return yield* failed(answer)
      const { body, headers = {}, status } = answer
      const text = body === undefined || status === 204 || status === 304
        ? null
        : typeof body === "string"
        ? body
        : JSON.stringify(body)
      const type = typeof body === "string" || text === null ? {} : { "content-type": "application/json" }
      return HttpClientResponse.fromWeb(request, new Response(text, { status, headers: { ...type, ...headers } }))
    })
  }
}

const traced = /^(traceparent|b3|x-b3-.*)$/

const asSent = Effect.fnUntraced(function*(request: HttpClientRequest.HttpClientRequest): Effect.fn.Return<Request> {
  const web = yield* Effect.orDie(HttpClientRequest.toWeb(request))
  return {
    method: web.method,
    url: web.url,
    headers: Object.fromEntries([...web.headers].filter(([name]) => !traced.test(name))),
    body: yield* Effect.promise(() => web.text())
  }
})

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
