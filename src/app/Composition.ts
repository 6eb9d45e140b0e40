/**
 * The composition root: builds the layers of a configuration and chooses the adapter of each port.
 *
 * Gotchas
 * - Kafka, PostgreSQL and delivery are imported only if they are configured, because importing costs start-up time.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { randomUUID } from "node:crypto"
import { hostname } from "node:os"
import { dirname, resolve } from "node:path"
import * as Commands from "../capture/command/Commands.ts"
import * as PlacedShards from "../capture/command/PlacedShards.ts"
import * as Forgetting from "../capture/forget/Forgetting.ts"
import * as Capture from "../capture/schedule/Capture.ts"
import * as Integrations from "../capture/schedule/Integrations.ts"
import * as ModelDiscovery from "../capture/schedule/ModelDiscovery.ts"
import * as Config from "../config/Config.ts"
import type { KafkaSettings } from "../config/KafkaSettings.ts"
import { type RawConfig } from "../config/RawConfig.ts"
import type { StoreLocation } from "../config/StoreSettings.ts"
import * as PluginAdmin from "../delivery/admin/PluginAdmin.ts"
import { endRunningDeliveries } from "../delivery/engine/WithoutPlugins.ts"
import { CurrentModels } from "../domain/BuiltInModels.ts"
import type { EncryptionKey } from "../domain/EncryptionKey.ts"
import { isModel, type Model, type StreamKey, withStored } from "../domain/Model.ts"
import * as Processing from "../domain/Processing.ts"
import { Calls } from "../fleet/Calls.ts"
import { KeyWatch } from "../fleet/KeyWatch.ts"
import { Membership } from "../fleet/Membership.ts"
import { Placement, PlacementEngine } from "../fleet/Placement.ts"
import * as QueuedCalls from "../fleet/QueuedCalls.ts"
import { version } from "../http/contract/Version.ts"
import type { Dependency } from "../http/health/HealthHandlers.ts"
import * as Server from "../http/Server.ts"
import * as OutgoingHttp from "../network/OutgoingHttp.ts"
import { CurrentProxies } from "../network/Proxies.ts"
import { Relay } from "../publish/Relay.ts"
import * as Retention from "../publish/Retention.ts"
import { AccountStatus } from "../source/AccountStatus.ts"
import { RequestBudget } from "../source/RequestBudget.ts"
import * as SharedBudget from "../source/SharedBudget.ts"
import type { Source } from "../source/Source.ts"
import * as UnifiedApi from "../source/UnifiedApi.ts"
import type { CallQueue } from "../store/CallQueue.ts"
import type { Deliveries } from "../store/Deliveries.ts"
import { deliveryReader } from "../store/Delivery.ts"
import { relayReader } from "../store/EventLog.ts"
import { Processes } from "../store/Processes.ts"
import type { RequestLeases } from "../store/RequestLeases.ts"
import { EncryptionKeys } from "../store/sql/ContentCipher.ts"
import * as Sqlite from "../store/sqlite/Sqlite.ts"
import { Store, type StoreError } from "../store/Store.ts"
import type { StoredSessions } from "../store/StoredSessions.ts"
import type { StoreInUse } from "../store/StoreError.ts"
import {
  fleetDependency,
  kafkaDependency,
  problemOf,
  problemsOf,
  readingDependency,
  sweepsDependency
} from "./Readiness.ts"

/** The settings, completed by the models that discovery found. */
export interface ResolvedConfig extends Config.Settings {
  readonly discovered: ReadonlyMap<string, ModelDiscovery.Discovered>
  /** The streams of the declared integrations. */
  readonly streams: ReadonlyArray<StreamKey>
  /**
   * The streams whose topics must exist before anything is published. Streams that are read only because part of the tool catalog is
   * missing are excluded: their topics are created with their first events.
   */
  readonly certainStreams: ReadonlyArray<StreamKey>
  readonly rawConfig: RawConfig
}

/** Runs an effect with the models and the proxies of a configuration. By default, only the built-in models are known. */
export const withSettings =
  ({ known, proxies }: Pick<Config.Settings, "known" | "proxies">) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    effect.pipe(Effect.provideService(CurrentModels, known), Effect.provideService(CurrentProxies, proxies))

const apiLayer = (options: UnifiedApi.Options) => Layer.provide(UnifiedApi.layer(options), UnifiedApi.httpClient)

