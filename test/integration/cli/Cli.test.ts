import { spawnSync } from "node:child_process"
import { createServer as createHttpServer } from "node:http"
import { type AddressInfo, createServer } from "node:net"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "vitest"
import { freePort, inDirectory, run, runCommand, sandboxed } from "./Program.ts"

const lines = (text: string) => text.split("\n").filter((line) => line !== "")
const account = { ROLLCALL_API_URL: "http://127.0.0.1:9/v1", ROLLCALL_API_KEY: "k3y-of-the-account" }

describe("usage", () => {
  it("--help names every command and exits 0", async () => {
    const { code, stdout } = await runCommand(["--help"])
    assert.strictEqual(code, 0)
    for (
      const name of [
        "start",
        "demo",
        "sandbox",
        "doctor",
        "store",
        "schema",
        "status",
        "tail",
        "streams",
        "holds",
        "integrations",
        "plugins",
        "deadletters",
        "forget",
        "sessions"
      ]
    ) {
      assert.match(stdout, new RegExp(`^  ${name} `, "m"))
    }
  })

  it("the help of each command names its flags", async () => {
    const flags = {
      start: ["once", "config"],
      doctor: ["config", "json"],
      demo: ["for", "seed", "json"],
      sandbox: ["port", "seed", "speed", "integrations", "records", "faults", "key", "cursor-parameter", "json"],
      status: ["watch", "json", "config"],
      tail: ["json", "after", "since", "integration", "model", "kind", "transition", "config"],
      "streams audit": ["json", "config"],
      "streams rewind": ["to", "json", "config"]
    }
    await Promise.all(
      Object.entries(flags).map(async ([name, options]) => {
        const { code, stdout } = await runCommand([...name.split(" "), "--help"])
        assert.strictEqual(code, 0)
        for (const option of options) assert.include(stdout, `--${option}`)
      })
    )
  })

  it("the help of `start` names the environment variables", async () => {
    const { stdout } = await runCommand(["start", "--help"])
    assert.match(stdout, /^ {2}ROLLCALL_API_KEY +key of the API; a secret$/m)
    assert.notInclude((await runCommand(["status", "--help"])).stdout, "ROLLCALL_API_KEY ")
  })

  it("--version is the package's", async () => {
    const { code, stdout } = await run(["--version"])
    assert.strictEqual(code, 0)
    assert.match(stdout, /\d+\.\d+\.\d+/)
  })

  for (
    const args of [
      ["strat"],
      ["start", "--twice"],
      ["sandbox", "--port", "x"],
      ["sandbox", "--port", "70000"],
      [
        "sandbox",
        "--speed",
        "-1"
      ],
      [
        "demo",
        "--for",
        "soon"
      ],
      ["streams", "rewind", "greenhouse:acme/ats.tag", "--to", "2026-03-01T12:00:00"],
      [
        "deadletters",
        "discard",
        "--until",
        "March 7"
      ]
    ]
  ) {
    it(`\`${args.join(" ")}\` is wrong usage: exit code 2, reported on standard error`, async () => {
      const { code, stderr, stdout } = await (args[0] === "strat" ? run : runCommand)(args)
      assert.deepStrictEqual([code, stdout], [2, ""])
      assert.isNotEmpty(stderr)
      assert.notMatch(stderr, /^ +at /m)
    })
  }
})

describe("forget", () => {
  it("refuses arguments of which it would ignore one", async () => {
    const record = "greenhouse:acme/ats.candidate/x"
    for (const args of [["--list", "--allow"], ["--list", record], ["--allow", record, "--plan", "x"]]) {
      const { code, stderr } = await runCommand(["forget", ...args])
      assert.strictEqual(code, 1)
      assert.include(stderr, "cannot be combined", args.join(" "))
    }
  })
})

