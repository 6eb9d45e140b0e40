/** A list of the API that only the configuration defines, in a running process: everything that built-in models have. */
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { freePort } from "../../support/services/FreePort.ts"
import { inDirectory, runCommand } from "./Program.ts"

type Row = Readonly<Record<string, unknown>> & { readonly id: string; readonly changed_at: string }

const startedAt = "2026-01-01T00:00:00.000Z"
const employee = (id: string, change: object = {}): Row => ({
  id,
  first_name: `name ${id}`,
  changed_at: startedAt,
  ...change
})

/** An API that has one list, and answers every other path as the sandbox does. */
const serveEmployees = async (ids = ["a", "b"]) => {
  const rows = new Map<string, Row>(ids.map((id) => [id, employee(id)]))
  const server = createServer(({ url = "" }, response) => {
    const { pathname, searchParams } = new URL(url, "http://localhost")
    const isList = pathname === "/v1/hris/employees"
    const after = searchParams.get("updated_after") ?? ""
    const ids = searchParams.get("ids")?.split(",")
    const results = [...rows.values()].filter((row) => row.changed_at >= after && (ids?.includes(row.id) ?? true))
    const error = { code: "PLATFORM.INPUT_INVALID", title: "The request is not valid", message: "no", log_url: null }
    response.writeHead(isList ? 200 : 404, { "content-type": "application/json" })
      .end(JSON.stringify(isList ? { status: "success", data: { results, next: null } } : { status: "error", error }))
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return { rows, url: `http://127.0.0.1:${port}/v1`, close: () => server.close() }
}

describe("a list that ROLLCALL_LISTS defines", () => {
  it("is read, published, shown and described like a built-in one, and a wrong path blocks only its own stream", () =>
    inDirectory(async (directory, start) => {
      const api = await serveEmployees()
      const port = String(await freePort())
      const environment = {
        ROLLCALL_API_URL: api.url,
        ROLLCALL_API_KEY: "k3y",
        ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
        ROLLCALL_HTTP_PORT: port,
        ROLLCALL_INTEGRATIONS: "workday:acme",
        ROLLCALL_LISTS: "hris.employee=/hris/employees,hris.team=/hris/teems",
        ROLLCALL_MODELS: "hris.employee,hris.team",
        ROLLCALL_INTERVAL: "1 second",
        ROLLCALL_OVERLAP_MIN: "1 second"
      }
      const get = async (path: string) => {
        const response = await fetch(`http://127.0.0.1:${port}${path}`)
        const text = await response.text()
        return { status: response.status, text, json: () => JSON.parse(text) }
      }
      const process = start(["start"], environment)
      await process.says(/stream blocked: unsupported/, "stderr")
      const tail = start(["tail", "--json", "--model", "hris.employee", "--since", startedAt], environment)
      await tail.says(/name b/)
      api.rows.set(
        "a",
        employee("a", { first_name: "Ada", manager: { id: "b" }, changed_at: new Date().toISOString() })
      )
      await tail.says(/Ada/)
      await tail.stop()

      const { streams } = JSON.parse((await runCommand(["status", "--json"], environment)).stdout)
      const [people, teams] = streams
      assert.deepStrictEqual([people.stream, people.records_live], ["workday:acme/hris.employee", 2])
      assert.deepStrictEqual([teams.stream, teams.blocked.reason], ["workday:acme/hris.team", "unsupported"])
      assert.include(teams.blocked.message, "the API has no list /hris/teems, which is the path of hris.team")

      const events = (await get("/v1/events?model=hris.employee")).json().events
      assert.deepStrictEqual(
        events.map(({ data, type }: { type: string; data: { id: string } }) => `${type} ${data.id}`).sort(),
        ["rollcall.hris.employee.created a", "rollcall.hris.employee.created b", "rollcall.hris.employee.updated a"]
      )
      assert.strictEqual(
        (await get("/v1/records?integration=workday:acme&model=hris.employee")).json().records.length,
        2
      )
      const unknown = await get("/v1/events?model=hris.employe")
      assert.deepStrictEqual([unknown.status, unknown.json().hint], [400, "did you mean `hris.employee` for model?"])

      const schema = (await get("/schemas/hris.employee/1")).json()
      assert.deepStrictEqual([schema.title, schema.required, schema.additionalProperties], [
        "HrisEmployee",
        ["id"],
        true
      ])
      const { components } = (await get("/openapi.json")).json()
      assert.include(components.schemas.Model.enum, "hris.employee")
      assert.property(components.schemas, "HrisEmployeeEventData")
      assert.include((await get("/v1/overview")).json().models, "hris.employee")
      assert.match((await get("/metrics")).text, /rollcall_streams\{model="hris.employee",state="ok"\} 1/)
      assert.include((await runCommand(["schema"], environment)).stdout, "rollcall.hris.employee")
      const exported = await runCommand(["export", "--model", "hris.employee"], environment)
      assert.include(exported.stdout, "Ada")
      const planned = await runCommand(["forget", "workday:acme/hris.employee/b"], environment)
      assert.match(planned.stdout, /^mentioned in +1 record of hris\.employee: a$/m)
      const forgotten = await runCommand(["forget", "workday:acme/hris.employee/b", "--yes", "--wait"], environment)
      assert.strictEqual(forgotten.code, 0, forgotten.stderr)
      assert.notInclude((await get("/v1/events")).text, "name b")

      await process.stop()
      const { ROLLCALL_LISTS: _, ROLLCALL_MODELS: __, ...without } = environment
      const later = start(["start"], { ...without, ROLLCALL_MODELS: "hris.skill" })
      await later.says(/stream blocked: unsupported/, "stderr")
      const kept = JSON.parse((await runCommand(["status", "--json"], environment)).stdout).streams
      assert.deepStrictEqual(kept.map(({ stream }: { stream: string }) => stream), ["workday:acme/hris.skill"])
      assert.include((await get("/v1/events?model=hris.employee")).text, "Ada")
      assert.include((await get("/v1/records?integration=workday:acme&model=hris.employee")).text, "Ada")
      assert.include((await get("/v1/overview")).json().models, "hris.employee")
      assert.strictEqual((await get("/v1/streams/workday:acme/hris.employee")).status, 404)
      const bare = (...args: ReadonlyArray<string>) => runCommand(["export", ...args], without)
      assert.include((await bare()).stdout, "Ada")
      const table = await bare("--model", "hris.employee", "--format", "csv")
      assert.match(table.stdout, /^integration,id,unknown_fields,.*\nworkday:acme,a,"\{.*""Ada"".*\}",1,2\n$/)
      assert.match(table.stderr, /does not define hris\.employee: all fields are in the column unknown_fields/)
      const removed = await runCommand(["forget", "workday:acme/hris.employee/a", "--yes", "--wait"], environment)
      assert.strictEqual(removed.code, 0, removed.stderr)
      assert.notInclude((await get("/v1/events")).text, "Ada")
      await later.stop()

      const last = start(["start"], { ...without, ROLLCALL_INTEGRATIONS: "" })
      await last.says(/"message":"started"/, "stderr")
      const erased = await runCommand(
        ["integrations", "remove", "workday:acme", "--data", "erase", "--yes"],
        environment
      )
      assert.strictEqual(erased.code, 0, erased.stderr)
      await last.says(/integration erased/, "stderr")
      assert.deepStrictEqual((await get("/v1/events")).json().events, [])
      api.close()
    }))
})

/** A list and a plugin that cannot handle its records. */
const configuration = `
import { defineConfig, defineList } from "rollcall"
import * as Plugin from "rollcall/plugin"

const employees = defineList("hris.employee", { path: "/hris/employees" })

export default defineConfig({
  lists: [employees],
  plugins: [
    Plugin.make("failing")
      .on(employees.created, { origins: ["backfill"] }, () => new Plugin.Permanent({ message: "no" }))
      .with({ from: "oldest" })
  ]
})
`

describe("a list that the configuration file defines", () => {
  it("has holds, audits and dead letters like a built-in one, and a misspelled name gets the closest one", () =>
    inDirectory(async (directory, start) => {
      const ids = ["a", "b", "c", "d", "e", "f", "g", "h"]
      const api = await serveEmployees(ids)
      writeFileSync(join(directory, "rollcall.config.ts"), configuration)
      const environment = {
        ROLLCALL_API_URL: api.url,
        ROLLCALL_API_KEY: "k3y",
        ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
        ROLLCALL_HTTP_PORT: String(await freePort()),
        ROLLCALL_INTEGRATIONS: "workday:one,workday:two",
        ROLLCALL_MODELS: "hris.employee",
        ROLLCALL_INTERVAL: "1 second",
        ROLLCALL_SWEEP_INTERVAL: "1 second",
        ROLLCALL_CONFIRM_INTERVAL: "1 second",
        ROLLCALL_OVERLAP_MIN: "1 second"
      }
      const cli = (...args: ReadonlyArray<string>) => runCommand(args, environment, directory)
      const json = async (...args: ReadonlyArray<string>) => JSON.parse((await cli(...args, "--json")).stdout)
      const service = start(["start"], environment, directory)
      await service.says(/"message":"started"/, "stderr")
      for (const integration of ["workday:one", "workday:two"]) {
        const swept = await cli("streams", "sweep", `${integration}/hris.employee`, "--wait")
        assert.strictEqual(swept.code, 0, swept.stderr)
      }

      const deadLetters = await cli("deadletters", "list")
      assert.match(deadLetters.stdout, /hris\.employee/)
      assert.strictEqual((await cli("deadletters", "discard", "--plugin", "failing", "--yes")).code, 0)

      for (const id of ids.slice(1)) api.rows.delete(id)
      let holds: ReadonlyArray<{ readonly id: number; readonly stream: string; readonly records: number }> = []
      while (holds.length < 2 || holds.some(({ records }) => records < 7)) holds = await json("holds", "list")
      const holdOf = (integration: string) => String(holds.find(({ stream }) => stream.startsWith(integration))?.id)
      const shown = await cli("holds", "show", holdOf("workday:one"))
      assert.match(shown.stdout, /workday:one\/hris\.employee/)
      for (const id of ids.slice(1)) assert.match(shown.stdout, new RegExp(`^${id} `, "m"))
      const rejected = await cli("holds", "reject", holdOf("workday:two"))
      assert.strictEqual(rejected.code, 0, rejected.stderr)
      const approved = await cli("holds", "approve", holdOf("workday:one"), "--yes")
      assert.strictEqual(approved.code, 0, approved.stderr)
      const recordsOf = async (integration: string) =>
        (await cli("export", "--integration", integration)).stdout.trim().split("\n").length
      while (await recordsOf("workday:one") > 1);
      assert.strictEqual(await recordsOf("workday:two"), 8)

      const audits = [
        await json("streams", "audit", "workday:one/hris.employee"),
        await json("streams", "audit", "workday:two/hris.employee")
      ]
      assert.deepStrictEqual(audits.map(({ differing, pending, read }) => ({ differing, pending, read })), [
        { differing: 0, pending: {}, read: 1 },
        { differing: 0, pending: { rejected: 7 }, read: 1 }
      ])

      for (
        const args of [
          ["streams", "audit", "workday:one/hris.employe"],
          ["tail", "--model", "hris.employe"],
          ["export", "--model", "hris.employe"],
          ["schema", "--connect", "hris.employe"],
          ["forget", "workday:one/hris.employe/a"]
        ]
      ) {
        const { code, stderr } = await cli(...args)
        assert.strictEqual(code, 1, args.join(" "))
        assert.include(stderr, "hris.employee", args.join(" "))
      }
      api.close()
    }))
})
