import { once } from "node:events"
import { existsSync, readdirSync, writeFileSync } from "node:fs"
import { createServer, type RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "vitest"
import type { CheckResult } from "../../../src/cli/doctor/CheckResult.ts"
import { freePort } from "../../support/services/FreePort.ts"
import { postgresTools } from "../../support/store/PostgresTools.ts"
import { inDirectory, run, runCommand, sandboxed, type Serve } from "./Program.ts"

const reading = (serve: Serve, directory: string) =>
  sandboxed(serve, directory, { integrations: 2, records: 10, key: "k3y" })

const unread = (directory: string) => ({
  ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
  ROLLCALL_API_KEY: "k3y",
  ROLLCALL_INTEGRATIONS: "greenhouse:acme",
  ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`
})

/** Runs with the port of a server that answers like this. */
const serving = async <A>(answer: RequestListener, use: (port: number) => Promise<A>): Promise<A> => {
  const server = createServer(answer).listen(0, "127.0.0.1")
  await once(server, "listening")
  try {
    return await use((server.address() as AddressInfo).port)
  } finally {
    server.close()
  }
}

const examined = async (environment: Readonly<Record<string, string>>) => {
  const { code, stderr, stdout } = await runCommand(["doctor", "--json"], environment)
  assert.notMatch(stdout + stderr, /k3y/)
  if (environment["ROLLCALL_STORE"]?.startsWith("sqlite:")) assert.notMatch(stdout + stderr, postgresTools)
  const { checks: findings, ok }: { checks: ReadonlyArray<CheckResult>; ok: boolean } = JSON.parse(stdout)
  assert.strictEqual(code, ok ? 0 : 1)
  const of = (check: string) => findings.filter((finding) => finding.check.startsWith(check))
  return { ok, findings, of }
}

describe("doctor", () => {
  it("prints one ok line per check, exits 0 and leaves nothing behind if there is no problem", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await reading(serve, directory)
      const { code, stderr, stdout } = await run(["doctor"], environment)
      assert.strictEqual(code, 0, stdout + stderr)
      const lines = stdout.trimEnd().split("\n")
      for (const line of lines) assert.match(line, /^ok {7}\S.*: \S/)
      const parts = [
        "configuration",
        "account default",
        "stream greenhouse:acme/ats.tag",
        "clock default",
        "store",
        "disk",
        "http: "
      ]
      for (const part of parts) assert.isTrue(lines.some((line) => line.includes(part)), part)
      assert.strictEqual(lines.filter((line) => line.includes("stream ")).length, 11)
      assert.deepStrictEqual(readdirSync(directory), [])
    }))

  it("reports every fault of the configuration and checks nothing else", async () => {
    const { findings, ok } = await examined({ ROLLCALL_API_URL: "https://api.example.com", ROLLCALL_MODELS: "x" })
    assert.isFalse(ok)
    const messages = findings.map(({ message }) => message)
    assert.deepStrictEqual(findings.map(({ status }) => status), ["problem", "problem", "problem"])
    for (const name of ["ROLLCALL_API_URL", "ROLLCALL_API_KEY", "ROLLCALL_MODELS"]) {
      assert.isTrue(messages.some((message) => message.startsWith(name)), name)
    }
  })

  it("reports a refused key once and still checks the store and Kafka", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await reading(serve, directory)
      const { findings, of, ok } = await examined({
        ...environment,
        ROLLCALL_API_KEY: "wrong",
        ROLLCALL_STORE: `sqlite:${join(directory, "missing", "rollcall.db")}`,
        KAFKA_BROKERS: "127.0.0.1:9",
        ROLLCALL_MODELS: "ats.tag"
      })
      assert.isFalse(ok)
      assert.include(of("account default")[0]?.hint, "ROLLCALL_API_KEY")
      assert.isEmpty(of("stream"))
      assert.include(of("store")[0]?.hint, "does not exist")
      assert.strictEqual(of("kafka")[0]?.status, "problem")
      assert.strictEqual(findings.filter(({ status }) => status === "problem").length, 3)
    }))

  it("reports an integration that does not exist, in one line if all of its streams fail so, and a model that is not offered", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await reading(serve, directory)
      const broken = {
        ...environment,
        ROLLCALL_INTEGRATIONS: "greenhouse:acme,unknown:acme",
        ROLLCALL_MODELS: "ats.tag,hris.skill"
      }
      const { of } = await examined(broken)
      assert.strictEqual(of("stream greenhouse:acme/ats.tag")[0]?.status, "ok")
      assert.strictEqual(of("stream greenhouse:acme/hris.skill")[0]?.status, "warning")
      assert.deepStrictEqual(of("stream unknown:acme").map(({ status }) => status), ["problem", "problem"])
      assert.include(of("stream unknown:acme/ats.tag")[0]?.hint, "integration id")
      const { code, stderr, stdout } = await runCommand(["doctor"], broken)
      assert.strictEqual(code, 1)
      const [line = "", ...others] = stdout.split("\n").filter((line) => line.startsWith("problem"))
      assert.isEmpty(others)
      assert.match(line, /^problem {2}integration unknown:acme \(2 models: ats\.tag, hris\.skill\): .*integration id/)
      assert.match(stderr, /1 check found a problem/)
    }))

  it("reports a missing permission and where to enable it (C1)", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment, sandbox } = await reading(serve, directory)
      await sandbox.setFaults({
        faults: [{ kind: "api_error", code: "INTEGRATION.PERMISSION_MISSING", model: "ats.tag" }]
      })
      const { of, ok } = await examined({ ...environment, ROLLCALL_MODELS: "ats.tag,ats.offer" })
      assert.isFalse(ok)
      assert.strictEqual(of("stream greenhouse:acme/ats.tag")[0]?.status, "problem")
      assert.include(of("stream greenhouse:acme/ats.tag")[0]?.hint, "scope configuration")
      assert.strictEqual(of("stream greenhouse:acme/ats.offer")[0]?.status, "ok")
    }))

  it("recognizes the running process of its store, changes nothing, and reports why it is not ready (I10)", () =>
    inDirectory(async (directory, start, serve) => {
      const { api, environment } = await reading(serve, directory)
      const running = { ...environment, ROLLCALL_MODELS: "ats.tag", ROLLCALL_HTTP_TOKEN: "t0ken-of-sixteen-characters" }
      const service = start(["start"], running)
      const isReady = async () => (await fetch(`${api}/health/ready`)).ok
      await service.says(/backfill complete/, "stderr")
      while (!await isReady()) await new Promise((resolve) => setTimeout(resolve, 50))
      const address = new URL(api).host
      const { findings, of, ok } = await examined(running)
      assert.isTrue(ok, JSON.stringify(findings))
      assert.deepStrictEqual(of("http").map(({ message, status }) => [status, message]), [
        ["ok", `${address} is used by the running Rollcall process of this store`]
      ])
      assert.deepStrictEqual(of("store").map(({ status }) => status), ["ok"])
      assert.isEmpty(of("process"))
      assert.isTrue((await examined({ ...running, ROLLCALL_HTTP_PORT: String(await freePort()) })).ok)

      const other = { ...running, ROLLCALL_STORE: `sqlite:${join(directory, "other.db")}` }
      const elsewhere = (await examined(other)).of("http")[0]
      assert.strictEqual(elsewhere?.status, "problem")
      assert.match(elsewhere?.message ?? "", /is used by a Rollcall process with another store$/)
      assert.match(elsewhere?.hint ?? "", /ROLLCALL_STORE.*ROLLCALL_HTTP_PORT/)
      const refused =
        (await examined({ ...running, ROLLCALL_HTTP_TOKEN: "another-token-of-this-machine" })).of("http")[0]
      assert.strictEqual(refused?.status, "warning")
      assert.match(refused?.message ?? "", /in use, by a Rollcall process that refuses the token/)

      assert.isTrue(await isReady())
      const lock = new DatabaseSync(join(directory, "rollcall.db"), { timeout: 10_000 })
      lock.exec("BEGIN IMMEDIATE")
      await service.says(/store unavailable/, "stderr")
      const later = await examined(running)
      assert.isFalse(later.ok)
      assert.match(later.of("store")[0]?.message ?? "", /is locked by another program/)
      assert.match(later.of("process")[0]?.message ?? "", /^is not ready: /)
      lock.exec("ROLLBACK")
      lock.close()
      const { code, stderr } = await service.stop()
      assert.strictEqual(code, 0)
      assert.notMatch(stderr, /owns|Fenced/)
    }))

  it("reports a port that another program uses, as a warning if it ends the connection before it answers", () =>
    inDirectory(async (directory) => {
      const httpOf = (answer: RequestListener) =>
        serving(answer, async (port) => {
          const environment = { ...unread(directory), ROLLCALL_HTTP_PORT: String(port) }
          const [{ hint, message, status } = assert.fail()] = (await examined(environment)).of("http")
          return { hint, status, message: message.replace(String(port), "PORT") }
        })
      const ending = await httpOf((request) => void request.socket.resetAndDestroy())
      assert.deepInclude(ending, {
        status: "warning",
        message: "127.0.0.1:PORT is in use, by a program that does not answer"
      })
      assert.match(ending.hint ?? "", /may have been restarted/)
      const taken = await httpOf((_, response) => response.end("hello"))
      assert.deepInclude(taken, { status: "problem", message: "127.0.0.1:PORT is used by another program" })
      assert.include(taken.hint, "ROLLCALL_HTTP_PORT")
    }))

  // the one file system without free space on every Linux
  it.skipIf(!existsSync("/proc/self"))(
    "reports a full disk (X10)",
    () =>
      inDirectory(async (directory, _, serve) => {
        const { environment } = await reading(serve, directory)
        const { of, ok } = await examined({ ...environment, ROLLCALL_STORE: "sqlite:/proc/rollcall.db" })
        assert.isFalse(ok)
        assert.deepInclude(of("disk")[0], { status: "problem", message: "0 MiB are free in /proc" })
        assert.include(of("disk")[0]?.hint, "Free disk space")
      })
  )

  it("reports a URL with another server and a URL that does not answer", () =>
    inDirectory(async (directory) => {
      const away = await examined(unread(directory))
      assert.include(away.of("account")[0]?.message, "ECONNREFUSED")
      const elsewhere = await serving(
        (_, response) => response.end("<html>log in</html>"),
        (port) => examined({ ...unread(directory), ROLLCALL_API_URL: `http://127.0.0.1:${port}/v1` })
      )
      assert.include(elsewhere.of("account")[0]?.message, "an HTML page")
    }))

  it("reports a clock that differs from the API's as a warning (W4)", () =>
    inDirectory(async (directory) => {
      const { of, ok } = await serving(
        (request, response) => {
          const data = request.url?.includes("/tools/") ? { tools: [] } : { next: null, results: [], packages: [] }
          const date = new Date(Date.now() + 120_000).toUTCString()
          response.writeHead(200, { "content-type": "application/json", date })
          response.end(JSON.stringify({ status: "success", data }))
        },
        (port) => examined({ ...unread(directory), ROLLCALL_API_URL: `http://127.0.0.1:${port}/v1` })
      )
      assert.isTrue(ok)
      assert.strictEqual(of("clock")[0]?.status, "warning")
      assert.match(of("clock")[0]?.message ?? "", /^is (1m 5\ds|2m( \ds)?) behind the API's$/)
    }))

  it("reports a file that is not a store", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await reading(serve, directory)
      const file = join(directory, "notes.txt")
      writeFileSync(file, "these are notes\n".repeat(100))
      const { of } = await examined({ ...environment, ROLLCALL_STORE: `sqlite:${file}`, ROLLCALL_MODELS: "ats.tag" })
      assert.strictEqual(of("store")[0]?.status, "problem")
      assert.include(of("store")[0]?.hint, "is not a SQLite database")
    }))
})
