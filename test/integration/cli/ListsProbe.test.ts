/** `rollcall lists probe`: against the sandbox, and against an API that breaks the contract of lists. */
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { freePort } from "../../support/services/FreePort.ts"
import { inDirectory, runCommand, sandboxed, whileTesting } from "./Program.ts"

type Answer = readonly [status: number, body: object | string]
const list = (results: ReadonlyArray<unknown>, next: string | null = null): Answer => [
  200,
  { status: "success", data: { results, next } }
]
const failure = (status: number, code: string): Answer => [
  status,
  { status: "error", error: { code, title: "The request failed", message: "no", log_url: null } }
]

const people = ["a", "b", "c"].map((id, index) => ({
  id,
  first_name: "Zaphod",
  team: { id: "t1", name: "Heart of Gold" },
  changed_at: `2026-01-0${index + 1}T00:00:00.000Z`,
  remote_deleted_at: id === "c" ? "2026-01-03T00:00:00.000Z" : null
}))

/** The answer of each path, for the query of the request. */
const answers: Readonly<Record<string, (query: URLSearchParams) => Answer>> = {
  "/hris/people": () => list(people),
  "/hris/silent": (query) => list(query.has("updated_after") || query.has("ids") ? [] : people),
  "/hris/strict": (query) => query.has("ids") ? failure(400, "PLATFORM.INPUT_INVALID") : list(people),
  "/hris/pages": (query) =>
    list([{ id: query.get("cursor") ?? "0" }, { id: "x" }, "Zaphod"], `${query.get("cursor") ?? ""}1`),
  "/hris/odd": (query) =>
    list(
      query.has("updated_after") ? [] : [
        { id: "Zaphod", "Zaphod Beeblebrox": 1, changed_at: "-271821-04-20T00:00:00Z" },
        { id: "", name: 1 },
        { id: "deep", nested: Array.from({ length: 200 }).reduce<unknown>((inner) => [inner], 1) }
      ]
    ),
  "/hris/empty": () => list([]),
  "/hris/texts": () => list(["Zaphod"]),
  "/hris/object": () => [200, { status: "success", data: { id: "Zaphod" } }],
  "/hris/page": () => [200, "<html>Zaphod</html>"],
  "/hris/secret": () => failure(403, "INTEGRATION.PERMISSION_MISSING"),
  "/hris/early": () => failure(409, "INTEGRATION.SETUP_SYNC_PENDING")
}

const running = whileTesting(async () => {
  const server = createServer(({ url = "" }, response) => {
    const { pathname, searchParams } = new URL(url, "http://localhost")
    const answer = answers[pathname.replace("/v1", "")] ?? (() => failure(404, "PLATFORM.INPUT_INVALID"))
    const [status, body] = answer(searchParams)
    response.writeHead(status, { "content-type": typeof body === "string" ? "text/html" : "application/json" })
      .end(typeof body === "string" ? body : JSON.stringify(body))
  }).listen(0, "127.0.0.1").unref()
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return {
    ROLLCALL_API_URL: `http://127.0.0.1:${port}/v1`,
    ROLLCALL_API_KEY: "k3y",
    ROLLCALL_INTEGRATIONS: "workday:acme"
  }
})

const probe = (...args: ReadonlyArray<string>) => runCommand(["lists", "probe", ...args], running())

