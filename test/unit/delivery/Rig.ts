/** An engine over a real store in memory, with an API and an outside world that tests script. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import type { HttpClientRequest } from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { PluginAdmin } from "../../../src/delivery/admin/PluginAdmin.ts"
import * as PluginAdminLayer from "../../../src/delivery/admin/PluginAdminLayer.ts"
import { DeliveryEngine } from "../../../src/delivery/engine/DeliveryEngine.ts"
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { Model, StreamKey } from "../../../src/domain/Model.ts"
import type { Plugin } from "../../../src/plugin/Plugin.ts"
import { Source, WriteError } from "../../../src/source/Source.ts"
import * as SourcePort from "../../../src/source/Source.ts"
import { Deliveries, type StepKey } from "../../../src/store/Deliveries.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import type { IntegrationState } from "../../../src/store/State.ts"
import { type Owner, Store, StoreError, Unavailable } from "../../../src/store/Store.ts"
import { changeOf, headOf, integrationOf, stateOf } from "../../conformance/StoreSamples.ts"
import { hooked } from "../source/Hooked.ts"

export const acme = "greenhouse:acme"
export const applications: StreamKey = { integration: acme, model: "ats.application" }

export interface Sent {
  readonly integration: string
  readonly write: string
  readonly params: unknown
  readonly body: unknown
}

/** What the API does with a write; by default it does it. */
export type Answering = (sent: Sent, count: number) => Effect.Effect<unknown, WriteError>

export const unknownOutcome = Effect.fail(
  new WriteError({ reason: new SourcePort.OutcomeUnknown({ code: null, message: "no answer" }) })
)
export const notSent = Effect.fail(
  new WriteError({ reason: new SourcePort.NotSent({ code: null, message: "nobody there", retryAfter: null }) })
)
export const rateLimited = (retryAfter: number) =>
  Effect.fail(new WriteError({ reason: new SourcePort.RateLimited({ code: null, message: "slow down", retryAfter }) }))

export interface Script {
  answer: Answering
  /** Applications that the API lists, whatever is asked for. */
  rows: ReadonlyArray<unknown>
  /** Nothing is found by `updated_after`. */
  mute?: boolean
  /** The API's clock − ours, ms; null: it does not tell. */
  offset: number | null
  http: (request: HttpClientRequest) => Effect.Effect<number>
}

const fakes = (script: Script, sent: Array<Sent>, asked: Array<string>, source: Layer.Layer<Source> | undefined) =>
  Layer.mergeAll(
    source ?? Layer.succeed(
      Source,
      Source.of({
        page: ({ updatedAfter }) =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            asked.push("page")
            const serverTime = script.offset === null ? null : now + script.offset
            return {
              results: updatedAfter !== null && script.mute === true ? [] : script.rows,
              next: null,
              serverTime,
              requestedAt: now,
              duration: 0
            }
          }),
        read: ({ read }) =>
          Effect.sync(() => {
            asked.push(read)
            return { properties: {} } as never
          }),
        write: ({ body, integration, params, write }, hooks) =>
          hooked(
            hooks,
            Effect.suspend(() => {
              const one = { integration, write, params, body }
              sent.push(one)
              return script.answer(one, sent.length) as Effect.Effect<never, WriteError>
            })
          )
      })
    ),
    Layer.succeed(
      HttpClient.HttpClient,
      HttpClient.make((request) =>
        Effect.map(
          Effect.suspend(() => script.http(request)),
          (status) => HttpClientResponse.fromWeb(request, new Response(null, { status }))
        )
      )
    )
  )

