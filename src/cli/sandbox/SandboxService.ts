/** The whole service over a sandbox in the same process, with plugins. It has shorter intervals than usual. */
import * as Clock from "effect/Clock"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import { join } from "node:path"
import type { WriteName } from "../../api/Writes.ts"
import { pipelineLayer, resolveConfig, serverLayer, serviceLayer } from "../../app/Composition.ts"
import * as Config from "../../config/Config.ts"
import { loadEnvironment } from "../../config/RawConfig.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import type { AnyList } from "../../domain/DefinedList.ts"
import type { Plugin } from "../../plugin/Plugin.ts"
import type { SandboxHandle } from "../../sandbox/Sandbox.ts"
import { Source } from "../../source/Source.ts"
import type { PluginWrite } from "../terminal/EventLines.ts"

export interface SandboxService {
  readonly sandbox: SandboxHandle
  /** Time between polls, such as `2 seconds`. */
  readonly interval: string
  readonly plugins: ReadonlyArray<Plugin<unknown>>
  /** Lists that no plugin handles. */
  readonly lists?: ReadonlyArray<AnyList>
  /** The file of the plugins, which faults name. */
  readonly file: string
  /** Gets every write of a plugin as soon as it has a result. */
  readonly record: (write: PluginWrite) => void
  /** Gets the name of every read that a plugin sent to the API, and the id of the record for `live`. */
  readonly recordRead?: (read: string, id: string | null) => void
}

/** The plugin that sends a write. Its name is not part of a write, so different plugins must use different writes. */
const senderOf = (plugins: ReadonlyArray<Plugin<unknown>>, write: WriteName): string =>
  (plugins.find(({ definition }) => definition.needs?.writes?.includes(write)) ?? plugins[0])?.name ?? "a plugin"

const recordRequests = ({ plugins, record, recordRead = () => undefined }: SandboxService) =>
  Layer.effect(
    Source,
    Effect.map(Source, (source) => ({
      ...source,
      // the reads of plugins have the priority of writes
      read: (request) =>
        Effect.tap(source.read(request), () =>
          Effect.sync(() => request.priority === "write" && recordRead(request.read, null))),
      page: (request) =>
        Effect.tap(source.page(request), () =>
          Effect.sync(() =>
            request.priority === "write" && recordRead(`live ${request.model}`, request.ids?.[0] ?? null)
          )),
      write: (request, hooks) =>
        Effect.tap(source.write(request, hooks), () =>
          Effect.map(Clock.currentTimeMillis, (at) => {
            record({ at, plugin: senderOf(plugins, request.write), request })
          }))
    }))
  )

/** The environment has no other variables. */
const environmentOf = ({ interval, sandbox }: SandboxService, directory: string) =>
  ConfigProvider.fromEnvRecord({
    ROLLCALL_API_URL: sandbox.url,
    ROLLCALL_API_KEY: sandbox.key,
    ROLLCALL_INTEGRATIONS: sandbox.integrations.join(","),
    ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
    ROLLCALL_INTERVAL: interval,
    ROLLCALL_SWEEP_INTERVAL: "20 seconds",
    ROLLCALL_CONFIRM_INTERVAL: "5 seconds",
    ROLLCALL_OVERLAP_MIN: "10 seconds",
    ROLLCALL_HTTP_PORT: "0"
  })

/**
 * Prepares the service and its store. `run` runs an effect with the service. The configurations of the plugins are not checked: they may
 * take values from the environment of the user, and an incomplete one only keeps the plugin from running.
 */
export const prepare = Effect.fnUntraced(function*(service: SandboxService) {
  const { makeTempDirectoryScoped } = yield* FileSystem.FileSystem
  const directory = yield* makeTempDirectoryScoped({ prefix: "rollcall-sandbox-" })
  const environment = yield* Effect.provideService(
    loadEnvironment,
    ConfigProvider.ConfigProvider,
    environmentOf(service, directory)
  )
  const { file, lists: others = [], plugins } = service
  const handled = plugins.flatMap((plugin) => plugin.lists)
  const lists = [...new Map([...others, ...handled].map((list) => [list.model, list])).values()]
  const input = { ...environment, file: { name: file, value: { lists, plugins } } }
  const settings = yield* Effect.fromResult(Config.check(input))
  const run = <A, E, R>(use: Effect.Effect<A, E, R>) =>
    Effect.gen(function*() {
      const plan = yield* resolveConfig(settings, input)
      return yield* Effect.provide(use, Layer.provideMerge(serverLayer(plan), pipelineLayer(plan)))
    }).pipe(
      Effect.provide(Layer.provideMerge(recordRequests(service), serviceLayer(settings))),
      Effect.provideService(CurrentModels, settings.known)
    )
  return { settings, run }
})
