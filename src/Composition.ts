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
import * as Capture from "./capture/Capture.ts"
import * as Discovery from "./capture/Discovery.ts"
import * as Integrations from "./capture/Integrations.ts"
import * as Config from "./Config.ts"
import type { Kafka } from "./ConfigDeployment.ts"
import { type Input } from "./ConfigInput.ts"
import type { StorePlace } from "./ConfigStore.ts"
import * as Plugins from "./delivery/Plugins.ts"
import { type Model, type StreamKey } from "./domain/Model.ts"
import * as Processing from "./domain/Processing.ts"
import type { Dependency } from "./ops/Overview.ts"
import * as Server from "./ops/Server.ts"
import { Relay } from "./publish/Relay.ts"
import * as Retention from "./publish/Retention.ts"
import type { Source } from "./source/Source.ts"
import * as UnifiedApi from "./source/UnifiedApi.ts"
import { type Deliveries, reader as deliveryReader } from "./store/Deliveries.ts"
import * as Sqlite from "./store/Sqlite.ts"
import { Store, type StoreError } from "./store/Store.ts"

/** What is configured, and what discovery adds to it. */
export interface Plan extends Config.Settings {
  readonly discovered: ReadonlyMap<string, ReadonlyArray<Model>>
  /** Of the declared integrations. */
  readonly streams: ReadonlyArray<StreamKey>
  readonly input: Input
}

export const sourceLayer = (options: UnifiedApi.Options) =>
  Layer.provide(UnifiedApi.layer(options), UnifiedApi.httpClient)

const processingFor = ({ models, redactKey }: Pick<Config.Settings, "models" | "redactKey">, model: Model) => {
  const treatment = models[model] ?? { remoteData: "drop", redact: {} }
  return Processing.make(model, { ...treatment, key: redactKey === null ? "" : Redacted.value(redactKey) })
}

/** Where configuration leaves open which models are read, the tool catalogue is asked. */
export const planOf = Effect.fnUntraced(function*(settings: Config.Settings, input: Input) {
  const undecided = settings.integrations.filter(({ models }) => models === "auto")
  const discovered = yield* Discovery.discover(undecided)
  const streams = settings.integrations.flatMap(({ id, models }) =>
    (models === "auto" ? discovered.get(id) ?? [] : models).map((model) => ({ integration: id, model }))
  )
  const plan: Plan = { ...settings, discovered, streams, input }
  return plan
})

/** Events not yet in Kafka at which reading waits. */
const mostUnpublished = 1_000_000
const relayReader = "relay"

/** Who must have read an event before it may go. */
const readersOf = ({ kafka, plugins }: Plan) => [
  ...kafka === null ? [] : [relayReader],
  ...plugins.length === 0 ? [] : [deliveryReader]
]

export const processingsOf = (settings: Pick<Config.Settings, "models" | "redactKey">) => ({ model }: StreamKey) =>
  processingFor(settings, model)

const captureLayer = ({ confirmInterval, guard, kafka, overlapMin, ...settings }: Plan) =>
  Capture.layer({
    overlapMin,
    confirmInterval,
    guard,
    processingOf: processingsOf(settings),
    ...(kafka === null ? {} : { backPressure: { reader: relayReader, limit: mostUnpublished } })
  })

const integrationsLayer = (plan: Plan) =>
  Integrations.layer({
    declared: plan.integrations,
    discovered: plan.discovered,
    readers: readersOf(plan),
    processing: (model) => processingFor(plan, model)
  })

const loadPostgres = Effect.promise(() => import("./store/Postgres.ts"))

/** The store, and who waits for it: one that serves is patient. */
export const storeLayer = (
  store: StorePlace,
  { patient }: { readonly patient: boolean }
): Layer.Layer<Store | Deliveries, StoreError> =>
  store._tag === "Postgres"
    ? Layer.unwrap(Effect.map(loadPostgres, ({ layer }) => layer(store)))
    : patient
    ? Sqlite.patientLayer({ file: store.file, ownThread: true })
    : Sqlite.layer(store)

