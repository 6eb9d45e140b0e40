/**
 * The command line: defines every command and gives it its dependencies.
 *
 * Gotchas
 * - Modules that only some commands need are imported by those commands, because importing costs start-up time.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as CliConfig from "effect/cli/CliConfig"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { createRequire } from "node:module"
import {
  kafkaOptions,
  loadKafka,
  pipelineLayer,
  processingByStream,
  resolveConfig,
  type ResolvedConfig,
  serverLayer,
  sourceLayer,
  storeInspector,
  storeLayer
} from "./app/Composition.ts"
import * as Capture from "./capture/schedule/Capture.ts"
import * as ApiClient from "./cli/ApiClient.ts"
import { deadLetters } from "./cli/DeadLettersCommand.ts"
import { demo } from "./cli/demo/DemoCommand.ts"
import { json, print, sandboxFlags, status, tail } from "./cli/Flags.ts"
import { holds } from "./cli/HoldsCommand.ts"
import { integrations } from "./cli/IntegrationsCommand.ts"
import { plugins } from "./cli/PluginsCommand.ts"
import { awaitShutdownSignal, runMain, withLoggedErrors, withTerminalErrors } from "./cli/Process.ts"
import { streams } from "./cli/StreamsCommand.ts"
import * as Config from "./config/Config.ts"
import type { KafkaSettings } from "./config/DeploymentSettings.ts"
import { defaultFile, loadRawConfig, type RawConfig } from "./config/RawConfig.ts"
import * as PluginAdmin from "./delivery/admin/PluginAdmin.ts"
import { isStreamModel, modelNames } from "./domain/Model.ts"
import * as Server from "./http/Server.ts"
import { Relay } from "./publish/Relay.ts"
import { findDivergence } from "./publish/ResumePoint.ts"
import { findPublishedElsewhere } from "./publish/Sink.ts"
import { Store } from "./store/Store.ts"

/** The version of this package. Its package.json is one folder up, both from `src/` and from `dist/`. */
const { version }: { readonly version: string } = createRequire(import.meta.url)("../package.json")

// ---- start --------------------------------------------------------------------------------------------------------

const logStarted = Effect.fnUntraced(function*({ kafka, store: { name } }: ResolvedConfig, url: string | null) {
  const store = yield* Store
  const streams = (yield* store.streams).filter(({ model, retired }) => retired !== true && isStreamModel(model))
  yield* Effect.annotateLogs(Effect.logInfo("started"), {
    version,
    streams: streams.length,
    store: name,
    sink: kafka === null ? "event log" : `kafka ${kafka.topic}`,
    ...(url === null ? {} : { url })
  })
  if (streams.length > 0) return
  yield* Effect.annotateLogs(Effect.logWarning("no stream to read: no integration is configured"), {
    hint: "set ROLLCALL_INTEGRATIONS to ids such as greenhouse:acme, or run `rollcall integrations add greenhouse:acme`"
  })
})

/** Fails once the store can no longer be used, even while no stream is read or written. */
const failWhenStoreIsLost = Effect.flatMap(Store, (store) =>
  store.logRange.pipe(
    Effect.catch((error) => error.reason.retryable ? Effect.void : Effect.fail(error)),
    Effect.delay("1 second"),
    Effect.forever
  ))

const runForever = Effect.fnUntraced(function*(plan: ResolvedConfig) {
  const capture = yield* Capture.Capture
  const { url } = yield* Server.Server
  yield* logStarted(plan, url)
  yield* Effect.raceFirst(capture.run, failWhenStoreIsLost)
})

class RunIncomplete extends Schema.TaggedError<RunIncomplete>()("RunIncomplete", { message: Schema.String }) {}

/** Describes the deliveries that are still waiting, and the dead letters that are new since `before`. */
const describeUndelivered = (before: PluginAdmin.PluginsView, after: PluginAdmin.PluginsView): ReadonlyArray<string> =>
  after.plugins.flatMap(({ handlers, plugin }) =>
    handlers.flatMap(({ dead, due, handler, running, waiting }) => {
      const earlier = before.plugins.find((one) => one.plugin === plugin)?.handlers
        .find((one) => one.handler === handler)
      const died = dead - (earlier?.dead ?? 0)
      const left = due + running + waiting
      const parts = [
        ...(left > 0 ? [left === 1 ? "1 delivery is waiting" : `${left} deliveries are waiting`] : []),
        ...(died > 0 ? [died === 1 ? "1 delivery became a dead letter" : `${died} deliveries became dead letters`] : [])
      ]
      return parts.length === 0 ? [] : [`plugin ${plugin}, ${handler}: ${parts.join(", ")}`]
    })
  )

