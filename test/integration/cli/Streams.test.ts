import { assert, describe, it } from "@effect/vitest"
import { freePort } from "../../support/services/FreePort.ts"
import { inDirectory, runCommand, sandboxed } from "./Program.ts"

describe("streams", () => {
  it("sends commands to the streams of the running process and audits them; exit code 1 if one differs, 2 for wrong usage", () =>
    inDirectory(async (directory, start, serve) => {
      const { api, environment, sandbox } = await sandboxed(serve, directory)
      const own = { ...environment, ROLLCALL_MODELS: "ats.tag" }
      const service = start(["start"], own)
      await service.says(/"message":"backfill complete"/, "stderr")
      const name = "sandbox:everything/ats.tag"

      assert.match((await runCommand(["streams", "list"], own)).stdout, /^sandbox:everything +ats\.tag +live/m)
      assert.match((await runCommand(["streams", "show", name], own)).stdout, /^watermark +2\d{3}-/m)
      const same = await runCommand(["streams", "audit", name], own)
      assert.strictEqual(same.code, 0, same.stderr)
      assert.match(same.stdout, /: \d+ records read, 0 differ$/m)

      assert.match((await runCommand(["streams", "pause", name], own)).stdout, /paused/)
      const refused = await runCommand(["streams", "poll", name], own)
      assert.strictEqual(refused.code, 1)
      assert.match(refused.stderr, /the stream is paused: resume the stream first/)
      assert.isFalse(JSON.parse((await runCommand(["streams", "resume", name, "--json"], own)).stdout).paused)
      for (const act of ["poll", "sweep", "backfill"]) {
        // a sweep that still runs would find the record that vanishes below
        const { code, stderr } = await runCommand(["streams", act, name, "--wait"], own)
        assert.strictEqual(code, 0, stderr)
      }
      const early = await runCommand(["streams", "rewind", name, "--to", "2999-01-01T00:00:00Z"], own)
      assert.match(early.stderr, /after the watermark: choose a time before 2/)

      const { records } = await (await fetch(`${api}/v1/records?integration=sandbox:everything&model=ats.tag`)).json()
      const vanished: string = records[0].id
      await sandbox.mutate({
        op: "delete",
        integration: "sandbox:everything",
        model: "ats.tag",
        id: vanished,
        flag: false
      })
      const differs = await runCommand(["streams", "audit", name], own)
      assert.strictEqual(differs.code, 1)
      assert.match(differs.stdout, new RegExp(`^${vanished} +gone`, "m"))

      const unknown = await runCommand(["streams", "show", "sandbox:everything/ats.offer"], own)
      assert.strictEqual(unknown.code, 1)
      assert.match(unknown.stderr, /stream sandbox:everything\/ats\.offer does not exist/)
      assert.strictEqual((await runCommand(["streams", "show", "ats.tag"], own)).code, 2)
      const misspelt = await runCommand(["streams", "show", "sandbox:everything/ats.tags"], own)
      assert.match(misspelt.stderr, /model: Expected .*"ats.tag"/)
      assert.strictEqual(
        (await runCommand(["streams", "show", name], { ROLLCALL_HTTP_PORT: String(await freePort()) })).code,
        1
      )
    }))

  it("`--wait` returns once a command is carried out, and with exit code 1 if it cannot be or the time is up", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment, sandbox } = await sandboxed(serve, directory)
      const own = { ...environment, ROLLCALL_MODELS: "ats.tag", ROLLCALL_INTERVAL: "1 hour" }
      const service = start(["start"], own)
      await service.says(/"message":"backfill complete"/, "stderr")
      const name = "sandbox:everything/ats.tag"
      const streams = async (...args: ReadonlyArray<string>) => {
        const { code, stderr, stdout } = await runCommand(["streams", ...args, "--json"], own)
        return { code, stderr, view: stdout === "" ? null : JSON.parse(stdout) }
      }
      const before = (await streams("show", name)).view
      const polled = await streams("poll", name, "--wait", "--timeout", "30s")
      assert.strictEqual(polled.code, 0, polled.stderr)
      assert.isTrue(polled.view.last_poll_at > (before.last_poll_at ?? ""))
      const swept = await streams("sweep", name, "--wait", "--timeout", "30s")
      assert.strictEqual(swept.code, 0, swept.stderr)
      assert.isAbove(Date.parse(swept.view.last_sweep_at), Date.parse(before.last_sweep_at))
      const filled = await streams("backfill", name, "--wait", "--timeout", "30s")
      assert.deepStrictEqual([filled.code, filled.view?.phase], [0, "live"], filled.stderr)
      assert.isAbove(Date.parse(filled.view.last_sweep_at), Date.parse(swept.view.last_sweep_at))

      await sandbox.setFaults({
        faults: [{ kind: "api_error", code: "INTEGRATION.PERMISSION_MISSING", model: "ats.tag" }]
      })
      const blocked = await streams("sweep", name, "--wait")
      assert.strictEqual(blocked.code, 1)
      assert.match(blocked.stderr, /^rollcall: the sweep of .* is not done: the stream is blocked \(permission\): /)
      await sandbox.stop()
      assert.strictEqual((await streams("resume", name)).code, 0)
      const late = await streams("poll", name, "--wait", "--timeout", "2s")
      assert.strictEqual(late.code, 1)
      assert.match(late.stderr, /(is|was) not done/)
      const unused = await streams("poll", name, "--timeout", "2s")
      assert.match(unused.stderr, /--timeout has no effect without --wait/)
    }))
})
