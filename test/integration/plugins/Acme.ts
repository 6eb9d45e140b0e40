/**
 * A company with two systems in a sandbox, which is read over HTTP into a store in memory, and plugins that write to it. Hides
 * how the parts are wired, and how the process that delivers is killed at any point.
 *
 * Gotchas
 * - A killed process is not stopped: its calls to the API, to other servers and to the store never return. The store still
 *   considers it alive, like a process that ended without notice.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Capture from "../../../src/capture/schedule/Capture.ts"
import * as Integrations from "../../../src/capture/schedule/Integrations.ts"
import { DeliveryEngine } from "../../../src/delivery/engine/DeliveryEngine.ts"
import type { Model } from "../../../src/domain/Model.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import { RawRow } from "../../../src/domain/RawRow.ts"
import { Placement } from "../../../src/fleet/Placement.ts"
import type { Plugin } from "../../../src/plugin/Plugin.ts"
import * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import { RequestBudget } from "../../../src/source/RequestBudget.ts"
import { Source } from "../../../src/source/Source.ts"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"

export const ats = "greenhouse:acme"
export const hris = "workday:acme"

const models: ReadonlyArray<readonly [integration: string, models: ReadonlyArray<Model>]> = [
  [ats, ["ats.application", "ats.candidate", "ats.offer"]],
  [hris, ["hris.staffing_entity", "hris.skill", "hris.performance_review"]]
]

/** The point at which the delivering process is killed: before or after a write, an HTTP request or a journal entry. */
export interface KillPoint {
  /** Number of the point at which the process is killed, counted from 0; null: never. */
  readonly at: number | null
  /** Points passed so far. */
  passed: number
  /** The point at which the process was killed; null while it is alive. */
  label: string | null
}
export const never = (): KillPoint => ({ at: null, passed: 0, label: null })

/** A record as the sandbox stores it. */
export type SandboxRecord = Readonly<Record<string, unknown>>

export interface Acme {
  readonly sandbox: Sandbox.SandboxHandle
  /** Live records of a model, from the integration that has it. */
  readonly records: (model: Sandbox.WorldModel) => Effect.Effect<ReadonlyArray<SandboxRecord>>
  readonly deliveries: Deliveries["Service"]
  /** Reads every stream once. */
  readonly read: Effect.Effect<void>
  /** Freezes the applications that handlers read from the API, so that they do not show later writes until `catchUp`. */
  readonly lag: Effect.Effect<void>
  readonly catchUp: Effect.Effect<void>
  /** Delivers until no work is left, or until the process is killed. `later`: added to the clock. */
  readonly deliver: (
    plugins: ReadonlyArray<Plugin<any>>,
    killPoint?: KillPoint,
    later?: Duration.Input
  ) => Effect.Effect<void>
}

const intervals = { interval: Duration.minutes(1), sweepInterval: Duration.hours(6) }

