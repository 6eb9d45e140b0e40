import { assert, describe, it } from "@effect/vitest"
import { streamView } from "../../../test/support/http/StreamViews.ts"
import { type Status, statusText } from "./StatusText.ts"

type Stream = Status["streams"][number]
type Plugin = Status["plugins"]["items"][number]

const stream = (integration: string, model: Stream["model"], part: Partial<Stream> = {}): Stream =>
  streamView(integration, model, { freshness_seconds: 5, records_live: 1000, ...part })

const inactive = (minute: number) => ({
  reason: "inactive",
  message: "the connection is broken (reconnect it at the provider)",
  since: `2026-03-01T12:0${minute}:30.000Z`
})

const plugin = (part: Partial<Plugin>, handler: Partial<Plugin["handlers"][number]> = {}): Plugin => ({
  plugin: "digest",
  configured: true,
  on: true,
  handlers: [{
    handler: "digest",
    trigger: { kind: "tick", of: "1 day" },
    position: "p",
    lag_events: 0,
    running: 0,
    waiting: 0,
    due: 0,
    dead: 0,
    oldest_at: null,
    circuit_open: null,
    ...handler
  }],
  integrations: [],
  ...part
})

const shown = (part: Partial<Omit<Status, "plugins">> & { readonly plugins?: ReadonlyArray<Plugin> }) =>
  statusText({
    outage: null,
    checks: [],
    streams: [],
    holds: [],
    fleet: { items: [], next: null, versions: [] },
    ...part,
    plugins: { items: part.plugins ?? [], next: null, writes: "on", delivering: { state: "running", reason: null } }
  }).split("\n")

const models = ["ats.tag", "ats.offer", "ats.scorecard"] as const

type Process = Status["fleet"]["items"][number]

const process = (id: string, part: Partial<Process> = {}): Process => ({
  id: `${id}-2222-4333-8444-555555555555`,
  current: false,
  version: "1.2.0",
  host: `host-${id}`,
  pid: 7,
  address: null,
  started_at: "2026-03-01T12:00:00.000Z",
  last_heartbeat_at: "2026-03-01T12:30:00.000Z",
  silence_seconds: 1,
  state: "alive",
  clock_offset_seconds: 0,
  shards: 32,
  publishes: false,
  dispatches: false,
  problems: [],
  ...part
})