describe("start", () => {
  it("with a missing configuration logs every fault in one line and exits 1", async () => {
    const { code, stderr } = await runCommand(["start"], { ROLLCALL_MODELS: "ats.tags", ROLLCALL_HTTP_PORT: "none" })
    assert.strictEqual(code, 1)
    assert.lengthOf(lines(stderr), 1)
    const { level, message } = JSON.parse(stderr)
    assert.strictEqual(level, "error")
    for (const name of ["ROLLCALL_API_URL", "ROLLCALL_API_KEY", "ROLLCALL_MODELS", "ROLLCALL_HTTP_PORT"]) {
      assert.include(message, name)
    }
    assert.include(message, `Did you mean "ats.tag"?`)
  })

  it("a port in use ends the process with a hint and without a stack", () =>
    inDirectory(async (directory) => {
      const other = createServer().listen(0, "127.0.0.1")
      await new Promise((resolve) => other.once("listening", resolve))
      const { port } = other.address() as AddressInfo
      const { code, stderr } = await run(["start"], {
        ...account,
        ROLLCALL_HTTP_PORT: String(port),
        ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
        ROLLCALL_LOG_FORMAT: "pretty"
      })
      other.close()
      assert.strictEqual(code, 1)
      assert.include(stderr, `127.0.0.1 port ${port} is in use`)
      assert.include(stderr, "ROLLCALL_HTTP_PORT")
      assert.notMatch(stderr, /^ +at /m)
    }))

  it("a second process with the same configuration ends because of the port and takes nothing over from the first", () =>
    inDirectory(async (directory, start) => {
      const file = join(directory, "rollcall.db")
      const port = String(await freePort())
      const environment = { ...account, ROLLCALL_STORE: `sqlite:${file}`, ROLLCALL_HTTP_PORT: port }
      const first = start(["start"], environment)
      await first.says(/"message":"started"/, "stderr")
      const epochs = () => {
        const store = new DatabaseSync(file, { readOnly: true })
        const rows = store.prepare("SELECT scope, epoch FROM ownership ORDER BY scope").all()
        store.close()
        return rows
      }
      const before = epochs()
      assert.isNotEmpty(before)
      const { code, stderr } = await run(["start"], environment)
      assert.strictEqual(code, 1)
      assert.include(stderr, `port ${port} is in use`)
      assert.deepStrictEqual(epochs(), before)
    }))

  it("a store that cannot be opened ends the process with a hint", () =>
    inDirectory(async (directory) => {
      const { code, stderr } = await runCommand(["start"], {
        ...account,
        ROLLCALL_STORE: `sqlite:${join(directory, "missing", "rollcall.db")}`,
        ROLLCALL_HTTP_PORT: "0"
      })
      assert.strictEqual(code, 1)
      assert.include(JSON.parse(lines(stderr).at(-1)!).message, "does not exist")
    }))

  it("serves its first request within 1.5 seconds of CPU time", () =>
    inDirectory(async (directory, start) => {
      const port = await freePort()
      const environment = {
        ...account,
        ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
        ROLLCALL_HTTP_PORT: String(port)
      }
      // the process replaces itself, as it does for a user
      const service = start(["start"], environment, undefined, undefined, true)
      while (!(await fetch(`http://127.0.0.1:${port}/health/live`).then((response) => response.ok, () => false))) {
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
      assert.isBelow(service.worked(), 1500)
    }))

  it("logs facts as JSON lines, drains on SIGTERM although a reader connects at that moment, and exits 0", () =>
    inDirectory(async (directory, start, serve) => {
      const { api, environment, key } = await sandboxed(serve, directory, 60)
      const service = start(["start"], environment, undefined, undefined, true)
      await service.says(/"message":"started"/, "stderr")
      while (!(await fetch(`${api}/health/ready`)).ok) await new Promise((resolve) => setTimeout(resolve, 50))
      const follower = fetch(`${api}/v1/events`, { headers: { accept: "text/event-stream" } })
        .then((response) => response.text())
        .catch(() => "cut")
      const { code, stderr } = await service.stop()
      await follower
      assert.strictEqual(code, 0)
      for (const line of lines(stderr)) assert.isString(JSON.parse(line).message)
      assert.notInclude(stderr, key)
    }))

  it("--once reads every stream, publishes the changes and exits 0", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await sandboxed(serve, directory)
      const { code, stderr } = await start(["start", "--once"], environment).ended
      assert.strictEqual(code, 0, stderr)
      const last = JSON.parse(lines(stderr).at(-1)!)
      assert.strictEqual(last.problems, 0)
      assert.isAbove(last.events, 40)
    }))

  it("--once exits 1 if Kafka refuses the login, although there is nothing to publish", () =>
    inDirectory(async (directory) => {
      const issuer = createHttpServer((_, response) => response.writeHead(401).end(`{"error":"invalid_client"}`))
      await new Promise<void>((resolve) => issuer.listen(0, "127.0.0.1", resolve))
      const { port } = issuer.address() as AddressInfo
      const { code, stderr } = await runCommand(["start", "--once"], {
        ...account,
        ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
        KAFKA_BROKERS: "127.0.0.1:9",
        KAFKA_SASL_MECHANISM: "oauthbearer",
        KAFKA_SASL_TOKEN_URL: `http://127.0.0.1:${port}/token`,
        KAFKA_SASL_CLIENT_ID: "rollcall",
        KAFKA_SASL_CLIENT_SECRET: "cl1ent-s3cret"
      })
      issuer.close().closeAllConnections()
      assert.strictEqual(code, 1, stderr)
      assert.match(stderr, /not published to Kafka: .*refused the client \(invalid_client\)/)
      assert.notInclude(stderr, "cl1ent-s3cret")
    }))

  it("--once exits 1 if the key is refused, with one warning, names the streams in one error, and never prints the key", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await sandboxed(serve, directory)
      const { code, stderr } = await runCommand(["start", "--once"], {
        ...environment,
        ROLLCALL_API_KEY: "wr0ng-key"
      })
      assert.strictEqual(code, 1)
      const [warning, error, ...more] = lines(stderr).flatMap((line) =>
        line.includes("status 401") ? [JSON.parse(line)] : []
      )
      assert.deepInclude(warning, { level: "warn", message: "account blocked: key", account: "default" })
      assert.match(warning.why, /status 401 .*ROLLCALL_API_KEY/)
      assert.match(error.message, /\/ats\.tag, .*and 2 more: status 401/)
      assert.deepStrictEqual(more, [])
      assert.notInclude(stderr, "wr0ng-key")
    }))
})

