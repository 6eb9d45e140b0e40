/** The files for the code host: its workflow and the templates of issues. */
import { assert, describe, it } from "@effect/vitest"
import * as Yaml from "effect/encoding/Yaml"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

interface Step {
  readonly uses?: string
  readonly run?: string
  readonly with?: Readonly<Record<string, unknown>>
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>
  readonly jobs: Readonly<
    Record<
      string,
      { readonly steps: ReadonlyArray<Step>; readonly "timeout-minutes": number; readonly permissions?: object }
    >
  >
}

interface Template {
  readonly name: string
  readonly description: string
  readonly body: ReadonlyArray<{ readonly type: string; readonly id?: string; readonly attributes: object }>
}

const root = fileURLToPath(new URL("..", import.meta.url))
const read = (path: string): string => readFileSync(`${root}${path}`, "utf8")
const text = read(".github/workflows/ci.yml")
const workflow = Yaml.parse(text) as Workflow
const steps = Object.values(workflow.jobs).flatMap((job) => job.steps)

describe("the workflow", () => {
  it("uses actions by their commit, with the version beside it", () => {
    const used = text.split("\n").filter((line) => /^\s*- uses:|^\s*uses:/.test(line))
    assert.lengthOf(used, steps.filter(({ uses }) => uses !== undefined).length)
    for (const line of used) assert.match(line, /uses: [\w.-]+\/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
  })

  it("may not write to the repository, keeps no credentials, and ends in time", () => {
    assert.deepStrictEqual(workflow.permissions, { contents: "read" })
    for (const job of Object.values(workflow.jobs)) {
      assert.isUndefined(job.permissions)
      assert.isAtMost(job["timeout-minutes"], 120)
    }
    for (const step of steps.filter(({ uses }) => uses?.startsWith("actions/checkout@"))) {
      assert.isFalse(step.with?.["persist-credentials"])
    }
  })

  it("runs scripts and files that exist, and puts no expression into a script", () => {
    const { scripts }: { readonly scripts: object } = JSON.parse(read("package.json"))
    for (const { run = "" } of steps) {
      for (const [, script = ""] of run.matchAll(/npm run (?:--silent )?(\S+)/g)) assert.property(scripts, script)
      for (const [file] of run.matchAll(/^\.ci\/\S+|deploy\/\S+/gm)) assert.isTrue(existsSync(`${root}${file}`), file)
      assert.notMatch(run, /\$\{\{/)
    }
  })
})

describe("the templates of issues", () => {
  const folder = ".github/ISSUE_TEMPLATE"
  const names = readdirSync(`${root}${folder}`).filter((name) => name !== "config.yml")

  it.each(names)("have in %s a name, a description, and fields with different ids; they ask for no secrets", (name) => {
    const template = Yaml.parse(read(`${folder}/${name}`)) as Template
    assert.isNotEmpty(template.name)
    assert.isNotEmpty(template.description)
    const ids = template.body.flatMap(({ id, type }) => type === "markdown" ? [] : [id ?? assert.fail(type)])
    assert.strictEqual(new Set(ids).size, ids.length)
    assert.match(read(`${folder}/${name}`), /no keys|No content of records/i)
  })
})
