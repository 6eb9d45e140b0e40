import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "vitest"
import { freePort } from "../../support/services/FreePort.ts"
import { inDirectory, run, runCommand, type Serve } from "./Program.ts"

const lines = (text: string) => text.split("\n").filter((line) => line !== "")
const facts = (stderr: string): ReadonlyArray<Record<string, unknown>> => lines(stderr).map((line) => JSON.parse(line))

const sandbox = (serve: Serve, key: string, integrations = 2, seed = 1) =>
  serve({ records: 10, speed: 0, key, integrations, seed })

const file = (directory: string, config: string, imports = "") =>
  writeFileSync(
    join(directory, "rollcall.config.ts"),
    `${imports}\nimport { type ConfigFile, defineConfig, secret } from "rollcall"\nconst config: ConfigFile = ${config}\nexport default defineConfig(config)\n`
  )

describe("rollcall.config.ts", () => {
  it("configures two accounts, each with its own URL and key, that are read into one store, and gives commands the address of the process", () =>
    inDirectory(async (directory, start, serve) => {
      const eu = await sandbox(serve, "eu-k3y", 1)
      const us = await sandbox(serve, "us-k3y", 2, 2)
      writeFileSync(join(directory, "us.key"), "us-k3y\n")
      const port = await freePort()
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
          http: { port: ${port}, token: secret("TOKEN") },
          store: "sqlite:${join(directory, "both.db")}"
        }`
      )
      const environment = {
        EU_KEY: "eu-k3y",
        US_KEY_FILE: join(directory, "us.key"),
        ROLLCALL_REDACT_KEY: "a long random text",
        TOKEN: "letmein"
      }
      const { code, stderr } = await runCommand(["start", "--once"], environment, directory)
      assert.strictEqual(code, 0, stderr)
      const started = facts(stderr).find(({ message }) => message === "started")
      assert.strictEqual(started?.["streams"], 2 + 4)
      assert.isAbove(Number(facts(stderr).at(-1)?.["events"]), 20)
      assert.notMatch(stderr, /k3y/)

      const service = start(["start"], environment, directory)
      await service.says(/"message":"started"/, "stderr")
      const records = `http://127.0.0.1:${port}/v1/records?model=ats.application&integration=${us.integrations[0]}`
      const { records: [first] }: { records: ReadonlyArray<{ after: { candidate: { first_name: string } } }> } =
        await (await fetch(records, { headers: { authorization: "Bearer letmein" } })).json()
      assert.match(first?.after.candidate.first_name ?? "", /^redacted:/)
      const shown = await runCommand(["status"], environment, directory)
      assert.strictEqual(shown.code, 0, shown.stderr)
      assert.match(shown.stdout, /6 streams/)
      assert.strictEqual((await service.stop()).code, 0)
    }))

  it(`"rollcall" and our "effect" are those of the running program, independent of the folder and the packages installed there`, () =>
    inDirectory(async (directory, start) => {
      const folders = ["bare", "linked", "other"].map((name) => join(directory, name))
      for (const folder of folders) {
        mkdirSync(join(folder, "node_modules/effect"), { recursive: true })
        file(
          folder,
          `{
            accounts: { default: { url: "https://e.example.com/v1", key: secret("KEY") } },
            integrations: [{ id: "a:b" }],
            plugins: [mine]
          }`,
          `import mine from "./plugin.ts"`
        )
        writeFileSync(
          join(folder, "plugin.ts"),
          `import * as Config from "effect/Config"\nimport * as Plugin from "rollcall/plugin"
          const config = Config.all({ tag: Config.String("TAG_OF_THE_HIRED") })
          export default Plugin.make("mine", { config }).on("ats.tag.created", {}, async () => {})`
        )
      }
      symlinkSync(fileURLToPath(new URL("../../..", import.meta.url)), join(directory, "linked/node_modules/rollcall"))
      mkdirSync(join(directory, "other/node_modules/rollcall"))
      for (const name of ["rollcall/index.js", "effect/Config.js"]) {
        writeFileSync(join(directory, "other/node_modules", name), "throw new Error('a stranger')")
      }
      for (const folder of folders) {
        const { code, stderr } = await start(["start"], { KEY: "k" }, folder).ended
        assert.strictEqual(code, 1)
        assert.include(stderr, "TAG_OF_THE_HIRED")
        assert.strictEqual(facts(stderr).length, 1)
      }
      const elsewhere = await run(["start", "--config", join(directory, "bare/rollcall.config.ts")])
      assert.include(elsewhere.stderr, "accounts.default.key: neither KEY nor KEY_FILE is set")
    }))

  it.each([
    ["that is not there", null, "does not exist"],
    ["with an error in it", "export default {", ", at my.config.ts:1"],
    ["that throws", "\nthrow new Error('no region')", "cannot be loaded: no region, at my.config.ts:2"],
    ["with an import without its ending", 'import "./plugin"', "Correct the import: the path of a file has its ending"],
    ["without a default export", "export const config = {}", "has no default export"]
  ])("a file %s is reported with a hint and without a stack", (_, text, message) =>
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
})