describe("status and tail", () => {
  it("report that no process runs, with a hint, and exit 1", async () => {
    const environment = { ROLLCALL_HTTP_PORT: String(await freePort()) }
    for (const name of ["status", "tail"]) {
      const { code, stderr } = await runCommand([name], environment)
      assert.strictEqual(code, 1)
      assert.match(stderr, /no Rollcall process answers at http:\/\/127\.0\.0\.1:\d+\n.*rollcall start/)
    }
  })

  it("show the streams and events of the running process, using its token", () =>
    inDirectory(async (directory, start, serve) => {
      const { api, environment, key, url } = await sandboxed(serve, directory)
      const guarded = { ...environment, ROLLCALL_HTTP_TOKEN: "letmein", ROLLCALL_MODELS: "ats.tag" }
      const service = start(["start"], guarded)
      await service.says(/"message":"started"/, "stderr")
      for (;;) {
        const { streams } = JSON.parse((await runCommand(["status", "--json"], guarded)).stdout)
        if (streams[0]?.phase === "live") break
      }
      const shown = await runCommand(["status"], guarded)
      assert.strictEqual(shown.code, 0)
      assert.match(shown.stdout, /^sandbox:everything +ats\.tag +live +\d+/m)
      assert.strictEqual((await runCommand(["status"], environment)).code, 1)

      const latest = await fetch(`${api}/v1/events?after=latest`, { headers: { authorization: "Bearer letmein" } })
      const { next }: { next: string } = await latest.json()
      const tail = start(["tail", "--after", next], guarded)
      const json = start(["tail", "--json", "--after", next], guarded)
      const ofKind = ["tail", "--kind", "created", "--model", "ats.tag,ats.offer"]
      const filtered = start([...ofKind, "--since", new Date().toISOString()], guarded)
      const act = {
        op: "create",
        integration: "sandbox:everything",
        model: "ats.tag",
        fields: { name: "Shown in tail" }
      }
      await fetch(`${new URL(url).origin}/_sandbox/mutations`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(act)
      })
      await tail.says(/ats\.tag +Shown in tail +created +v1/)
      await filtered.says(/ats\.tag +Shown in tail +created +v1/)
      const refused = await runCommand(["tail", "--kind", "changed"], guarded)
      assert.strictEqual(refused.code, 1)
      assert.match(refused.stderr, /HTTP 400\)\n.*in the query, kind.*created/)
      assert.strictEqual(JSON.parse((await json.says(/^\{.*\}$/m))[0]).data.after.name, "Shown in tail")
      assert.strictEqual((await tail.stop("SIGINT")).code, 0)
    }))
})

