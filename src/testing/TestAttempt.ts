/**
 * One attempt of a delivery in the test environment. Provides the capabilities, and ends in success, failure or a simulated crash.
 *
 * Invariants
 * 1. An attempt that has ended has no further effect, even if parts of its handler still run   (X16)
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

/** A delivery: the handler to run, its time limit, and the keys of its steps. */
export interface TestDelivery extends DeliveryKeys {
  readonly timeout: Duration.Duration
  readonly run: () => HandlerEffect
}

/**
 * Where the simulated process crashes: at the crash point number `target`, counted from 0, or never if it is null. `passed`
 * counts the crash points so far; `label` names the point at which the crash happened.
 */
export interface CrashPoint {
  readonly target: number | null
  passed: number
  label: string | null
}

/** A bug in the handler: it threw something other than the three failures. */
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
 * A handler that uses no capability for this many intervals of real time is considered to hang. Several short intervals are
 * counted instead of one long one: on a busy machine a single long timer may already be due when the process runs again.
 */
const hangLimit = { intervals: 6, millis: 400 }

export class TestAttempt {
  readonly #environment: TestEnvironment
  readonly #delivery: TestDelivery
  readonly #crashPoint: CrashPoint
  readonly #logs: Array<string>
  readonly #clock: VirtualClock
  readonly #journal: TestJournal
  #end: ((result: AttemptResult) => void) | null = null
  #noteActivity = () => {}

