/**
 * One attempt of a delivery in the test environment: runs the handler with the service's capabilities, over ports in memory and
 * in virtual time. Ends in success, failure or a simulated crash.
 *
 * Invariants
 * 1. An attempt that has ended has no further effect, even if parts of its handler still run   (X16)
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import { TimedOut } from "../delivery/handler/AttemptFailure.ts"
import * as HandlerContext from "../delivery/handler/HandlerContext.ts"
import * as Job from "../delivery/handler/Job.ts"
import type { Subscription } from "../delivery/handler/Subscription.ts"
import type { HandlerError } from "../plugin/Failure.ts"
import type { SentRequest } from "../store/Delivery.ts"
import { identity, owner, type TestEnvironment } from "./TestEnvironment.ts"
import * as TestPorts from "./TestPorts.ts"
import { VirtualClock } from "./VirtualClock.ts"

/** The delivery of an attempt, as a job, and the handler that runs for it. */
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

export interface AttemptEnd {
  readonly exit: Exit.Exit<void, HandlerError | TimedOut> | "crashed"
  /** The requests that the attempt sent. */
  readonly requests: ReadonlyArray<SentRequest>
}

/**
 * A handler that uses no capability for this many intervals of real time is treated as hanging. Several short intervals are
 * counted instead of one long one: on a busy machine a single long timer may already be due when the process runs again.
 */
const hangLimit = { intervals: 6, millis: 400 }

/** Runs the handler until it ends, times out, or crashes. */
export const run = (
  environment: TestEnvironment,
  { configuration, job, subscription }: TestDelivery,
  point: CrashPoint,
  logs: Array<string>
): Effect.Effect<AttemptEnd> =>
  Effect.callback((resume) => {
    const clock = new VirtualClock(environment.state.now)
    const stop = new AbortController()
    let hasEnded = false
    let idleIntervals = 0

    const whileRunning: TestPorts.AttemptControl["whileRunning"] = (action) =>
      Effect.suspend(() => {
        idleIntervals = 0
        return hasEnded ? Effect.never : action()
      })
    const crashPoint = (label: string) =>
      whileRunning(() => {
        if (point.passed++ !== point.target) return Effect.void
        point.label = label
        end("crashed")
        return Effect.never
      })
    const control = { whileRunning, crashPoint }
    const services = TestPorts.make(environment, control)
    const attempt = Job.attemptOf(subscription, job, owner, services.journal)

    const end = (exit: AttemptEnd["exit"]) => {
      if (hasEnded) return
      hasEnded = true
      clearInterval(hangCheck)
      clock.stop()
      environment.state.now = clock.currentTimeMillisUnsafe()
      resume(Effect.succeed({ exit, requests: attempt.requests }))
      stop.abort()
    }
    const timeOut = () => end(Exit.fail(new TimedOut()))
    const hangCheck = setInterval(() => ++idleIntervals > hangLimit.intervals && timeOut(), hangLimit.millis)
    clock.at(environment.state.now + Duration.toMillis(Job.timeoutOf(subscription.handler)), timeOut)

    const logger = Logger.make<unknown, void>(({ logLevel, message }) => {
      logs.push(`${logLevel}: ${Array.isArray(message) ? message.map(String).join(" ") : String(message)}`)
    })
    const capabilities = TestPorts.withTestHooks(HandlerContext.contextOf(services, attempt), environment, control)
    const handled = Job.runWith(capabilities, identity, attempt, job, configuration).pipe(
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(Clock.Clock, clock)
    )
    Effect.runFork(handled, { signal: stop.signal }).addObserver(end)
  })
