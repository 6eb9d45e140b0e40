/**
 * The command line and the composition root: the only file that names every adapter.
 *
 * Gotchas
 * - Kafka, delivering, the sandbox and the demo are imported when a command needs them: they cost start-up time.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as CliConfig from "effect/cli/CliConfig"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Clock from "effect/Clock"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { createRequire } from "node:module"
import { join } from "node:path"
import type { WriteName } from "./api/Writes.ts"
import * as Capture from "./capture/Capture.ts"
import * as Discovery from "./capture/Discovery.ts"
import * as Integrations from "./capture/Integrations.ts"
import * as Config from "./Config.ts"
import { defaultFile, environment, type Input, input } from "./ConfigInput.ts"
import { parseLength } from "./ConfigValue.ts"
import * as Plugins from "./delivery/Plugins.ts"
import { isRead, type Model, modelNames, type StreamKey } from "./domain/Model.ts"
import * as Processing from "./domain/Processing.ts"
import * as Client from "./ops/Client.ts"
import { json, print, sandboxFlags, seed, status, tail } from "./ops/Commands.ts"
import { deadLetters } from "./ops/DeadLetterCommands.ts"
import type { Writings } from "./ops/Demo.ts"
import { holds } from "./ops/HoldCommands.ts"
import { integrations } from "./ops/IntegrationCommands.ts"
import type { Dependency } from "./ops/Overview.ts"
import { plugins } from "./ops/PluginCommands.ts"
import { interrupted, main, service, tool } from "./ops/Running.ts"
import * as Server from "./ops/Server.ts"
import { streams } from "./ops/StreamCommands.ts"
import type { Plugin } from "./plugin/Plugin.ts"
import { divergence, evidence, Relay } from "./publish/Relay.ts"
import * as Retention from "./publish/Retention.ts"
import type { SandboxHandle } from "./sandbox/Sandbox.ts"
import type { Source } from "./source/Source.ts"
import * as UnifiedApi from "./source/UnifiedApi.ts"
import { type Deliveries, reader as deliveryReader } from "./store/Deliveries.ts"
import * as Sqlite from "./store/Sqlite.ts"
import { Store } from "./store/Store.ts"

/** Of this package: one folder up, from the sources and from what is built of them. */
const { version }: { readonly version: string } = createRequire(import.meta.url)("../package.json")

// ---- composition --------------------------------------------------------------------------------------------------

/** What is configured, and what discovery adds to it. */
interface Plan extends Config.Settings {
  readonly discovered: ReadonlyMap<string, ReadonlyArray<Model>>
  /** Of the declared integrations. */
  readonly streams: ReadonlyArray<StreamKey>
  readonly input: Input
}

const sourceLayer = (options: UnifiedApi.Options) => Layer.provide(UnifiedApi.layer(options), UnifiedApi.httpClient)

const processingFor = ({ models, redactKey }: Pick<Config.Settings, "models" | "redactKey">, model: Model) => {
  const treatment = models[model] ?? { remoteData: "drop", redact: {} }
  return Processing.make(model, { ...treatment, key: redactKey === null ? "" : Redacted.value(redactKey) })
}

