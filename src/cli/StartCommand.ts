/** `rollcall start`: runs the service until it is interrupted, or reads every stream once. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import {
  pipelineLayer,
  resolveConfig,
  type ResolvedConfig,
  serverLayer,
  serviceLayer,
  takePart,
  telemetryLayer,
  withSettings
} from "../app/Composition.ts"
import { Capture } from "../capture/schedule/Capture.ts"
import { listed } from "../capture/schedule/ModelDiscovery.ts"
import { isReadable } from "../capture/StreamLifecycle.ts"
import * as Config from "../config/Config.ts"
import { logLevels } from "../config/DeploymentSettings.ts"
import { defaultFile, type Fault, loadRawConfig } from "../config/RawConfig.ts"
import { findIneffective, findUnknownVariables } from "../config/UnknownNames.ts"
import * as PluginAdmin from "../delivery/admin/PluginAdmin.ts"
import { CurrentModels } from "../domain/BuiltInModels.ts"
import { type StreamKey, streamName } from "../domain/Model.ts"
import { version } from "../http/contract/Version.ts"
import * as Server from "../http/Server.ts"
import { Relay } from "../publish/Relay.ts"
import { Store } from "../store/Store.ts"
import { config, given, switchFlag } from "./terminal/Flags.ts"
import { awaitShutdownSignal, CommandError, withLoggedErrors } from "./terminal/Process.ts"

const warn = (faults: ReadonlyArray<Fault>) =>
  Effect.forEach(
    faults,
    ({ hint, message, where }) => Effect.annotateLogs(Effect.logWarning(`${where} ${message}`), { hint }),
    { discard: true }
  )

const logStarted = Effect.fnUntraced(function*(plan: ResolvedConfig, url: string | null) {
  const { kafka, store: { name } } = plan
  const store = yield* Store
  const stored = yield* store.streams
  const isDeclared = ({ integration, model }: StreamKey) =>
    plan.streams.some((declared) => declared.integration === integration && declared.model === model)
  // a process of a fleet starts before streams are placed in it
  const added = stored.filter((stream) => stream.retired !== true && !isDeclared(stream))
  const streams = [...plan.streams, ...added].filter(isReadable(yield* CurrentModels))
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

/**
 * Fails once the store can no longer be used, for example because a newer version has migrated it, even while no stream is read or
 * written.
 */
const failWhenStoreIsLost = Effect.flatMap(Store, (store) =>
  store.checkVersion.pipe(
    Effect.catch((error) => error.reason.retryable ? Effect.void : Effect.fail(error)),
    Effect.delay("1 second"),
    Effect.forever
  ))

const runForever = Effect.fnUntraced(function*(plan: ResolvedConfig) {
  const capture = yield* Capture
  const { url } = yield* Server.Server
  yield* logStarted(plan, url)
  yield* Effect.raceAllFirst([capture.run, takePart(plan), failWhenStoreIsLost])
})

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

/** How long `--once` waits if Kafka is unavailable. The next run then publishes the events. */
const outageLimit = "1 minute"

const runOnce = Effect.fnUntraced(function*(plan: ResolvedConfig) {
  const capture = yield* Capture
  const store = yield* Store
  const plugins = yield* PluginAdmin.PluginAdmin
  yield* logStarted(plan, null)
  const before = yield* plugins.view
  // a wrong key fails every stream with the same message
  const failures = Map.groupBy(yield* capture.once, ({ problem }) => problem)
  const problems = Array.from(failures, ([problem, streams]) => `${listed(streams.map(streamName))}: ${problem}`)
  const { newest } = yield* store.logRange
  const relay = yield* Effect.serviceOption(Relay)
  if (Option.isSome(relay)) {
    const { reason } = yield* relay.value.awaitPosition(newest, outageLimit)
    if (reason !== null) problems.push(`events were not published to Kafka: ${reason.message} (${reason.hint})`)
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
    return yield* new CommandError({
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

export const start = Command.make("start", {
  config,
  once: switchFlag(
    "once",
    "Read each stream once, publish the changes, deliver them to plugins, and exit; the exit code is 1 if any step failed"
  ),
  takeOver: switchFlag("take-over", "Continue the work of the process on the same SQLite store, which then ends"),
  logLevel: Flag.Literals("log-level", logLevels).pipe(
    Flag.withDescription("Least important messages to log; takes precedence over ROLLCALL_LOG_LEVEL"),
    Flag.optional
  ),
  json: switchFlag("json", "Log JSON on a terminal too; takes precedence over ROLLCALL_LOG_FORMAT")
}, ({ json, logLevel, ...flags }) =>
  Effect.flatMap(loadRawConfig(flags.config), (input) =>
    Effect.gen(function*() {
      yield* warn(yield* findUnknownVariables(input, process.env))
      const settings = yield* Effect.fromResult(Config.check(input))
      yield* warn(findIneffective(input, settings))
      yield* Config.checkPlugins(settings)
      if (!flags.once) yield* Server.checkAddress(settings.http)
      yield* Effect.gen(function*() {
        const plan = yield* resolveConfig(settings, input)
        yield* flags.once
          ? Effect.provide(runOnce(plan), pipelineLayer(plan))
          : Effect.provide(
            runForever(plan),
            Layer.provideMerge(serverLayer(plan), pipelineLayer(plan, { alone: false }))
          )
      }).pipe(
        Effect.provide(serviceLayer(settings, flags.takeOver)),
        Effect.provide(telemetryLayer(settings)),
        withSettings(settings),
        stopOnSignal
      )
    }).pipe(
      withLoggedErrors({
        ...Config.parseLogSettings(input),
        ...given({ level: logLevel }),
        ...json ? { format: "json" as const } : {}
      })
    ))).pipe(
    Command.withDescription("Read every stream and publish its changes until interrupted"),
    Command.withExamples([
      { command: "rollcall start", description: `Use the environment and ${defaultFile}, if it exists` }
    ])
  )