  constructor(environment: TestEnvironment, delivery: TestDelivery, crashPoint: CrashPoint, logs: Array<string>) {
    this.#environment = environment
    this.#delivery = delivery
    this.#crashPoint = crashPoint
    this.#logs = logs
    this.#clock = new VirtualClock(environment.state.now)
    this.#journal = new TestJournal(environment, delivery, {
      whileRunning: (action) => this.#whileRunning(action),
      crashPoint: (label) => this.#mayCrash(label),
      now: () => this.#clock.currentTimeMillisUnsafe()
    })
  }

  /** Runs the handler until it ends, times out, or crashes. */
  readonly run: Effect.Effect<AttemptResult> = Effect.callback((resume) => {
    const { run, timeout } = this.#delivery
    const timeOut = () => {
      const message = `the handler took longer than ${Duration.format(timeout)}`
      this.#end?.({ _tag: "Failed", failure: new Transient({ message }) })
    }
    let idleIntervals = 0
    this.#noteActivity = () => {
      idleIntervals = 0
    }
    const hangCheck = setInterval(() => ++idleIntervals > hangLimit.intervals && timeOut(), hangLimit.millis)
    this.#clock.at(this.#clock.currentTimeMillisUnsafe() + Duration.toMillis(timeout), timeOut)
    const logger = Logger.make<unknown, void>(({ logLevel, message }) => {
      this.#logs.push(`${logLevel}: ${Array.isArray(message) ? message.map(String).join(" ") : String(message)}`)
    })
    const stop = new AbortController()
    this.#end = (end) => {
      this.#end = null
      clearInterval(hangCheck)
      this.#clock.stop()
      this.#environment.state.now = this.#clock.currentTimeMillisUnsafe()
      resume(Effect.succeed(end))
      stop.abort()
    }
    const fiber = Effect.suspend(run).pipe(
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(Clock.Clock, this.#clock),
      (handled) => Effect.runForkWith(this.#capabilities)(handled, { signal: stop.signal })
    )
    fiber.addObserver((exit) => this.#end?.(resultOf(exit)))
  })

  /** Runs `action` for the handler, unless the attempt has ended. */
  #whileRunning<A, E = never, R = never>(action: () => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      this.#noteActivity()
      return this.#end === null ? Effect.never : action()
    })
  }

  /** A point at which a crash could lead to a different result. */
  #mayCrash(label: string): Effect.Effect<void> {
    return this.#whileRunning(() => {
      if (this.#crashPoint.passed++ !== this.#crashPoint.target) return Effect.void
      this.#crashPoint.label = label
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
          this.#whileRunning(() =>
            Effect.sync(() => this.#environment.publishedRecord(where, model, id) as RecordOf<M> | null)
          ),
        applicationsOf: (candidate, where = integration) =>
          this.#whileRunning(() =>
            Effect.sync(() => this.#environment.applicationsOf(where, candidate) as Array<RecordOf<"ats.application">>)
          )
      }),
      Context.add(Events, {
        between: (trigger, from, to) => this.#whileRunning(() => this.#between(trigger, from, to))
      }),
      Context.add(Journal, this.#journal.journal),
      Context.add(HttpClient.HttpClient, HttpClient.make((request) => this.#http(request)))
    )
  }

  // ---- API --------------------------------------------------------------------------------------------------------

  #api(integration: string): UnifiedApi {
    const environment = this.#environment
    const read = <A>(on: Fault["on"], answer: () => A): Effect.Effect<A, HandlerError> =>
      this.#whileRunning(() => {
        const fault = environment.fault(on, integration)
        return fault === null ? Effect.sync(answer) : Effect.fail(fault.error)
      })
    const reads: Reads = {
      attachments: (id) => read("attachments", () => environment.attachments(integration, id)),
      employeeForm: (id) => read("employeeForm", () => environment.employeeForm(integration, id)),
      assessmentPackages: () => read("assessmentPackages", () => environment.packages(integration)),
      tools: () => read("tools", () => environment.tools()),
      live: <M extends StreamModel>(model: M, id: string) =>
        read("live", () => environment.apiRecord(integration, model, id) as RecordOf<M> | null)
    }
    const writes = writeNames.map((write) => [
      write,
      (...request: ReadonlyArray<never>) => this.#journal.write(writeRequestOf(integration, write, request))
    ])
    return { integration, ...reads, ...(Object.fromEntries(writes) as Writes) }
  }

  // ---- log and HTTP -----------------------------------------------------------------------------------------------

  #between<T extends Trigger>(trigger: T, from: string, to: string): Effect.Effect<ReadonlyArray<EventOf<T>>> {
    const [after, upTo] = [from, to].map((position) => Number(position.split("-").at(-1)))
    const activation = { _tag: "Event", triggers: [trigger], changed: null } as const
    return Effect.sync(() =>
      this.#environment.state.log.slice(after, upTo).flatMap((event) => {
        const received = eventFor("", { activation, options: { echo: "deliver", origins: [event.origin] } }, event)
        return received === null || event.integration !== this.#delivery.integration ? [] : [received as EventOf<T>]
      })
    )
  }

  #http(request: HttpClientRequest.HttpClientRequest) {
    return Effect.gen({ self: this }, function*() {
      const sent = yield* toSentRequest(request)
      const what = `${sent.method} ${sent.url}`
      const step = safeMethods.has(sent.method) ? null : yield* CurrentStep
      if (step !== null) step.unanswered++
      yield* this.#mayCrash(`${what}: about to be sent`)
      const answer = this.#environment.respond(sent)
      yield* this.#mayCrash(`${what}: answered, response not processed`)
      if (step !== null && typeof answer === "object" && answer.status < 500) step.unanswered--
      return yield* toClientResponse(request, answer)
    })
  }
}

/** The arguments of a write are its id, its body and its options, in this order, as far as the write has them. */
const writeRequestOf = (integration: string, write: WriteName, request: ReadonlyArray<unknown>): WriteRequest => {
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

const resultOf = (exit: Exit.Exit<void, unknown>): AttemptResult => {
  if (Exit.isSuccess(exit)) return { _tag: "Done" }
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (isFailure(error)) return { _tag: "Failed", failure: error }
  const cause = Cause.squash(exit.cause)
  const message = cause instanceof Error ? cause.message : String(cause)
  return { _tag: "Failed", failure: { _tag: "Defect", message, cause } }
}
