/**
 * Installs the tarball of `npm publish` in an empty folder and uses it there. Nothing is downloaded: the tarball is unpacked
 * like npm does it, and its dependencies are links to the ones of this clone.
 */
import * as Effect from "effect/Effect"
import * as Yaml from "effect/encoding/Yaml"
import { execFileSync, spawnSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { publint } from "publint"
import { formatMessage } from "publint/utils"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { freePort } from "../../support/services/FreePort.ts"
import { Program } from "../cli/Program.ts"
import { Broker, layer as brokerLayer, missing as brokerMissing } from "../kafka/Broker.ts"
import * as Kcat from "../kafka/Kcat.ts"
import { scriptOf, whileRunning } from "./Walkthrough.ts"

const root = fileURLToPath(new URL("../../..", import.meta.url))
const modules = join(root, "node_modules")
const folder = mkdtempSync(join(tmpdir(), "rollcall-package-"))
const home = join(folder, "node_modules/rollcall")
const entry = join(folder, "node_modules/.bin/rollcall")
const manifest: {
  readonly bin: Readonly<Record<string, string>>
  readonly dependencies: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, unknown>>
  readonly version: string
} = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const missing = brokerMissing ?? Kcat.missing
const tarball = join(folder, `rollcall-${manifest.version}.tgz`)

const environment = {
  ...process.env,
  PATH: `${dirname(process.execPath)}${delimiter}${join(modules, ".bin")}${delimiter}${process.env["PATH"]}`,
  // of this installation, whose path is another one in each run
  NODE_COMPILE_CACHE: join(folder, "compiled")
}
/** The output of a command, from both streams, and its exit code. */
const said = (command: string, args: ReadonlyArray<string>, cwd = folder) => {
  const { status, stderr, stdout } = spawnSync(command, args, { cwd, env: environment, encoding: "utf8" })
  return { status, text: `${stdout}${stderr}` }
}
/** With several threads the compiler checks the types of libraries in each of them. */
const compiled = (project: string) => said("tsc", ["--singleThreaded", "--project", project])
/** Links a package of this clone into a `node_modules`. */
const link = (into: string, name: string) => {
  const path = join(into, name)
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(join(modules, name), path)
}

const config = (more: string) =>
  `import { defineConfig, secret } from "rollcall"
export default defineConfig({
  accounts: { default: { url: "http://127.0.0.1:9/v1", key: secret("KEY") } },
  integrations: [{ id: "sandbox:everything", models: ["ats.tag", "hris.skill"], interval: "30 seconds" }],
  ${more}
})
`
/** The examples of a page; each is a program. */
const examplesOf = (page: string) =>
  [...readFileSync(join(root, page), "utf8").matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = ""], at) => ({
    name: `${page.replace(/\W/g, "-")}${at}.ts`,
    code
  }))
const examples = examplesOf("docs/sandbox.md")
const shipped = readdirSync(join(root, "plugins"))

