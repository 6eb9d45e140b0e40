/** The delivery engine over a real store in memory, with an API and an HTTP service that tests script. */
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
import { RawRow } from "../../../src/domain/RawRow.ts"
import { Placement } from "../../../src/fleet/Placement.ts"
import type { Plugin } from "../../../src/plugin/Plugin.ts"
import { Source, WriteError } from "../../../src/source/Source.ts"
import * as SourcePort from "../../../src/source/Source.ts"
import type { StepKey } from "../../../src/store/AttemptJournal.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import type { IntegrationState, Owner } from "../../../src/store/State.ts"
import { Store, StoreError, Unavailable } from "../../../src/store/Store.ts"
import { changeOf, headOf, headsOf, integrationOf, stateOf } from "../../conformance/StoreSamples.ts"
import { hooked } from "../source/Hooked.ts"
import * as MemoryStore from "../store/MemoryStore.ts"

export const acme = "greenhouse:acme"
export const applications: StreamKey = { integration: acme, model: "ats.application" }

/** An operator's action, as the audit log has it. */
export const action = { at: 0, command: "test", target: "", detail: "" }

export interface Sent {
  readonly integration: string
  readonly write: string
  readonly params: unknown
  readonly body: unknown
}

/** How the API responds to a write. By default the write succeeds. */
export type AnswerWrite = (sent: Sent, count: number) => Effect.Effect<unknown, WriteError>

export const unknownOutcome = Effect.fail(
  new WriteError({ reason: new SourcePort.OutcomeUnknown({ code: null, message: "no answer" }) })
)
export const notSent = Effect.fail(
  new WriteError({ reason: new SourcePort.NotSent({ code: null, message: "connection refused", retryAfter: null }) })
)

export const unavailable = new StoreError({ reason: new Unavailable({ operation: "switchedOff", cause: null }) })

export interface Script {
  answer: AnswerWrite
  /** Applications that the API lists, regardless of the filter. */
  rows: ReadonlyArray<unknown>
  /** The API finds nothing with `updated_after`. */
  mute?: boolean
  /** The API's clock − ours, in ms; null: its responses have no time. */
  offset: number | null
  http: (request: HttpClientRequest) => Effect.Effect<number>
}