/** Where configuration leaves open which models are read, the tool catalogue is asked. */
const planOf = Effect.fnUntraced(function*(settings: Config.Settings, input: Input) {
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

const processingsOf = (settings: Pick<Config.Settings, "models" | "redactKey">) => ({ model }: StreamKey) =>
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

const loadExamination = Effect.promise(() => import("./store/SqliteExamination.ts"))
const loadKafka = Effect.promise(() => import("./publish/Kafka.ts"))
const kafkaOptions = ({ sasl, ...kafka }: Config.Kafka, streams: Plan["streams"]) => ({
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
  Promise.all([import("./delivery/Delivery.ts"), import("./delivery/Operating.ts")])
)

/** Without plugins nothing is loaded, and nothing runs. `HttpClient` is for what handlers ask of others. */
const pluginsLayer = (
  { plugins, retention }: Plan
): Layer.Layer<Plugins.Plugins, never, Store | Deliveries | Source> =>
  plugins.length === 0 ?
    Plugins.none :
    Layer.unwrap(Effect.map(loadDelivery, ([{ Delivery }, { layer }]) =>
      layer(plugins).pipe(
        Layer.provide(Delivery.layer({ plugins, retention })),
        Layer.provide(NodeHttpClient.layerNodeHttp)
      )))

const pluginsDependency = ({ delivering }: Plugins.Plugins["Service"]): Dependency => ({
  name: "plugins",
  problem: Effect.map(delivering, ({ reason }) => reason === null ? null : `${reason.message}; ${reason.hint}`)
})

const relayDependency = (relay: Relay["Service"]): Dependency => ({
  name: "kafka",
  problem: Effect.map(relay.status, ({ reason }) => reason === null ? null : `${reason.message}; ${reason.hint}`)
})

const serverLayer = ({ accounts, http, input }: Plan) =>
  Layer.unwrap(
    Effect.map(Effect.all([Effect.serviceOption(Relay), Plugins.Plugins]), ([relay, plugins]) =>
      Server.layer({
        ...http,
        dependencies: [...Option.toArray(Option.map(relay, relayDependency)), pluginsDependency(plugins)],
        checkIntegration: (body) => Config.checkIntegration(input, Object.keys(accounts), body)
      }))
  )

/** Store, plugins, relay and capture; whoever is built later is closed earlier. */
const pipeline = (plan: Plan) =>
  integrationsLayer(plan).pipe(
    Layer.provideMerge(captureLayer(plan)),
    Layer.merge(Retention.layer({ retention: plan.retention, readers: readersOf(plan) })),
    Layer.provideMerge(relayLayer(plan)),
    Layer.provideMerge(pluginsLayer(plan)),
    Layer.provideMerge(Sqlite.patientLayer(plan.store))
  )

// ---- start --------------------------------------------------------------------------------------------------------

const announce = Effect.fnUntraced(function*({ kafka, store: { file } }: Plan, url: string | null) {
  const store = yield* Store
  const streams = (yield* store.streams).filter(({ model, retired }) => retired !== true && isRead(model))
  yield* Effect.annotateLogs(Effect.logInfo("started"), {
    version,
    streams: streams.length,
    store: file,
    sink: kafka === null ? "event log" : `kafka ${kafka.topic}`,
    ...(url === null ? {} : { url })
  })
  if (streams.length > 0) return
  yield* Effect.annotateLogs(Effect.logWarning("nothing is read"), {
    hint: "set ROLLCALL_INTEGRATIONS to ids such as greenhouse:acme, or run `rollcall integrations add greenhouse:acme`"
  })
})

const runForever = Effect.fnUntraced(function*(plan: Plan) {
  const capture = yield* Capture.Capture
  const { url } = yield* Server.Server
  yield* announce(plan, url)
  yield* capture.run
})

class NotAllRead extends Schema.TaggedError<NotAllRead>()("NotAllRead", { message: Schema.String }) {}

/** What plugins did not do; of what is dead, what was not before. */
const undelivered = (before: Plugins.PluginsView, after: Plugins.PluginsView): ReadonlyArray<string> =>
  after.plugins.flatMap(({ handlers, plugin }) =>
    handlers.flatMap(({ dead, due, handler, running, waiting }) => {
      const known = before.plugins.find((one) => one.plugin === plugin)?.handlers.find((one) => one.handler === handler)
      const died = dead - (known?.dead ?? 0)
      const left = due + running + waiting
      const what = [...(left > 0 ? [`${left} wait`] : []), ...(died > 0 ? [`${died} are dead letters now`] : [])]
      return what.length === 0 ? [] : [`plugin ${plugin}, ${handler}: of its deliveries ${what.join(", ")}`]
    })
  )

const runOnce = Effect.fnUntraced(function*(plan: Plan) {
  const capture = yield* Capture.Capture
  const store = yield* Store
  const plugins = yield* Plugins.Plugins
  yield* announce(plan, null)
  const before = yield* plugins.view
  const problems = (yield* capture.once).map(({ integration, model, problem }) => `${integration}/${model}: ${problem}`)
  const { newest } = yield* store.logRange
  const relay = yield* Effect.serviceOption(Relay)
  if (Option.isSome(relay)) {
    const { position, reason } = yield* relay.value.reached(newest)
    if (position < newest) problems.push(`publishing stopped: ${reason?.message} (${reason?.hint})`)
  }
  const { reason } = yield* plugins.reached(newest)
  if (reason !== null) problems.push(`delivering stopped: ${reason.message} (${reason.hint})`)
  problems.push(...undelivered(before, yield* plugins.view))
  yield* Effect.annotateLogs(Effect.logInfo("every stream was read once"), {
    events: newest,
    problems: problems.length
  })
  for (const problem of problems) yield* Effect.logError(problem)
  if (problems.length > 0) return yield* new NotAllRead({ message: "not everything was read, published and delivered" })
})

const untilStopped = Effect.raceFirst(
  Effect.andThen(
    interrupted,
    Effect.logInfo("stopping: open pages and running handlers are finished, nothing new is begun")
  )
)

const config = Flag.String("config").pipe(
  Flag.withDescription(`Read the configuration from this file instead of ${defaultFile}, if there is one`),
  Flag.withMetavar("file"),
  Flag.optional
)

const start = Command.make("start", {
  config,
  once: Flag.Boolean("once").pipe(
    Flag.withDescription("Read each stream once, publish, deliver to plugins, and exit; 1 if any of that failed"),
    Flag.withDefault(false)
  )
}, ({ config, once }) =>
  Effect.flatMap(input(config), (input) =>
    Effect.gen(function*() {
      const settings = yield* Effect.fromResult(Config.check(input))
      yield* Config.checkPlugins(settings)
      yield* Effect.gen(function*() {
        if (!once) yield* Server.bindable(settings.http)
        const plan = yield* planOf(settings, input)
        yield* once
          ? Effect.provide(runOnce(plan), pipeline(plan))
          : Effect.provide(runForever(plan), Layer.provideMerge(serverLayer(plan), pipeline(plan)))
      }).pipe(Effect.provide(sourceLayer(settings)), untilStopped)
    }).pipe(service(Config.logSettings(input))))).pipe(
    Command.withDescription("Read every stream and publish its changes until interrupted"),
    Command.withExamples([
      { command: "rollcall start", description: `Run with ${defaultFile}, if there is one, and the environment` }
    ])
  )

/** Of the operating API that is configured. */
const address = Effect.fnUntraced(function*(file: Option.Option<string>) {
  const { host, port, token } = yield* Effect.fromResult(Config.checkHttp(yield* input(file)))
  return { url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`, token }
})

// ---- doctor -------------------------------------------------------------------------------------------------------

/** Who asks waits for the answer. */
const impatient = { retryBase: "20 millis", timeout: "5 seconds" } as const

/** What Kafka has of the topics and of this store. Of the store only what must be the same is read. */
const kafkaFindings = (settings: Config.Settings, input: Input, own: Config.Kafka) =>
  Effect.gen(function*() {
    const kafka = yield* loadKafka
    const { eventIds, examine } = yield* loadExamination
    const { file } = settings.store
    const log = yield* Effect.orElseSucceed(Effect.map(examine(file), ({ log }) => log), () => null)
    const { published, ...topics } = yield* kafka.examine(
      kafkaOptions(own, (yield* planOf(settings, input)).streams),
      log?.store ?? null
    )
    if (log === null) return { ...topics, divergence: null }
    const { after, upTo } = published === null ? { after: 0, upTo: 0 } : evidence(published, log)
    return { ...topics, divergence: divergence(published, { ...log, eventIds: yield* eventIds(file, after, upTo) }) }
  })

const needsOf = ({ definition: { needs }, name }: Config.Settings["plugins"][number]) => ({
  plugin: name,
  reads: needs?.reads ?? [],
  writes: needs?.writes ?? []
})

const doctor = Command.make("doctor", { config, json }, ({ config, json }) =>
  Effect.gen(function*() {
    const Doctor = yield* Effect.promise(() => import("./ops/Doctor.ts"))
    const { examine } = yield* loadExamination
    const found = yield* input(config)
    const checked = Config.check(found)
    if (Result.isFailure(checked)) return yield* Doctor.reject(checked.failure.faults, { json })
    const settings = checked.success
    const { kafka, store } = settings
    const patient = {
      ...settings,
      store: { ...store, examine: examine(store.file) },
      kafka: kafka === null ? null : { brokers: kafka.brokers, examine: kafkaFindings(settings, found, kafka) },
      plugins: { used: yield* Config.pluginUses(settings), needs: settings.plugins.map(needsOf) }
    }
    yield* Effect.provide(Doctor.examine(patient, { json }), sourceLayer({ ...settings, ...impatient }))
  }).pipe(tool)).pipe(
    Command.withDescription(
      "Check configuration, accounts, integrations, plugins, store, Kafka and clock, and say what to do"
    )
  )

// ---- store --------------------------------------------------------------------------------------------------------

const adopt = Command.make("adopt", {
  config,
  yes: Flag.Boolean("yes").pipe(Flag.withDescription("Do not ask"), Flag.withDefault(false)),
  json
}, ({ config, json, yes }) =>
  Effect.gen(function*() {
    const Adopt = yield* Effect.promise(() => import("./ops/Adopt.ts"))
    const settings = yield* Effect.fromResult(Config.check(yield* input(config)))
    const { file } = settings.store
    const { log } = yield* Effect.flatMap(loadExamination, ({ examine }) => examine(file))
    if (log === null) {
      return yield* new Adopt.NotAdopted({ message: `${file} holds no store`, hint: "Set ROLLCALL_STORE." })
    }
    const { kafka } = settings
    const published = kafka === null ? null : loadKafka.pipe(
      Effect.flatMap(({ examine }) => examine(kafkaOptions(kafka, []), log.store)),
      Effect.map(({ published }) => published)
    )
    const { ready, url } = yield* Effect.flatMap(address(config), (address) =>
      Effect.map(Client.make(address), ({ ready }) => ({ ready, url: address.url })))
    const running = Effect.match(ready, {
      onSuccess: () =>
        url,
      onFailure: () => null
    })
    yield* Adopt.adopt({ file, published, running, processingOf: processingsOf(settings), yes, json }).pipe(
      Effect.provide(Sqlite.layer(settings.store))
    )
  }).pipe(Effect.provide(NodeHttpClient.layerNodeHttp), tool)).pipe(
    Command.withDescription(
      "Make a restored or exchanged store the truth: publish every live record anew, in a later lineage"
    )
  )

const store = Command.make("store").pipe(
  Command.withDescription("What is done to the store as a whole, while Rollcall is stopped"),
  Command.withSubcommands([adopt])
)

// ---- schema -------------------------------------------------------------------------------------------------------

const schema = Command.make("schema", { config }, ({ config }) =>
  Effect.gen(function*() {
    const { asyncApiOf } = yield* Effect.promise(() => import("./publish/AsyncApi.ts"))
    const checked = Config.check(yield* input(config))
    const kafka = Result.isSuccess(checked) ? checked.success.kafka : null
    const { state, topic } = { state: false, topic: "rollcall.{model}", ...kafka }
    yield* print(JSON.stringify(asyncApiOf({ version, models: modelNames, topic, state }), null, 2))
  }).pipe(tool)).pipe(
    Command.withDescription("Print the AsyncAPI document of what is published to Kafka, under the topics configured")
  )

// ---- sandbox, demo ------------------------------------------------------------------------------------------------

const sandbox = Command.make("sandbox", sandboxFlags, ({ json, ...options }) =>
  Effect.gen(function*() {
    const { serve } = yield* Effect.promise(() => import("./sandbox/Sandbox.ts"))
    const { ids, integrations, key, url } = yield* serve(options)
    yield* print(
      json
        ? JSON.stringify({ url, key, integrations, ids })
        : `url           ${url}\nkey           ${key}\nintegrations  ${integrations.join(",")}`
    )
    yield* interrupted
  }).pipe(Effect.scoped, tool)).pipe(
    Command.withDescription("Serve a simulated unified API until interrupted, for trying out and testing")
  )

/** How much of the world's life fits into a demo. */
const demoWorld = { records: 1500, speed: 60 }

/** The demo is configured as any other run, only more closely watching. */
const demoSettings = ({ integrations, key, url }: SandboxHandle, directory: string) =>
  environment.pipe(
    Effect.provideService(
      ConfigProvider.ConfigProvider,
      ConfigProvider.fromEnvRecord({
        ROLLCALL_API_URL: url,
        ROLLCALL_API_KEY: key,
        ROLLCALL_INTEGRATIONS: integrations.join(","),
        ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
        ROLLCALL_INTERVAL: "2 seconds",
        ROLLCALL_SWEEP_INTERVAL: "20 seconds",
        ROLLCALL_CONFIRM_INTERVAL: "5 seconds",
        ROLLCALL_OVERLAP_MIN: "10 seconds",
        ROLLCALL_HTTP_PORT: "0"
      })
    ),
    Effect.flatMap((input) => Effect.map(Effect.fromResult(Config.check(input)), (settings) => ({ settings, input })))
  )

/**
 * Lets every kind of mutation that has not happened yet happen once, in the world at rest; and a record vanish in any case,
 * which only the closing sweep can find: an earlier one may have been back before anybody looked.
 */
const completed = Effect.fnUntraced(function*({ freeze, integrations, world }: SandboxHandle) {
  yield* freeze
  const { lifeKinds } = yield* Effect.promise(() => import("./sandbox/Lives.ts"))
  for (const kind of lifeKinds.filter((kind) => kind === "deleted_hard" || world.mutations[kind] === 0)) {
    for (const integration of integrations) world.steer({ op: "live", integration, kind })
  }
})

/** The package's own plugins, by the name under which everybody imports them. */
const shipped = (name: string): Effect.Effect<Plugin<unknown>> =>
  Effect.map(Effect.promise(() => import(`rollcall/plugins/${name}`)), ({ default: plugin }) => plugin)

/** Two plugins, in the integration that has both sides. */
const demoPlugins = Effect.fnUntraced(function*({ ids, integrations: [integration = ""] }: SandboxHandle) {
  const [welcomeNewHire, stageTags] = yield* Effect.all([shipped("welcome-new-hire"), shipped("stage-tags")])
  const nextYear = new Date(yield* Clock.currentTimeMillis).getUTCFullYear() + 1
  return [
    welcomeNewHire.with({
      values: {
        WELCOME_HRIS: integration,
        WELCOME_EMPLOYEE_URL: "https://hr.example/employees/{/remote_id}",
        WELCOME_FIELDS: {
          work_email: "{/candidate/first_name|handle}.{/remote_id|handle}@company.example",
          start_date: `${nextYear}-01-01`,
          contract: "FULL_TIME"
        },
        WELCOME_DOCUMENTS: { CV: ids.document_category, COVER_LETTER: ids.document_category }
      }
    }),
    stageTags.with({
      values: {
        STAGE_TAGS_TABLE: {
          "Phone interview": "interviewing",
          Interview: "interviewing",
          "Final round": "interviewing",
          Offer: "offer made"
        }
      }
    })
  ]
})

/** Of plugins that write different things. */
const authorIn = (plugins: ReadonlyArray<Plugin<unknown>>) => (write: WriteName): string =>
  plugins.find(({ definition }) => definition.needs?.writes?.includes(write))?.name ?? "a plugin"

const demo = Command.make("demo", {
  for: Flag.String("for").pipe(
    Flag.filterMap(parseLength, (text) => `"${text}" is no length of time; write 20s or "20 seconds"`),
    Flag.withDescription('End after this long, such as 20s or "2 minutes", instead of on Ctrl-C'),
    Flag.withMetavar("duration"),
    Flag.optional
  ),
  seed,
  json
}, ({ for: length, json, seed }) =>
  Effect.gen(function*() {
    const Demo = yield* Effect.promise(() => import("./ops/Demo.ts"))
    if (!json) yield* Demo.greet(seed)
    const { serve } = yield* Effect.promise(() => import("./sandbox/Sandbox.ts"))
    const { makeTempDirectoryScoped } = yield* FileSystem.FileSystem
    const directory = yield* makeTempDirectoryScoped({ prefix: "rollcall-demo-" })
    const sandbox = yield* serve({ seed, ...demoWorld })
    const { input, settings } = yield* demoSettings(sandbox, directory)
    const plugins = yield* demoPlugins(sandbox)
    const writings: Writings = []
    const enough = Option.isNone(length) ? interrupted : Effect.raceFirst(interrupted, Effect.sleep(length.value))
    const watched = Effect.gen(function*() {
      const { url } = yield* Server.Server
      const client = yield* Client.make({ url, token: null })
      const settle = completed(sandbox)
      yield* Demo.run({ world: sandbox.world, writings, settle, client, url, seed, until: enough, json })
    }).pipe(Effect.provide(NodeHttpClient.layerNodeHttp))
    yield* Effect.gen(function*() {
      const plan = { ...(yield* planOf(settings, input)), plugins }
      yield* Effect.provide(watched, Layer.provideMerge(serverLayer(plan), pipeline(plan)))
    }).pipe(Effect.provide(Layer.provide(Demo.noting(writings, authorIn(plugins)), sourceLayer(settings))))
  }).pipe(Effect.scoped, tool)).pipe(
    Command.withDescription("Watch a simulated HR world being turned into change events"),
    Command.withExamples([{ command: "rollcall demo --for 20s", description: "Watch it for twenty seconds" }])
  )

const rollcall = Command.make("rollcall").pipe(
  Command.withDescription("The change feed that a polled HR, recruiting, assessment and learning API does not have"),
  Command.withSubcommands([
    start,
    demo,
    sandbox,
    doctor,
    store,
    schema,
    status(config, address),
    tail(config, address),
    streams(config, address),
    holds(config, address),
    integrations(config, address),
    plugins(config, address),
    deadLetters(config, address)
  ])
)

await main(
  Command.run(rollcall, { version }).pipe(
    Effect.provide(NodeServices.layer),
    Effect.provide(CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] }))
  )
)