beforeAll(() => {
  const packed = said("npm", ["pack", "--silent", "--pack-destination", folder], root)
  assert.strictEqual(packed.status, 0, packed.text)
  mkdirSync(home, { recursive: true })
  const { bin, dependencies, peerDependencies } = manifest
  execFileSync("tar", ["-xzf", tarball, "--strip-components=1", "-C", home])
  const names = [...Object.keys(dependencies), ...Object.keys(peerDependencies), "@types/node", "standardwebhooks"]
  for (const name of names) link(join(folder, "node_modules"), name)
  mkdirSync(dirname(entry))
  symlinkSync(`../rollcall/${bin["rollcall"]}`, entry)
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }))
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: {
        strict: true,
        noEmit: true,
        module: "nodenext",
        target: "es2024",
        lib: ["es2024", "esnext.disposable", "dom"],
        types: ["node"],
        allowImportingTsExtensions: true,
        skipLibCheck: true
      },
      include: ["*.ts", "plugins"]
    })
  )
  writeFileSync(join(folder, "rollcall.config.ts"), config('retention: "7 days"'))
  for (const page of ["docs/sandbox.md", ...shipped.map((plugin) => `docs/plugins/${plugin}.md`)]) {
    for (const { code, name } of examplesOf(page)) writeFileSync(join(folder, name), code)
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe("the npm package", () => {
  it("npx rollcall --help names the commands", () => {
    const { status, text } = said("npx", ["rollcall", "--help"])
    assert.strictEqual(status, 0, text)
    for (const command of ["start", "demo", "sandbox", "doctor", "status", "tail"]) assert.include(text, command)
  })

  it("contains the compiled code, the templates, the documentation, the alerts, the dashboard and the bundled plugins as examples, and no other sources", () => {
    const folders = readdirSync(home, { withFileTypes: true }).filter((entry) => entry.isDirectory())
    assert.sameMembers(folders.map(({ name }) => name), ["bin", "deploy", "dist", "docs", "examples", "templates"])
    assert.sameMembers(readdirSync(join(home, "deploy")), ["grafana", "prometheus"])
    assert.isTrue(existsSync(join(home, "docs/runbooks/RollcallFeedLate.md")))
    const pages = ["README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/plugins/guide.md"]
    for (const page of pages) assert.isTrue(existsSync(join(home, page)), page)
    assert.sameMembers(readdirSync(join(home, "examples")), ["README.md", "go", "java", "plugins", "python"])
    assert.sameMembers(readdirSync(join(home, "examples/plugins")), shipped)
    const tracked = said("git", ["ls-files", "--deleted", "examples"], root)
    assert.strictEqual(tracked.text, "", "the build removed examples of the clone")
    assert.include(readFileSync(join(home, "examples/plugins/digest/plugin.ts"), "utf8"), 'from "rollcall/plugin"')
    const files = readdirSync(join(home, "dist"), { recursive: true, encoding: "utf8" })
    assert.deepStrictEqual(files.filter((path) => path.endsWith(".ts") && !path.endsWith(".d.ts")), [])
  })

  it("has a description, a license and the versions of Node.js and Effect that it needs; Effect is a peer", () => {
    const packed = JSON.parse(readFileSync(join(home, "package.json"), "utf8"))
    for (const name of ["description", "keywords", "author"]) assert.isNotEmpty(packed[name], name)
    assert.strictEqual(packed.license, "MIT")
    assert.match(packed.engines.node, /^>=\d+(\.\d+)?$/)
    assert.match(packed.peerDependencies.effect, /^~\d+\.\d+\.\d+$/)
    assert.notProperty(packed.dependencies, "effect")
  })

  it("has nothing that publint objects to", async () => {
    const { messages } = await publint({
      pack: { tarball: new Uint8Array(readFileSync(tarball)).buffer },
      strict: true
    })
    assert.deepStrictEqual(messages.map((message) => formatMessage(message, manifest, { color: false })), [])
  })

  it.each([
    ["node16", "node16"],
    ["nodenext", "nodenext"],
    ["esnext", "bundler"]
  ])("has types for every export with the module %s and the resolution %s", (module, moduleResolution) => {
    const names = Object.keys(manifest.exports)
    assert.include(names, "./plugins/digest")
    const imports = names.map((name, i) => `import * as e${i} from "rollcall${name.slice(1)}"`)
    // a module without types would be `any`, which has every property
    const uses = names.map((_, i) => `// @ts-expect-error no export has this name\nvoid e${i}.noSuchName`)
    const project = join(folder, `types-${moduleResolution}`)
    mkdirSync(project)
    writeFileSync(join(project, "all.mts"), [...imports, ...uses].join("\n"))
    writeFileSync(
      join(project, "tsconfig.json"),
      JSON.stringify({
        compilerOptions: { strict: true, noEmit: true, module, moduleResolution, target: "es2024", types: ["node"] },
        include: ["*.mts"]
      })
    )
    const { status, text } = compiled(project)
    assert.strictEqual(status, 0, text)
  })

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
    assert.deepStrictEqual([again.status, again.text.includes("my-feed is not empty; nothing was changed")], [1, true])

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
      assert.notMatch(service.stderr, /"level":"(WARN|ERROR)/)
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

  it("reports a faulty rollcall.config.ts, and names the trigger or option that a misspelled one resembles", () => {
    const plugin = (trigger: string, options: string) =>
      `import * as Plugin from "rollcall/plugin"
export default Plugin.make("plain").on("${trigger}", ${options}, async (event) => console.log(event.recordId))
`
    const faulty = [
      ["faulty.ts", config('sweepInterval: "1 hour", retention: "7 fortnights"'), "error"],
      [
        "trigger.ts",
        plugin("ats.application.hird", "{}"),
        `not assignable to parameter of type '"ats.application.hired"'`
      ],
      ["option.ts", plugin("ats.application.hired", '{ timeot: "1 minute" }'), "Did you mean to write 'timeout'"]
    ] as const
    for (const [name, code] of faulty) writeFileSync(join(folder, name), code)
    try {
      const { text } = compiled(".")
      // an error of a call with several forms goes on in indented lines
      for (const [name, , words] of faulty) assert.match(text, new RegExp(String.raw`^${name}(.*\n )*.*${words}`, "m"))
    } finally {
      for (const [name] of faulty) rmSync(join(folder, name))
    }
  })

  it("the examples of docs/sandbox.md run", () => {
    assert.isAtLeast(examples.length, 2)
    for (const { name } of examples) {
      const { status, text } = said(process.execPath, [name])
      assert.strictEqual(status, 0, `${name}: ${text}`)
    }
  })
})

describe("a package manager that gives a project only the packages that it declares", () => {
  // outside of `folder`, whose packages would be found from below it
  const projects = mkdtempSync(join(tmpdir(), "rollcall-strict-"))
  afterAll(() => rmSync(projects, { recursive: true, force: true }))

  /** A project with Rollcall in a store, beside its own dependencies. */
  const strictProject = (effect: string) => {
    const project = mkdtempSync(join(projects, "project-"))
    const store = join(project, "node_modules/.store/node_modules")
    cpSync(home, join(store, "rollcall"), { recursive: true })
    for (const name of Object.keys(manifest.dependencies)) link(store, name)
    symlinkSync(effect, join(store, "effect"))
    symlinkSync(join(store, "rollcall"), join(project, "node_modules/rollcall"))
    writeFileSync(join(project, "package.json"), '{\n\t"type": "module"\n}\n')
    writeFileSync(join(project, "pnpm-lock.yaml"), "")
    return project
  }
  const rollcall = (project: string, ...args: ReadonlyArray<string>) =>
    said(process.execPath, ["node_modules/rollcall/bin/rollcall.js", ...args], project)

  it("lets plugins import Effect, because plugins new adds it to package.json", () => {
    const project = strictProject(join(modules, "effect"))
    const made = rollcall(project, "plugins", "new", "tag-hires", "--effect")
    assert.strictEqual(made.status, 0, made.text)
    assert.match(made.text, /added effect ~\S+ to package\.json[^]*^ {2}pnpm install$/m)
    const text = readFileSync(join(project, "package.json"), "utf8")
    assert.strictEqual(
      text,
      `{\n\t"type": "module",\n\t"dependencies": {\n\t\t"effect": "${manifest.peerDependencies["effect"]}"\n\t}\n}\n`
    )
    const test = () => said("node", ["--test", "plugins/tag-hires/plugin.test.ts"], project)
    assert.match(test().text, /Cannot find package 'effect'/)
    link(join(project, "node_modules"), "effect")
    const passed = test()
    assert.strictEqual(passed.status, 0, passed.text)
    assert.notInclude(rollcall(project, "plugins", "new", "again").text, "added effect")
  })

  it("leaves Rollcall with an Effect that it does not work with: it says so, and does not start", () => {
    const old = join(folder, "old-effect")
    mkdirSync(old)
    writeFileSync(join(old, "package.json"), JSON.stringify({ name: "effect", version: "3.22.4" }))
    const { status, text } = rollcall(strictProject(old), "--version")
    assert.strictEqual(status, 1)
    assert.match(text, /needs the package effect ~4\.\d+\.\d+, which is installed as 3\.22\.4/)
  })

  it("refuses to create a plugin in a project with another Effect, and changes nothing", () => {
    const project = strictProject(join(modules, "effect"))
    const text = JSON.stringify({ type: "module", dependencies: { effect: "^3.18.0" } })
    writeFileSync(join(project, "package.json"), text)
    symlinkSync(join(folder, "old-effect"), join(project, "node_modules/effect"))
    const refused = rollcall(project, "plugins", "new", "tag-hires")
    assert.strictEqual(refused.status, 1)
    assert.match(refused.text, /uses effect 3\.22\.4, but plugins need effect ~4/)
    assert.deepStrictEqual(
      [readFileSync(join(project, "package.json"), "utf8"), readdirSync(project).includes("plugins")],
      [text, false]
    )
  })
})

describe("the bundled plugins", () => {
  const faces = shipped.map((name) => `import * as ${name.replaceAll("-", "_")} from "rollcall/plugins/${name}"`)
  const values = shipped.map((name) => name.replaceAll("-", "_"))
  const program = `${faces.join("\n")}
console.log(JSON.stringify([${values.join()}].flatMap((face) => "default" in face ? [face.default.name] : Object.keys(face))))
`
  it("are each in the package, under the name of their folder", () => {
    writeFileSync(join(folder, "shipped.mjs"), program)
    const { status, text } = said(process.execPath, ["shipped.mjs"])
    assert.strictEqual(status, 0, text)
    assert.deepStrictEqual(JSON.parse(text), shipped)
  })
})

describe("a clone", () => {
  it("runs its sources even if compiled code is present", () => {
    const clone = join(folder, "clone")
    for (const path of ["bin", "package.json"]) cpSync(join(root, path), join(clone, path), { recursive: true })
    symlinkSync(join(root, "src"), join(clone, "src"))
    mkdirSync(join(clone, "dist"))
    writeFileSync(join(clone, "dist/main.js"), "throw new Error('of yesterday')")
    const { status, text } = said(process.execPath, [join(clone, "bin/rollcall.js"), "--version"])
    assert.strictEqual(status, 0, text)
  })

  it("rollcall plugins new creates a plugin with the imports of a clone", () => {
    const clone = join(folder, "house")
    for (const path of ["bin", "package.json", "tsconfig.json", "templates"]) {
      cpSync(join(root, path), join(clone, path), { recursive: true })
    }
    for (const path of ["src", "node_modules"]) symlinkSync(join(root, path), join(clone, path))
    const made = said(process.execPath, ["bin/rollcall.js", "plugins", "new", "tag-hires"], clone)
    assert.strictEqual(made.status, 0, made.text)
    assert.include(readFileSync(join(clone, "plugins/tag-hires/plugin.ts"), "utf8"), '"#plugin"')
    const tested = said("node", ["--preserve-symlinks", "--test", "plugins/tag-hires/plugin.test.ts"], clone)
    assert.strictEqual(tested.status, 0, tested.text)
  })
})
