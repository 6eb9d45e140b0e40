/** Uses the npm package in an empty folder, in projects of several kinds, and in a clone. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { publint } from "publint"
import { formatMessage } from "publint/utils"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { createdProjects } from "./CreatedProjects.ts"
import { root } from "./DeployedSettings.ts"
import { compiled, examplesOf, folder, home, install, manifest, said, tarball } from "./Installed.ts"
import { strictProjects } from "./StrictProjects.ts"

const config = (more: string) =>
  `import { defineConfig, secret } from "rollcall"
export default defineConfig({
  accounts: { default: { url: "http://127.0.0.1:9/v1", key: secret("KEY") } },
  integrations: [{ id: "sandbox:everything", models: ["ats.tag", "hris.skill"], interval: "30 seconds" }],
  ${more}
})
`
const examples = examplesOf("docs/sandbox.md")
const shipped = readdirSync(join(root, "plugins"))

beforeAll(() => {
  install()
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

createdProjects()
strictProjects()

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
