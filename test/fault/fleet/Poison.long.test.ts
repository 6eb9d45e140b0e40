/** Three processes and a delivery that kills each process that runs it. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { mkdir, readFile, realpath, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import { isolateAfterCrashes } from "../../../src/store/Delivery.ts"
import * as Server from "../../integration/postgres/Server.ts"
import { folder, seed } from "../kill/Home.ts"
import { until } from "../kill/Patience.ts"
import { ask, launch, type Service } from "../kill/Service.ts"

const { database } = Server.ofFile()
const root = join(import.meta.dirname, "../../..")

/** The first delivery of all becomes the poisonous one. Each start of a delivery and each end is a line in a file. */
const configOf = (sandbox: Sandbox.SandboxInfo, directory: string) => `
import { defineConfig, secret } from "rollcall"
import * as Plugin from "rollcall/plugin"
import * as Effect from "effect/Effect"
import { appendFileSync, readFileSync, writeFileSync } from "node:fs"

const note = (line) => appendFileSync(${JSON.stringify(join(directory, "lines"))}, line + "\\n")
const isPoison = (record) => {
  const file = ${JSON.stringify(join(directory, "poison"))}
  try { writeFileSync(file, record, { flag: "wx" }) } catch {}
  return readFileSync(file, "utf8") === record
}

const plugin = Plugin.make("p").on("ats.application.created", {
  origins: ["backfill", "poll", "sweep", "refresh"]
}, ({ integration, recordId }) => Effect.gen(function*() {
  const record = integration + "/" + recordId
  note("started " + record)
  if (isPoison(record)) process.kill(process.pid, "SIGKILL")
  yield* Effect.sleep("20 millis")
  note("ended " + record)
}))

export default defineConfig({
  accounts: { default: { url: ${JSON.stringify(sandbox.url)}, key: secret("ROLLCALL_API_KEY") } },
  integrations: ${JSON.stringify(sandbox.integrations.map((id) => ({ id, models: ["ats.application"] })))},
  plugins: [plugin.with({ from: "oldest" })]
})
`

describe.skipIf(Server.missing !== null)(
  `a poisonous delivery in a fleet${Server.missing === null ? "" : `, skipped: ${Server.missing}`}`,
  () => {
    it.live(
      `kills at most four processes, whichever process its shard moves to, and delays no other delivery for good (L21) (seed ${seed})`,
      () =>
        Effect.scoped(Effect.gen(function*() {
          const directory = yield* folder
          const sandbox = yield* Sandbox.serve({ seed, integrations: 6, records: 20, speed: 0 })
          yield* Effect.promise(async () => {
            await mkdir(join(directory, "node_modules"))
            await symlink(await realpath(join(root, "node_modules/effect")), join(directory, "node_modules/effect"))
            await symlink(root, join(directory, "node_modules/rollcall"))
            await writeFile(join(directory, "rollcall.config.ts"), configOf(sandbox, directory))
          })
          const member = launch({ ROLLCALL_API_KEY: sandbox.key, DATABASE_URL: yield* database }, {
            command: ["start", "--config", join(directory, "rollcall.config.ts")]
          })
          let members: ReadonlyArray<Service> = yield* Effect.all([member, member, member])
          let deaths = 0
          const lines = Effect.promise(async () => (await readFile(join(directory, "lines"), "utf8")).split("\n"))
          /** Starts a process again when it has ended, as a supervisor does. */
          const supervised = Effect.gen(function*() {
            const alive = members.filter((member) => member.alive())
            deaths += members.length - alive.length
            const started: Array<Service> = []
            while (alive.length + started.length < 3) started.push(yield* member)
            members = [...alive, ...started]
            const url = yield* members[0]!.url
            return JSON.parse(yield* ask(url, "/v1/deadletters")).items
          })
          const [letter] = yield* until(
            "the dead letter",
            Effect.catchCause(supervised, () => Effect.succeed([])),
            (items) => items.length === 1,
            { limit: Duration.minutes(10), every: Duration.millis(200) }
          )
          assert.strictEqual(letter.reason, "ProcessEnded")
          const poison = yield* Effect.promise(() => readFile(join(directory, "poison"), "utf8"))
          const all = yield* lines
          assert.strictEqual(all.filter((line) => line === `started ${poison}`).length, isolateAfterCrashes + 1)
          assert.strictEqual(deaths, isolateAfterCrashes + 1)
          const url = yield* members[0]!.url
          const [handler] = yield* until(
            "all other deliveries to end",
            Effect.map(ask(url, "/v1/plugins"), (text) => JSON.parse(text).items[0].handlers),
            ([{ due, lag_events, running, waiting }]) => due + lag_events + running + waiting === 0
          )
          assert.strictEqual(handler.dead, 1)
          const ended = new Set((yield* lines).filter((line) => line.startsWith("ended ")))
          const started = new Set((yield* lines).filter((line) => line.startsWith("started ")))
          assert.strictEqual(ended.size, started.size - 1)
          assert.isAbove(ended.size, 50)
        }))
    )
  }
)
