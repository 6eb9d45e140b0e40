/** The rules and their unit tests are valid, and the commands of the runbooks exist. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { runCommand } from "../cli/Program.ts"
import { missing, quickRules } from "./Prometheus.ts"

const root = fileURLToPath(new URL("../../..", import.meta.url))
const folder = join(root, "deploy/prometheus")
const promtool = (args: ReadonlyArray<string>, input = "") =>
  execFileSync("promtool", args, { cwd: folder, input, encoding: "utf8", stdio: "pipe" })

describe.skipIf(missing !== null)(`the alerts${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  it("are rules that Prometheus accepts", () => {
    assert.include(promtool(["check", "rules", "rules.yml"]), "SUCCESS")
  })

  it("each wait for `for`, fire, and end with their cause", () => {
    assert.include(promtool(["test", "rules", "rules.test.yml"]), "SUCCESS")
  })

  it("have shorter times in the tests with real faults, and the same expressions", () => {
    const quick = quickRules()
    assert.notMatch(quick, /for: \d+[mh]|\[\d+m\]|seconds\) > \d\d/)
    assert.strictEqual(quick.match(/alert: /g)?.length, readdirSync(join(root, "docs/runbooks")).length)
  })
})

describe("the runbooks", () => {
  it("name only commands that exist", async () => {
    const texts = readdirSync(join(root, "docs/runbooks")).map((name) =>
      readFileSync(join(root, "docs/runbooks", name), "utf8")
    )
    const commands = new Set(
      texts.flatMap((text) =>
        [...text.matchAll(/(?:^|`)rollcall((?: [a-z][a-z-]+)+)/gm)].map(([, words = ""]) => words.trim())
      )
    )
    assert.isAbove(commands.size, 15)
    const flags = new Set(
      texts.flatMap((text) =>
        [...text.matchAll(/(?:^|`)rollcall((?: [a-z][a-z-]+)+)[^`\n]*? (--[a-z-]+)/gm)]
          .map(([, words = "", flag = ""]) => `${words.trim()}|${flag}`)
      )
    )
    const wrong: Array<string> = []
    for (const command of commands) {
      const words = command.split(" ")
      // arguments such as the name of a plugin follow the command
      const [first = "", second] = words
      const { code, stdout } = await runCommand([first, ...second === undefined ? [] : [second], "--help"])
      const isCommand = stdout.includes(`rollcall ${first}${second === undefined ? "" : ` ${second}`}`)
      if (code !== 0 || !isCommand) wrong.push(command)
      for (const flag of flags) {
        const [of, name = ""] = flag.split("|")
        if (of === command && !stdout.includes(name)) wrong.push(`${command} ${name}`)
      }
    }
    assert.deepStrictEqual(wrong, [])
  })
})