/** What looks at the store without touching it. */
export const examinationOf = (store: StorePlace) =>
  Effect.promise(async () => {
    if (store._tag === "Postgres") {
      const { chainAt, examine } = await import("./store/PostgresExamination.ts")
      return { examine: examine(store), chainAt: (position: number) => chainAt(store, position) }
    }
    const { chainAt, examine } = await import("./store/SqliteExamination.ts")
    return { examine: examine(store.file), chainAt: (position: number) => chainAt(store.file, position) }
  })

export const loadKafka = Effect.promise(() => import("./publish/Kafka.ts"))
export const kafkaOptions = ({ sasl, ...kafka }: Kafka, streams: Plan["streams"]) => ({
  ...kafka,
  ...(sasl === null ? {} : { sasl }),
  streams
})

const relayLayer = (plan: Plan) => {
  if (plan.kafka === null) return Layer.empty
  const options = kafkaOptions(plan.kafka, plan.streams)
  return Relay.layer.pipe(Layer.provide(Layer.unwrap(Effect.map(loadKafka, ({ layer }) => layer(options)))))
}

const loadDelivery = Effect.promise(() =>
  Promise.all([
    import("./delivery/Delivery.ts"),
    import("./delivery/Operating.ts"),
    import("./delivery/Containment.ts")
  ])
)

/** Without plugins nothing is loaded, and nothing runs. `HttpClient` is for what handlers ask of others. */
const pluginsLayer = (
  { plugins, retention }: Plan,
  configured: Effect.Effect<void>
): Layer.Layer<Plugins.Plugins, never, Store | Deliveries | Source> =>
  plugins.length === 0 ?
    Plugins.none :
    Layer.unwrap(Effect.map(loadDelivery, ([{ Delivery }, { layer }, { guard }]) =>
      layer(plugins).pipe(
        Layer.provide(Delivery.layer({ plugins, retention, configured })),
        Layer.provide(NodeHttpClient.layerNodeHttp),
        Layer.provide(Layer.effectDiscard(guard))
      )))

const pluginsDependency = ({ delivering }: Plugins.Plugins["Service"]): Dependency => ({
  name: "plugins",
  problem: Effect.map(delivering, ({ reason }) => reason === null ? null : `${reason.message}; ${reason.hint}`)
})

const relayDependency = (relay: Relay["Service"]): Dependency => ({
  name: "kafka",
  problem: Effect.map(relay.status, ({ reason }) => reason === null ? null : `${reason.message}; ${reason.hint}`)
})

export const serverLayer = ({ accounts, http, input }: Plan) =>
  Layer.unwrap(
    Effect.map(
      Effect.all([Effect.serviceOption(Relay), Plugins.Plugins]),
      ([relay, plugins]) =>
        Server.layer({
          ...http,
          dependencies: [
            ...Option.toArray(Option.map(relay, relayDependency)),
            pluginsDependency(plugins)
          ],
          checkIntegration: (body) => Config.checkIntegration(input, Object.keys(accounts), body)
        })
    )
  )

/** Says which store it is before anything is done with it: an empty one in place of one that is missing is seen there. */
const announced = (place: StorePlace) =>
  Layer.effectDiscard(
    Effect.flatMap(Store, ({ identity: { lineage, store }, isNew }) =>
      Effect.annotateLogs(Effect.logInfo(isNew ? "new store made" : "store opened"), {
        store: place._tag === "Sqlite" && place.file !== ":memory:" ? resolve(place.file) : place.name,
        id: store,
        lineage,
        new: isNew
      }))
  )

/**
 * Store, plugins, relay and capture; whoever is built later is closed earlier. Plugins are there before anything is read,
 * and attempt nothing before the store knows which integrations the configuration has.
 */
export const pipeline = (plan: Plan) => {
  const configured = Latch.makeUnsafe(false)
  return integrationsLayer(plan).pipe(
    Layer.tap(() => configured.open),
    Layer.provideMerge(captureLayer(plan)),
    Layer.merge(Retention.layer({ retention: plan.retention, readers: readersOf(plan) })),
    Layer.provideMerge(relayLayer(plan)),
    Layer.provideMerge(pluginsLayer(plan, configured.await)),
    Layer.provideMerge(announced(plan.store)),
    Layer.provideMerge(storeLayer(plan.store, { patient: true }))
  )
}