/** The API for a command without a store. Its process does not share the request budget of the accounts. */
export const sourceLayer = (options: UnifiedApi.Options) => Layer.provide(apiLayer(options), RequestBudget.local)

type ProcessingSettings = Pick<Config.Settings, "known" | "models" | "redactKey">

const processingByModel =
  ({ known, models, redactKey }: ProcessingSettings) => (model: Model): Processing.Processing => {
    if (!isModel(known, model)) return Processing.unchanging(model, known)
    const rulesOf = (model: Model) => models[model] ?? { remoteData: "drop", redact: {} }
    return Processing.configured(model, rulesOf, redactKey === null ? "" : Redacted.value(redactKey), known)
  }

/** Null for a model that only the store knows: a list that is no longer defined, or a model of a later version. */
export const processingByStream = (settings: ProcessingSettings) => {
  const processing = processingByModel(settings)
  return ({ model }: Pick<StreamKey, "model">) => isModel(settings.known, model) ? processing(model) : null
}

/** Determines the models of integrations with `models: "auto"` from the API's tool catalog. */
export const resolveConfig = Effect.fnUntraced(function*(settings: Config.Settings, rawConfig: RawConfig) {
  const undecided = settings.integrations.filter(({ models }) => models === "auto")
  const discovered = yield* ModelDiscovery.discoverModels(undecided)
  const streamsOf = (modelsOf: (one: ModelDiscovery.Discovered) => ReadonlyArray<Model>) =>
    settings.integrations.flatMap(({ id, models }) => {
      const found = discovered.get(id)
      const own = models !== "auto" ? models : found === undefined ? [] : modelsOf(found)
      return own.map((model) => ({ integration: id, model }))
    })
  const plan: ResolvedConfig = {
    ...settings,
    discovered,
    streams: streamsOf(({ models }) => models),
    certainStreams: streamsOf(ModelDiscovery.certainModels),
    rawConfig
  }
  return plan
})

/** Reading pauses while this many events are not in Kafka yet. */
const maxUnpublished = 1_000_000

/** The readers of the log that must have processed an event before it may be pruned. */
const logReadersOf = ({ kafka, plugins }: ResolvedConfig) => [
  ...kafka === null ? [] : [relayReader],
  ...plugins.length === 0 ? [] : [deliveryReader]
]

const captureLayer = ({ confirmInterval, guard, kafka, minOverlap, ...settings }: ResolvedConfig, takesAll: boolean) =>
  Capture.layer({
    takesAll,
    minOverlap,
    confirmInterval,
    guard,
    processingOf: processingByStream(settings),
    ...(kafka === null ? {} : { backpressure: { reader: relayReader, limit: maxUnpublished } })
  })

const integrationsLayer = (plan: ResolvedConfig) =>
  Integrations.layer({
    declared: plan.integrations,
    discovered: plan.discovered,
    readers: logReadersOf(plan),
    processing: processingByModel(plan)
  })

const forgettingLayer = (plan: ResolvedConfig) => Forgetting.layer({ processing: processingByModel(plan) })

const loadPostgres = Effect.promise(() => import("../store/postgres/Postgres.ts"))

/**
 * The store, whose content is encrypted with the first of `keys`. `patient`: retry while the store is unavailable, as a service does,
 * instead of failing. `takeOver`: start although another service works on a SQLite file.
 */
export const storeLayer = (
  store: StoreLocation,
  { keys, patient, takeOver = false }: {
    readonly patient: boolean
    readonly takeOver?: boolean
    readonly keys: ReadonlyArray<EncryptionKey>
  }
): Layer.Layer<Store | Deliveries | Processes | RequestLeases | StoredSessions | CallQueue, StoreError | StoreInUse> =>
  Layer.provide(
    store._tag === "Postgres"
      ? Layer.unwrap(Effect.map(loadPostgres, ({ layer }) => layer(store)))
      : patient
      ? Sqlite.waitingLayer({ file: store.file, ownThread: true, takeOver })
      : Sqlite.layer(store),
    Layer.succeed(EncryptionKeys)(keys)
  )

