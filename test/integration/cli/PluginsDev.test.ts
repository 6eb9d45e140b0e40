/** `rollcall plugins dev`, as a plugin's author uses it: files change while it runs. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, assert, beforeEach, describe, it } from "vitest"
import { freePort } from "../../support/services/FreePort.ts"
import { configured } from "./Configured.ts"
import { inDirectory, Program, runCommand } from "./Program.ts"

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rollcall-plugins-dev-"))
  mkdirSync(join(folder, "plugins/tag-hires"), { recursive: true })
  mkdirSync(join(folder, "words"))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const write = (path: string, text: string) => writeFileSync(join(folder, path), text)

const plugin = (body: string, writes = '"addTag"') =>
  `import * as Plugin from "rollcall/plugin"
import { tag } from "../../words/tag.ts"

export default Plugin.make("tag-hires", { needs: { writes: [${writes}] } }).on(
  "ats.application.stage_changed",
  {},
  async (event, { api, fetch: send }) => {
    ${body}
  }
)
`
const tagging = 'await api.addTag(event.after.candidate_id ?? "", { tag: { name: tag } })'
const tags = plugin(tagging)

/** Running processes that have the temporary folder of this test in their command line. */
const processesOfTest = (): ReadonlyArray<string> =>
  readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8")
      return command.includes(folder) ? [pid] : []
    } catch {
      return []
    }
  })

const until = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 20))
}

