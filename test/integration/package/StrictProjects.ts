/** The installed package in projects whose package manager gives them only the packages that they declare. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, describe, it } from "vitest"
import { folder, home, link, manifest, modules, said } from "./Installed.ts"

export const strictProjects = () =>
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
