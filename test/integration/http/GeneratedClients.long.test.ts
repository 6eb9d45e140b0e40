/**
 * Independent generators make clients of `/openapi.json` in TypeScript and in Python, and each client runs every command of the operating
 * API as it was generated.
 *
 * Gotchas
 * - The generators are installed once, from `openapi-typescript.txt` and `openapi-python-client.txt`, into folders of this project; they
 *   need npm, and Python 3 with pip.
 */
import { assert, beforeAll, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { promisify } from "node:util"
import * as Server from "../../../src/http/Server.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import { installedModules } from "../../support/services/NodePackages.ts"
import { installedPackages } from "../../support/services/PythonPackages.ts"
import * as Running from "./Running.ts"

const exec = promisify(execFile)
const { ask, served, stream, write } = Running
const pinsOf = (name: string) => join(import.meta.dirname, `${name}.txt`)
const token = "an-operate-token-of-32-characters"

/** Prints the name and the status of each command, and what a reader of the feed sees. */
const typescript = `
import createClient from "openapi-fetch"
import type { paths } from "./api.d.ts"

const [baseUrl, token] = process.argv.slice(2)
const { DELETE, GET, POST } = createClient<paths, "application/json">({
  baseUrl: baseUrl!,
  headers: { authorization: "Bearer " + token }
})
const print = (name: string, { response }: { response: Response }) => console.log(name, response.status)

const events = await GET("/v1/events", { params: { query: { kind: ["created"] } } })
for (const event of events.data?.events ?? []) {
  if (event.model === "ats.tag") console.log("event", event.recordversion + 1, event.data.after?.name)
}
const records = await GET("/v1/records", { params: { query: { integration: "greenhouse:acme", model: "ats.tag" } } })
for (const record of records.data?.records ?? []) {
  if (record.model === "ats.tag") console.log("record", record.version + 1, record.after.name)
}

const skill = { integration: "workday:acme", model: "hris.skill" } as const
const person = { integration: "greenhouse:acme", model: "ats.candidate", id: "unknown" } as const
const path = { ...skill, command: "poll" } as const
const plugin = { path: { plugin: "picky" } }
const range = { first: 1, last: 1 }
print("addIntegration", await POST("/v1/integrations", { body: { id: "workday:acme", account: "default", models: ["hris.skill"] } }))
print("commandStream", await POST("/v1/streams/{integration}/{model}/{command}", { params: { path } }))
print("rewindStream", await POST("/v1/streams/{integration}/{model}/rewind", { params: { path: skill }, body: { to: "2026-03-01T12:00:00Z" } }))
print("auditStream", await POST("/v1/streams/{integration}/{model}/audit", { params: { path: skill } }))
print("removeIntegration", await POST("/v1/integrations/{id}/remove", { params: { path: { id: "workday:acme" } }, body: { data: "keep" } }))
print("approveHold", await POST("/v1/holds/{id}/approve", { params: { path: { id: 7 }, query: { plan: "p" } } }))
print("rejectHold", await POST("/v1/holds/{id}/reject", { params: { path: { id: 7 } } }))
print("switchPluginOff", await POST("/v1/plugins/{plugin}/off", { params: plugin }))
print("switchPluginOn", await POST("/v1/plugins/{plugin}/on", { params: plugin }))
print("tryHandler", await POST("/v1/plugins/{plugin}/try", { params: { ...plugin, query: { handler: "ats.tag.created" } } }))
print("stopWrites", await POST("/v1/plugins/writes/stop"))
print("resumeWrites", await POST("/v1/plugins/writes/resume"))
print("replayEvents", await POST("/v1/plugins/{plugin}/replay", { params: plugin, body: { handler: "ats.tag.created", dryRun: true } }))
const planned = await POST("/v1/deadletters/plan", { body: { plugin: "picky" } })
print("planRedrive", planned)
const plan = planned.data?.plan ?? ""
print("redriveDeadLetters", await POST("/v1/deadletters/redrive", { body: { plugin: "picky", plan } }))
print("getRedriveProgress", await POST("/v1/deadletters/progress", { body: { ranges: [range] } }))
print("discardDeadLetters", await POST("/v1/deadletters/discard", { body: { plugin: "picky", plan } }))
print("resolveOutcome", await POST("/v1/deadletters/{id}/resolve", { params: { path: { id: 7 } }, body: { outcome: "o", happened: false } }))
print("planForgetting", await POST("/v1/forget/plan", { body: person }))
print("forgetRecord", await POST("/v1/forget", { body: { ...person, plan: "p" } }))
print("getForgettingProgress", await POST("/v1/forget/progress", { body: person }))
print("allowRecord", await POST("/v1/forget/allow", { body: person }))
print("endSession", await DELETE("/v1/sessions/{id}", { params: { path: { id: "none" } } }))
print("endAllSessions", await DELETE("/v1/sessions"))
`

const compilerOptions = {
  strict: true,
  noEmit: true,
  module: "nodenext",
  target: "es2022",
  lib: ["es2022", "dom", "dom.iterable"],
  types: [],
  allowImportingTsExtensions: true
}

const python = `
import sys
from rollcall_client import AuthenticatedClient
from rollcall_client.api.dead_letters import discard_dead_letters, get_redrive_progress, plan_redrive, redrive_dead_letters, resolve_outcome
from rollcall_client.api.events import list_events, list_records
from rollcall_client.api.forgetting import allow_record, forget_record, get_forgetting_progress, plan_forgetting
from rollcall_client.api.holds import approve_hold, reject_hold
from rollcall_client.api.integrations import add_integration, remove_integration
from rollcall_client.api.plugins import replay_events, resume_writes, stop_writes, switch_plugin_off, switch_plugin_on, try_handler
from rollcall_client.api.sessions import end_all_sessions, end_session
from rollcall_client.api.streams import audit_stream, command_stream, rewind_stream
import rollcall_client.models as m

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])

def run(name, operation, *path, **given):
    response = operation.sync_detailed(*path, client=client, **given)
    print(name, int(response.status_code))
    if response.parsed is None:
        raise Exception(name + " has a response that the document does not describe")
    return response.parsed

for event in list_events.sync(client=client, kind=[m.ListEventsKindItem.CREATED]).events:
    print("event", event.recordversion + 1, event.data.after.name)
for record in list_records.sync(client=client, integration="greenhouse:acme", model=m.Model.ATS_TAG).records:
    print("record", record.version + 1, record.after.name)

skill = ("workday:acme", m.Model.HRIS_SKILL)
person = dict(integration="greenhouse:acme", id="unknown")
run("addIntegration", add_integration, body=m.AddIntegrationBody(id="workday:acme", account="default", models=[m.Model.HRIS_SKILL]))
run("commandStream", command_stream, *skill, m.CommandStreamCommand.POLL)
run("rewindStream", rewind_stream, *skill, body=m.RewindStreamBody(to="2026-03-01T12:00:00Z"))
run("auditStream", audit_stream, *skill)
run("removeIntegration", remove_integration, "workday:acme", body=m.RemoveIntegrationBody(data=m.RemoveIntegrationBodyData.KEEP))
run("approveHold", approve_hold, 7, plan="p")
run("rejectHold", reject_hold, 7)
run("switchPluginOff", switch_plugin_off, "picky")
run("switchPluginOn", switch_plugin_on, "picky")
run("tryHandler", try_handler, "picky", handler="ats.tag.created")
run("stopWrites", stop_writes)
run("resumeWrites", resume_writes)
run("replayEvents", replay_events, "picky", body=m.ReplayEventsBody(handler="ats.tag.created", dry_run=True))
plan = run("planRedrive", plan_redrive, body=m.PlanRedriveBody(plugin="picky")).plan
run("redriveDeadLetters", redrive_dead_letters, body=m.RedriveDeadLettersBody(plugin="picky", plan=plan))
ranges = [m.GetRedriveProgressBodyRangesItem(first=1, last=1)]
run("getRedriveProgress", get_redrive_progress, body=m.GetRedriveProgressBody(ranges=ranges))
run("discardDeadLetters", discard_dead_letters, body=m.DiscardDeadLettersBody(plugin="picky", plan=plan))
run("resolveOutcome", resolve_outcome, 7, body=m.ResolveOutcomeBody(outcome="o", happened=False))
run("planForgetting", plan_forgetting, body=m.PlanForgettingBody(model="ats.candidate", **person))
run("forgetRecord", forget_record, body=m.ForgetRecordBody(model="ats.candidate", plan="p", **person))
run("getForgettingProgress", get_forgetting_progress, body=m.GetForgettingProgressBody(model="ats.candidate", **person))
run("allowRecord", allow_record, body=m.AllowRecordBody(model="ats.candidate", **person))
run("endSession", end_session, "none")
run("endAllSessions", end_all_sessions)
`

/** A folder with the document of the running server. */
const generated = Effect.gen(function*() {
  const folder = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "rollcall-clients-"))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
  )
  const { body, text } = yield* ask("/openapi.json", { authorization: `Bearer ${token}` })
  yield* Effect.promise(() => writeFile(join(folder, "openapi.json"), text))
  const operations = Object.values<Record<string, { operationId: string }>>(body.paths).flatMap(Object.entries)
  const commands = operations.flatMap(([method, { operationId }]) => method === "get" ? [] : [operationId])
  return { folder, commands }
})

