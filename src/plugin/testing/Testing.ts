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
import type { Model } from "../../domain/Model.ts"
import type { AnyEvent, RecordOf } from "../Event.ts"
import type { Plugin } from "../Plugin.ts"
import type { Death } from "./Attempt.ts"
import type { Request } from "./Http.ts"
import * as Sample from "./Sample.ts"
import * as Trial from "./Trial.ts"
import { type Setting, type Step, World, type Write } from "./World.ts"

export type { Defect } from "./Attempt.ts"
export type { Answer, Request } from "./Http.ts"
export { type Circumstances, type Content, event, type Given, integration, record, type Sample } from "./Sample.ts"
export type { Settled } from "./Trial.ts"
export type { Answers, Failing, Fault, Setting, Step, Write } from "./World.ts"

/** What came of it; writes, requests and logs are those of this time. */
export interface Run {
  /** In order; empty if no handler receives the event. */
  readonly deliveries: ReadonlyArray<Trial.Settled>
  /** Of the first dead letter; null if there is none. */
  readonly failure: Trial.Settled["failure"]
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
  readonly run: Run
}

type Events = AnyEvent | ReadonlyArray<AnyEvent>
/** A run of an `.every` handler. */
export interface Due {
  readonly tick: string
  readonly integration?: string
}

/** A plugin in its world, for Effect. What is wrong with a test is a defect. */
export interface TestingEffects {
  readonly deliver: (events: Events) => Effect.Effect<Run>
  readonly tick: (handler: string, integration?: string) => Effect.Effect<Run>
  readonly crashes: (what: Events | Due) => Effect.Effect<ReadonlyArray<Crash>>
}

/** A plugin in its world. */
export interface Testing {
  /** To every handler that receives it, tried again until it is settled. Several events: in their order. */
  readonly deliver: (events: Events) => Promise<Run>
  /** Runs an `.every` handler over what happened since its last tick. */
  readonly tick: (handler: string, integration?: string) => Promise<Run>
  /**
   * Delivers, or runs the `.every` handler, anew for every moment at which it makes a difference to die, dies there, and
   * goes on to the end. The world stays as it is.
   */
  readonly crashes: (what: Events | Due) => Promise<ReadonlyArray<Crash>>
  /** The record as the API shows it now; null if it does not. */
  readonly live: <M extends Model>(model: M, id: string, integration?: string) => RecordOf<M> | null
  readonly effects: TestingEffects
}

const inOrder = (events: Events): ReadonlyArray<AnyEvent> => "model" in events ? [events] : events

/** More deaths than one delivery can have moments. */
const endless = 10_000

/** A plugin as it is configured (`plugin.with({ values: … })`), in a world of its own. */
export const make = <C>(plugin: Plugin<C>, setting: Setting = {}): Testing => {
  if (plugin.faults.length > 0) {
    throw new Error(plugin.faults.map(({ hint, message }) => `${message}. ${hint}.`).join("\n"))
  }
  const world = new World(setting)

  type Act = (trial: Trial.Trial<C>) => Effect.Effect<void>

  const run = Effect.fnUntraced(function*(
    world: World,
    at: number | null,
    act: Act
  ) {
    const death: Death = { at, moment: 0, label: null }
    const trial: Trial.Trial<C> = { plugin, world, death, settled: [], logs: [] }
    const { effects, journal, requests } = world.state
    const [writesBefore, requestsBefore] = [effects.length, requests.length]
    yield* act(trial)
    const run: Run = {
      deliveries: trial.settled,
      failure: trial.settled.find(({ failure }) => failure !== null)?.failure ?? null,
      writes: effects.slice(writesBefore).map(({ write }) => write),
      requests: requests.slice(requestsBefore),
      journal: [...journal.values()],
      logs: trial.logs
    }
    return { run, at: death.label }
  })

  const act = (what: Events | Due) => (trial: Trial.Trial<C>) =>
    "tick" in what
      ? Trial.tick(trial, what.tick, what.integration ?? Sample.integration)
      : Trial.deliver(trial, inOrder(what).map(Sample.publishedOf))
  const onward = (what: Events | Due) => Effect.map(run(world, null, act(what)), ({ run }) => run)

  const effects: TestingEffects = {
    deliver: onward,
    tick: (tick, integration = Sample.integration) => onward({ tick, integration }),
    crashes: Effect.fnUntraced(function*(what) {
      const crashes: Array<Crash> = []
      for (let moment = 0; moment < endless; moment++) {
        const died = yield* run(world.copy(), moment, act(what))
        if (died.at === null) return crashes
        crashes.push({ at: died.at, run: died.run })
      }
      throw new Error(`a handler that can die at ${endless} moments`)
    })
  }
  return {
    deliver: (events) => Effect.runPromise(effects.deliver(events)),
    tick: (handler, integration) => Effect.runPromise(effects.tick(handler, integration)),
    crashes: (what) => Effect.runPromise(effects.crashes(what)),
    live: (model, id, integration = Sample.integration) =>
      world.shown(integration, model, id) as RecordOf<typeof model> | null,
    effects
  }
}
