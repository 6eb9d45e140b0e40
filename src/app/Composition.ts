/**
 * The composition root: which adapters stand behind which ports, as layers of what is configured.
 *
 * Gotchas
 * - Kafka, PostgreSQL and delivering are imported when they are configured: they cost start-up time.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { resolve } from "node:path"
import * as Capture from "../capture/schedule/Capture.ts"
import * as Integrations from "../capture/schedule/Integrations.ts"
import * as ModelDiscovery from "../capture/schedule/ModelDiscovery.ts"
import * as Config from "../config/Config.ts"
import type { KafkaSettings } from "../config/DeploymentSettings.ts"
import { type RawConfig } from "../config/RawConfig.ts"
import type { StoreLocation } from "../config/StoreSettings.ts"
import * as PluginAdmin from "../delivery/admin/PluginAdmin.ts"
import { type Model, type StreamKey } from "../domain/Model.ts"
import * as Processing from "../domain/Processing.ts"
import * as Server from "../http/Server.ts"
import type { Dependency } from "../http/status/Overview.ts"
import { Relay } from "../publish/Relay.ts"
import * as Retention from "../publish/Retention.ts"
import type { Source } from "../source/Source.ts"
import * as UnifiedApi from "../source/UnifiedApi.ts"
import { type Deliveries, deliveryReader } from "../store/Deliveries.ts"
import * as Sqlite from "../store/sqlite/Sqlite.ts"
import { Store, type StoreError } from "../store/Store.ts"

/** What is configured, and what discovery adds to it. */
export interface ResolvedConfig extends Config.Settings {
  readonly discovered: ReadonlyMap<string, ReadonlyArray<Model>>
  /** Of the declared integrations. */
  readonly streams: ReadonlyArray<StreamKey>
  readonly rawConfig: RawConfig
}

export const sourceLayer = (options: UnifiedApi.Options) =>
  Layer.provide(UnifiedApi.layer(options), UnifiedApi.httpClient)

const processingFor = ({ models, redactKey }: Pick<Config.Settings, "models" | "redactKey">, model: Model) => {
  const treatment = models[model] ?? { remoteData: "drop", redact: {} }
  return Processing.make(model, { ...treatment, key: redactKey === null ? "" : Redacted.value(redactKey) })
}

/** Where configuration leaves open which models are read, the tool catalogue is asked. */
export const resolveConfig = Effect.fnUntraced(function*(settings: Config.Settings, rawConfig: RawConfig) {
  const undecided = settings.integrations.filter(({ models }) => models === "auto")
  const discovered = yield* ModelDiscovery.discoverModels(undecided)
  const streams = settings.integrations.flatMap(({ id, models }) =>
    (models === "auto" ? discovered.get(id) ?? [] : models).map((model) => ({ integration: id, model }))
  )
  const plan: ResolvedConfig = { ...settings, discovered, streams, rawConfig }
  return plan
})

/** Events not yet in Kafka at which reading waits. */
const maxUnpublished = 1_000_000
const relayReader = "relay"

/** Who must have read an event before it may go. */
const logReadersOf = ({ kafka, plugins }: ResolvedConfig) => [
  ...kafka === null ? [] : [relayReader],
  ...plugins.length === 0 ? [] : [deliveryReader]
]

export const processingByStream = (settings: Pick<Config.Settings, "models" | "redactKey">) => ({ model }: StreamKey) =>
  processingFor(settings, model)

const captureLayer = ({ confirmInterval, guard, kafka, overlapMin, ...settings }: ResolvedConfig) =>
  Capture.layer({
    overlapMin,
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
    processing: (model) => processingFor(plan, model)
  })

const loadPostgres = Effect.promise(() => import("../store/postgres/Postgres.ts"))

/** The store, and who waits for it: one that serves is patient. */
export const storeLayer = (
  store: StoreLocation,
  { patient }: { readonly patient: boolean }
): Layer.Layer<Store | Deliveries, StoreError> =>
  store._tag === "Postgres"
    ? Layer.unwrap(Effect.map(loadPostgres, ({ layer }) => layer(store)))
    : patient
    ? Sqlite.waitingLayer({ file: store.file, ownThread: true })
    : Sqlite.layer(store)

