/**
 * PUBLIC: `rollcall/testing`. Delivers events to a plugin in memory by the same rules as the service: attempts, journal,
 * unknown outcomes, order per record. Needs no server and no store, and does not wait: time is virtual.
 *
 * ```ts
 * const testing = Testing.make(plugin, { records: [Testing.record("hris.skill", { id: "s1" })] })
 * const { writes } = await testing.deliver(Testing.event("ats.application.hired", { after: { candidate_id: "c1" } }))
 * ```
 */
import * as Effect from "effect/Effect"
import { readNames } from "../api/Reads.ts"
import { writeNames } from "../api/Writes.ts"
import type { BuiltInModel } from "../domain/BuiltInModels.ts"
import { type AnyList, nameOfModel, withLists } from "../domain/DefinedList.ts"
import type { AnyEvent, AnyListEvent, RecordIn } from "../plugin/Event.ts"
import { BlockReason, isHandlerError, Refusal } from "../plugin/Failure.ts"
import { isPlugin, type Plugin } from "../plugin/Plugin.ts"
import { anything, type Checks, count, issuesIn, list, name, object, oneOf } from "../plugin/PropertyChecks.ts"
import * as DeliveryLoop from "./DeliveryLoop.ts"
import * as Fixtures from "./Fixtures.ts"
import type { Request } from "./Http.ts"
import type { CrashPoint } from "./TestAttempt.ts"
import { type Setup, type Step, TestEnvironment, type Write } from "./TestEnvironment.ts"

export type { Defect, DeliveryResult } from "./DeliveryLoop.ts"
export {
  event,
  type EventFixture,
  type EventOverrides,
  integration,
  record,
  type RecordContent,
  type RecordFixture
} from "./Fixtures.ts"
export type { MockResponse, Request } from "./Http.ts"
export type { FailureMode, Fault, ReadResponses, Setup, Step, Write } from "./TestEnvironment.ts"

/** The result of one call of `deliver` or `tick`. Writes, requests and logs are those of this call only. */
export interface Result {
  /** One per handler and event, in order; empty if no handler receives the event. */
  readonly deliveries: ReadonlyArray<DeliveryLoop.DeliveryResult>
  /** The failure of the first dead letter; null if there is none. */
  readonly failure: DeliveryLoop.DeliveryResult["failure"]
  /** The writes that took effect, in order. */
  readonly writes: ReadonlyArray<Write>
  /** The HTTP requests that were sent. */
  readonly requests: ReadonlyArray<Request>
  /** All steps in the journal, including those of earlier deliveries. */
  readonly journal: ReadonlyArray<Step>
  readonly logs: ReadonlyArray<string>
}

/** The result of a delivery during which the process crashed once, and which the service then continued. */
export interface Crash {
  /** The point at which the process crashed, such as `createEmployee: done, response not recorded`. */
  readonly at: string
  readonly result: Result
}

type Delivered = AnyEvent | AnyListEvent
type Events = Delivered | ReadonlyArray<Delivered>
/** A run of an `.every` handler. */
export interface DueTick {
  readonly tick: string
  readonly integration?: string
}

/** The test kit for Effect. A mistake in the test is a defect. */
export interface TestingEffects {
  readonly deliver: (events: Events) => Effect.Effect<Result>
  readonly tick: (handler: string, integration?: string) => Effect.Effect<Result>
  readonly crashes: (what: Events | DueTick) => Effect.Effect<ReadonlyArray<Crash>>
}

/** A plugin in its test environment. */
export interface Testing {
  /** Delivers events, in the given order, to every handler that receives them, with retries, until each delivery has settled. */
  readonly deliver: (events: Events) => Promise<Result>
  /** Runs an `.every` handler over the events since its last tick. */
  readonly tick: (handler: string, integration?: string) => Promise<Result>
  /**
   * Repeats the delivery (or the run of the `.every` handler) once for every point at which a crash could lead to a different
   * result. Each time, the process crashes at that point and the delivery continues to the end. The environment is not changed.
   */
  readonly crashes: (what: Events | DueTick) => Promise<ReadonlyArray<Crash>>
  /** The record as the simulated API returns it now; null if it does not exist there. */
  readonly live: <M extends BuiltInModel | AnyList>(model: M, id: string, integration?: string) => RecordIn<M> | null
  readonly effects: TestingEffects
}

const inOrder = (events: Events): ReadonlyArray<Delivered> => "model" in events ? [events] : events

