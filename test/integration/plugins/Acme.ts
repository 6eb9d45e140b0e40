/**
 * A company with two systems in a sandbox, read over HTTP into a store in memory, and plugins that act on it: hides how the
 * parts are put together, and how the ones that deliver are killed at any moment.
 *
 * Gotchas
 * - Who is killed stays where it was: each of its calls to the API, to others and to the store waits for ever. Its store
 *   believes it alive, as that of a process that ended without a word.
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
import type { Plugin } from "../../../src/plugin/Plugin.ts"
import * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import { Source } from "../../../src/source/Source.ts"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../../src/store/Store.ts"

export const ats = "greenhouse:acme"
export const hris = "workday:acme"

const models: ReadonlyArray<readonly [integration: string, models: ReadonlyArray<Model>]> = [
  [ats, ["ats.application", "ats.candidate", "ats.offer"]],
  [hris, ["hris.staffing_entity", "hris.skill", "hris.performance_review"]]
]

/** A moment at which it makes a difference to be killed: before something is done, or after. */
export interface Doom {
  /** Killed at the `at`-th; never, if null. */
  readonly at: number | null
  moment: number
  /** Where it was; null = it lives. */
  label: string | null
}
export const never = (): Doom => ({ at: null, moment: 0, label: null })

/** A record as the sandbox knows it. */
export type Shown = Readonly<Record<string, unknown>>

export interface Acme {
  readonly sandbox: Sandbox.SandboxHandle
  /** Live records of a model, of the integration that has it. */
  readonly records: (model: Sandbox.WorldModel) => Effect.Effect<ReadonlyArray<Shown>>
  readonly deliveries: Deliveries["Service"]
  /** Reads every stream once. */
  readonly read: Effect.Effect<void>
  /** The applications that handlers are shown stay as they are now, whatever is written, until `catchUp`. */
  readonly lag: Effect.Effect<void>
  readonly catchUp: Effect.Effect<void>
  /** Delivers until nothing is left to do, or until killed; as if it were some time `later`. */
  readonly deliver: (
    plugins: ReadonlyArray<Plugin<any>>,
    doom?: Doom,
    later?: Duration.Input
  ) => Effect.Effect<void>
}

const patience = { interval: Duration.minutes(1), sweepInterval: Duration.hours(6) }

export const make = Effect.gen(function*() {
  const sandbox = yield* Sandbox.serve({ seed: 7, speed: 0, integrations: 2, records: 12, order: "stable" })
  const account = { url: sandbox.url, key: Effect.succeed(Redacted.make(sandbox.key)) }
  const services = yield* Layer.build(
    Integrations.layer({
      declared: models.map(([id, models]) => ({ id, models, account: "default", backfill: "publish", ...patience })),
      discovered: new Map(),
      processing: Processing.defaultProcessing,
      readers: []
    }).pipe(
      Layer.provideMerge(Capture.layer({ overlapMin: Duration.minutes(1), confirmInterval: Duration.minutes(1) })),
      Layer.provideMerge(Sqlite.layer({ file: ":memory:" })),
      Layer.provideMerge(
        Layer.provide(
          UnifiedApi.layer({ accounts: { default: account }, retryBase: "10 millis" }),
          UnifiedApi.httpClient
        )
      ),
      Layer.provideMerge(NodeHttpClient.layerNodeHttp)
    )
  )
  const store = Context.get(services, Store)
  const capture = Context.get(services, Capture.Capture)

  let lagging: ReadonlyArray<Shown> | null = null
  const source = Context.get(services, Source)
  const lists = Context.add(services, Source, {
    ...source,
    page: (request) =>
      Effect.map(
        source.page(request),
        (page) =>
          lagging === null || request.priority !== "write" || request.model !== "ats.application"
            ? page
            : { ...page, results: lagging.filter(({ id }) => request.ids?.includes(String(id))) }
      )
  })

  const acme: Acme = {
    sandbox,
    records: (model) => Effect.map(Effect.orDie(sandbox.truth(model)), (records) => records as ReadonlyArray<Shown>),
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
    deliver: Effect.fnUntraced(function*(plugins, doom = never(), later = 0) {
      const own = yield* Scope.make()
      const built = yield* Layer.buildWithScope(
        DeliveryEngine.layer({ plugins, retention: Duration.days(7) }).pipe(
          Layer.provide(Layer.succeedContext(mortal(lists, doom))),
          Layer.provide(Layer.succeed(Clock.Clock, ahead(yield* Clock.Clock, later)))
        ),
        own
      )
      const { newest } = yield* Effect.orDie(store.logRange)
      yield* Effect.raceFirst(Context.get(built, DeliveryEngine).awaitDrained(newest), killed(doom))
      // who was killed does not clean up
      if (doom.label === null) yield* Scope.close(own, Exit.void)
    })
  }
  return acme
})

/** The clock of somebody who lives that much later. */
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

const killed = (doom: Doom): Effect.Effect<void> =>
  Effect.suspend(() => doom.label === null ? Effect.delay(killed(doom), "5 millis") : Effect.void)

type Services = Store | Deliveries | Source | HttpClient.HttpClient

/** The same services for somebody who is killed at some moment. */
const mortal = (services: Context.Context<Services>, doom: Doom): Context.Context<Services> => {
  const alive = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => doom.label === null ? effect : Effect.never)
  const moment = (label: string) =>
    alive(Effect.suspend(() => {
      if (doom.moment++ !== doom.at) return Effect.void
      doom.label = label
      return Effect.never
    }))
  const around = (label: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.andThen(moment(`before ${label}`), effect).pipe(Effect.tap(() => moment(`after ${label}`)))

  const source = Context.get(services, Source)
  const deliveries = Context.get(services, Deliveries)
  return services.pipe(
    Context.add(Source, {
      page: (request) => alive(source.page(request)),
      read: (request) => alive(source.read(request)),
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
      settleAndClaim: (...turn) => alive(deliveries.settleAndClaim(...turn)),
      begin: (fence, intent) => around(`the intent of ${intent.step}`)(deliveries.begin(fence, intent)),
      finish: (fence, key, result) => around(`the result of ${key.step}`)(deliveries.finish(fence, key, result))
    })
  )
}