const picky = Plugin.make("picky").on("ats.tag.created", {}, () => Effect.void).with({ from: "oldest" })

const missing = /^404$/
/** The status of each command that is not carried out, or not always. */
const answers: Readonly<Record<string, RegExp>> = {
  // they depend on whether the new stream was read already
  rewindStream: /^(200|409)$/,
  auditStream: /^(200|409)$/,
  // no circuit is open
  tryHandler: /^409$/,
  approveHold: missing,
  rejectHold: missing,
  resolveOutcome: missing,
  endSession: missing,
  planForgetting: missing,
  forgetRecord: missing,
  getForgettingProgress: missing,
  allowRecord: missing
}

/** Checks the output of a client. */
const check = (commands: ReadonlyArray<string>, output: string) => {
  const lines = output.trim().split("\n")
  assert.deepStrictEqual(lines.slice(0, 2), ["event 2 Engineering", "record 2 Engineering"])
  const statuses = new Map(lines.slice(2).map((line) => line.split(" ") as [string, string]))
  assert.sameMembers([...statuses.keys()], [...commands])
  for (const [name, status] of statuses) assert.match(status, answers[name] ?? /^200$/, name)
}

const run = (command: string, args: ReadonlyArray<string>, cwd: string, env = process.env) =>
  Effect.promise(() =>
    exec(command, args, { cwd, env }).catch(({ stderr, stdout }) => {
      throw new Error(`${command} ${args.join(" ")}\n${stdout}\n${stderr}`)
    })
  )

