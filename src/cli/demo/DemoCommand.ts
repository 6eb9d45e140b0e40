/** `rollcall demo`: runs the whole service over a simulated world, with two of the bundled plugins. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { HttpClient } from "effect/http/HttpClient"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { parseShortDuration } from "../../config/ConfigValue.ts"
import { defineList } from "../../domain/DefinedList.ts"
import * as Server from "../../http/Server.ts"
import * as OutgoingHttp from "../../network/OutgoingHttp.ts"
import type { Plugin } from "../../plugin/Plugin.ts"
import type { SandboxHandle } from "../../sandbox/Sandbox.ts"
import * as ApiClient from "../client/ApiClient.ts"
import { prepare } from "../sandbox/SandboxService.ts"
import type { PluginWrite } from "../terminal/EventLines.ts"
import { json, seed } from "../terminal/Flags.ts"
import { awaitShutdownSignal, withTerminalErrors } from "../terminal/Process.ts"

/** Records per integration and speed of the simulated world. */
const demoWorld = { records: 1500, speed: 60 }

/** A list beyond the specification: the employees that welcome-new-hire creates come back as its events. */
const employees = defineList("hris.employee", {
  path: "/hris/employees",
  schema: Schema.Struct({ first_name: Schema.String, last_name: Schema.String, work_email: Schema.String })
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
    const sandbox = yield* serve({ seed, ...demoWorld })
    const writes: Array<PluginWrite> = []
    const { run } = yield* prepare({
      sandbox,
      interval: "2 seconds",
      plugins: yield* demoPlugins(sandbox),
      lists: [employees],
      file: "the demo",
      record: (write) => writes.push(write)
    })
    const until = Option.isNone(duration)
      ? awaitShutdownSignal
      : Effect.raceFirst(awaitShutdownSignal, Effect.sleep(duration.value))
    yield* run(
      Effect.gen(function*() {
        const { url } = yield* Server.Server
        const client = yield* ApiClient.make({ url, token: null })
        yield* Demo.run({ sandbox, writes, client, seed, until, json })
      }).pipe(Effect.provideServiceEffect(HttpClient, OutgoingHttp.makeForOperatingApi()))
    )
  }).pipe(Effect.scoped, withTerminalErrors)).pipe(
    Command.withDescription("Run Rollcall over a simulated HR world and show the change events"),
    Command.withExamples([{ command: "rollcall demo --for 20s", description: "Run the demo for twenty seconds" }])
  )
