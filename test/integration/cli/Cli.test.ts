import { spawnSync } from "node:child_process"
import { createServer as createHttpServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "vitest"
import { freePort } from "../../support/services/FreePort.ts"
import { inDirectory, run, runCommand, sandboxed } from "./Program.ts"

const lines = (text: string) => text.split("\n").filter((line) => line !== "")
const account = { ROLLCALL_API_URL: "http://127.0.0.1:9/v1", ROLLCALL_API_KEY: "k3y-of-the-account" }

describe("usage", () => {
  it("the help names the commands and flags, with examples, and exits 0", async () => {
    const helps: Readonly<Record<string, string>> = {
      "":
        "start demo sandbox doctor store schema lists status tail export streams holds integrations plugins deadletters forget sessions fleet",
      start: "--once --config",
      doctor: "--config --json",
      demo: "--for --seed --json",
      sandbox: "--port --seed --speed --integrations --records --faults --key --cursor-parameter --json",
      status: "--json --config",
      tail: "--json --after --since --integration --model --kind --transition --config",
      export: "--json --model --integration --format --output --sqlite --follow --config",
      schema: "--connect --json --config",
      "lists probe": "--integration --name --pages --config",
      "streams audit": "--json --config",
      "streams rewind": "--to --json --config",
      plugins: "new dev list show on off stop-writes resume-writes replay",
      deadletters: "list show plan redrive discard resolve",
      "plugins replay": "--from --to --integration --dry-run --fresh --limit --wait --timeout Replay,",
      "deadletters redrive": "--plan --over --fresh --id --yes --reason spread"
    }
    for (const [name, words] of Object.entries(helps)) {
      const { code, stdout } = await runCommand([...name.split(" ").filter(Boolean), "--help"])
      assert.strictEqual(code, 0)
      for (const word of words.split(" ")) assert.match(stdout, new RegExp(`(^| )${word}`, "m"), name)
    }
  })

  it("the help of `start` names the environment variables", async () => {
    const { stdout } = await runCommand(["start", "--help"])
    assert.match(stdout, /^ {2}ROLLCALL_API_KEY +key of the API; a secret$/m)
    assert.notInclude((await runCommand(["status", "--help"])).stdout, "ROLLCALL_API_KEY ")
  })

  it("`schema --connect` prints the Kafka Connect schemas of a model, or suggests another name", async () => {
    const { key, value } = JSON.parse((await runCommand(["schema", "--connect", "ats.tag"])).stdout)
    assert.deepStrictEqual([key.name, value.name], ["rollcall.ats.tag.Key", "rollcall.ats.tag.Envelope"])
    const { code, stderr } = await runCommand(["schema", "--connect", "ats.tags"])
    assert.strictEqual(code, 1)
    assert.match(stderr, /no model ats\.tags\n.*ats\.tag\?/)
  })

  it("--version is the package's", async () => {
    const { code, stdout } = await run(["--version"])
    assert.strictEqual(code, 0)
    assert.match(stdout, /\d+\.\d+\.\d+/)
  })

  it.each([
    "strat",
    "start --twice",
    "sandbox --port x",
    "sandbox --port 70000",
    "sandbox --speed -1",
    "demo --for soon",
    "streams rewind greenhouse:acme/ats.tag --to 2026-03-01T12:00:00",
    "deadletters discard --until March"
  ])("`%s` is wrong usage: exit code 2, reported on standard error", async (text) => {
    const args = text.split(" ")
    const { code, stderr, stdout } = await (args[0] === "strat" ? run : runCommand)(args)
    assert.deepStrictEqual([code, stdout], [2, ""])
    assert.isNotEmpty(stderr)
    assert.notMatch(stderr, /^ +at /m)
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

  it("a second process with the same configuration ends because of the port, with a hint, and takes nothing over from the first", () =>
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
      const { code, stderr } = await run(["start"], { ...environment, ROLLCALL_LOG_FORMAT: "pretty" })
      assert.strictEqual(code, 1)
      assert.include(stderr, `127.0.0.1 port ${port} is in use`)
      assert.include(stderr, "ROLLCALL_HTTP_PORT")
      assert.notMatch(stderr, /^ +at /m)
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
      const { api, environment, key } = await sandboxed(serve, directory, { speed: 60 })
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

describe("sandbox", () => {
  it("--json prints one line with URL, key, integrations and ids, serves, and exits 0; its port is taken meanwhile", () =>
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
      const second = await runCommand(["sandbox", "--port", new URL(line.url).port, "--records", "5"])
      assert.strictEqual(second.code, 1)
      assert.match(second.stderr, /is taken/)
      assert.notMatch(second.stderr, /^ +at /m)
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
})

describe("demo", () => {
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
      await demo.says(/ hris\.employee +Maya L\. +created .* by welcome-new-hire/)
      const { code, stdout } = await demo.stop("SIGINT")
      assert.strictEqual(code, 0, stdout)
      assert.match(stdout, /check +passed: the events reproduce all [\d,]{5,} records/)
      assert.match(stdout, /events .* [1-9][\d,]* updated/)
      assert.match(stdout, /echoes .*welcome-new-hire hris\.employee [1-9]/)
      // on a slow machine the absence is confirmed before the end, and the record is deleted
      assert.match(
        stdout,
        /, [1-9]\d* deleted|left out: [1-9]/,
        "a record that vanished is left out or deleted, not lost"
      )
      const times = stdout.match(/^\d\d:\d\d:\d\dZ/gm) ?? []
      assert.deepStrictEqual(times, times.toSorted())
      assert.notInclude(stdout, "\x1b[")
    }))

  it("starts although a variable of the user makes the configuration of one of its plugins invalid", () =>
    inDirectory(async (_, start) => {
      await start(["demo"], { WELCOME_LARGEST_DOCUMENT: "huge" }).says(/Console http:\/\/127\.0\.0\.1:\d+/)
    }))
})