describe("sessions", () => {
  it("are listed and ended by id or all together", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await sandboxed(serve, directory)
      const guarded = { ...environment, ROLLCALL_HTTP_TOKEN: "local" }
      const service = start(["start"], guarded)
      await service.says(/"message":"started"/, "stderr")
      const cli = (...args: ReadonlyArray<string>) => runCommand(["sessions", ...args], guarded)
      const signIn = () =>
        fetch(`http://127.0.0.1:${environment.ROLLCALL_HTTP_PORT}/login`, {
          method: "POST",
          body: new URLSearchParams({ token: "local" }),
          redirect: "manual"
        })

      assert.strictEqual((await cli("list")).stdout, "no sessions\n")
      for (let count = 0; count < 3; count++) await signIn()
      const sessions = JSON.parse((await cli("list", "--json")).stdout)
      assert.lengthOf(sessions, 3)
      assert.match((await cli("list")).stdout, /^SESSION +RIGHT +ADDRESS[\s\S]*^[0-9a-f]{16} +operate +127\.0\.0\.1 /m)
      const unclear = await cli("end")
      assert.strictEqual(unclear.code, 1)
      assert.include(unclear.stderr, "no session is named")
      assert.strictEqual((await cli("end", sessions[0].id)).stdout, "1 session ended\n")
      const again = await cli("end", sessions[0].id)
      assert.strictEqual(again.code, 1)
      assert.include(again.stderr, "no open session has this id")
      assert.deepStrictEqual(JSON.parse((await cli("end", "--all", "--json")).stdout), { ended: 2 })
      assert.strictEqual((await service.stop()).code, 0)
    }), 180_000)
})

