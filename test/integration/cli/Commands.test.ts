/** Commands that call a running process. All of them call the same one, in this order. */
import { assert, describe, it } from "vitest"
import { freePort } from "../../support/services/FreePort.ts"
import { type Program, runCommand, sandboxed, type Start, whileTesting } from "./Program.ts"

const started = /"message":"started"/

interface Running {
  readonly sandbox: Awaited<ReturnType<typeof sandboxed>>["sandbox"]
  readonly environment: Readonly<Record<string, string>>
  readonly start: Start
  service: Program
}

describe("a running process", () => {
  const running = whileTesting<Running>(async (directory, start, serve) => {
    const { environment: all, sandbox } = await sandboxed(serve, directory, { integrations: 2 })
    const [ROLLCALL_INTEGRATIONS = ""] = sandbox.integrations
    const environment = { ...all, ROLLCALL_INTEGRATIONS, ROLLCALL_HTTP_TOKEN: "local" }
    const service = start(["start"], environment)
    await service.says(started, "stderr")
    return { sandbox, environment, start, service }
  })
  const cli = (...args: ReadonlyArray<string>) => runCommand(args, running().environment)
  const apiOf = (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${running().environment["ROLLCALL_HTTP_PORT"]}${path}`, {
      headers: { authorization: "Bearer local" },
      ...init
    })

  it("is missing: `status` and `tail` say so, with a hint, and exit 1", async () => {
    const environment = { ROLLCALL_HTTP_PORT: String(await freePort()) }
    for (const name of ["status", "tail"]) {
      const { code, stderr } = await runCommand([name], environment)
      assert.strictEqual(code, 1)
      assert.match(stderr, /no Rollcall process answers at http:\/\/127\.0\.0\.1:\d+\n.*rollcall start/)
    }
  })

  it("shows its streams and events in `status` and `tail`, which use its token", async () => {
    const { environment, sandbox, start } = running()
    const [integration = ""] = sandbox.integrations
    for (;;) {
      const { streams } = JSON.parse((await cli("status", "--json")).stdout)
      if (streams.every(({ phase }: { readonly phase: string }) => phase === "live")) break
    }
    const shown = await cli("status")
    assert.strictEqual(shown.code, 0)
    assert.match(shown.stdout, new RegExp(`^${integration} +ats\\.tag +live +\\d+`, "m"))
    const { ROLLCALL_HTTP_TOKEN: _, ...without } = environment
    assert.strictEqual((await runCommand(["status"], without)).code, 1)

    const { next }: { next: string } = await (await apiOf("/v1/events?after=latest")).json()
    const tail = start(["tail", "--after", next], environment)
    const json = start(["tail", "--json", "--after", next], environment)
    const ofKind = ["tail", "--kind", "created", "--model", "ats.tag,ats.offer"]
    const filtered = start([...ofKind, "--since", new Date().toISOString()], environment)
    await sandbox.mutate({ op: "create", integration, model: "ats.tag", fields: { name: "Shown in tail" } })
    await tail.says(/ats\.tag +Shown in tail +created +v1/)
    await filtered.says(/ats\.tag +Shown in tail +created +v1/)
    const refused = await cli("tail", "--kind", "changed")
    assert.strictEqual(refused.code, 1)
    assert.match(refused.stderr, /HTTP 400\)\n.*in the query, kind.*created/)
    assert.strictEqual(JSON.parse((await json.says(/^\{.*\}$/m))[0]).data.after.name, "Shown in tail")
    assert.strictEqual((await tail.stop("SIGINT")).code, 0)
  })

  it("has sessions, which are listed and ended by id or all together", async () => {
    const signIn = () =>
      apiOf("/login", {
        method: "POST",
        body: new URLSearchParams({ token: "local" }),
        redirect: "manual",
        headers: {}
      })
    assert.strictEqual((await cli("sessions", "list")).stdout, "no sessions\n")
    for (let count = 0; count < 3; count++) await signIn()
    const sessions = JSON.parse((await cli("sessions", "list", "--json")).stdout)
    assert.lengthOf(sessions, 3)
    const listed = await cli("sessions", "list")
    assert.match(listed.stdout, /^SESSION +RIGHT +ADDRESS[\s\S]*^[0-9a-f]{16} +operate +127\.0\.0\.1 /m)
    const unclear = await cli("sessions", "end")
    assert.strictEqual(unclear.code, 1)
    assert.include(unclear.stderr, "no session is named")
    assert.strictEqual((await cli("sessions", "end", sessions[0].id)).stdout, "1 session ended\n")
    const again = await cli("sessions", "end", sessions[0].id)
    assert.strictEqual(again.code, 1)
    assert.include(again.stderr, "no open session has this id")
    assert.deepStrictEqual(JSON.parse((await cli("sessions", "end", "--all", "--json")).stdout), { ended: 2 })
  })

  it("gets and loses integrations; a refusal has a hint and exit code 1", async () => {
    const { sandbox, service } = running()
    const [, id = ""] = sandbox.integrations
    const integrations = (...args: ReadonlyArray<string>) => cli("integrations", ...args)
    const added = await integrations("add", id, "--models", "hris.skill,hris.payslip", "--backfill", "fill", "--json")
    assert.strictEqual(added.code, 0, added.stderr)
    const models = ["hris.payslip", "hris.skill"]
    assert.deepInclude(JSON.parse(added.stdout), { id, state: "active", models, streams: 2 })
    await service.says(new RegExp(`backfill complete.*${id}`), "stderr")
    const again = await integrations("add", id)
    assert.strictEqual(again.code, 1)
    assert.include(again.stderr, "remove it first")
    const wrong = await integrations("add", "sandbox:other", "--models", "ats.tags", "--interval", "soon")
    assert.strictEqual(wrong.code, 1)
    assert.match(wrong.stderr, /Did you mean "ats\.tag"\?[\s\S]*"soon" is not a duration/)

    const row = new RegExp(`^${id} +default +active +run time +hris\\.payslip,hris\\.skill +fill +2 +\\d+$`, "m")
    assert.match((await integrations("list")).stdout, row)
    const unconfirmed = await integrations("remove", id, "--data", "erase")
    assert.strictEqual(unconfirmed.code, 1)
    assert.match(unconfirmed.stdout, new RegExp(`^${id} +default +active`, "m"))
    assert.match(unconfirmed.stderr, /nothing was changed\n.*--yes/)
    const removed = await integrations("remove", id, "--data", "erase", "--yes")
    assert.strictEqual(removed.code, 0, removed.stderr)
    await service.says(/integration erased/, "stderr")
    assert.lengthOf(JSON.parse((await integrations("list", "--json")).stdout), 1)
    assert.strictEqual((await integrations("remove", id)).code, 2, "--data is required")
  })

  it("forgets a record after a plan and a confirmation, lists it, and allows it again; it stays away over a restart", async () => {
    const { environment, sandbox, service, start } = running()
    const [integration = ""] = sandbox.integrations
    const records = async () => {
      const response = await apiOf(`/v1/records?integration=${encodeURIComponent(integration)}&model=ats.candidate`)
      const body = await response.json() as { records: ReadonlyArray<{ id: string }> }
      return body.records.map(({ id }) => id)
    }
    const [id = ""] = await records()
    const name = `${integration}/ats.candidate/${id}`
    const forget = (...args: ReadonlyArray<string>) => cli("forget", ...args)

    const asked = await forget(name)
    assert.strictEqual(asked.code, 1)
    assert.match(asked.stdout, /^record +live, 1 row in the log$/m)
    assert.match(asked.stdout, /^repeated in +\d+ records? of ats.application: /m)
    assert.match(asked.stderr, /nothing was changed\n.*--plan [0-9a-f]{16} to confirm/)
    const plan = /--plan ([0-9a-f]{16})/.exec(asked.stderr)?.[1] ?? ""
    const done = await forget(name, "--plan", plan, "--json")
    assert.strictEqual(done.code, 0, done.stderr)
    assert.deepInclude(JSON.parse(done.stdout), { id, model: "ats.candidate", state: "forgotten" })
    const tail = start(["tail", "--json", "--since", "2020-01-01T00:00:00Z"], environment)
    await tail.says(/^\{.*\}$/m)
    assert.strictEqual((await service.stop()).code, 0)
    const { code, stderr } = await tail.ended
    assert.strictEqual(code, 1)
    assert.match(stderr, /the process ended the stream of events\n.*rollcall tail --json --after /)
    running().service = start(["start"], environment)
    await running().service.says(started, "stderr")
    assert.match((await forget("--list")).stdout, new RegExp(`ats.candidate +${id} +forgotten`))
    assert.notInclude(await records(), id)
    const wrong = await forget(`${integration}/ats.person/1`)
    assert.strictEqual(wrong.code, 1)
    assert.match(wrong.stderr, /nothing is stored about ats\.person[^]*the models are .*hris\.employee/)
    assert.match((await forget("ats.candidate/1")).stderr, /not the name of a record\n.*<integration>\/<model>\/<id>/)
    for (const args of [["--list", "--allow"], ["--list", name], ["--allow", name, "--plan", "x"]]) {
      const { code, stderr } = await forget(...args)
      assert.strictEqual(code, 1)
      assert.include(stderr, "cannot be combined", args.join(" "))
    }
    assert.include((await forget(name, "--allow")).stdout, "allowed")
    assert.deepStrictEqual(JSON.parse((await forget("--list", "--json")).stdout), [])
  })
})