describe("a client that is generated from /openapi.json runs every command", () => {
  let modules = ""
  let libraries = ""
  beforeAll(async () => {
    modules = await installedModules(pinsOf("openapi-typescript"))
    libraries = await installedPackages(pinsOf("openapi-python-client"))
  })

  const example = Effect.gen(function*() {
    yield* stream({ phase: "live" })
    yield* write("r1", JSON.stringify({ id: "r1", name: "Engineering" }))
    return { ...yield* generated, url: (yield* Server.Server).url }
  })

  served("in TypeScript, with openapi-typescript and openapi-fetch", function*() {
    const { commands, folder, url } = yield* example
    yield* Effect.promise(async () => {
      await symlink(modules, join(folder, "node_modules"))
      await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }))
      await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }))
      // in place of the types of Node.js
      await writeFile(join(folder, "node.d.ts"), "declare const process: { readonly argv: Array<string> }")
      await writeFile(join(folder, "client.ts"), typescript)
    })
    yield* run(
      process.execPath,
      ["node_modules/openapi-typescript/bin/cli.js", "openapi.json", "-o", "api.d.ts"],
      folder
    )
    yield* run(process.execPath, ["node_modules/typescript/bin/tsc"], folder)
    const { stdout } = yield* run(process.execPath, ["client.ts", url, token], folder)
    check(commands, stdout)
  }, { token, plugins: [picky] })

  served("in Python, with openapi-python-client", function*() {
    const { commands, folder, url } = yield* example
    const env = {
      ...process.env,
      PYTHONPATH: libraries,
      PATH: `${join(libraries, "bin")}${delimiter}${process.env["PATH"]}`
    }
    const options = [
      "--path",
      "openapi.json",
      "--meta",
      "none",
      "--output-path",
      "rollcall_client",
      "--fail-on-warning"
    ]
    yield* run("python3", ["-m", "openapi_python_client", "generate", ...options], folder, env)
    const { stdout } = yield* run("python3", ["-c", python, url, token], folder, env)
    check(commands, stdout)
  }, { token, plugins: [picky] })
})
