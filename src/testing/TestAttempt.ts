/**
 * One attempt of a delivery in the test environment: runs the handler with the service's capabilities, over ports in memory and
 * in virtual time. Ends in success, failure or a simulated crash.
 *
 * Invariants
 * 1. An attempt that has ended has no further effect, even if parts of its handler still run   (X16)
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import * as Logger from "effect/Logger"
import { readNames } from "../api/Reads.ts"
import type { Subscription } from "../delivery/engine/Subscription.ts"
import { CurrentStep } from "../delivery/handler/Attempt.ts"
import { TimedOut } from "../delivery/handler/AttemptFailure.ts"
import * as HandlerContext from "../delivery/handler/HandlerContext.ts"
import * as Job from "../delivery/handler/Job.ts"
import { Api, type Capabilities, Journal, type UnifiedApi, type Writes } from "../plugin/Capabilities.ts"
import type { HandlerError } from "../plugin/Failure.ts"
import type { AttemptJournal } from "../store/AttemptJournal.ts"
import type { SentRequest } from "../store/Deliveries.ts"
import type { Store } from "../store/Store.ts"
import { toClientResponse, toSentRequest } from "./Http.ts"
import * as MemoryJournal from "./MemoryJournal.ts"
import * as TestApi from "./TestApi.ts"
import { type Fault, identity, type TestEnvironment } from "./TestEnvironment.ts"
import { VirtualClock } from "./VirtualClock.ts"
import { recordKey } from "./WriteEffects.ts"

/** What an attempt runs. */
export interface TestDelivery {
  readonly subscription: Subscription
  readonly job: Job.Job
  readonly configuration: unknown
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

export type AttemptEnd = Exit.Exit<void, HandlerError | TimedOut> | "crashed"

/**
 * A handler that uses no capability for this many intervals of real time is considered to hang. Several short intervals are
 * counted instead of one long one: on a busy machine a single long timer may already be due when the process runs again.
 */
const hangLimit = { intervals: 6, millis: 400 }

type Step = Journal["Service"]["once"]

export class TestAttempt {
  readonly #environment: TestEnvironment
  readonly #delivery: TestDelivery
  readonly #crashPoint: CrashPoint
  readonly #logs: Array<string>
  readonly #clock: VirtualClock
  #requests: ReadonlyArray<SentRequest> = []
  #end: ((end: AttemptEnd) => void) | null = null
  #noteActivity = () => {}

  constructor(environment: TestEnvironment, delivery: TestDelivery, crashPoint: CrashPoint, logs: Array<string>) {
    this.#environment = environment
    this.#delivery = delivery
    this.#crashPoint = crashPoint
    this.#logs = logs
    this.#clock = new VirtualClock(environment.state.now)
  }

  /** The requests that the attempt sent. */
  get requests(): ReadonlyArray<SentRequest> {
    return this.#requests
  }

  /** Runs the handler until it ends, times out, or crashes. */
  readonly run: Effect.Effect<AttemptEnd> = Effect.callback((resume) => {
    const timeout = Job.timeoutOf(this.#delivery.subscription.handler)
    const timeOut = () => this.#end?.(Exit.fail(new TimedOut()))
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
    const fiber = Effect.suspend(() => this.#handler()).pipe(
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(Clock.Clock, this.#clock),
      (handled) => Effect.runFork(handled, { signal: stop.signal })
    )
    fiber.addObserver((exit) => this.#end?.(exit))
  })

  /** Runs `action` for the handler, unless the attempt has ended. */
  #whileRunning<A, E = never, R = never>(action: () => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      this.#noteActivity()
      return this.#end === null ? Effect.never : action()
    })
  }

  /** The port, whose methods do not return once the attempt has ended. */
  #untilEnd<P extends object>(port: P): P {
    type Method = (...request: ReadonlyArray<unknown>) => Effect.Effect<unknown>
    const methods = Object.entries<Method>(port as Readonly<Record<string, Method>>)
    return Object.fromEntries(
      methods.map(([name, method]) => [
        name,
        (...request: ReadonlyArray<unknown>) => this.#whileRunning(() => method(...request))
      ])
    ) as P
  }

