import { assert, describe, it } from "@effect/vitest"
import { holdView } from "../../../test/support/http/HoldViews.ts"
import { streamView } from "../../../test/support/http/StreamViews.ts"
import { type Status, statusText } from "./StatusText.ts"

type Stream = Status["streams"][number]
const stream = (integration: string, model: Stream["model"], part: Partial<Stream> = {}): Stream =>
  streamView(integration, model, { freshness_seconds: 5, records_live: 1000, ...part })

const inactive = (minute: number) => ({
  reason: "inactive",
  message: "the connection is broken (reconnect it at the provider)",
  since: `2026-03-01T12:0${minute}:30.000Z`
})

const matter = (part: Partial<Status["matters"][number]>): Status["matters"][number] => ({
  id: "m",
  kind: "blocked",
  severity: "act",
  title: "3 streams blocked",
  detail: "the connection is broken.",
  since: "2026-03-01T12:03:30.000Z",
  integrations: ["lever:acme"],
  integration_count: 1,
  stream_count: 3,
  action: "Show streams",
  link: "/streams",
  command: "rollcall streams list",
  ...part
})

const shown = (part: Partial<Status>) =>
  statusText({
    outage: null,
    checks: [],
    matters: [],
    omitted: 0,
    streams: [],
    holds: [],
    plugins: { items: [], next: null, writes: "on", delivering: { state: "running", reason: null } },
    fleet: { items: [], next: null, versions: [] },
    ...part
  }).split("\n")

const models = ["ats.tag", "ats.offer", "ats.scorecard"] as const

describe("status", () => {
  it("begins with the outage while most streams are not read", () => {
    assert.deepStrictEqual(
      shown({ outage: "Nothing has been read since 2026-03-01 08:41:00 UTC: no answer" }),
      [
        "Nothing has been read since 2026-03-01 08:41:00 UTC: no answer",
        "degraded, 0 streams"
      ]
    )
  })

  it("has the matters with their integrations, their time and the next command, except for those that it shows elsewhere", () => {
    const matters = [
      matter({ kind: "store" }),
      matter({ kind: "hold" }),
      matter({ integration_count: 1_201 }),
      matter({ title: "relay is switched off", detail: "", since: null, integrations: [], integration_count: 0 })
    ]
    assert.deepStrictEqual(shown({ matters, omitted: 7 }), [
      "ready, 0 streams",
      "  3 streams blocked: the connection is broken.",
      "    lever:acme and 1,200 more; since 2026-03-01 12:03Z; `rollcall streams list`",
      "  relay is switched off",
      "    `rollcall streams list`",
      "  7 more are not shown"
    ])
  })

  it("does not count the holds of the table among the matters that are not shown", () => {
    const holds = [1, 2, 3].map((id) => ({ ...holdView, id }))
    const lines = (omitted: number) => shown({ matters: [matter({ kind: "hold" })], holds, omitted }).slice(1, -6)
    assert.deepStrictEqual([lines(2), lines(5)], [[], ["  3 more are not shown"]])
  })

  it("has the check of the store even if the matter that it leaves out says the same", () => {
    const checks = [{ name: "store", ok: false, reason: "start the database" }]
    const matters = [matter({ kind: "store", detail: "it does not answer; start the database" })]
    assert.deepStrictEqual(shown({ checks, matters }), ["not ready, 0 streams", "  store: start the database"])
  })

  it("a broken integration is one row with the sums of its streams", () => {
    const broken = models.map((model, index) => stream("lever:acme", model, { blocked: inactive(5 - index) }))
    const rows = shown({ streams: [stream("greenhouse:acme", "ats.tag"), ...broken] })
      .filter((line) => line.startsWith("lever:acme"))
    assert.strictEqual(rows.length, 1)
    assert.match(rows[0]!, /^lever:acme +3 models +blocked: inactive +3,000 +0 +0 +5 s$/)
  })

  it("streams of an integration have a row each if some are read or their causes differ", () => {
    const other = { blocked: { ...inactive(1), message: "not allowed" } }
    for (const last of [{}, { paused: true }, { failing: { count: 3, ...inactive(1) } }, other]) {
      const streams = models.map((model, index) =>
        stream("lever:acme", model, index === 2 ? last : { blocked: inactive(1) })
      )
      assert.lengthOf(shown({ streams }).filter((line) => line.startsWith("lever:acme")), 3)
    }
  })

  it("the readiness checks of streams are one line, and those of Kafka and the store say why", () => {
    const starting = models.map((model) => stream("lever:acme", model, { phase: "starting" }))
    const lines = shown({
      streams: starting,
      checks: [
        ...starting.map(({ stream }) => ({ name: `stream ${stream}`, ok: false, reason: "waits" })),
        { name: "publishing", ok: false, reason: "kafka does not answer; check KAFKA_BROKERS" },
        { name: "sweeps", ok: true, reason: "a matter says it" }
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
    assert.deepStrictEqual(shown({ checks }), ["ready, 0 streams", `  reading: ${reason}`])
    const matters = [matter({ title: "Reading is slow", detail: `${reason} (process 7)` })]
    assert.deepStrictEqual(shown({ checks, matters }).slice(1, -1), [`  Reading is slow: ${reason} (process 7)`])
  })
})
