import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "vitest"
import { freePort, inDirectory, run, runCommand, type Serve } from "./Program.ts"

const lines = (text: string) => text.split("\n").filter((line) => line !== "")
const facts = (stderr: string): ReadonlyArray<Record<string, unknown>> => lines(stderr).map((line) => JSON.parse(line))

const sandbox = (serve: Serve, key: string, integrations = 2, seed = 1) =>
  serve({ records: 10, speed: 0, key, integrations, seed })

const file = (directory: string, config: string, name = "rollcall.config.ts") =>
  writeFileSync(
    join(directory, name),
    `import { type ConfigFile, defineConfig, secret } from "rollcall"\nconst config: ConfigFile = ${config}\nexport default defineConfig(config)\n`
  )

describe("rollcall.config.ts", () => {
  it("configures two accounts, each with its own URL and key, that are read into one store", () =>
    inDirectory(async (directory, start, serve) => {
      const eu = await sandbox(serve, "eu-k3y", 1)
      const us = await sandbox(serve, "us-k3y", 2, 2)
      writeFileSync(join(directory, "us.key"), "us-k3y\n")
      file(
        directory,
        `{
          accounts: {
            eu: { url: "${eu.url}", key: secret("EU_KEY") },
            us: { url: "${us.url}", key: secret("US_KEY") }
          },
          integrations: [
            { id: "${eu.integrations[0]}", account: "eu", models: ["ats.tag", "hris.skill"] },
            { id: "${us.integrations[0]}", account: "us" }
          ],
          models: { "ats.application": { redact: { "/candidate/first_name": "hash" } } },
          store: "sqlite:${join(directory, "both.db")}"
        }`
      )
      const environment = {
        EU_KEY: "eu-k3y",
        US_KEY_FILE: join(directory, "us.key"),
        ROLLCALL_REDACT_KEY: "a long random text"
      }
      const { code, stderr } = await runCommand(["start", "--once"], environment, directory)
      assert.strictEqual(code, 0, stderr)
      const started = facts(stderr).find(({ message }) => message === "started")
      assert.strictEqual(started?.["streams"], 2 + 4)
      assert.isAbove(Number(facts(stderr).at(-1)?.["events"]), 20)
      assert.notMatch(stderr, /k3y/)

      const port = String(await freePort())
      const service = start(["start"], { ...environment, ROLLCALL_HTTP_PORT: port }, directory)
      await service.says(/"message":"started"/, "stderr")
      const records = `http://127.0.0.1:${port}/v1/records?model=ats.application&integration=${us.integrations[0]}`
      const { records: [first] }: { records: ReadonlyArray<{ after: { candidate: { first_name: string } } }> } =
        await (await fetch(records)).json()
      assert.match(first?.after.candidate.first_name ?? "", /^redacted:/)
      assert.strictEqual((await service.stop()).code, 0)
    }))

  it("discovery: each of two integrations is read for the models of its tool, and --once succeeds", () =>
    inDirectory(async (directory, _, serve) => {
      const { integrations, url } = await sandbox(serve, "k")
      const environment = {
        ROLLCALL_API_URL: url,
        ROLLCALL_API_KEY: "k",
        ROLLCALL_INTEGRATIONS: integrations.join(","),
        ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`
      }
      const { code, stderr } = await runCommand(["start", "--once"], environment)
      assert.strictEqual(code, 0, stderr)
      const left = facts(stderr).filter(({ message }) => String(message).startsWith("some models are not read"))
      assert.deepStrictEqual(left.map(({ integrations }) => integrations), [...integrations])
    }))

  it("discovery: without a tool catalog the process starts, and every model is tried", () =>
    inDirectory(async (directory, start) => {
      const service = start(["start"], {
        ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
        ROLLCALL_API_KEY: "k",
        ROLLCALL_INTEGRATIONS: "greenhouse:acme",
        ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
        ROLLCALL_HTTP_PORT: "0"
      })
      const [, streams] = await service.says(/"message":"started".*"streams":(\d+)/, "stderr")
      assert.strictEqual(streams, "12")
      assert.include(service.stderr, "tool catalog not available")
      assert.strictEqual((await service.stop()).code, 0)
    }))

  it(`"rollcall" is the running program, independent of the folder of the file and the packages installed there`, () =>
    inDirectory(async (directory, start) => {
      const config = `{ accounts: { eu: { url: "https://e.example.com/v1", key: secret("NOT_SET") } } }`
      const folders = ["bare", "linked", "other"].map((name) => join(directory, name))
      for (const folder of folders) mkdirSync(join(folder, "node_modules"), { recursive: true })
      symlinkSync(fileURLToPath(new URL("../../..", import.meta.url)), join(directory, "linked/node_modules/rollcall"))
      mkdirSync(join(directory, "other/node_modules/rollcall"))
      writeFileSync(join(directory, "other/node_modules/rollcall/index.js"), "throw new Error('a stranger')")
      for (const folder of folders) {
        file(folder, config)
        const { code, stderr } = await start(["start"], {}, folder).ended
        assert.strictEqual(code, 1)
        assert.include(stderr, "rollcall.config.ts, accounts.eu.key: neither NOT_SET nor NOT_SET_FILE is set")
        assert.strictEqual(facts(stderr).length, 1)
      }
      cpSync(join(directory, "bare/rollcall.config.ts"), join(directory, "elsewhere.ts"))
      const elsewhere = await run(["start", "--config", join(directory, "elsewhere.ts")])
      assert.include(elsewhere.stderr, "elsewhere.ts, accounts.eu.key")
    }))

  it(`a plugin imports our "effect", independent of its folder and the packages installed there`, () =>
    inDirectory(async (directory, start) => {
      for (const name of ["bare", "other"]) {
        const folder = join(directory, name)
        mkdirSync(join(folder, "node_modules/effect"), { recursive: true })
        if (name === "other") {
          writeFileSync(join(folder, "node_modules/effect/Config.js"), "throw new Error('a stranger')")
        }
        writeFileSync(
          join(folder, "plugin.ts"),
          `import * as Config from "effect/Config"\nimport * as Plugin from "rollcall/plugin"
          const config = Config.all({ tag: Config.String("TAG_OF_THE_HIRED") })
          export default Plugin.make("mine", { config }).on("ats.tag.created", {}, Plugin.async(async () => {}))`
        )
        writeFileSync(
          join(folder, "rollcall.config.ts"),
          `import { defineConfig, secret } from "rollcall"\nimport mine from "./plugin.ts"
          export default defineConfig({
            accounts: { default: { url: "https://e.example.com/v1", key: secret("KEY") } },
            integrations: [{ id: "a:b" }],
            plugins: [mine]
          })`
        )
        const { code, stderr } = await start(["start"], { KEY: "k" }, folder).ended
        assert.strictEqual(code, 1)
        assert.include(stderr, "TAG_OF_THE_HIRED")
        assert.notInclude(stderr, "stranger")
      }
    }))

  for (
    const [sentence, text, message] of [
      ["that is not there", null, "does not exist"],
      ["with an error in it", "export default {", ", at my.config.ts:1"],
      ["that throws", "throw new Error('no region')", "cannot be loaded: no region"],
      ["without a default export", "export const config = {}", "has no default export"]
    ] as const
  ) {
    it(`a file ${sentence} is reported with a hint and without a stack`, () =>
      inDirectory(async (directory) => {
        const path = join(directory, "my.config.ts")
        if (text !== null) writeFileSync(path, text)
        // all commands load the file in the same way
        for (const command of text === null ? ["start", "status", "doctor"] : ["start"]) {
          const { code, stderr, stdout } = await runCommand([command, "--config", path])
          assert.strictEqual(code, 1)
          assert.include(stderr + stdout, message)
          assert.notMatch(stderr, /^ +at /m)
          assert.notInclude(stderr, "ROLLCALL_API_URL")
        }
      }))
  }

  it("gives status and tail the address of the operating API", () =>
    inDirectory(async (directory, start) => {
      const port = await freePort()
      const account = `{ eu: { url: "http://127.0.0.1:9/v1", key: secret("K") } }`
      file(
        directory,
        `{ accounts: ${account}, http: { port: ${port}, token: secret("TOKEN") }, store: "sqlite:${directory}/x.db" }`
      )
      const environment = { K: "k", TOKEN: "letmein" }
      const service = start(["start"], environment, directory)
      await service.says(/"message":"started"/, "stderr")
      const shown = await runCommand(["status"], environment, directory)
      assert.strictEqual(shown.code, 0, shown.stderr)
      assert.include(shown.stdout, "ready, 0 streams")
    }))
})
