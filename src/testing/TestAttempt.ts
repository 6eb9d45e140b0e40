/**
 * One attempt at a delivery: hands out the capabilities over the kit's world, and ends as an attempt can end, by dying too.
 *
 * Invariants
 * 1. An attempt that is over does nothing more, whatever still runs of it   (X16)
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
import { type WriteName, writeNames, writeSchemas } from "../api/Writes.ts"
import type { Model, StreamModel } from "../domain/Model.ts"
import {
  Api,
  type Capabilities,
  Events,
  type HandlerEffect,
  Journal,
  type Reads,
  Records,
  type UnifiedApi,
  type Writes
} from "../plugin/Capabilities.ts"
import type { EventOf, RecordOf, Trigger } from "../plugin/Event.ts"
import { eventFor } from "../plugin/EventMatching.ts"
import { type HandlerError, Permanent, RateLimited, Transient } from "../plugin/Failure.ts"
import { safeMethods, toClientResponse, toSentRequest } from "./Http.ts"
import type { Fault, TestEnvironment, WriteRequest } from "./TestEnvironment.ts"
import { CurrentStep, type DeliveryKeys, TestJournal } from "./TestJournal.ts"
import { VirtualClock } from "./VirtualClock.ts"

/** What is delivered: to whom, and what keys its steps. */
export interface TestDelivery extends DeliveryKeys {
  readonly timeout: Duration.Duration
  readonly run: () => HandlerEffect
}

/** Where an attempt dies: at the `at`-th moment at which it makes a difference; never, if null. */
export interface CrashPoint {
  readonly target: number | null
  passed: number
  label: string | null
}

/** A mistake in the handler: something else was thrown than the three failures. */
export interface Defect {
  readonly _tag: "Defect"
  readonly message: string
  readonly cause: unknown
}

export type AttemptResult =
  | { readonly _tag: "Done" }
  | { readonly _tag: "Failed"; readonly failure: HandlerError | Defect }
  | { readonly _tag: "Crashed" }

/**
 * Nothing but capabilities is waited for: who is busy otherwise for so many turns in real time is taken to hang. Turns are
 * counted, for on a busy machine a single timer is due as soon as anything goes on.
 */
const patience = { turns: 6, millis: 400 }

export class TestAttempt {
  readonly #world: TestEnvironment
  readonly #delivery: TestDelivery
  readonly #death: CrashPoint
  readonly #logs: Array<string>
  readonly #clock: VirtualClock
  readonly #once: TestJournal
  #end: ((end: AttemptResult) => void) | null = null
  #stirred = () => {}

  constructor(world: TestEnvironment, delivery: TestDelivery, death: CrashPoint, logs: Array<string>) {
    this.#world = world
    this.#delivery = delivery
    this.#death = death
    this.#logs = logs
    this.#clock = new VirtualClock(world.state.now)
    this.#once = new TestJournal(world, delivery, {
      whileRunning: (act) => this.#act(act),
      crashPoint: (label) => this.#moment(label),
      now: () => this.#clock.currentTimeMillisUnsafe()
    })
  }

  /** Runs the handler until it ends, its time is up, or it dies. */
  readonly run: Effect.Effect<AttemptResult> = Effect.callback((resume) => {
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
      if (this.#death.passed++ !== this.#death.target) return Effect.void
      this.#death.label = label
      this.#end?.({ _tag: "Crashed" })
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
          this.#act(() => Effect.sync(() => this.#world.publishedRecord(where, model, id) as RecordOf<M> | null)),
        applicationsOf: (candidate, where = integration) =>
          this.#act(() =>
            Effect.sync(() => this.#world.applicationsOf(where, candidate) as Array<RecordOf<"ats.application">>)
          )
      }),
      Context.add(Events, { between: (trigger, from, to) => this.#act(() => this.#between(trigger, from, to)) }),
      Context.add(Journal, this.#once.journal),
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
        read("live", () => world.apiRecord(integration, model, id) as RecordOf<M> | null)
    }
    const writes = writeNames.map((write) => [
      write,
      (...request: ReadonlyArray<never>) => this.#once.write(orderOf(integration, write, request))
    ])
    return { integration, ...reads, ...(Object.fromEntries(writes) as Writes) }
  }

  // ---- log and HTTP -----------------------------------------------------------------------------------------------

  #between<T extends Trigger>(trigger: T, from: string, to: string): Effect.Effect<ReadonlyArray<EventOf<T>>> {
    const [after, upTo] = [from, to].map((position) => Number(position.split("-").at(-1)))
    const activation = { _tag: "Event", triggers: [trigger], changed: null } as const
    return Effect.sync(() =>
      this.#world.state.log.slice(after, upTo).flatMap((event) => {
        const given = eventFor("", { activation, options: { echo: "deliver", origins: [event.origin] } }, event)
        return given === null || event.integration !== this.#delivery.integration ? [] : [given as EventOf<T>]
      })
    )
  }

  #http(request: HttpClientRequest.HttpClientRequest) {
    return Effect.gen({ self: this }, function*() {
      const sent = yield* toSentRequest(request)
      const what = `${sent.method} ${sent.url}`
      const step = safeMethods.has(sent.method) ? null : yield* CurrentStep
      if (step !== null) step.unanswered++
      yield* this.#moment(`${what}: about to be sent`)
      const answer = this.#world.respond(sent)
      yield* this.#moment(`${what}: answered, nothing done with it`)
      if (step !== null && typeof answer === "object" && answer.status < 500) step.unanswered--
      return yield* toClientResponse(request, answer)
    })
  }
}

/** Id, body and options stand in this order, where a write has them. */
const orderOf = (integration: string, write: WriteName, request: ReadonlyArray<unknown>): WriteRequest => {
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

const endOf = (exit: Exit.Exit<void, unknown>): AttemptResult => {
  if (Exit.isSuccess(exit)) return { _tag: "Done" }
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (isFailure(error)) return { _tag: "Failed", failure: error }
  const cause = Cause.squash(exit.cause)
  const message = cause instanceof Error ? cause.message : String(cause)
  return { _tag: "Failed", failure: { _tag: "Defect", message, cause } }
}
