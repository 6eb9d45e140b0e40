/** The upgrade and the restore of a SQLite store, with exactly the commands that the documents give. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { inDirectory, sandboxed } from "./Program.ts"

const root = fileURLToPath(new URL("../../../", import.meta.url))

const models = ["ats.application", "ats.tag"] as const

/** A record without what Rollcall leaves out by default. */
const published = (record: unknown): unknown =>
  JSON.parse(JSON.stringify(record), (key, value) => key === "remote_data" ? null : value)

/** The first shell block below a heading of a page. */
const commandsOf = (page: string, heading: string): string => {
  const text = readFileSync(join(root, page), "utf8")
  const block = text.slice(text.indexOf(`## ${heading}\n`)).match(/^```sh\n(.*?)^```/ms)?.[1]
  assert.isDefined(block, `${page} has no commands below "${heading}"`)
  return block!
}

/** Replaces the service manager, and the installation of the next version, which is this program again. */
const machine = `set -euo pipefail
rollcall() {
  if [ "$*" = "store adopt" ]; then set -- store adopt --yes; fi
  "$NODE" "$BIN" "$@"
}
npm() { [ "$*" = "install -g rollcall-0.2.0.tgz" ]; }
systemctl() {
  case "$1" in
    start)
      setsid "$NODE" "$BIN" start >>service.log 2>&1 </dev/null & echo $! >service.pid
      curl -sf --retry 100 --retry-connrefused --retry-all-errors --retry-delay 1 "$READY" >/dev/null ;;
    stop)
      kill "$(cat service.pid)"
      tail --pid="$(cat service.pid)" -f /dev/null
      rm service.pid ;;
  esac
}
trap 'if [ $? -ne 0 ] && [ -e service.pid ]; then kill -9 "$(cat service.pid)"; fi' EXIT
`

describe("the documented commands", () => {
  it("upgrade a SQLite store, and restore its backup: each time all records are those of the API, and a restore begins a new generation", () =>
    inDirectory(async (directory, _, serve) => {
      const { api, environment, sandbox } = await sandboxed(serve, directory, { records: 40 })
      const [integration = ""] = sandbox.integrations
      const [state, backup] = [join(directory, "state"), join(directory, "backup")]
      for (const folder of [state, backup]) mkdirSync(folder)
      const variables = {
        ...process.env,
        ...environment,
        ROLLCALL_STORE: `sqlite:${join(state, "rollcall.db")}`,
        ROLLCALL_MODELS: models.join(),
        NODE: process.execPath,
        BIN: join(root, "bin/rollcall.js"),
        READY: `${api}/health/ready`
      }
      const shell = async (commands: string) => {
        const placed = commands.replaceAll("/var/lib/rollcall", state).replaceAll("/backup", backup)
        writeFileSync(join(directory, "commands.sh"), machine + placed)
        const { code, output } = await new Promise<{ readonly code: number | null; readonly output: string }>(
          (resolve) => {
            const child = spawn("bash", ["commands.sh"], { cwd: directory, env: variables })
            let output = ""
            for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output += String(chunk))
            child.once("close", (code) => resolve({ code, output }))
          }
        )
        assert.strictEqual(code, 0, output)
        return output
      }
      const changes = async () => {
        for (const kind of ["applied", "renamed_tag", "stage_moved", "applied"] as const) {
          await sandbox.mutate({ op: "simulate", integration, kind })
        }
      }
      const streams = async (): Promise<ReadonlyArray<{ readonly model: string; readonly generation: number }>> =>
        (await (await fetch(`${api}/v1/streams`)).json()).items
      /** Reads each stream, and compares. */
      const isComplete = async () => {
        for (const model of models) {
          await shell(`rollcall streams sweep --wait ${integration}/${model}`)
          const page = await fetch(`${api}/v1/records?integration=${integration}&model=${model}&limit=1000`)
          const records: ReadonlyArray<{ readonly after: unknown }> = (await page.json()).records
          const truth = await sandbox.truth(model, integration)
          assert.sameDeepMembers(records.map(({ after }) => published(after)), truth.map(published))
        }
      }
      try {
        await shell("systemctl start rollcall")
        await isComplete()
        await changes()
        await shell(commandsOf("docs/upgrade.md", "In short: SQLite"))
        await isComplete()
        await changes()
        await isComplete()
        assert.deepStrictEqual((await streams()).map(({ generation }) => generation), [1, 1])
        await shell(commandsOf("docs/operating.md", "A store restored from a backup"))
        await isComplete()
        for (const { generation } of await streams()) assert.isAbove(generation, 1)
      } finally {
        await shell("if [ -e service.pid ]; then systemctl stop rollcall; fi")
      }
    }))
})