const runOnce = Effect.fnUntraced(function*(plan: ResolvedConfig) {
  const capture = yield* Capture.Capture
  const store = yield* Store
  const plugins = yield* PluginAdmin.PluginAdmin
  yield* logStarted(plan, null)
  const before = yield* plugins.view
  const problems = (yield* capture.once).map(({ integration, model, problem }) => `${integration}/${model}: ${problem}`)
  const { newest } = yield* store.logRange
  const relay = yield* Effect.serviceOption(Relay)
  if (Option.isSome(relay)) {
    const { position, reason } = yield* relay.value.awaitPosition(newest)
    if (position < newest) problems.push(`publishing to Kafka stopped: ${reason?.message} (${reason?.hint})`)
  }
  const { reason } = yield* plugins.awaitDrained(newest)
  if (reason !== null) problems.push(`delivery to plugins stopped: ${reason.message} (${reason.hint})`)
  problems.push(...describeUndelivered(before, yield* plugins.view))
  yield* Effect.annotateLogs(Effect.logInfo("every stream was read once"), {
    events: newest,
    problems: problems.length
  })
  for (const problem of problems) yield* Effect.logError(problem)
  if (problems.length > 0) {
    return yield* new RunIncomplete({
      message: "not everything was read, published and delivered; the errors above name each problem"
    })
  }
})

const stopOnSignal = Effect.raceFirst(
  Effect.andThen(
    awaitShutdownSignal,
    Effect.logInfo("stopping: open pages and running handlers are finished, no new ones are started")
  )
)

const config = Flag.String("config").pipe(
  Flag.withDescription(`Path of the configuration file (default: ${defaultFile}, if it exists)`),
  Flag.withMetavar("file"),
  Flag.optional
)

const start = Command.make("start", {
  config,
  once: Flag.Boolean("once").pipe(
    Flag.withDescription(
      "Read each stream once, publish the changes, deliver them to plugins, and exit; the exit code is 1 if any " +
        "step failed"
    ),
    Flag.withDefault(false)
  )
}, ({ config, once }) =>
  Effect.flatMap(loadRawConfig(config), (input) =>
    Effect.gen(function*() {
      const settings = yield* Effect.fromResult(Config.check(input))
      yield* Config.checkPlugins(settings)
      yield* Effect.gen(function*() {
        if (!once) yield* Server.checkAddress(settings.http)
        const plan = yield* resolveConfig(settings, input)
        yield* once
          ? Effect.provide(runOnce(plan), pipelineLayer(plan))
          : Effect.provide(runForever(plan), Layer.provideMerge(serverLayer(plan), pipelineLayer(plan)))
      }).pipe(Effect.provide(sourceLayer(settings)), stopOnSignal)
    }).pipe(withLoggedErrors(Config.parseLogSettings(input))))).pipe(
    Command.withDescription("Read every stream and publish its changes until interrupted"),
    Command.withExamples([
      { command: "rollcall start", description: `Use the environment and ${defaultFile}, if it exists` }
    ])
  )