describe("integrations", () => {
  it(
    "are added and removed while the process runs; a refusal has a hint and exit code 1",
    () =>
      inDirectory(async (directory, start, serve) => {
        const { environment } = await sandboxed(serve, directory)
        const { ROLLCALL_INTEGRATIONS: id = "", ...nothing } = environment
        const service = start(["start"], nothing)
        await service.says(/"message":"started"/, "stderr")
        const cli = (...args: ReadonlyArray<string>) => runCommand(["integrations", ...args], environment)

        const added = await cli("add", id, "--models", "ats.tag,ats.offer", "--backfill", "fill", "--json")
        assert.strictEqual(added.code, 0, added.stderr)
        assert.deepInclude(JSON.parse(added.stdout), {
          id,
          state: "active",
          models: ["ats.offer", "ats.tag"],
          streams: 2
        })
        await service.says(/backfill complete/, "stderr")
        const again = await cli("add", id)
        assert.strictEqual(again.code, 1)
        assert.include(again.stderr, "remove it first")
        const wrong = await cli("add", "sandbox:other", "--models", "ats.tags", "--interval", "soon")
        assert.strictEqual(wrong.code, 1)
        assert.match(wrong.stderr, /Did you mean "ats\.tag"\?[\s\S]*"soon" is not a duration/)

        const listed = await cli("list")
        assert.match(
          listed.stdout,
          /^sandbox:everything +default +active +run time +ats\.offer,ats\.tag +fill +2 +\d+$/m
        )
        const unconfirmed = await cli("remove", id, "--data", "erase")
        assert.strictEqual(unconfirmed.code, 1)
        assert.match(unconfirmed.stdout, /^sandbox:everything +default +active/m)
        assert.match(unconfirmed.stderr, /nothing was changed\n.*--yes/)
        const removed = await cli("remove", id, "--data", "erase", "--yes")
        assert.strictEqual(removed.code, 0, removed.stderr)
        await service.says(/integration erased/, "stderr")
        assert.deepStrictEqual(JSON.parse((await cli("list", "--json")).stdout), [])
        assert.strictEqual((await cli("remove", id)).code, 2, "--data is required")
        assert.strictEqual((await service.stop()).code, 0)
      }),
    180_000
  )
})

describe("forget", () => {
  it(
    "shows a plan, refuses without a confirmation, forgets, lists, and allows again; the record stays away over a restart",
    () =>
      inDirectory(async (directory, start, serve) => {
        const { environment } = await sandboxed(serve, directory)
        let service = start(["start"], environment)
        await service.says(/backfill complete.*ats.application/, "stderr")
        const { ROLLCALL_HTTP_PORT: port, ROLLCALL_INTEGRATIONS: integration = "" } = environment
        const records = async () => {
          const query = `integration=${encodeURIComponent(integration)}&model=ats.candidate`
          const response = await fetch(`http://127.0.0.1:${port}/v1/records?${query}`)
          const body = await response.json() as { records: ReadonlyArray<{ id: string }> }
          return body.records.map(({ id }) => id)
        }
        const [id = ""] = await records()
        const name = `${integration}/ats.candidate/${id}`
        const cli = (...args: ReadonlyArray<string>) => runCommand(["forget", ...args], environment)

        const asked = await cli(name)
        assert.strictEqual(asked.code, 1)
        assert.match(asked.stdout, /^record +live, 1 row in the log$/m)
        assert.match(asked.stdout, /^repeated in +\d+ records? of ats.application: /m)
        assert.match(asked.stderr, /nothing was changed\n.*--plan [0-9a-f]{16} to confirm/)
        const plan = /--plan ([0-9a-f]{16})/.exec(asked.stderr)?.[1] ?? ""
        const done = await cli(name, "--plan", plan, "--json")
        assert.strictEqual(done.code, 0, done.stderr)
        assert.deepInclude(JSON.parse(done.stdout), { id, model: "ats.candidate", state: "forgotten" })
        await service.stop()
        service = start(["start"], environment)
        await service.says(/"message":"started"/, "stderr")
        assert.match((await cli("--list")).stdout, new RegExp(`ats.candidate +${id} +forgotten`))
        assert.notInclude(await records(), id)
        const wrong = await cli(`${integration}/ats.person/1`)
        assert.strictEqual(wrong.code, 1)
        assert.match(wrong.stderr, /not the name of a record\n.*hris\.employee/)
        assert.include((await cli(name, "--allow")).stdout, "allowed")
        assert.deepStrictEqual(JSON.parse((await cli("--list", "--json")).stdout), [])
        assert.strictEqual((await service.stop()).code, 0)
      }),
    180_000
  )
})