export interface Rig {
  readonly store: Store["Service"]
  readonly deliveries: Deliveries["Service"]
  readonly script: Script
  readonly sent: Array<Sent>
  readonly asked: Array<string>
  /** Appends the next change of a record, in a stream that is made if need be. */
  readonly append: (
    id: string,
    details?: Partial<NewEvent> & {
      readonly integration?: string
      readonly model?: Model
      /** A candidate that it shows. */
      readonly shows?: string
    }
  ) => Effect.Effect<number>
  /** Puts an integration into a state. */
  readonly become: (integration: string, state: IntegrationState["state"]) => Effect.Effect<void>
  readonly hire: (id: string, integration?: string) => Effect.Effect<number>
  /** Adds an integration, or takes it out of what is read and puts it back. */
  readonly integration: (id: string, state: "active" | "removed") => Effect.Effect<void>
  /** Lets it run; ends with the scope, or by `stop`. */
  readonly start: (
    plugins: ReadonlyArray<Plugin<unknown>>
  ) => Effect.Effect<{
    readonly delivery: DeliveryEngine["Service"]
    /** As operators hold them. */
    readonly plugins: PluginAdmin["Service"]
    readonly stop: Effect.Effect<void>
  }>
  /** The same, before the store's integrations are known to be those of the configuration. */
  readonly startUnconfigured: (
    plugins: ReadonlyArray<Plugin<unknown>>
  ) => Effect.Effect<{ readonly delivery: DeliveryEngine["Service"]; readonly configured: Effect.Effect<void> }>
  /** What was asked of the store's deliveries by operators, by name. */
  readonly touched: Set<string>
  /** Writes that were begun, and neither finished nor withdrawn. */
  readonly intents: Set<string>
  /** So often the engine is not told what is switched off, for the store is away; counted down whenever it asks. */
  away: number
  /** Waits, in real time, for what does not wait for the clock. */
  readonly until: {
    (isSo: () => boolean): Effect.Effect<void>
    <A, E>(look: () => Effect.Effect<A, E>, isSo: (found: A) => boolean): Effect.Effect<void>
  }
  /** Nothing is left, not even dead letters. */
  readonly empty: Effect.Effect<void>
  readonly dead: (count: number) => Effect.Effect<void>
  /** Of all that was appended nothing is left to do now. */
  readonly quiet: (delivery: DeliveryEngine["Service"]) => Effect.Effect<void>
}