export const make = Effect.gen(function*() {
  const sandbox = yield* Sandbox.serve({ seed: 7, speed: 0, integrations: 2, records: 12, order: "stable" })
  const account = { url: sandbox.url, key: Effect.succeed(Redacted.make(sandbox.key)) }
  const api = Layer.provide(
    UnifiedApi.layer({ accounts: { default: account }, retryBase: "10 millis" }),
    [UnifiedApi.httpClient, RequestBudget.local]
  )
  const services = yield* Layer.build(
    Integrations.layer({
      declared: models.map(([id, models]) => ({ id, models, account: "default", backfill: "publish", ...intervals })),
      discovered: new Map(),
      processing: Processing.defaultProcessing,
      readers: []
    }).pipe(
      Layer.provideMerge(Capture.layer({ minOverlap: Duration.minutes(1), confirmInterval: Duration.minutes(1) })),
      Layer.provideMerge(MemoryStore.layer()),
      Layer.provideMerge(api),
      Layer.provideMerge(NodeHttpClient.layerNodeHttp)
    )
  )
  const store = Context.get(services, Store)
  const capture = Context.get(services, Capture.Capture)

  let lagging: ReadonlyArray<SandboxRecord> | null = null
  const lists = (source: Source["Service"]) =>
    Context.add(services, Source, {
      ...source,
      page: (request) =>
        Effect.map(
          source.page(request),
          (page) =>
            lagging === null || request.priority !== "write" || request.model !== "ats.application"
              ? page
              : {
                ...page,
                results: lagging.filter(({ id }) => request.ids?.includes(String(id))).map((row) => RawRow.of(row))
              }
        )
    })

  const acme: Acme = {
    sandbox,
    records: (model) =>
      Effect.map(Effect.orDie(sandbox.truth(model)), (records) => records as ReadonlyArray<SandboxRecord>),
    deliveries: Context.get(services, Deliveries),
    read: capture.once.pipe(
      Effect.tap((problems) => problems.length === 0 ? Effect.void : Effect.die(problems)),
      Effect.orDie,
      Effect.asVoid
    ),
    lag: Effect.suspend(() =>
      Effect.map(acme.records("ats.application"), (records) => {
        lagging = records
      })
    ),
    catchUp: Effect.sync(() => {
      lagging = null
    }),
    deliver: Effect.fnUntraced(function*(plugins, killPoint = never(), later = 0) {
      const own = yield* Scope.make()
      // a process has its own request slots: those of a killed one stay occupied
      const source = Context.get(yield* Layer.buildWithScope(Layer.fresh(api), own), Source)
      const built = yield* Layer.buildWithScope(
        DeliveryEngine.layer({ plugins, retention: Duration.days(7) }).pipe(
          Layer.provide(Layer.succeedContext(killable(lists(source), killPoint))),
          Layer.provide(Placement.local),
          Layer.provide(Layer.succeed(Clock.Clock, ahead(yield* Clock.Clock, later)))
        ),
        own
      )
      const { newest } = yield* Effect.orDie(store.logRange)
      yield* Effect.raceFirst(Context.get(built, DeliveryEngine).awaitDrained(newest), killed(killPoint))
      // a killed process does not clean up
      if (killPoint.label === null) yield* Scope.close(own, Exit.void)
    })
  }
  return acme
})

/** A clock that shows a time `later` than the given one. */
const ahead = (clock: Clock.Clock, later: Duration.Input): Clock.Clock => {
  const millis = Duration.toMillis(Duration.fromInputUnsafe(later))
  const now = () => clock.currentTimeMillisUnsafe() + millis
  const nanos = () => clock.currentTimeNanosUnsafe() + BigInt(millis) * 1_000_000n
  return {
    currentTimeMillisUnsafe: now,
    currentTimeMillis: Effect.sync(now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: clock.monotonicTimeNanos,
    sleep: (duration) => clock.sleep(duration)
  }
}

const killed = (killPoint: KillPoint): Effect.Effect<void> =>
  Effect.suspend(() => killPoint.label === null ? Effect.delay(killed(killPoint), "5 millis") : Effect.void)

type Services = Store | Deliveries | Source | HttpClient.HttpClient

/** The same services, which stop responding at the kill point. */
const killable = (services: Context.Context<Services>, killPoint: KillPoint): Context.Context<Services> => {
  const ifAlive = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => killPoint.label === null ? effect : Effect.never)
  const mayBeKilled = (label: string) =>
    ifAlive(Effect.suspend(() => {
      if (killPoint.passed++ !== killPoint.at) return Effect.void
      killPoint.label = label
      return Effect.never
    }))
  const around = (label: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.andThen(mayBeKilled(`before ${label}`), effect).pipe(Effect.tap(() => mayBeKilled(`after ${label}`)))

  const source = Context.get(services, Source)
  const deliveries = Context.get(services, Deliveries)
  return services.pipe(
    Context.add(Source, {
      page: (request) => ifAlive(source.page(request)),
      read: (request) => ifAlive(source.read(request)),
      write: (request, hooks) => around(request.write)(source.write(request, hooks))
    }),
    Context.add(
      HttpClient.HttpClient,
      HttpClient.transform(
        Context.get(services, HttpClient.HttpClient),
        (response, { method }) => around(method)(response)
      )
    ),
    Context.add(Deliveries, {
      ...deliveries,
      settleAndClaim: (...args) => ifAlive(deliveries.settleAndClaim(...args)),
      begin: (fence, intent) => around(`the intent of ${intent.step}`)(deliveries.begin(fence, intent)),
      finish: (fence, key, result) => around(`the result of ${key.step}`)(deliveries.finish(fence, key, result))
    })
  )
}
