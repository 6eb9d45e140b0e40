/**
 * The ports of one attempt in the test environment, with points at which the simulated process may crash.
 *
 * Invariants
 * 1. Once the attempt has ended, no port returns or has an effect   (X16)
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import { readNames } from "../api/Reads.ts"
import type { WriteName } from "../api/Writes.ts"
import { CurrentStep } from "../delivery/handler/Attempt.ts"
import type * as HandlerContext from "../delivery/handler/HandlerContext.ts"
import { Api, type Capabilities, Journal, type UnifiedApi } from "../plugin/Capabilities.ts"
import type { HandlerError } from "../plugin/Failure.ts"
import type { AttemptJournal } from "../store/AttemptJournal.ts"
import type { Store } from "../store/Store.ts"
import { toClientResponse, toSentRequest } from "./Http.ts"
import * as MemoryJournal from "./MemoryJournal.ts"
import * as TestApi from "./TestApi.ts"
import { type Fault, identity, type TestEnvironment } from "./TestEnvironment.ts"
import { recordKey } from "./WriteEffects.ts"

export interface AttemptControl {
  /** Runs `action`, unless the attempt has ended. */
  readonly whileRunning: <A, E = never, R = never>(action: () => Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** A point at which a crash could lead to a different result. */
  readonly crashPoint: (label: string) => Effect.Effect<void>
}

type Method = (...request: ReadonlyArray<unknown>) => Effect.Effect<unknown>
type Step = Journal["Service"]["once"]

const journalOf = (environment: TestEnvironment, { crashPoint }: AttemptControl): AttemptJournal => {
  const { journal, published } = environment.state
  const stored = MemoryJournal.make(journal, {
    content: ({ integration, model }, id) =>
      Effect.sync(() => {
        const record = published.get(recordKey(integration, model, id))
        return record === undefined ? null : JSON.stringify(record)
      }),
    applicationsOf: (integration, candidate, limit) =>
      Effect.sync(() => {
        const ids = environment.applicationsOf(integration, candidate).map(({ id }) => String(id)).toSorted()
        return ids.length === 0 ? [TestApi.impliedApplication(candidate)] : ids.slice(0, limit)
      })
  })
  return {
    ...stored,
    finish: Effect.fnUntraced(function*(fence, key, ...result) {
      const write = MemoryJournal.writeOf(journal, key)
      // `TestApi` has the crash point before the response of a write is recorded
      if (write === null) yield* crashPoint(`step "${key.step}": done, result not recorded`)
      yield* stored.finish(fence, key, ...result)
      yield* crashPoint(write === null ? `step "${key.step}": done` : `${write}: done`)
    })
  }
}

const readLogOf =
  ({ state }: TestEnvironment): Store["Service"]["readLog"] => ({ after, integrations = [], limit, models = [] }) =>
    Effect.sync(() =>
      state.log
        .filter((entry) =>
          entry.position > after && integrations.includes(entry.integration) && models.includes(entry.model)
        )
        .slice(0, limit)
    )

const clientOf = (environment: TestEnvironment, { crashPoint }: AttemptControl): HttpClient.HttpClient =>
  HttpClient.make((request) =>
    Effect.gen(function*() {
      const sent = yield* toSentRequest(request)
      const what = `${sent.method} ${sent.url}`
      yield* crashPoint(`${what}: about to be sent`)
      const response = environment.respond(sent)
      yield* crashPoint(`${what}: answered, response not processed`)
      return yield* toClientResponse(request, response)
    })
  )

export const make = (environment: TestEnvironment, control: AttemptControl): HandlerContext.Services => {
  const untilEnd = <P extends object>(port: P): P => {
    const methods = Object.entries<Method>(port as Readonly<Record<string, Method>>)
    return Object.fromEntries(
      methods.map(([name, method]): [string, Method] => [
        name,
        (...request) => control.whileRunning(() => method(...request))
      ])
    ) as P
  }
  return {
    journal: untilEnd(journalOf(environment, control)),
    source: untilEnd(TestApi.make(environment, control.crashPoint)),
    accounts: { of: () => Effect.succeed("test") },
    packageLocks: new Map(),
    store: { identity, ...untilEnd({ readLog: readLogOf(environment) }) },
    client: clientOf(environment, control)
  }
}

/** A spread would leave out the properties of a lazy object. */
const replaced = <A extends object, B extends object>(object: A, properties: B): A & B =>
  Object.create(object, Object.getOwnPropertyDescriptors(properties))

/** Adds the faults of reads, and the crash point before a step. */
export const withTestHooks = (
  capabilities: Context.Context<Capabilities>,
  environment: TestEnvironment,
  { crashPoint, whileRunning }: AttemptControl
): Context.Context<Capabilities> => {
  const withFaults = (api: UnifiedApi): UnifiedApi => {
    const reads = [...readNames, "live" as const].map((name: Exclude<Fault["on"], WriteName>) => [
      name,
      (...request: ReadonlyArray<never>) =>
        whileRunning(() => {
          const fault = environment.fault(name, api.integration)
          if (fault !== null) return Effect.fail(fault.error)
          environment.requireResponse(name)
          const read: (...request: ReadonlyArray<never>) => Effect.Effect<unknown, HandlerError> = api[name]
          return read(...request)
        })
    ])
    return replaced(api, Object.fromEntries(reads))
  }
  const beforeStep = Effect.flatMap(
    CurrentStep,
    (step) => crashPoint(`step "${step?.path.slice(0, -1)}": about to run`)
  )
  const withCrashPoint = (run: Step): Step => (step, schema, effect, options) =>
    run(step, schema, Effect.andThen(beforeStep, effect), options)
  const api = Context.get(capabilities, Api)
  const { once, oncePerRecord } = Context.get(capabilities, Journal)
  const hooked = replaced(withFaults(api), { for: (integration: string) => withFaults(api.for(integration)) })
  return Context.add(capabilities, Api, hooked).pipe(
    Context.add(Journal, { once: withCrashPoint(once), oncePerRecord: withCrashPoint(oncePerRecord) })
  )
}
