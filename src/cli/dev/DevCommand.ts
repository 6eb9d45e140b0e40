/**
 * `rollcall plugins dev`: runs one plugin with the whole service against a simulated API, in which every change that a handler can react
 * to happens. The run starts again when one of the plugin's files changes.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, extname, join, relative, resolve } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { Capture } from "../../capture/schedule/Capture.ts"
import * as Config from "../../config/Config.ts"
import { loadEnvironment } from "../../config/RawConfig.ts"
import * as Server from "../../http/Server.ts"
import * as OutgoingHttp from "../../network/OutgoingHttp.ts"
import { CurrentProxies } from "../../network/Proxies.ts"
import { isPlugin } from "../../plugin/Plugin.ts"
import { isEnabledIn } from "../../plugin/PluginConfiguration.ts"
import type { SandboxHandle } from "../../sandbox/Sandbox.ts"
import { connect } from "../client/ClientCommand.ts"
import { prepare } from "../sandbox/SandboxService.ts"
import { writeLine } from "../terminal/EventLines.ts"
import { json, seed, switchFlag, textFlag } from "../terminal/Flags.ts"
import { awaitShutdownSignal, CommandError, print, refuse, withTerminalErrors } from "../terminal/Process.ts"
import { entryOf, tryEvent } from "./GivenEvent.ts"
import { type Attempt, attemptText, withReport } from "./HandlerReport.ts"
import { plannedText, readText, requestText, showRequests } from "./RequestReport.ts"
import { reportFile, reportLoadedFiles, restartOnChange, startingProcessEnded } from "./Restarting.ts"

const bin = fileURLToPath(new URL("../../../bin/rollcall.js", import.meta.url))

/** Records per integration: few, so that a run starts at once. */
const records = 60
/** Time between two activities of the simulated world. Each kind of activity happens in turn. */
const activityInterval = "100 millis"

/** `tag-hires` means `plugins/tag-hires/plugin.ts`; anything else is the path of a file, or of a folder with a `plugin.ts`. */
const fileOf = (text: string): string => {
  const path = resolve(/^[a-z][a-z0-9-]*$/.test(text) ? `plugins/${text}` : text)
  return extname(path) === "" ? join(path, "plugin.ts") : path
}

/** The error message, with the file and line that the stack of a syntax error starts with, and without the calls of Node.js. */
const loadFailure = (cause: unknown): string =>
  cause instanceof Error ? (cause.stack ?? cause.message).split("\n    at ", 1)[0]?.trim() ?? "" : String(cause)

const loadPlugin = Effect.fnUntraced(function*(file: string) {
  const name = relative(process.cwd(), file)
  yield* reportLoadedFiles
  const module: { readonly default?: unknown } = yield* Effect.tryPromise({
    try: () => import(pathToFileURL(file).href),
    catch: (cause) =>
      new CommandError({
        message: `${name} cannot be loaded: ${loadFailure(cause)}`
      })
  })
  if (isPlugin(module.default)) return module.default
  return yield* refuse(`the default export of ${name} is not a plugin`, "Write `export default Plugin.make(…)`.")
})

/** Lets every kind of activity happen again and again. */
const keepWorldActive = Effect.fnUntraced(function*({ integrations: [integration = ""], world }: SandboxHandle) {
  const { activityKinds } = yield* Effect.promise(() => import("../../sandbox/world/Activity.ts"))
  let turn = 0
  yield* Effect.repeat(
    Effect.sync(() => {
      const kind = activityKinds[turn++ % activityKinds.length]
      if (kind !== undefined) world.mutate({ op: "simulate", integration, kind })
    }),
    Schedule.spaced(activityInterval)
  )
})

/** Prints a sentence; with --json as a line of JSON. */
const messagePrinter = (json: boolean) => (message: string) => print(json ? JSON.stringify({ message }) : message)

/** The text of the event with this id, from the running process of the configuration. */
const eventOfProcess = Effect.fnUntraced(function*(id: string) {
  const { allEvents } = yield* connect(Option.none())
  const found = yield* Stream.runHead(Stream.filter(allEvents, (event) => "id" in event && event.id === id))
  if (Option.isSome(found)) return JSON.stringify(found.value)
  return yield* refuse(
    `the running process has no event ${id}`,
    "`rollcall tail --json` and the console show the ids of events."
  )
})

interface Run {
  readonly file: string
  readonly seed: number
  readonly json: boolean
  /** The file of the only event that the plugin gets; null if it gets those of the simulated world. */
  readonly like: string | null
}