describe("sandbox", () => {
  it("--json prints one line with URL, key, integrations and ids, serves, and exits 0", () =>
    inDirectory(async (_, start) => {
      const sandbox = start(["sandbox", "--port", "0", "--key", "k", "--records", "10", "--json"])
      const line = JSON.parse((await sandbox.says(/^\{.*\}$/m))[0])
      assert.strictEqual(line.key, "k")
      assert.lengthOf(line.integrations, 2)
      assert.include(Object.keys(line.ids), "document_category")
      const response = await fetch(`${line.url}/ats/tags`, {
        headers: { authorization: "Bearer k", "x-integration-id": line.integrations[0] }
      })
      assert.strictEqual(response.status, 200)
      const { code, stdout } = await sandbox.stop("SIGINT")
      assert.strictEqual(code, 0)
      assert.lengthOf(lines(stdout), 1)
    }))

  it("prints variables for a shell, which make Rollcall read it", () =>
    inDirectory(async (_, start) => {
      const key = "it's a key"
      const sandbox = start(["sandbox", "--port", "0", "--key", key, "--cursor-parameter", "page", "--records", "5"])
      const [printed] = await sandbox.says(/^export .*CURSOR_PARAMETER=.*$/ms)
      const names = [...printed.matchAll(/^export (\w+)=/gm)].map(([, name]) => name)
      const shown = spawnSync(
        "sh",
        ["-c", `${printed}\nprintf '%s\\n' ${names.map((name) => `"$${name}"`).join(" ")}`],
        {
          encoding: "utf8"
        }
      )
      const [url = "", ...others] = lines(shown.stdout)
      assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/v1$/)
      assert.deepStrictEqual(others, [key, "greenhouse:acme,workday:acme", "page"])
    }))

  it("a port in use is reported, with exit code 1", () =>
    inDirectory(async (_, start) => {
      const first = start(["sandbox", "--port", "0", "--records", "5", "--json"])
      const { url } = JSON.parse((await first.says(/^\{.*\}$/m))[0])
      const { code, stderr } = await runCommand(["sandbox", "--port", new URL(url).port, "--records", "5"])
      assert.strictEqual(code, 1)
      assert.match(stderr, /is taken/)
      assert.notMatch(stderr, /^ +at /m)
    }))
})

describe("demo", () => {
  it("--for 5s --json prints one object, its check passes, and it exits 0", async () => {
    const { code, stderr, stdout } = await run(["demo", "--for", "5s", "--json", "--seed", "3"])
    assert.strictEqual(code, 0, stdout + stderr)
    assert.lengthOf(lines(stdout), 1)
    const summary = JSON.parse(stdout)
    assert.deepStrictEqual(summary.check, { ...summary.check, passed: true, missing: [], differences: [] })
    assert.isAbove(summary.check.compared, 1000)
    // on a slow machine the absence is confirmed before the end, and the record is deleted
    const vanished = summary.check.pending + summary.events.deleted
    assert.isAbove(vanished, 0, "a record that vanished is listed or deleted, not lost")
    assert.isAbove(summary.events.updated, 0)
    assert.isAbove(summary.records_read, summary.check.compared)
  })

  it("shows an introduction within a second of CPU time, events within ten, and a summary on Ctrl-C", () =>
    inDirectory(async (_, start) => {
      const demo = start(["demo"])
      await demo.says(/Rollcall demo/)
      assert.isBelow(demo.worked(), 1000)
      await demo.says(/Console http:\/\/127\.0\.0\.1:\d+/)
      await demo.says(/^\d\d:\d\d:\d\dZ {2}\w+\.\w+ .* v\d+/m)
      assert.isBelow(demo.worked(), 10_000)
      await demo.says(/ Maya L\. +created .*\n\nThe event of the candidate, whole:\n\{\n {2}"specversion"/)
      await demo.says(/ hired \(PENDING → HIRED\)/)
      await demo.says(/→ welcome-new-hire +createEmployee +maya\./)
      const { code, stdout } = await demo.stop("SIGINT")
      assert.strictEqual(code, 0, stdout)
      assert.match(stdout, /check +passed/)
      const times = stdout.match(/^\d\d:\d\d:\d\dZ/gm) ?? []
      assert.deepStrictEqual(times, times.toSorted())
      assert.notInclude(stdout, "\x1b[")
    }))
})
