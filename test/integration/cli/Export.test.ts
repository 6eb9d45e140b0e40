/** `rollcall export`: against a running process, and against a server whose records change between any two requests. */
import { execFileSync } from "node:child_process"
import { once } from "node:events"
import { chmodSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { inDirectory, runCommand, sandboxed, type Start, whileTesting } from "./Program.ts"

const linesOf = (text: string) => text.trim().split("\n").filter((line) => line !== "").map((line) => JSON.parse(line))

const rowsOf = (file: string, query: string): ReadonlyArray<Record<string, unknown>> => {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    return database.prepare(query).all().map((row) => ({ ...row }))
  } finally {
    database.close()
  }
}

describe("an export of a running process", () => {
  interface Running {
    readonly directory: string
    readonly environment: Readonly<Record<string, string>>
    readonly sandbox: Awaited<ReturnType<typeof sandboxed>>["sandbox"]
    readonly start: Start
  }
  const running = whileTesting<Running>(async (directory, start, serve) => {
    const { environment, sandbox } = await sandboxed(serve, directory)
    await start(["start"], environment).says(/"message":"started"/, "stderr")
    for (;;) {
      const { streams = [] } = JSON.parse((await runCommand(["status", "--json"], environment)).stdout || "{}")
      const live = (one: { readonly phase: string }) => one.phase === "live"
      if (streams.length > 0 && streams.every(live)) return { directory, environment, sandbox, start }
    }
  })
  const cli = (...args: ReadonlyArray<string>) => runCommand(["export", ...args], running().environment)
  const tagged = async (name: string) => {
    const { environment, sandbox, start } = running()
    const [integration = ""] = sandbox.integrations
    const tail = start(["tail", "--unfolded", "--model", "ats.tag", "--since", new Date().toISOString()], environment)
    const id: unknown = await sandbox.mutate({ op: "create", integration, model: "ats.tag", fields: { name } })
    await tail.says(new RegExp(name))
    await tail.stop()
    return id
  }

  it("has every current record as JSON Lines on standard output, and prints the position aside", async () => {
    const { environment, sandbox } = running()
    const [integration = ""] = sandbox.integrations
    const { code, stderr, stdout } = await cli()
    assert.strictEqual(code, 0, stderr)
    const records = linesOf(stdout)
    const tags = records.filter(({ model }) => model === "ats.tag")
    assert.match(stderr, new RegExp(`^${records.length} records of 13 models at position \\S+\n$`))
    const listed = await fetch(
      `http://127.0.0.1:${
        environment["ROLLCALL_HTTP_PORT"]
      }/v1/records?integration=${integration}&model=ats.tag&limit=1000`
    )
    assert.deepStrictEqual(tags, (await listed.json()).records)
  })

  it("writes one model as CSV, with the fields of nested objects, to a file that only its owner reads", async () => {
    const { directory } = running()
    const [file, link] = [join(directory, "applications.csv"), join(directory, "link.csv")]
    writeFileSync(file, "old")
    chmodSync(file, 0o644)
    symlinkSync(file, link)
    const written = await cli("--model", "ats.application", "--format", "csv", "--output", link, "--json")
    assert.strictEqual(written.code, 0, written.stderr)
    assert.strictEqual(statSync(file).mode & 0o777, 0o600)
    const python =
      "import csv,json,sys; print(json.dumps(list(csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8')))))"
    const rows = JSON.parse(execFileSync("python3", ["-c", python, file], { encoding: "utf8", maxBuffer: 1e8 }))
    const records = linesOf((await cli("--model", "ats.application")).stdout)
    assert.strictEqual(JSON.parse(written.stdout).records["ats.application"], records.length)
    assert.deepStrictEqual(
      rows.map((row: Record<string, string>) => [row["id"], row["candidate.first_name"], JSON.parse(row["offers"]!)]),
      records.map(({ after }) => [after.id, after.candidate.first_name, after.offers])
    )
  })

  it("writes a database, and updates it from its position", async () => {
    const { directory, environment, sandbox } = running()
    const file = join(directory, "records.db")
    const created = await cli("--sqlite", file, "--json")
    assert.strictEqual(created.code, 0, created.stderr)
    assert.strictEqual(statSync(file).mode & 0o777, 0o600)
    const { position, records } = JSON.parse(created.stdout)
    const count = "SELECT count(*) AS n FROM ats_tag"
    assert.deepStrictEqual(rowsOf(file, count), [{ n: records["ats.tag"] }])

    await tagged("New to the database")
    const [integration = ""] = sandbox.integrations
    const [{ id }] = rowsOf(file, "SELECT id FROM ats_tag LIMIT 1") as [{ id: string }]
    const forgotten = await runCommand(["forget", `${integration}/ats.tag/${id}`, "--yes"], environment)
    assert.strictEqual(forgotten.code, 0, forgotten.stderr)
    const updated = await cli("--sqlite", file, "--model", "hris.skill", "--json")
    assert.strictEqual(updated.code, 0, updated.stderr)
    assert.notStrictEqual(JSON.parse(updated.stdout).position, position)
    assert.deepStrictEqual(rowsOf(file, `${count} WHERE name = 'New to the database'`), [{ n: 1 }])
    assert.deepStrictEqual(rowsOf(file, `${count} WHERE id = '${id}'`), [{ n: 0 }])
    assert.deepStrictEqual(rowsOf(file, "SELECT DISTINCT position FROM rollcall_export"), [
      { position: JSON.parse(updated.stdout).position }
    ])
  })

  it("goes on with events from its position with --follow", async () => {
    const { environment, start } = running()
    const following = start(["export", "--model", "ats.tag", "--follow"], environment)
    const [, position = ""] = await following.says(/at position (\S+)/, "stderr")
    await tagged("Seen by following")
    const [line] = await following.says(/^\{"specversion".*Seen by following.*\}$/m)
    assert.strictEqual((await following.stop("SIGINT")).code, 0)
    const event = JSON.parse(line)
    assert.strictEqual(event.model, "ats.tag")
    assert.notStrictEqual(event.position, position)
  })

  it("is in the audit log", async () => {
    const { environment } = running()
    const audit = await fetch(`http://127.0.0.1:${environment["ROLLCALL_HTTP_PORT"]}/v1/audit/reads`)
    const { items } = await audit.json()
    assert.deepInclude(
      items.map(({ actor, route, target }: Record<string, string>) => ({ actor, route, target })),
      { actor: "no token (cli)", route: "/v1/records", target: "sandbox:everything/ats.candidate" }
    )
  })

  it("refuses what it cannot do, and says how to do it", async () => {
    const { directory } = running()
    const foreign = join(directory, "foreign.db")
    new DatabaseSync(foreign).exec("CREATE TABLE mine (a)")
    for (
      const [args, message] of [
        [["--model", "ats.tags"], /no model ats\.tags\n.*ats\.tag\?/],
        [["--integration", "nowhere:1"], /no integration nowhere:1\n.*Did you mean/],
        [["--format", "csv"], /columns of one model\n.*--model/],
        [["--model", "ats.tag", "--format", "csv", "--follow"], /needs JSON Lines/],
        [["--sqlite", foreign, "--follow"], /cannot be combined/],
        [["--sqlite", foreign], /other tables\n/],
        [["--sqlite", join(directory, "applications.csv")], /file is not a database/],
        [["--output", directory], /it is not a file/],
        [["--output", join(directory, "missing", "file")], /ENOENT/]
      ] as const
    ) {
      const { code, stderr, stdout } = await cli(...args)
      assert.strictEqual(code, 1, stdout)
      assert.match(stderr, message)
    }
    assert.deepStrictEqual(rowsOf(foreign, "SELECT name FROM sqlite_schema"), [{ name: "mine" }])
    assert.strictEqual(readFileSync(join(directory, "applications.csv"), "utf8").startsWith("integration,id,"), true)
  })
})