describe("status", () => {
  it("of one process does not mention processes", () => {
    const items = [process("11111111", { current: true, problems: [{ name: "kafka", reason: "is a check too" }] })]
    assert.deepStrictEqual(shown({ fleet: { items, next: null, versions: ["1.2.0"] } }), ["ready, 0 streams"])
  })

  it("begins with the outage while most streams are not read", () => {
    assert.deepStrictEqual(
      shown({ outage: "Nothing has been read since 2026-03-01 08:41:00 UTC: no answer" }),
      [
        "Nothing has been read since 2026-03-01 08:41:00 UTC: no answer",
        "degraded, 0 streams"
      ]
    )
  })

  it("names the problems of other processes, and versions that differ", () => {
    const items = [
      process("11111111", { current: true }),
      process("22222222", { version: "1.3.0", problems: [{ name: "kafka", reason: "no broker answers" }] }),
      process("33333333", { state: "silent", silence_seconds: 1234.4, problems: [{ name: "kafka", reason: "old" }] })
    ]
    assert.deepStrictEqual(shown({ fleet: { items, next: null, versions: ["1.2.0", "1.3.0"] } }), [
      "ready, 0 streams, 2 processes",
      "  process 33333333 on host-33333333 has not reported for 1,234 s: `rollcall fleet` shows its work",
      "  process 22222222 on host-22222222, kafka: no broker answers",
      "  the processes have different versions: 1.2.0, 1.3.0"
    ])
  })

  it("a broken integration is one line with its cause, and one row with the sums of its streams", () => {
    const broken = models.map((model, index) => stream("lever:acme", model, { blocked: inactive(5 - index) }))
    const lines = shown({ streams: [stream("greenhouse:acme", "ats.tag"), ...broken] })
    assert.deepStrictEqual(lines.slice(0, 2), [
      "ready, 4 streams",
      "  lever:acme (all 3 models): blocked (inactive) since 2026-03-01 12:03Z: the connection " +
      "is broken (reconnect it at the provider)"
    ])
    const rows = lines.filter((line) => line.startsWith("lever:acme"))
    assert.strictEqual(rows.length, 1)
    assert.match(rows[0]!, /^lever:acme +3 models +blocked: inactive +3,000 +0 +0 +5 s$/)
  })

  it("a cause of some streams of an integration names their models", () => {
    const broken = models.map((model) => stream("lever:acme", model, { blocked: inactive(1) }))
    const [, line] = shown({ streams: [stream("lever:acme", "hris.skill"), ...broken] })
    assert.match(line!, /^ {2}lever:acme \(3 models: ats\.tag, ats\.offer, ats\.scorecard\): blocked/)
  })

  it("the page of the API's log is shown, and does not make the causes of two streams different", () => {
    const lines = shown({
      streams: ["ats.tag", "ats.offer"].map((model, number) =>
        stream("lever:acme", model as "ats.tag", {
          blocked: { ...inactive(1), log_url: `https://logs.example.com/${number}` }
        })
      )
    })
    assert.match(lines[1] ?? "", /^ {2}lever:acme \(all 2 models\): blocked .*; log: https:\/\/logs\.example\.com\/0$/)
  })

  it("streams with different causes stay apart, even in one integration", () => {
    const lines = shown({
      streams: [
        stream("lever:acme", "ats.tag", { blocked: inactive(1) }),
        stream("lever:acme", "ats.offer", {
          blocked: { ...inactive(1), reason: "permission", message: "not allowed" }
        }),
        stream("lever:acme", "ats.scorecard", {
          failing: { count: 3, message: "status 500", since: inactive(2).since }
        }),
        stream("other:acme", "ats.tag", { blocked: inactive(1) }),
        stream("other:acme", "ats.scorecard", { paused: true })
      ]
    })
    assert.deepStrictEqual(lines.slice(1, 6).map((line) => line.split(": ").slice(0, 2).join(": ")), [
      "  lever:acme/ats.tag: blocked (inactive) since 2026-03-01 12:01Z",
      "  lever:acme/ats.offer: blocked (permission) since 2026-03-01 12:01Z",
      "  lever:acme/ats.scorecard: failing since 2026-03-01 12:02Z, 3 times",
      "  other:acme/ats.tag: blocked (inactive) since 2026-03-01 12:01Z",
      "  other:acme/ats.scorecard: paused by an operator"
    ])
  })

  it("the readiness checks of streams are one line, and those of Kafka and the store say why", () => {
    const starting = models.map((model) => stream("lever:acme", model, { phase: "starting" }))
    const lines = shown({
      streams: starting,
      checks: [
        ...starting.map(({ stream }) => ({ name: `stream ${stream}`, ok: false, reason: "waits" })),
        { name: "publishing", ok: false, reason: "kafka does not answer; check KAFKA_BROKERS" }
      ]
    })
    assert.deepStrictEqual(lines.slice(0, 4), [
      "not ready, 3 streams",
      "  publishing: kafka does not answer; check KAFKA_BROKERS",
      "  3 streams wait for the first response from the API",
      ""
    ])
  })

  it("a remark of a ready process is shown too: why no stream is read at the moment", () => {
    const reason = "reading is paused, because 12000 events are not published yet"
    const checks = [{ name: "reading", ok: true, reason }, { name: "store", ok: true, reason: null }]
    assert.deepStrictEqual(shown({ checks, streams: [stream("lever:acme", "ats.tag")] }).slice(0, 3), [
      "ready, 1 stream",
      `  reading: ${reason}`,
      ""
    ])
  })

  it("a plugin that waits has a line that says why", () => {
    const lines = (one: Plugin) => shown({ plugins: [one] }).slice(1, -3)
    const where = (integration: string, reason: string, state: "off" | "unconfigured" | "removed" | "blocked") => ({
      integration,
      reason,
      state
    })
    assert.deepStrictEqual(lines(plugin({})), [])
    assert.match(lines(plugin({ on: false }))[0]!, /^ {2}plugin digest is switched off: .*`rollcall plugins on digest`/)
    assert.deepStrictEqual(
      lines(plugin({
        integrations: [
          { integration: "a:a", state: "on", reason: null },
          where("a:b", "by an operator", "off"),
          where("a:c", "DIGEST_URL is not set", "unconfigured"),
          where("a:d", "DIGEST_URL is not set", "unconfigured"),
          where("a:e", "1 delivery is waiting until the integration is added again", "removed"),
          where("a:f", "addTag: the key is not valid", "blocked"),
          where("a:g", "addTag: the key is not valid", "blocked")
        ]
      })),
      [
        "  plugin digest is not configured in a:c, a:d: DIGEST_URL is not set",
        "  plugin digest waits for the API in a:f, a:g: addTag: the key is not valid",
        "  plugin digest is off in a:b: by an operator",
        "  plugin digest cannot run in a:e: 1 delivery is waiting until the integration is added again"
      ]
    )
    assert.match(
      lines(plugin({}, {
        circuit_open: { until: "2026-03-01T12:00:00.000Z", failures: 5 },
        waiting: 7,
        oldest_at: "2026-03-01T11:00:00.000Z"
      })).join(),
      /^ {2}plugin digest, digest: 5 records failed in a row, .*2026-03-01T12:00:00.000Z$/
    )
    assert.match(
      lines(plugin({}, { dead: 2, waiting: 3 })).join(),
      /: 2 dead letters: `rollcall deadletters list --plugin digest`/
    )
    assert.match(
      lines(plugin({}, { waiting: 1, oldest_at: "2026-03-01T12:00:00.000Z" })).join(),
      /: 1 delivery waits for the next attempt .* since 2026-03-01 12:00Z$/
    )
  })
})
