/** Plugins and projects that the installed package creates, and the ones that the pages of the documentation create. */
import * as Effect from "effect/Effect"
import * as Yaml from "effect/encoding/Yaml"
import { randomUUID } from "node:crypto"
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { freePort } from "../../support/services/FreePort.ts"
import { Program } from "../cli/Program.ts"
import { Broker, layer as brokerLayer, missing as brokerMissing } from "../kafka/Broker.ts"
import * as Kcat from "../kafka/Kcat.ts"
import { compiled, entry, environment, examplesOf, folder, said } from "./Installed.ts"
import { scriptOf, whileRunning } from "./Walkthrough.ts"

const missing = brokerMissing ?? Kcat.missing

export const createdProjects = () =>
  describe("the npm package", () => {
    it("the example of plugins new --help works when it is pasted", () => {
      const help = said("npx", ["--no", "rollcall", "plugins", "new", "--help"])
      const example = /^ *(npx .*)$/m.exec(help.text)?.[1] ?? assert.fail(help.text)
      const { status, text } = said("bash", ["-c", example])
      assert.strictEqual(status, 0, text)
      assert.match(text, /pass 3/)
      rmSync(join(folder, "plugins"), { recursive: true })
    })

    it("rollcall plugins new creates a plugin that passes its test, and overwrites no file; the plugin, a rollcall.config.ts and the examples of the guide, the readers and the other pages type-check", () => {
      for (const [name, ...flags] of [["tag-hires"], ["tag-hires-too", "--effect"]] as const) {
        const made = said(entry, ["plugins", "new", name, ...flags])
        assert.strictEqual(made.status, 0, made.text)
        assert.include(made.text, `node --test plugins/${name}/plugin.test.ts`)
        const tested = said("node", ["--test", `plugins/${name}/plugin.test.ts`])
        assert.strictEqual(tested.status, 0, tested.text)
        assert.match(tested.text, /pass 3/)
      }
      const guide = [
        ...examplesOf("docs/plugins/guide.md"),
        ...examplesOf("templates/plugin/README.md").map(({ code, name }) => ({
          name,
          code: code.replace("my-plugin", "tag-hires")
        })),
        ...examplesOf("docs/events.md")
      ]
      assert.isAtLeast(guide.length, 9)
      for (const { code, name } of guide) writeFileSync(join(folder, name), code)
      const typed = compiled(".")
      assert.strictEqual(typed.status, 0, typed.text)
      // the last example of the guide tests the plugin of its first example
      const last = said("node", ["--test", guide.findLast(({ code }) => code.includes("node:test"))?.name ?? ""])
      assert.strictEqual(last.status, 0, last.text)
      for (const { name } of guide) rmSync(join(folder, name))

      const plugin = join(folder, "plugins/tag-hires/plugin.ts")
      writeFileSync(plugin, "mine")
      const again = said(entry, ["plugins", "new", "tag-hires"])
      assert.strictEqual(again.status, 1)
      assert.match(again.text, /already exists/)
      assert.strictEqual(readFileSync(plugin, "utf8"), "mine")
      rmSync(join(folder, "plugins"), { recursive: true })
    })

    it("rollcall init creates a project whose types and test pass, and which reads from a sandbox with the settings of its compose file", async () => {
      const made = said(entry, ["init", "my-feed"])
      assert.strictEqual(made.status, 0, made.text)
      const project = join(folder, "my-feed")
      const workflow = readFileSync(join(project, ".github/workflows/ci.yml"), "utf8")
      for (const script of ["npm run check", "npm test"]) {
        assert.include(workflow, `- run: ${script}\n`)
        const { status, text } = said("bash", ["-c", script], project)
        assert.strictEqual(status, 0, text)
      }
      const again = said(entry, ["init", "my-feed"])
      assert.deepStrictEqual([again.status, again.text.includes("my-feed is not empty; nothing was changed")], [
        1,
        true
      ])

      const { services } = Yaml.parse(readFileSync(join(project, "docker-compose.yml"), "utf8")) as {
        readonly services: Readonly<
          Record<"sandbox" | "rollcall", { readonly command: ReadonlyArray<string>; readonly environment: object }>
        >
      }
      const settings = Object.fromEntries(
        Object.entries(services.rollcall.environment).map((
          [name, value]
        ) => [name, value.replace(/^\$\{\w+:?-(.*)\}$/, "$1")])
      )
      const token = /^ROLLCALL_HTTP_TOKEN=(\w{64})$/m.exec(readFileSync(join(project, ".env"), "utf8"))?.[1] ??
        assert.fail()
      assert.include(readFileSync(join(project, ".gitignore"), "utf8"), "\n.env\n")
      const local: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "4010": "0" }
      const command = services.sandbox.command.slice(1).map((word) => local[word] ?? word)
      const sandbox = new Program([...command, "--records", "10", "--json"], {}, project, entry)
      const started: Array<Program> = [sandbox]
      try {
        const { url }: { url: string } = JSON.parse((await sandbox.says(/^\{.*\}$/m))[0])
        const port = String(await freePort())
        const given = {
          ...settings,
          ROLLCALL_API_URL: url,
          ROLLCALL_STORE: "sqlite:rollcall.db",
          ROLLCALL_HTTP_HOST: "127.0.0.1",
          ROLLCALL_HTTP_PORT: port,
          ROLLCALL_HTTP_TOKEN: token
        }
        const service = new Program(services.rollcall.command.slice(1), given, project, entry)
        started.push(service)
        await service.says(/"message":"started"/, "stderr")
        await service.says(/backfill|live/, "stderr")
        const headers = { authorization: `Bearer ${token}` }
        const plugins = await fetch(`http://127.0.0.1:${port}/v1/plugins`, { headers })
        assert.include(await plugins.text(), '"tag-hires"')
        assert.notMatch(service.stderr, /"level":"(warn|error)/)
        assert.strictEqual((await service.stop()).code, 0)
      } finally {
        for (const { process } of started) process.kill("SIGKILL")
        await Promise.all(started.map((program) => program.ended))
      }
    })

    it.skipIf(missing !== null)(
      `the commands and files of docs/further-lists.md lead from an empty folder to events in Kafka and a tested plugin${
        missing === null ? "" : ` (skipped: ${missing})`
      }`,
      async () => {
        const brokers = await Effect.runPromise(
          Effect.scoped(Effect.provide(Effect.map(Broker, ({ brokers }) => brokers), brokerLayer))
        )
        const port = String(await freePort())
        const prefix = `test-${randomUUID()}`
        const walk = join(folder, "walk")
        mkdirSync(join(walk, "rollcall"), { recursive: true })
        // the package is installed, so npm and npx download nothing
        const installed = `
npm() { if [ "$1" = install ]; then ln -s "${join(folder, "node_modules")}" .; else command npm "$@"; fi; }
npx() { if [ "$1" = --package ]; then shift 2; fi; command npx "$@"; }
`
        const [first = ""] = scriptOf("docs/plugins/guide.md")
        const page = scriptOf("docs/further-lists.md").join("\n")
          .replaceAll("localhost:9092", brokers[0] ?? "")
          .replaceAll("rollcall.hris.employee", `${prefix}.hris.employee`)
          .replaceAll("4010", port)
        const settings = {
          cwd: join(walk, "rollcall"),
          environment: { ...environment, ROLLCALL_TOPIC: `${prefix}.{model}` }
        }
        await whileRunning(`${installed}\n${first}\n${page}`, settings, async ({ code, stdout, text }) => {
          assert.strictEqual(code, 0, text)
          assert.match(stdout, /pass 4/)
          const list = `http://127.0.0.1:${port}/_sandbox/models/hris.employee?integration=workday:acme`
          const { records } = await (await fetch(list)).json() as {
            readonly records: ReadonlyArray<{ readonly id: string }>
          }
          const events = [...stdout.matchAll(/^workday:acme\/hris\.employee\/(\S+) (.*)$/gm)].map((
            [, id, value = ""]
          ) => ({
            id,
            event: JSON.parse(value)
          }))
          assert.isAtLeast(records.length, 8)
          assert.sameMembers(events.map(({ id }) => id), records.map(({ id }) => id))
          for (const { event } of events) assert.deepInclude(event, { model: "hris.employee", kind: "created" })
        })
      },
      600_000
    )
  })