/** The steps in the journal, without those that are writes. */
const stepsOf = (
  { handlers }: { readonly handlers: ReadonlyArray<{ readonly name: string }> },
  { state }: TestEnvironment
): ReadonlyArray<Step> =>
  state.journal.rows.filter(({ write }) => write === null).map(({ handler, result, step }) => ({
    handler: handlers[handler]?.name ?? "",
    step,
    ...(result === null ? {} : { result: JSON.parse(result) })
  }))

/** Limit that stops `crashes` for a handler that never ends. */
const maxCrashPoints = 10_000

/** The calls of which a test can set a fault. */
const calls: ReadonlyArray<string> = [...writeNames, ...readNames, "live"]

/** The failures that a fault can name; it can also be one of the four kinds itself. */
const failures = [
  ...Refusal.literals,
  ...BlockReason.literals,
  "Transient",
  "RateLimited",
  "response lost",
  "request lost"
]

const setupProperties: Checks = { records: list(object), reads: object, faults: list(object), http: anything }
const faultProperties: Checks = {
  on: oneOf(calls),
  fail: (value) => isHandlerError(value) ? null : oneOf(failures)(value),
  integration: name,
  times: count,
  after: anything
}

const check = (plugin: unknown, setup: Setup): void => {
  if (!isPlugin(plugin)) {
    throw new Error("this is not a plugin: pass the result of `Plugin.make(…)`; if it is a function, call it")
  }
  if (plugin.handlers.length === 0) {
    throw new Error(
      `plugin "${plugin.name}" has no handler: \`.on\`, \`.batch\` and \`.every\` return a new plugin, so export what they return`
    )
  }
  Fixtures.refuse([
    ...plugin.issues,
    ...issuesIn("Testing.make", "the second argument", setup, setupProperties),
    ...(setup.faults ?? []).flatMap((fault, at) =>
      issuesIn("Testing.make", `faults[${at}]`, fault, faultProperties, `faults[${at}].`)
    )
  ])
}

/** Makes a test environment for a plugin. Configure the plugin with `plugin.with({ values: … })`. */
export const make = <C>(plugin: Plugin<C>, setup: Setup = {}): Testing => {
  check(plugin, setup)
  const environment = new TestEnvironment(setup, withLists(plugin.lists))

  type Deliver = (context: DeliveryLoop.DeliveryContext) => Effect.Effect<void>

  const run = Effect.fnUntraced(function*(
    environment: TestEnvironment,
    target: number | null,
    deliver: Deliver
  ) {
    const crashPoint: CrashPoint = { target, passed: 0, label: null }
    const context: DeliveryLoop.DeliveryContext = {
      plugin: plugin as Plugin<unknown>,
      environment,
      crashPoint,
      settled: [],
      logs: []
    }
    const { appliedWrites, requests } = environment.state
    const [writesBefore, requestsBefore] = [appliedWrites.length, requests.length]
    yield* deliver(context)
    const result: Result = {
      deliveries: context.settled,
      failure: context.settled.find(({ failure }) => failure !== null)?.failure ?? null,
      writes: appliedWrites.slice(writesBefore),
      requests: requests.slice(requestsBefore),
      journal: stepsOf(plugin, environment),
      logs: context.logs
    }
    return { result, at: crashPoint.label }
  })

  const deliveryOf = (what: Events | DueTick) => (context: DeliveryLoop.DeliveryContext) =>
    "tick" in what
      ? DeliveryLoop.tick(context, what.tick, what.integration ?? Fixtures.integration)
      : DeliveryLoop.deliver(context, inOrder(what))
  const runOnce = (what: Events | DueTick) =>
    Effect.map(run(environment, null, deliveryOf(what)), ({ result }) => result)

  const effects: TestingEffects = {
    deliver: runOnce,
    tick: (tick, integration = Fixtures.integration) => runOnce({ tick, integration }),
    crashes: Effect.fnUntraced(function*(what) {
      const crashes: Array<Crash> = []
      for (let target = 0; target < maxCrashPoints; target++) {
        const crashed = yield* run(environment.copy(), target, deliveryOf(what))
        if (crashed.at === null) return crashes
        crashes.push({ at: crashed.at, result: crashed.result })
      }
      throw new Error(`the delivery has more than ${maxCrashPoints} crash points; does the handler end?`)
    })
  }
  return {
    deliver: (events) => Effect.runPromise(effects.deliver(events)),
    tick: (handler, integration) => Effect.runPromise(effects.tick(handler, integration)),
    crashes: (what) => Effect.runPromise(effects.crashes(what)),
    live: (model, id, integration = Fixtures.integration) =>
      environment.apiRecord(integration, nameOfModel(model), id) as RecordIn<typeof model> | null,
    effects
  }
}