/** What looks at the store without touching it. */
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

const relayLayer = (plan: ResolvedConfig) => {
  if (plan.kafka === null) return Layer.empty
  const options = kafkaOptions(plan.kafka, plan.streams)
  return Relay.layer.pipe(Layer.provide(Layer.unwrap(Effect.map(loadKafka, ({ layer }) => layer(options)))))
}

const loadDelivery = Effect.promise(() =>
  Promise.all([
    import("../delivery/engine/DeliveryEngine.ts"),
    import("../delivery/admin/PluginAdminLayer.ts"),
    import("../delivery/engine/UncaughtErrors.ts")
  ])
)

/** Without plugins nothing is loaded, and nothing runs. `HttpClient` is for what handlers ask of others. */
const pluginsLayer = (
  { plugins, retention }: ResolvedConfig,
  integrationsReady: Effect.Effect<void>
): Layer.Layer<PluginAdmin.PluginAdmin, never, Store | Deliveries | Source> =>
  plugins.length === 0 ?
    PluginAdmin.none :
    Layer.unwrap(Effect.map(loadDelivery, ([{ DeliveryEngine }, { layer }, { watchUncaught }]) =>
      layer(plugins).pipe(
        Layer.provide(DeliveryEngine.layer({ plugins, retention, integrationsReady })),
        Layer.provide(NodeHttpClient.layerNodeHttp),
        Layer.provide(Layer.effectDiscard(watchUncaught))
      )))

const pluginsDependency = ({ engineState }: PluginAdmin.PluginAdmin["Service"]): Dependency => ({
  name: "plugins",
  problem: Effect.map(engineState, ({ reason }) => reason === null ? null : `${reason.message}; ${reason.hint}`)
})

const relayDependency = (relay: Relay["Service"]): Dependency => ({
  name: "kafka",
  problem: Effect.map(relay.status, ({ reason }) => reason === null ? null : `${reason.message}; ${reason.hint}`)
})

export const serverLayer = ({ accounts, http, rawConfig }: ResolvedConfig) =>
  Layer.unwrap(
    Effect.map(
      Effect.all([Effect.serviceOption(Relay), PluginAdmin.PluginAdmin]),
      ([relay, plugins]) =>
        Server.layer({
          ...http,
          dependencies: [
            ...Option.toArray(Option.map(relay, relayDependency)),
            pluginsDependency(plugins)
          ],
          checkIntegration: (body) => Config.checkIntegration(rawConfig, Object.keys(accounts), body)
        })
    )
  )

/** Says which store it is before anything is done with it: an empty one in place of one that is missing is seen there. */
const logStoreOpened = (place: StoreLocation) =>
  Layer.effectDiscard(
    Effect.flatMap(Store, ({ identity: { generation, store }, isNew }) =>
      Effect.annotateLogs(Effect.logInfo(isNew ? "new store made" : "store opened"), {
        store: place._tag === "Sqlite" && place.file !== ":memory:" ? resolve(place.file) : place.name,
        id: store,
        generation,
        new: isNew
      }))
  )

/**
 * Store, plugins, relay and capture; whoever is built later is closed earlier. Plugins are there before anything is read,
 * and attempt nothing before the store knows which integrations the configuration has.
 */
export const pipelineLayer = (plan: ResolvedConfig) => {
  const configured = Latch.makeUnsafe(false)
  return integrationsLayer(plan).pipe(
    Layer.tap(() => configured.open),
    Layer.provideMerge(captureLayer(plan)),
    Layer.merge(Retention.layer({ retention: plan.retention, readers: logReadersOf(plan) })),
    Layer.provideMerge(relayLayer(plan)),
    Layer.provideMerge(pluginsLayer(plan, configured.await)),
    Layer.provideMerge(logStoreOpened(plan.store)),
    Layer.provideMerge(storeLayer(plan.store, { patient: true }))
  )
}
