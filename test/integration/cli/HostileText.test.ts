/** The commands against a process whose records, APIs and plugins have names that try to control the terminal. */
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { assert, describe, it } from "vitest"
import { run, runCommand } from "./Program.ts"

/** Sets the title, clears the screen (also with C1), reverses text, hides text, forges a line. */
const hostile = "x\u001b]0;owned\u0007\u001b[2J\u009b31m\u007f\u202eabc\u200b\u2066\u2028\nforged"
const at = "2026-03-01T12:00:00.000Z"
const failure = {
  reason: "Permanent",
  message: hostile,
  refusal: null,
  faults: [{ path: "/a", rule: hostile, message: hostile }]
}

const stream = {
  stream: `${hostile}/ats.tag`,
  integration: hostile,
  model: "ats.tag",
  phase: "live",
  paused: false,
  blocked: { reason: hostile, message: hostile, since: at },
  failing: { count: 1, message: hostile, since: at },
  watermark: at,
  generation: 1,
  complete_to: at,
  complete_to_remark: hostile,
  position: "p",
  freshness_seconds: 1,
  records_live: 1,
  pending: { [hostile]: 1 },
  quarantined: 0,
  stale_records: 0,
  polls_return: "changes",
  redacting: null,
  progress: null,
  last_poll_at: at,
  last_sweep_at: at,
  sweep_age_seconds: 1,
  last_poll_started_at: at,
  last_sweep_started_at: at,
  sweep_repeats: false
}

const hold = {
  id: 1,
  stream: stream.stream,
  integration: hostile,
  model: "ats.tag",
  kind: "deletes",
  state: "open",
  reason: hostile,
  paths: [hostile],
  opened_at: at,
  decided_at: null,
  records: 1,
  released: 0,
  waiting_reason: null
}

const handler = {
  handler: hostile,
  trigger: { kind: "event", of: hostile },
  position: "p",
  lag_events: 0,
  running: 0,
  waiting: 0,
  due: 0,
  dead: 1,
  oldest_at: at,
  circuit_open: null
}

const plugin = {
  plugin: hostile,
  configured: true,
  on: true,
  handlers: [handler],
  integrations: [{ integration: hostile, state: "unconfigured", reason: hostile }]
}

const letter = {
  id: 1,
  plugin: hostile,
  handler: hostile,
  integration: hostile,
  event: { id: "e", model: "ats.tag", record: hostile, version: 1, kind: "created" },
  position: "p",
  scheduled_at: null,
  ...failure,
  attempts: 1,
  created_at: at,
  died_at: at,
  parked: 0,
  fresh: false
}

const outcome = {
  outcome: "5c1f0a9e2b7d",
  state: "unknown",
  step: hostile,
  write: hostile,
  method: "POST",
  path: hostile,
  integration: hostile,
  sent_at: at,
  delivery: 1,
  visible_in: null,
  seen: null,
  where_to_look: hostile,
  commands: { happened: hostile, did_not_happen: hostile }
}

const integration = {
  id: hostile,
  account: hostile,
  state: "active",
  declared: true,
  models: "auto",
  backfill: "publish",
  interval_seconds: 1,
  sweep_interval_seconds: 1,
  generation: 1,
  streams: 1,
  live: 1,
  blocked: 1,
  records_live: 1
}

const audit = {
  stream: stream.stream,
  read: 1,
  pending: { [hostile]: 1 },
  quarantined: 0,
  differing: 1,
  differences: [{ id: hostile, what: "content", paths: [hostile] }]
}

const replay = {
  dry_run: true,
  plugin: hostile,
  handler: hostile,
  deliveries: 1,
  from: "p",
  to: "p",
  results: [{
    integration: hostile,
    position: "p",
    records: [hostile],
    requests: [{ what: hostile, integration: hostile, params: { id: hostile }, body: { name: hostile } }],
    failure
  }],
  omitted: 0,
  ranges: []
}

