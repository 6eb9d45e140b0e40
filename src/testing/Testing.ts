/**
 * PUBLIC: `rollcall/testing`. Delivers events to a plugin in memory, by the rules of the service: attempts, journal,
 * unknown outcomes, order per record. No server, no store, no waiting: time is virtual.
 *
 * ```ts
 * const testing = Testing.make(plugin, { records: [Testing.record("hris.skill", { id: "s1" })] })
 * const { writes } = await testing.deliver(Testing.event("ats.application.hired", { after: { candidate_id: "c1" } }))
 * ```
 */
import * as Effect from "effect/Effect"
import type { Model } from "../domain/Model.ts"
import type { AnyEvent, RecordOf } from "../plugin/Event.ts"
import type { Plugin } from "../plugin/Plugin.ts"
import * as DeliveryLoop from "./DeliveryLoop.ts"
import * as Fixtures from "./Fixtures.ts"
import type { Request } from "./Http.ts"
import type { CrashPoint } from "./TestAttempt.ts"
import { type Setup, type Step, TestEnvironment, type Write } from "./TestEnvironment.ts"

export type { DeliveryResult } from "./DeliveryLoop.ts"
export {
  event,
  type EventFixture,
  type EventOverrides,
  integration,
  record,
  type RecordFields,
  type RecordFixture
} from "./Fixtures.ts"
export type { MockResponse, Request } from "./Http.ts"
export type { Defect } from "./TestAttempt.ts"
export type { FailureMode, Fault, ReadResponses, Setup, Step, Write } from "./TestEnvironment.ts"

/** What came of it; writes, requests and logs are those of this time. */
export interface Result {
  /** In order; empty if no handler receives the event. */
  readonly deliveries: ReadonlyArray<DeliveryLoop.DeliveryResult>
  /** Of the first dead letter; null if there is none. */
  readonly failure: DeliveryLoop.DeliveryResult["failure"]
  /** Those that took effect, in order. */
  readonly writes: ReadonlyArray<Write>
  /** HTTP requests that were sent. */
  readonly requests: ReadonlyArray<Request>
  /** Every step that the journal knows, those of earlier deliveries too. */
  readonly journal: ReadonlyArray<Step>
  readonly logs: ReadonlyArray<string>
}

/** What came of it where the process died once, there, and the service went on afterwards. */
export interface Crash {
  /** In words: `createEmployee: done, its answer not kept`. */
  readonly at: string
  readonly result: Result
}

type Events = AnyEvent | ReadonlyArray<AnyEvent>
/** A run of an `.every` handler. */
export interface DueTick {
  readonly tick: string
  readonly integration?: string
}

/** A plugin in its world, for Effect. What is wrong with a test is a defect. */
export interface TestingEffects {
  readonly deliver: (events: Events) => Effect.Effect<Result>
  readonly tick: (handler: string, integration?: string) => Effect.Effect<Result>
  readonly crashes: (what: Events | DueTick) => Effect.Effect<ReadonlyArray<Crash>>
}

/** A plugin in its world. */
export interface Testing {
  /** To every handler that receives it, tried again until it is settled. Several events: in their order. */
  readonly deliver: (events: Events) => Promise<Result>
  /** Runs an `.every` handler over what happened since its last tick. */
  readonly tick: (handler: string, integration?: string) => Promise<Result>
  /**
   * Delivers, or runs the `.every` handler, anew for every moment at which it makes a difference to die, dies there, and
   * goes on to the end. The world stays as it is.
   */
  readonly crashes: (what: Events | DueTick) => Promise<ReadonlyArray<Crash>>
  /** The record as the API shows it now; null if it does not. */
  readonly live: <M extends Model>(model: M, id: string, integration?: string) => RecordOf<M> | null
  readonly effects: TestingEffects
}

const inOrder = (events: Events): ReadonlyArray<AnyEvent> => "model" in events ? [events] : events

/** More deaths than one delivery can have moments. */
const endless = 10_000

/** A plugin as it is configured (`plugin.with({ values: … })`), in a world of its own. */
export const make = <C>(plugin: Plugin<C>, setting: Setup = {}): Testing => {
  if (plugin.issues.length > 0) {
    throw new Error(plugin.issues.map(({ hint, message }) => `${message}. ${hint}.`).join("\n"))
  }
  const world = new TestEnvironment(setting)

  type Act = (trial: DeliveryLoop.DeliveryContext<C>) => Effect.Effect<void>

  const run = Effect.fnUntraced(function*(
    world: TestEnvironment,
    target: number | null,
    act: Act
  ) {
    const crashPoint: CrashPoint = { target, passed: 0, label: null }
    const trial: DeliveryLoop.DeliveryContext<C> = { plugin, world, crashPoint, settled: [], logs: [] }
    const { appliedWrites, journal, requests } = world.state
    const [writesBefore, requestsBefore] = [appliedWrites.length, requests.length]
    yield* act(trial)
    const run: Result = {
      deliveries: trial.settled,
      failure: trial.settled.find(({ failure }) => failure !== null)?.failure ?? null,
      writes: appliedWrites.slice(writesBefore).map(({ write }) => write),
      requests: requests.slice(requestsBefore),
      journal: [...journal.values()],
      logs: trial.logs
    }
    return { run, at: crashPoint.label }
  })

  const act = (what: Events | DueTick) => (trial: DeliveryLoop.DeliveryContext<C>) =>
    "tick" in what
      ? DeliveryLoop.tick(trial, what.tick, what.integration ?? Fixtures.integration)
      : DeliveryLoop.deliver(trial, inOrder(what).map(Fixtures.toPublishedEvent))
  const onward = (what: Events | DueTick) => Effect.map(run(world, null, act(what)), ({ run }) => run)

  const effects: TestingEffects = {
    deliver: onward,
    tick: (tick, integration = Fixtures.integration) => onward({ tick, integration }),
    crashes: Effect.fnUntraced(function*(what) {
      const crashes: Array<Crash> = []
      for (let moment = 0; moment < endless; moment++) {
        const died = yield* run(world.copy(), moment, act(what))
        if (died.at === null) return crashes
        crashes.push({ at: died.at, result: died.run })
      }
      throw new Error(`a handler that can die at ${endless} moments`)
    })
  }
  return {
    deliver: (events) => Effect.runPromise(effects.deliver(events)),
    tick: (handler, integration) => Effect.runPromise(effects.tick(handler, integration)),
    crashes: (what) => Effect.runPromise(effects.crashes(what)),
    live: (model, id, integration = Fixtures.integration) =>
      world.apiRecord(integration, model, id) as RecordOf<typeof model> | null,
    effects
  }
}