/** `source`: in place of the scripted one, made anew for each start. */
export const makeWith = Effect.fnUntraced(function*({ source }: { readonly source?: Layer.Layer<Source> }) {
  const services = yield* Layer.build(Sqlite.layer({ file: ":memory:" }))
  const store = Context.get(services, Store)
  const deliveries = Context.get(services, Deliveries)
  const owner: Owner = yield* Effect.orDie(store.takeOwnership("capture"))
  const script: Script = { answer: () => Effect.succeed({}), rows: [], offset: null, http: () => Effect.succeed(200) }
  const sent: Array<Sent> = []
  const asked: Array<string> = []
  const scope = yield* Effect.scope
  for (const id of [acme, "lever:beta", "workday:acme"]) {
    yield* Effect.orDie(store.saveIntegration(owner, integrationOf(id), null))
  }

  const append: Rig["append"] = (id, { integration = acme, model = "ats.application", shows, ...details } = {}) =>
    Effect.gen(function*() {
      const key = { integration, model }
      yield* store.ensureStreams([stateOf(key)])
      yield* store.transact(owner, key, (tx) =>
        Effect.gen(function*() {
          const before = (yield* tx.heads([id])).get(id) ?? headOf(id)
          const kind = details.kind ?? (before.version === 0 ? "created" : "updated")
          if (shows !== undefined) yield* tx.setDerivedIds(new Map([[id, shows]]))
          yield* tx.write([
            changeOf(before, kind, {
              eventId: `${integration}-${model}-${id}-${before.version + 1}`,
              after: kind === "deleted" ? null : JSON.stringify({ id, version: before.version + 1 }),
              ...details
            })
          ])
        }))
      return (yield* store.logRange).newest
    }).pipe(Effect.orDie)

  const until: Rig["until"] = <A, E>(
    look: (() => boolean) | (() => Effect.Effect<A, E>),
    isSo: (found: A) => boolean = () => true
  ) =>
    Effect.gen(function*() {
      for (let tries = 0; tries < 2_000; tries++) {
        const seen = look()
        if (typeof seen === "boolean" ? seen : isSo(yield* Effect.orDie(seen))) return
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
      return yield* Effect.die(new Error("it never came"))
    })

  const touched = new Set<string>()
  const watched = new Proxy(deliveries, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== "function") {
        touched.add(String(name))
        return value
      }
      return (...args: ReadonlyArray<unknown>): unknown => {
        touched.add(String(name))
        return Reflect.apply(value, target, args)
      }
    }
  })

  const unavailable = new StoreError({ reason: new Unavailable({ operation: "switchedOff", cause: null }) })
  const intents = new Set<string>()
  const closing = (key: StepKey) => Effect.sync(() => void intents.delete(key.step))
  const wired = Deliveries.of({
    ...deliveries,
    begin: (fence, intent) =>
      Effect.tap(
        deliveries.begin(fence, intent),
        ({ _tag }) => Effect.sync(() => _tag === "Begun" && intent.write !== null && intents.add(intent.step))
      ),
    finish: (fence, key, ...rest) => Effect.andThen(closing(key), deliveries.finish(fence, key, ...rest)),
    withdraw: (fence, key) => Effect.andThen(closing(key), deliveries.withdraw(fence, key)),
    switchedOff: Effect.suspend(() => rig.away-- > 0 ? Effect.fail(unavailable) : deliveries.switchedOff)
  })

  const start = Effect.fnUntraced(
    function*(plugins: ReadonlyArray<Plugin<unknown>>, integrationsReady: Effect.Effect<void>) {
      const own = yield* Scope.fork(scope)
      const built = yield* Layer.buildWithScope(
        PluginAdminLayer.layer(plugins).pipe(
          Layer.provide(Layer.succeed(Deliveries, watched)),
          Layer.provideMerge(
            DeliveryEngine.layer({ plugins, retention: Duration.days(7), integrationsReady }).pipe(
              Layer.provide(Layer.succeed(Deliveries, wired))
            )
          ),
          Layer.provide(Layer.merge(Layer.succeedContext(services), fakes(script, sent, asked, source)))
        ),
        own
      )
      return {
        delivery: Context.get(built, DeliveryEngine),
        plugins: Context.get(built, PluginAdmin),
        stop: Scope.close(own, Exit.void)
      }
    }
  )

  const rig: Rig = {
    touched,
    intents,
    away: 0,
    until,
    empty: until(() => deliveries.backlog, (backlog) => backlog.length === 0),
    dead: (count) => until(() => deliveries.deadLetters({ limit: 1000 }), (letters) => letters.length === count),
    store,
    deliveries,
    script,
    sent,
    asked,
    append,
    become: (integration, state) =>
      Effect.orDie(store.saveIntegration(owner, integrationOf(integration, { state }), null)),
    hire: (id, integration = acme) =>
      append(id, { integration, transitions: '[{"name":"hired","from":"PENDING","to":"HIRED"}]' }),
    integration: (id, state) => Effect.orDie(store.saveIntegration(owner, { ...integrationOf(id), state }, null)),
    start: (plugins) => start(plugins, Effect.void),
    startUnconfigured: Effect.fnUntraced(function*(plugins) {
      const configured = yield* Latch.make(false)
      const { delivery } = yield* start(plugins, configured.await)
      return { delivery, configured: Effect.asVoid(configured.open) }
    }),
    quiet: Effect.fnUntraced(function*(delivery) {
      const { newest } = yield* Effect.orDie(store.logRange)
      yield* delivery.awaitDrained(newest)
    })
  }
  return rig
})
export const make = Effect.suspend(() => makeWith({}))

/** What a handler met, in order. */
export const recorder = () => {
  const met: Array<string> = []
  return { met, note: (what: string) => Effect.sync(() => void met.push(what)) }
}