const forgotten = {
  integration: hostile,
  model: "ats.candidate",
  id: hostile,
  state: "forgotten",
  requested_at: at,
  done_at: at,
  progress: null
}

const forgetPlan = {
  plan: "5c1f0a9e2b7d4e63",
  live: true,
  versions: 1,
  pending: 0,
  deliveries: 0,
  steps: 0,
  copies: [{ model: "ats.application", records: 1, ids: [hostile] }],
  unreadable: [{ model: "ats.application", id: hostile, position: null }]
}

const event = {
  position: "p",
  data: {
    model: "ats.application",
    id: hostile,
    version: 1,
    kind: "updated",
    origin: "poll",
    before: { candidate: { first_name: hostile } },
    // short enough for its column
    after: { candidate: { first_name: "a\nforged" } },
    changes: [{ path: `/${hostile}`, before: hostile, after: hostile }],
    transitions: [{ name: "stage_changed", from: hostile, to: hostile }],
    reason: null,
    restored: false,
    changed_at: at,
    detected_at: at
  }
}

const process = {
  id: hostile,
  current: false,
  version: hostile,
  host: hostile,
  pid: 1,
  address: null,
  started_at: at,
  last_heartbeat_at: at,
  silence_seconds: 1,
  state: "alive",
  clock_offset_seconds: null,
  shards: 1,
  publishes: false,
  dispatches: false,
  problems: [{ name: hostile, reason: hostile }]
}

const page = (...items: ReadonlyArray<unknown>) => ({ items, next: null, as_of: at })
const bodies: Readonly<Record<string, unknown>> = {
  "/health/ready": { status: "ready", checks: [{ name: "reading", ok: false, reason: hostile }] },
  "/v1/streams": page(stream),
  "/v1/streams/a/ats.tag": stream,
  "/v1/streams/a/ats.tag/audit": audit,
  "/v1/fleet": { ...page(process), versions: [hostile] },
  "/v1/holds": page(hold),
  "/v1/holds/1": {
    hold,
    records: [{ id: hostile, status: "held", reason: hostile, changed_at: at, detected_at: at }],
    next: null
  },
  "/v1/plugins": {
    items: [plugin],
    next: null,
    writes: "on",
    state: "running",
    delivering: { state: "stopped", reason: hostile }
  },
  "/v1/plugins/p": plugin,
  "/v1/plugins/p/replay": replay,
  "/v1/deadletters": page(letter),
  "/v1/deadletters/1": {
    ...letter,
    failed_attempts: [{
      number: 1,
      started_at: at,
      failed_at: at,
      ...failure,
      requests: [{ what: hostile, integration: hostile, at, outcome: "done" }]
    }],
    journal: [{ step: hostile, write: hostile, done: false, begun_at: at }],
    outcomes: [outcome]
  },
  "/v1/integrations": page(integration),
  "/v1/streams/a/ats.tag/sweep": { ...stream, accepted_at: "2026-03-02T12:00:00.000Z" },
  "/v1/forget": { ...page(forgotten), ...forgotten },
  "/v1/forget/plan": forgetPlan
}

const problem = { detail: hostile, hint: hostile, faults: [{ where: hostile, message: hostile, hint: hostile }] }