describe("rollcall plugins dev", () => {
  it("runs a plugin for a list that it defines", async () => {
    write(
      "plugins/tag-hires/plugin.ts",
      `import { defineList } from "rollcall"
import * as Plugin from "rollcall/plugin"

const employees = defineList("hris.employee", { path: "/hris/employees" })
export default Plugin.make("people").on(employees.updated, {}, async (event) => {
  console.log("changed", event.model, event.changed.join())
})
`
    )
    const dev = new Program(["plugins", "dev", "tag-hires"], {}, folder)
    try {
      await dev.says(/people reacts to hris\.employee\.updated/)
      await dev.says(/changed hris\.employee last_name/)
    } finally {
      await dev.stop()
    }
  })

  it("runs a plugin in a simulated world, and again when one of its files or their imports changes", async () => {
    write("words/tag.ts", 'export const tag = "first"\n')
    write("plugins/tag-hires/plugin.ts", tags)
    const dev = new Program(["plugins", "dev", "tag-hires"], {}, folder)
    try {
      await dev.says(/tag-hires reacts to ats\.application\.stage_changed, in a simulated world/)
      await dev.says(/→ tag-hires +addTag +first\n.*ats\.application\.stage_changed +\S+ +done/)

      write("words/tag.ts", 'export const tag = "second"\n')
      await dev.says(/words\/tag\.ts changed/)
      await dev.says(/→ tag-hires +addTag +second/)

      write("plugins/tag-hires/plugin.ts", plugin("if (event) throw new Error(`oops ${typeof api}`)"))
      await dev.says(/plugins\/tag-hires\/plugin\.ts changed/)
      await dev.says(/a bug in the handler\n +Error: oops object\n +at .*plugin\.ts:8/)

      write("plugins/tag-hires/plugin.ts", plugin(tagging, ""))
      await dev.says(
        /dead letter: .* does not declare the write addTag: write needs: \{ writes: \["addTag"\] \} in its/
      )

      write("words/tag.ts", "export const tag =\n")
      await dev.says(/plugin\.ts cannot be loaded: .*words\/tag\.ts:1\n[^]*Expression expected/, "stderr")
      await dev.says(/The plugin is not running\. Waiting for a change/)

      write("words/tag.ts", 'export const tag = "third"\n')
      write("plugins/tag-hires/plugin.ts", tags)
      await dev.says(/→ tag-hires +addTag +third/)

      dev.process.kill("SIGINT")
      assert.strictEqual((await dev.ended).code, 0)
      assert.deepStrictEqual(processesOfTest(), [])
    } finally {
      dev.process.kill("SIGKILL")
    }
  })

  it("prints the console's address, and every request of the plugin: reads of the API, and both kinds of fetch", async () => {
    const server = createServer((request, response) => response.writeHead(request.method === "PUT" ? 503 : 204).end())
    const [port, closed] = [await freePort(), await freePort()]
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
    write("words/tag.ts", 'export const tag = "first"\n')
    write(
      "plugins/tag-hires/plugin.ts",
      plugin(`
        console.log("global", String(fetch).replaceAll(/\\s+/g, " "))
        await api.live("ats.application", event.recordId)
        await send("http://127.0.0.1:${port}/capability?token=s3cret", { method: "PUT", body: tag })
        await fetch("http://127.0.0.1:${port}/global", { method: "POST" })
        await fetch("http://127.0.0.1:${closed}/closed").catch(() => undefined)
      `)
    )
    const dev = new Program(["plugins", "dev", "./plugins/tag-hires", "--once"], {}, folder)
    try {
      const page = await dev.says(/Console (http:\S+)\n/)
      assert.strictEqual((await fetch(page[1] ?? "")).status, 200)
      // requests are observed, and no global is replaced
      const [, own] = await dev.says(/global (.*)\n/)
      assert.strictEqual(own, String(fetch).replaceAll(/\s+/g, " "))
      await dev.says(/→ tag-hires +live ats\.application +\S+\n/)
      await dev.says(/→ tag-hires +PUT +http:\S+\/capability  503\n/)
      await dev.says(/→ tag-hires +POST +http:\S+\/global  204\n/)
      await dev.says(/→ tag-hires +GET +http:\S+\/closed  no response\n/)
      // the requests with which Rollcall reads the simulated API are not the plugin's
      assert.notMatch(dev.stdout, /→ .*\/v1\//)
    } finally {
      dev.process.kill("SIGKILL")
      server.close()
    }
  })

  it("delivers one event of the running process, or an edited copy, and shows the requests that are not sent", () =>
    inDirectory(async (directory, start, serve) => {
      const { api, environment } = await configured(serve, directory, "")
      start(["start"], environment, directory)
      const events = async (): Promise<
        ReadonlyArray<{ readonly id: string; readonly data: { readonly after: object } }>
      > => {
        const response = await fetch(`${api}/v1/events?limit=1`).catch(() => null)
        return response?.ok === true ? (await response.json()).events : []
      }
      while ((await events()).length === 0) await new Promise((resolve) => setTimeout(resolve, 50))
      const [event] = await events()
      assert.isDefined(event)
      writeFileSync(
        join(directory, "plugin.mjs"),
        `import * as Plugin from "rollcall/plugin"
export default Plugin.make("tag-tags", { needs: { writes: ["addTag"] } }).on(
  "ats.tag.created",
  {},
  async ({ after, recordId }, { api }) => void await api.addTag(recordId, { tag: { name: "like " + after.name } })
)
`
      )
      const chosen = start(["plugins", "dev", "./plugin.mjs", `--event=${event.id}`], environment, directory)
      await chosen.says(/→ tag-tags +addTag +\{"tag":\{"name":"like .+"\}\} +not sent\n/)
      await chosen.says(/ats\.tag\.created +\S+ +done\n/)
      assert.strictEqual((await chosen.stop("SIGINT")).code, 0)

      const edit = (changes: object) =>
        writeFileSync(
          join(directory, "event.json"),
          JSON.stringify({
            ...event,
            data: { ...event.data, after: { ...event.data.after, name: "edited" }, ...changes }
          })
        )
      edit({})
      const edited = start(["plugins", "dev", "./plugin.mjs", "--like", "event.json"], {}, directory)
      await edited.says(/"like edited"\}\} +not sent\n/)
      edit({ kind: "deleted", before: event.data.after, after: null })
      await edited.says(/event\.json changed\n[^]*No handler of tag-tags receives this event\.\n/)
      writeFileSync(join(directory, "event.json"), "{}")
      await edited.says(/the file does not contain an event/, "stderr")
    }))

  it("leaves no process behind when it is killed", async () => {
    write("words/tag.ts", 'export const tag = "first"\n')
    write("plugins/tag-hires/plugin.ts", tags)
    const dev = new Program(["plugins", "dev", "tag-hires"], {}, folder)
    // by then all modules are loaded: a run that still reports one fails without its channel
    await dev.says(/ats\.application\.stage_changed +\S+ +done/)
    assert.isNotEmpty(processesOfTest())
    dev.process.kill("SIGKILL")
    await dev.ended
    await until(() => processesOfTest().length === 0)
  })

  it.each([
    [
      "a default export that is not a plugin",
      "export default 1",
      /the default export of .*plugin\.mjs is not a plugin/
    ],
    [
      "the mistakes in a plugin, as `start` does",
      'export default Plugin.make("tag-hires").on("ats.application.hierd", {}, async () => {})',
      /hierd/
    ],
    [
      "a value that the plugin's configuration lacks, as `start` does",
      'export default Plugin.make("tag-hires", { config: Config.String("TEAM") }).on("ats.tag.created", {}, async () => {})',
      /TEAM/
    ]
  ])("reports %s", async (_, code, message) => {
    const imports = 'import * as Config from "effect/Config"\nimport * as Plugin from "rollcall/plugin"\n'
    write("plugins/tag-hires/plugin.mjs", imports + code)
    const dev = new Program(["plugins", "dev", "plugins/tag-hires/plugin.mjs", "--once"], {}, folder)
    try {
      await dev.says(message, "stderr")
      assert.strictEqual((await dev.ended).code, 1)
    } finally {
      dev.process.kill("SIGKILL")
    }
  })

  it("finds a plugin by its name, and says which file is missing", async () => {
    const { code, stderr } = await runCommand(["plugins", "dev", "nothing"], {}, folder)
    assert.strictEqual(code, 1)
    assert.include(stderr, "there is no file plugins/nothing/plugin.ts")
  })
})