/** Runs the plugin as it is now. */
const runPlugin = Effect.fnUntraced(function*({ file, json, like, seed }: Run) {
  const plugin = yield* loadPlugin(file)
  const { serve } = yield* Effect.promise(() => import("../../sandbox/Sandbox.ts"))
  const sandbox = yield* serve({ seed, records, speed: 0 })
  const say = messagePrinter(json)
  const showAttempt = (attempt: Attempt) => print(json ? JSON.stringify({ attempt }) : attemptText(attempt))
  const reported = withReport(plugin, showAttempt)
  const show = (shown: object, text: string) => Effect.runSync(print(json ? JSON.stringify(shown) : text))
  yield* showRequests(new URL(sandbox.url).origin, (request) => show({ request }, requestText(plugin.name, request)))
  const { run, settings } = yield* prepare({
    sandbox,
    interval: "1 second",
    plugins: [reported],
    file: relative(process.cwd(), file),
    record: (write) => show({ write }, writeLine(write)),
    recordRead: (read, id) => show({ read, id }, readText(plugin.name, read, id, Date.now()))
  })
  yield* Config.checkPlugins(settings)
  const handlers = plugin.handlers.map(({ name }) => name).join(", ")
  yield* say(`${plugin.name} reacts to ${handlers}, in a simulated world at ${sandbox.url} (→ marks its requests)`)
  if (!sandbox.integrations.some((id) => isEnabledIn(plugin, id))) {
    const where = sandbox.integrations.join()
    yield* say(`It is off in ${where}: its file switches it off with \`with({ others: false })\`.`)
  }
  const single = (file: string) =>
    Effect.gen(function*() {
      yield* reportFile(resolve(file))
      const text = yield* Effect.try({
        try: () => readFileSync(file, "utf8"),
        catch: () => new CommandError({ message: `${file} cannot be read`, hint: "Pass the file of an event." })
      })
      const tried = yield* tryEvent(reported, yield* entryOf(text, sandbox.integrations[0] ?? ""))
      if (tried.length === 0) yield* say(`No handler of ${plugin.name} receives this event.`)
      const at = yield* Clock.currentTimeMillis
      for (const request of tried.flatMap(({ requests }) => requests)) {
        show({ request }, plannedText(plugin.name, request.what, request.body, at))
      }
      return yield* Effect.never
    })
  const service = Effect.gen(function*() {
    const capture = yield* Capture
    const { url } = yield* Server.Server
    yield* say(`Console ${url}/`)
    yield* Effect.all([capture.run, keepWorldActive(sandbox)], { concurrency: 2, discard: true })
  })
  // the plugin may send requests to other servers
  const proxies = yield* Effect.fromResult(Config.checkProxies(yield* loadEnvironment))
  yield* Effect.provideService(
    like === null ? run(service) : run(Effect.provide(single(like), OutgoingHttp.layer())),
    CurrentProxies,
    proxies
  )
})

export const dev = Command.make("dev", {
  plugin: Argument.String("plugin").pipe(
    Argument.withDescription("Name of a plugin in the folder plugins, or the path of a file that exports one")
  ),
  seed,
  event: textFlag("event", "Deliver only this event of the running process, once and without writing", "id"),
  like: textFlag("like", "Deliver only the event in this file, once and without writing", "file"),
  once: switchFlag("once", "Run the plugin as it is now, and do not watch its files"),
  json
}, ({ event, json, like, once, plugin, seed }) =>
  Effect.gen(function*() {
    const file = fileOf(plugin)
    if (!existsSync(file)) {
      return yield* refuse(
        `there is no file ${relative(process.cwd(), file)}`,
        "Pass the name of a folder in plugins, or the path of a file; `rollcall plugins new` creates a plugin."
      )
    }
    const stop = Effect.raceFirst(awaitShutdownSignal, startingProcessEnded)
    if (Option.isSome(event) && Option.isSome(like)) {
      return yield* refuse("--event and --like name two events", "Leave out one of them.")
    }
    let chosen = Option.getOrNull(like)
    if (Option.isSome(event)) {
      const { makeTempDirectoryScoped } = yield* FileSystem.FileSystem
      chosen = join(yield* makeTempDirectoryScoped({ prefix: "rollcall-event-" }), "event.json")
      writeFileSync(chosen, yield* eventOfProcess(event.value), { mode: 0o600 })
    }
    if (once) return yield* Effect.raceFirst(runPlugin({ file, seed, json, like: chosen }), stop)
    const flags = [...chosen === null ? [] : ["--like", chosen], ...json ? ["--json"] : []]
    const args = [bin, "plugins", "dev", file, "--seed", String(seed), "--once", ...flags]
    yield* Effect.raceFirst(
      restartOnChange({ args, folder: dirname(file), print: messagePrinter(json) }),
      awaitShutdownSignal
    )
  }).pipe(Effect.scoped, withTerminalErrors)).pipe(
    Command.withDescription(
      "Run a plugin against a simulated API, show what its handlers do, and start again when one of its files changes"
    ),
    Command.withExamples([{
      command: "npx --no rollcall plugins dev tag-hires",
      description: "Run plugins/tag-hires/plugin.ts until Ctrl-C"
    }, {
      command: "npx --no rollcall plugins dev tag-hires --like hired.json",
      description: "Deliver the event in the file at every change, as `rollcall tail --json` prints events"
    }])
  )