const fakes = (script: Script, sent: Array<Sent>, reads: Array<string>, source: Layer.Layer<Source> | undefined) =>
  Layer.mergeAll(
    source ?? Layer.succeed(
      Source,
      Source.of({
        page: ({ updatedAfter }) =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            reads.push("page")
            const serverTime = script.offset === null ? null : now + script.offset
            return {
              results: (updatedAfter !== null && script.mute === true ? [] : script.rows).map((row) => RawRow.of(row)),
              next: null,
              serverTime,
              requestedAt: now,
              duration: 0
            }
          }),
        read: ({ read }) =>
          Effect.sync(() => {
            reads.push(read)
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
  readonly reads: Array<string>
  /** Appends the next change of a record, in a stream that is created if needed. */
  readonly append: (
    id: string,
    details?: Partial<NewEvent> & {
      readonly integration?: string
      readonly model?: Model
      /** A candidate that the record shows. */
      readonly shows?: string
    }
  ) => Effect.Effect<number>
  /** Sets the state of an integration. */
  readonly setState: (integration: string, state: IntegrationState["state"]) => Effect.Effect<void>
  readonly hire: (id: string, integration?: string) => Effect.Effect<number>
  /** Adds, removes or re-adds an integration. */
  readonly integration: (id: string, state: "active" | "removed") => Effect.Effect<void>
  /** Starts the engine. It ends with the scope, or by `stop`. */
  readonly start: (
    plugins: ReadonlyArray<Plugin<unknown>>
  ) => Effect.Effect<{
    readonly delivery: DeliveryEngine["Service"]
    /** The operators' view. */
    readonly plugins: PluginAdmin["Service"]
    readonly stop: Effect.Effect<void>
  }>
  /** Starts the engine in a process that shares the store with others. */
  readonly startIn: (
    plugins: ReadonlyArray<Plugin<unknown>>,
    placement: Layer.Layer<Placement>
  ) => Effect.Effect<{ readonly delivery: DeliveryEngine["Service"]; readonly stop: Effect.Effect<void> }>
  /** Starts the engine before the store has the integrations of the configuration; `configured` reports that it has them. */
  readonly startUnconfigured: (
    plugins: ReadonlyArray<Plugin<unknown>>
  ) => Effect.Effect<{ readonly delivery: DeliveryEngine["Service"]; readonly configured: Effect.Effect<void> }>
  /** The names of the `Deliveries` methods that the operators' view has called. */
  readonly calledMethods: Set<string>
  /** Steps of writes with an intent that is neither finished nor withdrawn. */
  readonly intents: Set<string>
  /** How many reads of the switches still fail because the store is unavailable. Each read counts it down. */
  failingSwitchReads: number
  /** The number of times that the engine has looked for commands; each of its rounds does so a few times. */
  commandChecks: number
  /** How many claims still take effect without a response. Each claim that finds a delivery counts it down. */
  lostClaims: number
  /** The accounts that the processes know which are started from now on; null: all. Each integration is in the account `default`. */
  accounts: ReadonlySet<string> | null
  /** Runs before the transaction of each claim, with the scopes of its process. */
  beforeClaim: (scopes: ReadonlyArray<string>) => Effect.Effect<void, StoreError>
  /** Waits, in real time, for a condition that does not depend on the test clock. */
  readonly until: {
    (isMet: () => boolean): Effect.Effect<void>
    <A, E>(look: () => Effect.Effect<A, E>, isMet: (found: A) => boolean): Effect.Effect<void>
  }
  /** Waits until no delivery is left, not even dead letters. */
  readonly empty: Effect.Effect<void>
  /** Waits until there are this many dead letters. */
  readonly dead: (count: number) => Effect.Effect<void>
  /** Redrives all dead letters. */
  readonly redrive: Effect.Effect<void>
  /** Waits until the engine has drained everything that was appended. */
  readonly quiet: (delivery: DeliveryEngine["Service"]) => Effect.Effect<void>
}

/** `source`: replaces the scripted one; it is built again for each start. */
export const makeWith = Effect.fnUntraced(function*({ source }: { readonly source?: Layer.Layer<Source> }) {
  const services = yield* Layer.build(MemoryStore.layer())
  const store = Context.get(services, Store)
  const deliveries = Context.get(services, Deliveries)
  const owner: Owner = yield* Effect.orDie(store.takeOwnership("capture"))
  const script: Script = { answer: () => Effect.succeed({}), rows: [], offset: null, http: () => Effect.succeed(200) }
  const sent: Array<Sent> = []
  const reads: Array<string> = []
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
          const before = (yield* headsOf(tx, [id])).get(id) ?? headOf(id)
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
    isMet: (found: A) => boolean = () => true
  ) =>
    Effect.gen(function*() {
      for (let tries = 0; tries < 2_000; tries++) {
        const seen = look()
        if (typeof seen === "boolean" ? seen : isMet(yield* Effect.orDie(seen))) return
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
      return yield* Effect.die(new Error("the condition was not met in time"))
    })

  const calledMethods = new Set<string>()
  const watched = new Proxy(deliveries, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== "function") {
        calledMethods.add(String(name))
        return value
      }
      return (...args: ReadonlyArray<unknown>): unknown => {
        calledMethods.add(String(name))
        return Reflect.apply(value, target, args)
      }
    }
  })

  const intents = new Set<string>()
  const removeIntent = (key: StepKey) => Effect.sync(() => void intents.delete(key.step))
  const tracked = Deliveries.of({
    ...deliveries,
    begin: (fence, intent) =>
      Effect.tap(
        deliveries.begin(fence, intent),
        ({ _tag }) => Effect.sync(() => _tag === "Begun" && intent.write !== null && intents.add(intent.step))
      ),
    finish: (fence, key, ...rest) => Effect.andThen(removeIntent(key), deliveries.finish(fence, key, ...rest)),
    withdraw: (fence, key) => Effect.andThen(removeIntent(key), deliveries.withdraw(fence, key)),
    awaitCommand: (seen) => {
      rig.commandChecks++
      return deliveries.awaitCommand(seen)
    },
    switchedOff: Effect.suspend(() => rig.failingSwitchReads-- > 0 ? Effect.fail(unavailable) : deliveries.switchedOff),
    settleAndClaim: (owners, ...args) =>
      Effect.suspend(() => rig.beforeClaim(owners.map(({ scope }) => scope))).pipe(
        Effect.andThen(deliveries.settleAndClaim(owners, ...args)),
        Effect.tap(({ claimed }) => {
          if (claimed.length === 0 || rig.lostClaims === 0) return Effect.void
          rig.lostClaims--
          return Effect.fail(unavailable)
        })
      )
  })

  const start = Effect.fnUntraced(
    function*(
      plugins: ReadonlyArray<Plugin<unknown>>,
      integrationsReady: Effect.Effect<void>,
      fleet: Layer.Layer<Placement> | null = null
    ) {
      const own = yield* Scope.fork(scope)
      const built = yield* Layer.buildWithScope(
        PluginAdminLayer.layer(plugins).pipe(
          Layer.provide(Layer.succeed(Deliveries, watched)),
          Layer.provideMerge(
            DeliveryEngine.layer({
              plugins,
              retention: Duration.days(7),
              integrationsReady,
              takesAgain: fleet !== null,
              ...rig.accounts === null ? {} : { accounts: rig.accounts }
            }).pipe(
              Layer.provide(Layer.succeed(Deliveries, tracked)),
              Layer.provide(fleet ?? Placement.local)
            )
          ),
          Layer.provide(Layer.merge(Layer.succeedContext(services), fakes(script, sent, reads, source)))
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
    calledMethods,
    intents,
    failingSwitchReads: 0,
    commandChecks: 0,
    lostClaims: 0,
    accounts: null,
    beforeClaim: () => Effect.void,
    until,
    empty: until(() => deliveries.backlog, (backlog) => backlog.length === 0),
    dead: (count) => until(() => deliveries.deadLetters({ limit: 1000 }), (letters) => letters.length === count),
    redrive: Effect.gen(function*() {
      const letters = yield* deliveries.deadLetters({ limit: 1000 })
      yield* deliveries.redrive(letters.map(({ id }) => id), { dueAt: 0, fresh: null }, action)
    }).pipe(Effect.orDie),
    store,
    deliveries,
    script,
    sent,
    reads,
    append,
    setState: (integration, state) =>
      Effect.orDie(store.saveIntegration(owner, integrationOf(integration, { state }), null)),
    hire: (id, integration = acme) =>
      append(id, { integration, transitions: '[{"name":"hired","from":"PENDING","to":"HIRED"}]' }),
    integration: (id, state) => Effect.orDie(store.saveIntegration(owner, { ...integrationOf(id), state }, null)),
    start: (plugins) => start(plugins, Effect.void),
    startIn: (plugins, placement) => start(plugins, Effect.void, placement),
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

/** Records what a handler received, in order. */
export const recorder = () => {
  const received: Array<string> = []
  return { received, note: (what: string) => Effect.sync(() => void received.push(what)) }
}