  /** A point at which a crash could lead to a different result. */
  #mayCrash(label: string): Effect.Effect<void> {
    return this.#whileRunning(() => {
      if (this.#crashPoint.passed++ !== this.#crashPoint.target) return Effect.void
      this.#crashPoint.label = label
      this.#end?.("crashed")
      return Effect.never
    })
  }

  #handler(): Effect.Effect<void, HandlerError> {
    const { configuration, job, subscription } = this.#delivery
    const journal = this.#journal()
    const attempt = Job.attemptOf(subscription, job, { scope: "test", epoch: 1 }, journal)
    this.#requests = attempt.requests
    const capabilities = HandlerContext.contextOf({
      journal,
      source: this.#untilEnd(TestApi.make(this.#environment, (label) => this.#mayCrash(label))),
      accounts: { of: () => Effect.succeed("test") },
      packageLocks: new Map(),
      store: { identity, ...this.#untilEnd({ readLog: this.#readLog }) },
      client: this.#client
    }, attempt)
    return Job.runWith(this.#withTestHooks(capabilities), identity, attempt, job, configuration)
  }

  // ---- ports ------------------------------------------------------------------------------------------------------

  #journal(): AttemptJournal {
    const { journal, published } = this.#environment.state
    const stored = MemoryJournal.make(journal, {
      content: ({ integration, model }, id) =>
        Effect.sync(() => {
          const record = published.get(recordKey(integration, model, id))
          return record === undefined ? null : JSON.stringify(record)
        }),
      applicationsOf: (integration, candidate, limit) =>
        Effect.sync(() => {
          const ids = this.#environment.applicationsOf(integration, candidate).map(({ id }) => String(id)).toSorted()
          return ids.length === 0 ? [TestApi.impliedApplication(candidate)] : ids.slice(0, limit)
        })
    })
    return this.#untilEnd({
      ...stored,
      finish: Effect.fnUntraced({ self: this }, function*(fence, key, ...rest) {
        const write = MemoryJournal.writeOf(journal, key)
        if (write === null) yield* this.#mayCrash(`step "${key.step}": done, result not recorded`)
        yield* stored.finish(fence, key, ...rest)
        yield* this.#mayCrash(write === null ? `step "${key.step}": done` : `${write}: done`)
      })
    })
  }

  readonly #readLog: Store["Service"]["readLog"] = ({ after, integration, limit, model }) =>
    Effect.sync(() =>
      this.#environment.state.log
        .filter((entry) => entry.position > after && entry.integration === integration && entry.model === model)
        .slice(0, limit)
    )

  readonly #client = HttpClient.make((request) =>
    Effect.gen({ self: this }, function*() {
      const sent = yield* toSentRequest(request)
      const what = `${sent.method} ${sent.url}`
      yield* this.#mayCrash(`${what}: about to be sent`)
      const response = this.#environment.respond(sent)
      yield* this.#mayCrash(`${what}: answered, response not processed`)
      return yield* toClientResponse(request, response)
    })
  )

  // ---- capabilities -----------------------------------------------------------------------------------------------

  /** Adds the faults of reads, and the crash point before a step. */
  #withTestHooks(capabilities: Context.Context<Capabilities>): Context.Context<Capabilities> {
    const api = Context.get(capabilities, Api)
    const { once, oncePerRecord } = Context.get(capabilities, Journal)
    const withCrashPoint = (run: Step): Step => (step, schema, effect, options) =>
      run(step, schema, Effect.andThen(this.#beforeStep, effect), options)
    return Context.add(capabilities, Api, {
      ...this.#withFaults(api),
      for: (integration) => this.#withFaults(api.for(integration))
    }).pipe(Context.add(Journal, { once: withCrashPoint(once), oncePerRecord: withCrashPoint(oncePerRecord) }))
  }

  readonly #beforeStep = Effect.flatMap(
    CurrentStep,
    (step) => this.#mayCrash(`step "${step?.path.slice(0, -1)}": about to run`)
  )

  #withFaults(api: UnifiedApi): UnifiedApi {
    const reads = [...readNames, "live" as const].map((name: Exclude<Fault["on"], keyof Writes>) => [
      name,
      (...request: ReadonlyArray<never>) =>
        this.#whileRunning(() => {
          const fault = this.#environment.fault(name, api.integration)
          if (fault !== null) return Effect.fail(fault.error)
          this.#environment.requireResponse(name)
          const read: (...request: ReadonlyArray<never>) => Effect.Effect<unknown, HandlerError> = api[name]
          return read(...request)
        })
    ])
    return { ...api, ...Object.fromEntries(reads) }
  }
}