/** A client of the operating API at the configured address. */
const connectClient = Effect.fnUntraced(function*(file: Option.Option<string>) {
  const { host, port, token } = yield* Effect.fromResult(Config.checkHttp(yield* loadRawConfig(file)))
  return yield* ApiClient.make({ url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`, token })
})

// ---- doctor -------------------------------------------------------------------------------------------------------

/** Short, because an operator waits for the result. */
const doctorTimeouts = { retryBase: "20 millis", timeout: "5 seconds" } as const

/** Compares the topics in Kafka with the store. Reads only the log state and one chain value from the store. */
const inspectKafka = (settings: Config.Settings, input: RawConfig, own: KafkaSettings) =>
  Effect.gen(function*() {
    const kafka = yield* loadKafka
    const { chainAt, inspect } = yield* storeInspector(settings.store)
    const log = yield* Effect.option(Effect.map(inspect, ({ log }) => log))
    const { published, ...topics } = yield* kafka.inspect(
      kafkaOptions(own, (yield* resolveConfig(settings, input)).streams),
      Option.getOrElse(log, () => "unknown" as const)
    )
    if (Option.isNone(log) || log.value === null || topics.blocker !== null) return { ...topics, divergence: null }
    // a store that is not migrated yet has no chain; the comparison is made after its migration
    const chain = yield* Effect.option(chainAt(published?.position ?? 0))
    const diverged = Option.isNone(chain) ? null : findDivergence(published, { ...log.value, chain: chain.value })
    return { ...topics, divergence: diverged ?? findPublishedElsewhere(log.value, published, log.value) }
  })

const needsOf = ({ definition: { needs }, name }: Config.Settings["plugins"][number]) => ({
  plugin: name,
  reads: needs?.reads ?? [],
  writes: needs?.writes ?? []
})

const doctor = Command.make("doctor", { config, json }, ({ config, json }) =>
  Effect.gen(function*() {
    const Doctor = yield* Effect.promise(() => import("./cli/doctor/Doctor.ts"))
    const input = yield* loadRawConfig(config)
    const checked = Config.check(input)
    if (Result.isFailure(checked)) return yield* Doctor.reportInvalidConfig(checked.failure.faults, { json })
    const settings = checked.success
    const { kafka, store } = settings
    const doctorInput = {
      ...settings,
      store: { ...store, ...(yield* storeInspector(store)) },
      kafka: kafka === null ? null : { brokers: kafka.brokers, inspect: inspectKafka(settings, input, kafka) },
      plugins: { used: yield* Config.findPluginUses(settings), needs: settings.plugins.map(needsOf) }
    }
    yield* Effect.provide(Doctor.runChecks(doctorInput, { json }), sourceLayer({ ...settings, ...doctorTimeouts }))
  }).pipe(withTerminalErrors)).pipe(
    Command.withDescription(
      "Check configuration, accounts, integrations, plugins, store, Kafka and clock, and show how to fix each problem"
    )
  )

// ---- store --------------------------------------------------------------------------------------------------------

const adopt = Command.make("adopt", {
  config,
  yes: Flag.Boolean("yes").pipe(Flag.withDescription("Do not ask for confirmation"), Flag.withDefault(false)),
  json
}, ({ config, json, yes }) =>
  Effect.gen(function*() {
    const Adopt = yield* Effect.promise(() => import("./cli/store/AdoptStore.ts"))
    const settings = yield* Effect.fromResult(Config.check(yield* loadRawConfig(config)))
    const { name } = settings.store
    const { log } = yield* Effect.flatMap(storeInspector(settings.store), ({ inspect }) => inspect)
    if (log === null) {
      return yield* new Adopt.NotAdopted({
        message: `there is no store at ${name}`,
        hint: "Set ROLLCALL_STORE to the URL of the store to adopt."
      })
    }
    const { kafka } = settings
    const published = kafka === null ? null : loadKafka.pipe(
      Effect.flatMap(({ inspect }) => inspect(kafkaOptions(kafka, []), log)),
      Effect.map(({ published }) => published)
    )
    const { ready, url } = yield* connectClient(config)
    const running = Effect.match(ready, {
      onSuccess: () => url,
      onFailure: () => null
    })
    yield* Adopt.adopt({ store: name, published, running, processingOf: processingByStream(settings), yes, json }).pipe(
      Effect.provide(storeLayer(settings.store, { patient: false }))
    )
  }).pipe(Effect.provide(NodeHttpClient.layerNodeHttp), withTerminalErrors)).pipe(
    Command.withDescription(
      "Accept a restored or replaced store: publish every live record again, in a new generation"
    )
  )

const store = Command.make("store").pipe(
  Command.withDescription("Commands for the whole store; stop Rollcall before you use them"),
  Command.withSubcommands([adopt])
)

// ---- schema -------------------------------------------------------------------------------------------------------

const schema = Command.make("schema", { config }, ({ config }) =>
  Effect.gen(function*() {
    const { asyncApiOf } = yield* Effect.promise(() => import("./publish/AsyncApi.ts"))
    const checked = Config.check(yield* loadRawConfig(config))
    const kafka = Result.isSuccess(checked) ? checked.success.kafka : null
    const { state, topic } = { state: false, topic: "rollcall.{model}", ...kafka }
    yield* print(JSON.stringify(asyncApiOf({ version, models: modelNames, topic, state }), null, 2))
  }).pipe(withTerminalErrors)).pipe(
    Command.withDescription("Print the AsyncAPI document of the events in Kafka, with the configured topics")
  )

// ---- sandbox ------------------------------------------------------------------------------------------------------

const sandbox = Command.make("sandbox", sandboxFlags, ({ json, ...options }) =>
  Effect.gen(function*() {
    const { serve } = yield* Effect.promise(() => import("./sandbox/Sandbox.ts"))
    const { ids, integrations, key, url } = yield* serve(options)
    yield* print(
      json
        ? JSON.stringify({ url, key, integrations, ids })
        : `url           ${url}\nkey           ${key}\nintegrations  ${integrations.join(",")}`
    )
    yield* awaitShutdownSignal
  }).pipe(Effect.scoped, withTerminalErrors)).pipe(
    Command.withDescription("Serve a simulated unified API until interrupted, to try Rollcall out or to test with")
  )

const rollcall = Command.make("rollcall").pipe(
  Command.withDescription(
    "A change feed for HR, recruiting, assessment and learning APIs that can only be polled"
  ),
  Command.withSubcommands([
    start,
    demo,
    sandbox,
    doctor,
    store,
    schema,
    status(config, connectClient),
    tail(config, connectClient),
    streams(config, connectClient),
    holds(config, connectClient),
    integrations(config, connectClient),
    plugins(config, connectClient),
    deadLetters(config, connectClient)
  ])
)

await runMain(
  Command.run(rollcall, { version }).pipe(
    Effect.provide(NodeServices.layer),
    Effect.provide(CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] }))
  )
)