/** Inspects the store without changing it. */
export const storeInspector = (store: StoreLocation) =>
  Effect.promise(async () => {
    if (store._tag === "Postgres") {
      const { chainAt, inspect } = await import("../store/postgres/PostgresInspection.ts")
      return { inspect: inspect(store), chainAt: (position: number) => chainAt(store, position) }
    }
    const { chainAt, inspect } = await import("../store/sqlite/SqliteInspection.ts")
    return { inspect: inspect(store.file), chainAt: (position: number) => chainAt(store.file, position) }
  })

export const loadKafka = Effect.promise(() => import("../publish/kafka/KafkaSink.ts"))
export const kafkaOptions = ({ sasl, ...kafka }: KafkaSettings, streams: ResolvedConfig["streams"]) => ({
  ...kafka,
  ...(sasl === null ? {} : { sasl }),
  streams
})

const relayLayer = (plan: ResolvedConfig, takesAll: boolean) => {
  if (plan.kafka === null) return Layer.empty
  const options = kafkaOptions(plan.kafka, plan.certainStreams)
  return Relay.placedLayer({ takesAgain: !takesAll }).pipe(
    Layer.provide(Layer.unwrap(Effect.map(loadKafka, ({ layer }) => layer(options))))
  )
}

const loadDelivery = Effect.promise(() =>
  Promise.all([
    import("../delivery/engine/DeliveryEngine.ts"),
    import("../delivery/admin/PluginAdminLayer.ts"),
    import("../delivery/engine/UncaughtErrors.ts")
  ])
)

/** Without plugins the delivery engine is not loaded. */
const pluginsLayer = (
  { accounts, plugins, retention }: ResolvedConfig,
  { integrationsReady, takesAll }: { readonly integrationsReady: Effect.Effect<void>; readonly takesAll: boolean }
): Layer.Layer<PluginAdmin.PluginAdmin, StoreError, Store | Deliveries | Source | Placement> =>
  plugins.length === 0 ?
    Layer.merge(
      PluginAdmin.none,
      Layer.effectDiscard(Effect.gen(function*() {
        const context = yield* Effect.context<Store | Deliveries>()
        const end = Effect.ignore(Effect.provideContext(endRunningDeliveries, context))
        yield* (yield* Placement).singleton("delivery", Effect.andThen(end, Effect.never))
      }))
    ) :
    Layer.unwrap(Effect.map(loadDelivery, ([{ DeliveryEngine }, { layer }, { watchUncaught }]) =>
      layer(plugins).pipe(
        Layer.provide(
          DeliveryEngine.layer({
            plugins,
            retention,
            integrationsReady,
            takesAgain: !takesAll,
            accounts: new Set(Object.keys(accounts))
          })
        ),
        Layer.provide(OutgoingHttp.layer()),
        Layer.provide(Layer.effectDiscard(watchUncaught))
      )))

const serverDependencies = (isFleet: boolean) =>
  Effect.map(
    Effect.all([Effect.serviceOption(Relay), PluginAdmin.PluginAdmin, AccountStatus, PlacementEngine, KeyWatch]),
    ([relay, plugins, accountStatus, engine, keys]): ReadonlyArray<Dependency> => [
      ...isFleet ? [fleetDependency(engine, keys)] : [],
      ...Option.toArray(Option.map(relay, kafkaDependency)),
      { name: "plugins", problem: problemOf(plugins.engineState) },
      readingDependency(Option.isNone(relay) ? null : maxUnpublished),
      sweepsDependency,
      { name: "api", remark: () => accountStatus.remark }
    ]
  )

const folderOf = (store: StoreLocation): string | null =>
  store._tag === "Sqlite" && store.file !== ":memory:" ? dirname(resolve(store.file)) : null

/** The operating API also knows the models that only the store has, so that their records and events can be read. */
const storedModels = Layer.effect(
  CurrentModels,
  Effect.gen(function*() {
    const { streams } = yield* Store
    return withStored(yield* CurrentModels, (yield* streams).map(({ model }) => model))
  })
)

export const serverLayer = ({ accounts, http, kafka, known, rawConfig, store }: ResolvedConfig) =>
  Layer.unwrap(
    Effect.map(Effect.all([serverDependencies(joinsFleet({ store })), AccountStatus]), ([dependencies, { usageOf }]) =>
      Server.layer({
        ...http,
        dependencies,
        publishes: kafka !== null,
        storeFolder: folderOf(store),
        samples: true,
        usageOf,
        checkIntegration: (body) =>
          Config.checkIntegration(rawConfig, known, Object.keys(accounts), body)
      }).pipe(
        Layer.tap((context) =>
          Effect.flatMap(
            Membership,
            ({ announce }) => announce(Context.get(context, Server.Server).url, problemsOf(dependencies))
          )
        )
      ))
  ).pipe(Layer.provide(storedModels))