describe("lists probe", () => {
  it("prints a module whose definition reads the list of the sandbox", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment, sandbox } = await sandboxed(serve, directory, { integrations: 2, records: 300 })
      const id = sandbox.integrations.find((id) => id.startsWith("workday:"))!
      const { code, stderr, stdout } = await runCommand(
        ["lists", "probe", "/hris/employees", "--integration", id],
        environment
      )
      assert.strictEqual(code, 0, stderr)
      assert.include(stderr, "The name hris.employee is made from the path; --name chooses another.")
      const [, records] = /: (\d+) records on 1 page\n/.exec(stdout) ?? []
      writeFileSync(join(directory, "lists.ts"), stdout)
      writeFileSync(
        join(directory, "rollcall.config.ts"),
        `import { defineConfig } from "rollcall"
import { hrisEmployee } from "./lists.ts"
export default defineConfig({ lists: [hrisEmployee], integrations: [{ id: "${id}", models: ["hris.employee"] }] })\n`
      )
      const { ROLLCALL_INTEGRATIONS: _ids, ...others } = environment
      const started = await runCommand(["start", "--once"], others, directory)
      assert.strictEqual(started.code, 0, started.stderr)
      const facts = started.stderr.trim().split("\n").map((line) => JSON.parse(line))
      assert.strictEqual(facts.at(-1).events, Number(records))
      assert.deepStrictEqual(facts.filter(({ level }) => level !== "info"), [])
      const again = await runCommand(["lists", "probe", "/hris/employees"], others, directory)
      assert.strictEqual(again.stdout, stdout, "a list that is defined can be tested again")
      assert.notInclude(again.stderr, "--name")
      const candidates = await runCommand(
        ["lists", "probe", "/ats/candidates", "--integration", sandbox.integrations.find((one) => one !== id)!],
        environment
      )
      assert.include(candidates.stdout, 'export const atsCandidate = defineList("ats.candidate", {')
      assert.include(candidates.stdout, '  //   { path: "tags", kind: "tag", shared: ["name"] },')
      assert.include(candidates.stderr, "It replaces the derivation of ats.candidate from ats.application.")
    }))

  it("says what a list does not support, and suggests references, without a value of a record", async () => {
    const { stderr, stdout } = await probe("/hris/people")
    assert.strictEqual(
      stdout,
      `// /hris/people of workday:acme: 3 records on 1 page
// - rows that cannot be read: 0; records that appeared twice: 0
// - updated_after: ignored: every poll reads the whole list
// - ids: not supported: a missing record is shown as absent, and is never published as deleted
// - include_deleted: 1 of 3 records have remote_deleted_at
// - changed_at: 3 of 3 records have it
// - order: by changed_at
// - nested records with ids: team
import * as Schema from "effect/Schema"
import { defineList } from "rollcall"

const time = Schema.String.annotate({ format: "date-time" })

export const hrisPeople = defineList("hris.people", {
  path: "/hris/people",
  schema: Schema.Struct({
    id: Schema.String,
    first_name: Schema.String,
    team: Schema.Struct({
      id: Schema.String,
      name: Schema.String
    }),
    changed_at: time,
    remote_deleted_at: Schema.NullOr(time)
  }),
  // Several records repeat the same record at these paths. With the next lines, its changes are found before the next sweep:
  // references: [
  //   { path: "team", kind: "team", shared: ["name"] },
  // ]
})
`
    )
    assert.include(stderr, "Add the list to `lists`")
  })

  it("reads a list that answers filters with nothing or an error, that has no end, or that has rows without meaning", async () => {
    const silent = (await probe("/hris/silent")).stdout
    assert.include(silent, "- updated_after: returns nothing: sweeps find the changes")
    assert.include(silent, '  path: "/hris/silent",\n  sweepOnly: true,\n')
    assert.include(silent, "- ids: not supported")
    const strict = (await probe("/hris/strict")).stdout
    assert.match(strict, /- ids: unknown, because of an error: .*PLATFORM\.INPUT_INVALID/)
    const pages = (await probe("/hris/pages", "--pages", "2", "--name", "hris.page")).stdout
    assert.include(pages, "/hris/pages of workday:acme: 4 records on 2 pages, and there are more")
    assert.include(pages, "- rows that cannot be read: 2; records that appeared twice: 1")
    assert.include(pages, "- changed_at: 0 of 4 records have it")
    const odd = (await probe("/hris/odd")).stdout
    assert.include(odd, "- rows that cannot be read: 2;")
    assert.include(odd, "- fields that the schema leaves out, because their names may be data: 1\n")
    assert.include(odd, "- updated_after: supported")
    assert.include(odd, "- ids: unknown: the list has too few records")
    assert.notInclude(odd, "Zaphod")
  })

  it("prints a definition without a schema for an empty list", async () => {
    assert.strictEqual(
      (await probe("/hris/empty")).stdout,
      `// /hris/empty of workday:acme is empty, so its fields are not known
import { defineList } from "rollcall"

export const hrisEmpty = defineList("hris.empty", {
  path: "/hris/empty",
})
`
    )
  })

  it.each([
    ["/hris/nothing", /\/hris\/nothing cannot be read: status 404.*the API has no list/, /Compare the path/],
    ["/hris/secret", /status 403/, /Enable the permission/],
    ["/hris/early", /cannot be read/, /first synchronization is not finished\. Run the command again/],
    ["/hris/object", /cannot be read: .*data\.results is missing/, /A list answers with data\.results/],
    ["/hris/page", /cannot be read: .*not a response of the API/, /the account's URL/],
    ["/hris/texts", /no row of \/hris\/texts has a text as its id/, /Compare the path/],
    ["/hris/skills", /the path of the built-in model hris\.skill/, /needs no definition/],
    ["hris/people", /has the path "hris\/people"/, /such as \/hris\/employees/],
    ["/people", /"people\." cannot be the name/, /<category>\.<name>.*--name chooses the name/],
    ["/hris/people --name hris.skill", /"hris\.skill" is a built-in model/, /Choose another name/],
    ["/hris/people --integration workday:acm", /no integration workday:acm\n/, /Did you mean workday:acme\?/]
  ])("%s fails with an error and a hint, without a value of a record", async (args, error, hint) => {
    const { code, stderr, stdout } = await probe(...args.split(" "))
    assert.deepStrictEqual([code, stdout], [1, ""])
    assert.match(stderr, error)
    assert.match(stderr, hint)
    assert.notInclude(stderr, "Zaphod")
  })

  it("needs one integration, and an API that runs", async () => {
    const several = await runCommand(["lists", "probe", "/hris/people"], {
      ...running(),
      ROLLCALL_INTEGRATIONS: "a:1,b:2"
    })
    assert.match(several.stderr, /2 integrations are configured\n.*--integration a:1/)
    const { ROLLCALL_INTEGRATIONS: _, ...none } = running()
    assert.match(
      (await runCommand(["lists", "probe", "/x"], none)).stderr,
      /no integration is configured\n.*ROLLCALL_INTEGR/
    )
    const url = `http://127.0.0.1:${await freePort()}/v1`
    const down = await runCommand(["lists", "probe", "/hris/people"], { ...running(), ROLLCALL_API_URL: url })
    assert.match(down.stderr, /\/hris\/people cannot be read: .*ECONNREFUSED.*\n.*Check the URL/)
  })
})