/** Serves the bodies above; refuses every other request. */
const serveHostile = async <A>(use: (environment: Readonly<Record<string, string>>) => Promise<A>): Promise<A> => {
  const server = createServer((request, response) => {
    const path = request.url?.replace(/\?.*/, "") ?? ""
    if (path === "/v1/events") {
      response.writeHead(200, { "content-type": "text/event-stream" })
      response.end(`id: p\ndata: ${JSON.stringify(event)}\n\n`)
      return
    }
    const body = bodies[path]
    response.writeHead(body === undefined ? 409 : 200, { "content-type": "application/json" })
    response.end(JSON.stringify(body ?? problem))
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  try {
    return await use({ ROLLCALL_HTTP_PORT: String((server.address() as AddressInfo).port) })
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const commands: ReadonlyArray<string> = [
  "fleet",
  "tail",
  "status",
  "streams list",
  "streams show a/ats.tag",
  "streams audit a/ats.tag",
  "holds list",
  "holds show 1",
  "plugins list",
  "plugins show p",
  "plugins replay p h --dry-run",
  "deadletters list",
  "deadletters show 1",
  "integrations list",
  "forget --list"
]

/** Control and format characters, except line feeds. */
const dangerous = /[^\P{Cc}\n]|\p{Cf}|\p{Zl}/u

describe("names that try to control the terminal", () => {
  for (const name of commands) {
    it(`are escaped by \`${name}\`, which stays on its lines`, () =>
      serveHostile(async (environment) => {
        const { stderr, stdout } = await runCommand(name.split(" "), environment)
        assert.notMatch(stdout + stderr, dangerous)
        assert.include(stdout, String.raw`\u001b]0;`)
        assert.notMatch(stdout, /^forged/m)
      }))

    it(`are the same in \`${name} --json\`, as escapes`, () =>
      serveHostile(async (environment) => {
        const { stderr, stdout } = await runCommand([...name.split(" "), "--json"], environment)
        assert.notMatch(stdout + stderr, dangerous)
        assert.include(JSON.stringify(JSON.parse(stdout)), JSON.stringify(hostile).slice(1, -1))
      }))
  }

  it("are escaped by `forget`, whose plan stays on its lines", () =>
    serveHostile(async (environment) => {
      const { code, stdout } = await runCommand(["forget", "a/ats.candidate/c", "--yes"], environment)
      assert.strictEqual(code, 0)
      assert.notMatch(stdout, dangerous)
      assert.include(stdout, String.raw`\u001b]0;`)
      assert.notMatch(stdout, /^forged/m)
    }))

  it("are escaped in the reason why `--wait` ends, which stays on its line", () =>
    serveHostile(async (environment) => {
      const { code, stderr } = await runCommand(["streams", "sweep", "a/ats.tag", "--wait"], environment)
      assert.strictEqual(code, 1)
      assert.notMatch(stderr, dangerous)
      assert.include(stderr, String.raw`\u001b]0;`)
      assert.notMatch(stderr, /^forged/m)
    }))

  it("`status --watch` is refused without a terminal, because it would redraw nothing", () =>
    serveHostile(async (environment) => {
      const { code, stderr, stdout } = await runCommand(["status", "--watch"], environment)
      assert.deepStrictEqual([code, stdout], [1, ""])
      assert.match(
        stderr,
        /--watch redraws a terminal, and the output is not one\n {2}Add --json .* or leave --watch out/
      )
    }))

  it("are escaped in errors of the running process", () =>
    serveHostile(async (environment) => {
      const { code, stderr } = await runCommand(["deadletters", "show", "7"], environment)
      assert.notMatch(stderr, /^forged/m)
      assert.strictEqual(code, 1)
      assert.notMatch(stderr, dangerous)
      assert.include(stderr, String.raw`\u001b]0;`)
    }))

  it("are escaped in an error that quotes the name of a file", async () => {
    const { code, stderr } = await run(["plugins", "dev", `./${hostile}`])
    assert.strictEqual(code, 1)
    assert.notMatch(stderr, dangerous)
    assert.include(stderr, String.raw`\u001b]0;`)
  })

  for (const name of ["start", "doctor", "status"]) {
    it(`are escaped in errors of the configuration that \`${name}\` reports`, async () => {
      const { stderr, stdout } = await runCommand([name], {
        ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
        ROLLCALL_API_KEY: "k",
        ROLLCALL_INTEGRATIONS: `green${hostile}house`,
        ROLLCALL_HTTP_PORT: `1${hostile}`,
        ROLLCALL_LOG_FORMAT: "pretty"
      })
      assert.isNotEmpty(stdout + stderr)
      assert.notMatch(stdout + stderr, dangerous)
    })
  }
})