/** Logs which store is used before any other component uses it, so that operators notice a new, empty store in place of a missing one. */
const logStoreOpened = (place: StoreLocation) =>
  Layer.effectDiscard(
    Effect.flatMap(Store, ({ identity: { generation, store }, isNew }) =>
      Effect.annotateLogs(Effect.logInfo(isNew ? "store created" : "store opened"), {
        store: place._tag === "Sqlite" && place.file !== ":memory:" ? resolve(place.file) : place.name,
        id: store,
        generation,
        new: isNew
      }))
  )

const loadOtlp = Effect.promise(() => import("../telemetry/Otlp.ts"))

/** Exports traces and metrics of everything that is built on it, if that is configured. */
export const telemetryLayer = ({ telemetry }: Pick<Config.Settings, "telemetry">): Layer.Layer<never> => {
  if (telemetry === null) return Layer.empty
  const attributes = { "service.version": version, "service.instance.id": randomUUID(), ...telemetry.attributes }
  return Layer.unwrap(Effect.map(loadOtlp, ({ layer }) => layer({ ...telemetry, attributes }))).pipe(
    Layer.provide(OutgoingHttp.layer())
  )
}

const membershipLayer = Membership.layer({ version, host: hostname(), pid: process.pid })

/** Whether a process on this store shares the work with other processes. */
const joinsFleet = ({ store }: Pick<ResolvedConfig, "store">): boolean => store._tag === "Postgres"

/**
 * Takes part in the fleet of the store's processes until interrupted. Does nothing for SQLite, because one process then does all the
 * work.
 */
export const takePart = ({ store }: ResolvedConfig) =>
  store._tag === "Sqlite" ? Effect.never : Effect.gen(function*() {
    const { run } = yield* Effect.promise(() => import("../fleet/ClusterPlacement.ts"))
    const { runMissing } = yield* Effect.promise(() => import("../store/sql/Migrations.ts"))
    const { leaseClient } = yield* loadPostgres
    const { self } = yield* Processes
    const { whileComplete } = yield* KeyWatch
    return yield* Effect.raceFirst(PlacedShards.run, whileComplete(run(self, leaseClient(store), runMissing)))
  })

/** Store and API of a service. The processes on one PostgreSQL database share the request budget of each account. */
export const serviceLayer = (settings: Config.Settings, takeOver = false) =>
  (settings.store._tag === "Postgres"
    ? Layer.provide(apiLayer(settings), SharedBudget.layer)
    : sourceLayer(settings)).pipe(
      Layer.provideMerge(logStoreOpened(settings.store)),
      Layer.provideMerge(storeLayer(settings.store, { patient: true, takeOver, keys: settings.encryptionKeys }))
    )

/**
 * Plugins, relay and capture. Layers that are built later are closed earlier. Plugins are ready before the first
 * read, but no delivery is attempted until the store knows the configured integrations. `alone`: the process does all the work itself.
 */
export const pipelineLayer = (plan: ResolvedConfig, { alone }: { readonly alone: boolean } = { alone: true }) => {
  const takesAll = alone || !joinsFleet(plan)
  const integrationsReady = Latch.makeUnsafe(false)
  return Commands.layer.pipe(
    Layer.provideMerge(Layer.tap(integrationsLayer(plan), () => integrationsReady.open)),
    Layer.provideMerge(forgettingLayer(plan)),
    Layer.provide(takesAll ? Calls.local : QueuedCalls.layer),
    Layer.provideMerge(captureLayer(plan, takesAll)),
    Layer.merge(Retention.placedLayer({ retention: plan.retention, readers: logReadersOf(plan) })),
    Layer.provideMerge(relayLayer(plan, takesAll)),
    Layer.provideMerge(pluginsLayer(plan, { integrationsReady: integrationsReady.await, takesAll })),
    Layer.provideMerge(Layer.merge(membershipLayer, KeyWatch.layer)),
    Layer.provideMerge(takesAll ? Placement.local : Placement.layer)
  )
}
