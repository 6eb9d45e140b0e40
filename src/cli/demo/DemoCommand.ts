/** `rollcall demo`: runs the whole service over a simulated world, with two of the bundled plugins. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Clock from "effect/Clock"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { HttpClient } from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { WriteName } from "../../api/Writes.ts"
import { pipelineLayer, resolveConfig, serverLayer, serviceLayer } from "../../app/Composition.ts"
import * as Config from "../../config/Config.ts"
import { parseShortDuration } from "../../config/ConfigValue.ts"
import { loadEnvironment } from "../../config/RawConfig.ts"
import * as Server from "../../http/Server.ts"
import * as OutgoingHttp from "../../network/OutgoingHttp.ts"
import type { Plugin } from "../../plugin/Plugin.ts"
import type { SandboxHandle } from "../../sandbox/Sandbox.ts"
import * as ApiClient from "../ApiClient.ts"
import { json, seed } from "../Flags.ts"
import { type PluginWrites, recordWrites } from "../PluginWrites.ts"
import { awaitShutdownSignal, withTerminalErrors } from "../Process.ts"
import { sandboxEnvironment } from "../SandboxEnvironment.ts"
import { act, introduction } from "./Acts.ts"

/** Records per integration and speed of the simulated world. */
const demoWorld = { records: 1500, speed: 60 }

const demoSettings = (sandbox: SandboxHandle, directory: string) =>
  loadEnvironment.pipe(
    Effect.provideService(
      ConfigProvider.ConfigProvider,
      sandboxEnvironment({ sandbox, directory, interval: "2 seconds" })
    ),
    Effect.flatMap((input) => Effect.map(Effect.fromResult(Config.check(input)), (settings) => ({ settings, input })))
  )

/**
 * Stops the world, and then makes each kind of mutation that has not happened yet happen once. A hard delete always happens, because only
 * the final sweep can find it: an earlier hard-deleted record may have returned before a sweep.
 */
const applyMissingMutations = Effect.fnUntraced(function*({ freeze, integrations, world }: SandboxHandle) {
  yield* freeze
  const { activityKinds } = yield* Effect.promise(() => import("../../sandbox/world/Activity.ts"))
  for (const kind of activityKinds.filter((kind) => kind === "deleted_hard" || world.mutations[kind] === 0)) {
    for (const integration of integrations) world.mutate({ op: "simulate", integration, kind })
  }
})

/** Loads a bundled plugin by its public import name. */
const loadBundledPlugin = (name: string): Effect.Effect<Plugin<unknown>> =>
  Effect.map(Effect.promise(() => import(`rollcall/plugins/${name}`)), ({ default: plugin }) => plugin)

/** Two plugins, configured for the integration that has both an ATS and an HRIS. */
const demoPlugins = Effect.fnUntraced(function*({ ids, integrations: [integration = ""] }: SandboxHandle) {
  const [welcomeNewHire, stageTags] = yield* Effect.all([
    loadBundledPlugin("welcome-new-hire"),
    loadBundledPlugin("stage-tags")
  ])
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

/** The plugin that sends a write. This works because the two plugins use different writes. */
const pluginByWrite = (plugins: ReadonlyArray<Plugin<unknown>>) => (write: WriteName): string =>
  plugins.find(({ definition }) => definition.needs?.writes?.includes(write))?.name ?? "a plugin"

export const demo = Command.make("demo", {
  for: Flag.String("for").pipe(
    Flag.filterMap(parseShortDuration, (text) => `"${text}" is not a duration; write 20s or "20 seconds"`),
    Flag.withDescription('Stop after this duration, such as 20s or "2 minutes" (default: run until Ctrl-C)'),
    Flag.withMetavar("duration"),
    Flag.optional
  ),
  seed,
  json
}, ({ for: duration, json, seed }) =>
  Effect.gen(function*() {
    const Demo = yield* Effect.promise(() => import("./Demo.ts"))
    if (!json) yield* Demo.printIntroduction(seed)
    const { serve } = yield* Effect.promise(() => import("../../sandbox/Sandbox.ts"))
    const { makeTempDirectoryScoped } = yield* FileSystem.FileSystem
    const directory = yield* makeTempDirectoryScoped({ prefix: "rollcall-demo-" })
    const sandbox = yield* serve({ seed, ...demoWorld })
    const { input, settings } = yield* demoSettings(sandbox, directory)
    const plugins = yield* demoPlugins(sandbox)
    const writes: PluginWrites = []
    const stop = Option.isNone(duration)
      ? awaitShutdownSignal
      : Effect.raceFirst(awaitShutdownSignal, Effect.sleep(duration.value))
    const watched = Effect.gen(function*() {
      const { url } = yield* Server.Server
      const client = yield* ApiClient.make({ url, token: null })
      const settle = applyMissingMutations(sandbox)
      yield* Demo.run({
        world: sandbox.world,
        introduction,
        act: (person) => act(sandbox, person),
        writes,
        settle,
        client,
        seed,
        until: stop,
        json
      })
    }).pipe(Effect.provideServiceEffect(HttpClient, OutgoingHttp.makeForOperatingApi()))
    yield* Effect.gen(function*() {
      const plan = { ...(yield* resolveConfig(settings, input)), plugins }
      yield* Effect.provide(watched, Layer.provideMerge(serverLayer(plan), pipelineLayer(plan)))
    }).pipe(Effect.provide(Layer.provideMerge(
      recordWrites((write) => writes.push(write), pluginByWrite(plugins)),
      serviceLayer(settings)
    )))
  }).pipe(Effect.scoped, withTerminalErrors)).pipe(
    Command.withDescription("Run Rollcall over a simulated HR world and show the change events"),
    Command.withExamples([{ command: "rollcall demo --for 20s", description: "Run the demo for twenty seconds" }])
  )