/** A process with one model, whose records change between any two requests. */
describe("an export while records change", () => {
  interface Version {
    readonly id: string
    readonly version: number
    readonly name: string | null
  }
  const integration = "sandbox:everything"
  let seed = 1
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below
  let [generation, backfill, oldest, isQuiet, isSilent] = [1, "publish", 0, false, false]
  /** An entry is null where a backfill in `fill` mode stored a record without an event. */
  const log: Array<Version | null> = []
  const live = new Map<string, Version>()
  const versions = new Map<string, number>()

  const change = () => {
    const id = `r${random(12)}`
    const version = (versions.get(id) ?? 0) + 1
    const name = live.has(id) && random(3) === 0 ? null : `v${version}`
    const next = { id, version, name }
    versions.set(id, version)
    if (name === null) live.delete(id)
    else live.set(id, next)
    log.push(backfill === "fill" && name !== null && random(2) === 0 ? null : next)
  }
  const afterOf = ({ id, name }: Version) => name === null ? null : { id, name }
  const dataOf = (one: Version) => ({
    integration,
    model: "ats.tag",
    id: one.id,
    generation,
    version: one.version,
    after: afterOf(one)
  })

  const pathOf = (url: URL): unknown => {
    const after = url.searchParams.get("after")
    if (url.pathname === "/schemas") {
      return { items: ["ats.tag", "hris.skill"].map((name) => ({ name, version: 1, id: "", path: "" })), next: null }
    }
    if (url.pathname === "/v1/integrations") {
      return {
        items: [{
          id: integration,
          account: "default",
          state: "active",
          declared: true,
          models: "auto",
          backfill,
          interval_seconds: 1,
          sweep_interval_seconds: 1,
          generation,
          streams: 1,
          live: 1,
          blocked: 0,
          failing: 0,
          records_live: live.size
        }],
        next: null
      }
    }
    if (url.pathname === "/v1/records") {
      if (url.searchParams.get("model") !== "ats.tag") return null
      const [position = String(log.length), from = ""] = after?.split("~") ?? []
      const page = [...live.values()].filter(({ id }) => id > from).sort((a, b) => a.id < b.id ? -1 : 1).slice(0, 3)
      const next = page.length < 3 ? null : `${position}~${page.at(-1)!.id}`
      return { records: page.map(dataOf), position, next }
    }
    const from = after === "latest" ? log.length : Number(after)
    if (from < oldest) return undefined
    const rows = log.slice(from, from + 5)
    const events = rows.flatMap((one, at) =>
      one === null ? [] : [{ position: String(from + at + 1), data: dataOf(one) }]
    )
    if (events.length === 0 && from + 5 < log.length) return { events: [], next: String(log.length) }
    return { events, next: String(from + rows.length) }
  }

  const server = createServer(({ headers, url = "" }, response) => {
    if (isSilent && url !== "/schemas") return
    if (headers.accept === "text/event-stream") {
      response.writeHead(200, { "content-type": "text/event-stream" })
      const text = url.includes("kind=deleted") ? ": no event\n\n" : 'data: {"position":"k3f9a2c1-1-7"}\n\n'
      // a process that stops does not complete its response
      response.write(text, () => response.destroy())
      return
    }
    const body = pathOf(new URL(url, "http://localhost"))
    response.writeHead(body === null ? 404 : body === undefined ? 410 : 200, { "content-type": "application/json" })
    response.end(JSON.stringify(body ?? { detail: "not here" }))
    // fewer changes than a page of events, so that an export ends
    for (let count = random(4) - 1; count > 0 && !isQuiet; count--) change()
  })
  let environment: Readonly<Record<string, string>> = {}
  beforeAll(async () => {
    await once(server.listen(0, "127.0.0.1"), "listening")
    environment = { ROLLCALL_HTTP_PORT: String((server.address() as AddressInfo).port) }
    for (let count = 0; count < 30; count++) change()
  })
  afterAll(() => void server.close().closeAllConnections())

  /** The records after the first entries of the log. */
  const recordsAt = (position: number): Array<Array<string>> => {
    const records = new Map<string, string>()
    for (const one of log.slice(0, position)) {
      if (one === null) continue
      if (one.name === null) records.delete(one.id)
      else records.set(one.id, one.name)
    }
    return [...records].sort(([one], [other]) => one < other ? -1 : 1)
  }

  it("has the records of one position", async () => {
    for (let count = 0; count < 10; count++) {
      const { code, stderr, stdout } = await runCommand(["export", "--json"], environment)
      assert.strictEqual(code, 0, stderr)
      const { position } = JSON.parse(stderr)
      assert.deepStrictEqual(linesOf(stdout).map(({ after }) => [after.id, after.name]), recordsAt(Number(position)))
    }
  })

  it("leaves no part of a file if it is stopped", () =>
    inDirectory(async (directory, start) => {
      isSilent = true
      const command = start(["export", "--output", join(directory, "records.jsonl")], environment)
      while (!readdirSync(directory).some((name) => name.endsWith(".partial"))) {
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      const { code, stderr } = await command.stop("SIGINT")
      isSilent = false
      assert.strictEqual(code, 1)
      assert.include(stderr, "stopped before it was complete")
      assert.deepStrictEqual(readdirSync(directory), [])
    }))

  it("fails if the process ends the stream of events, as `tail` does, and names the position after which they continue", async () => {
    for (const args of [["export", "--model", "ats.tag", "--follow"], ["tail", "--json"]]) {
      const { code, stderr, stdout } = await runCommand(args, environment)
      assert.strictEqual(linesOf(stdout).at(-1).position, "k3f9a2c1-1-7")
      assert.strictEqual(code, 1, stderr)
      assert.match(stderr, /the process ended the stream of events\n.*rollcall tail --json --after k3f9a2c1-1-7/)
    }
  })

  it("names the position at which `tail` began if no event followed, so that the events in between are not missed", async () => {
    for (const args of [[], ["--after", "latest"]]) {
      const { stderr } = await runCommand(["tail", "--kind", "deleted", ...args], environment)
      assert.match(stderr, /the process ended the stream of events\n.*rollcall tail --after \d+`/)
    }
    const { stderr } = await runCommand(["tail", "--kind", "deleted", "--since", "2026-03-01T00:00:00Z"], environment)
    assert.match(stderr, /Run the command again/)
  })

  it("updates a database to one position, even if events are gone or the integration was erased", () =>
    inDirectory(async (directory) => {
      const file = join(directory, "records.db")
      const update = async (...args: ReadonlyArray<string>) => {
        const { code, stderr, stdout } = await runCommand(["export", "--sqlite", file, "--json", ...args], environment)
        assert.strictEqual(code, 0, stderr)
        const rows = rowsOf(file, "SELECT id, name FROM ats_tag ORDER BY id").map(({ id, name }) => [id, name])
        return { rows, position: Number(JSON.parse(stdout).position) }
      }
      for (let count = 0; count < 12; count++) {
        for (let changes = random(20); changes > 0; changes--) change()
        if (count === 4) oldest = log.length
        // the records that the file has are read again even if the call names others
        const { position, rows } = await update(...count === 4 ? ["--model", "hris.skill"] : [])
        assert.deepStrictEqual(rows, recordsAt(position))
      }
      // the table that another configuration made is replaced, and its records are read although the call names others
      const other = new DatabaseSync(file)
      other.exec("ALTER TABLE ats_tag ADD COLUMN other")
      other.close()
      const replaced = await update("--model", "hris.skill")
      assert.isNotEmpty(replaced.rows)
      assert.deepStrictEqual(replaced.rows, recordsAt(replaced.position))
      // the process no longer has records of another list
      const own = new DatabaseSync(file)
      own.exec("CREATE TABLE hris_team (integration TEXT, id TEXT); INSERT INTO hris_team VALUES ('workday:acme', 't')")
      own.exec(
        "INSERT INTO rollcall_export SELECT 'workday:acme', 'hris.team', 1, position, exported_at FROM rollcall_export"
      )
      own.close()
      await update()
      assert.deepStrictEqual(rowsOf(file, "SELECT id FROM hris_team"), [])
      // erased: no event says so
      generation = 2
      live.clear()
      versions.clear()
      log.fill(null)
      const { position, rows } = await update()
      assert.deepStrictEqual(rows, recordsAt(position))
      // from here on, some records have no event
      backfill = "fill"
      isQuiet = true
      for (let count = 0; count < 8; count++) {
        for (let changes = random(20); changes > 0; changes--) change()
        const { rows } = await update()
        assert.sameDeepMembers([...rows], [...live.values()].map(({ id, name }) => [id, name]))
      }
    }))
})
