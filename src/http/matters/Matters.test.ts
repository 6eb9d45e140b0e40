import { assert, describe, it } from "@effect/vitest"
import type { HoldView } from "../contract/HoldApi.ts"
import type { StreamRow } from "../contract/OverviewApi.ts"
import { type Input, mattersOf } from "./Matters.ts"

const now = Date.parse("2026-03-01T12:00:00Z")
const at = (minutesAgo: number): string => new Date(now - minutesAgo * 60_000).toISOString()

const calm: Input = {
  now,
  outage: null,
  rows: [],
  holds: [],
  plugins: { items: [], next: null, writes: "on", delivering: { state: "running", reason: null } },
  deadLetters: [],
  processes: [],
  relay: null,
  disk: null
}

const row = (integration: string, change: Partial<StreamRow> = {}): StreamRow => ({
  stream: `${integration}/ats.tag`,
  integration,
  model: "ats.tag",
  state: "ok",
  cause: null,
  since: null,
  freshness_seconds: 1,
  target_seconds: 180,
  late_sweep: null,
  records_live: 1,
  pending: 0,
  quarantined: 0,
  ...change
})

const hold: HoldView = {
  id: 3,
  stream: "lever:acme/ats.tag",
  integration: "lever:acme",
  model: "ats.tag",
  kind: "deletes",
  state: "open",
  reason: "12 of 20 records",
  paths: [],
  opened_at: at(30),
  decided_at: null,
  records: 12,
  released: 0,
  waiting_reason: null
}

const titles = (input: Partial<Input>) => mattersOf({ ...calm, ...input }).map(({ title }) => title)

describe("what needs attention", () => {
  it("is nothing while all is well", () => {
    assert.deepStrictEqual(titles({ rows: [row("a:1"), row("b:1")], disk: { freeBytes: 9e12, totalBytes: 1e13 } }), [])
  })

  it("is one matter for all streams with the same cause, across integrations, and names the first five of these", () => {
    const rows = Array.from(
      { length: 40 },
      (_, index) => row(`lever:${index % 20}`, { state: "blocked", cause: "unknown integration", since: at(index) })
    )
    const [matter, ...others] = mattersOf({ ...calm, rows: [...rows, row("a:1", { state: "blocked", cause: "key" })] })
    assert.lengthOf(others, 1)
    assert.deepInclude(matter, {
      title: "40 streams blocked",
      detail: "unknown integration",
      since: at(39),
      integrations: ["lever:0", "lever:1", "lever:2", "lever:3", "lever:4"],
      integration_count: 20,
      stream_count: 40,
      link: "/streams?state=blocked"
    })
    assert.deepInclude(others[0], { title: "1 stream blocked", link: "/streams/a%3A1/ats.tag" })
  })

  it("begins with what stops everything, then has what has lasted longest, and ends with what may wait", () => {
    const rows = [
      row("a:1", { state: "blocked", cause: "key", since: at(10) }),
      row("b:1", { state: "paused" }),
      row("c:1", { state: "late", since: at(99) }),
      row("d:1", { late_sweep: "The last complete sweep of d:1/ats.tag ended 13h ago." })
    ]
    const disk = { freeBytes: 1024 ** 3, totalBytes: 100 * 1024 ** 3 }
    assert.deepStrictEqual(titles({ rows, holds: [hold], disk }), [
      "1.0 GiB left on the disk of the store",
      "12 changes of ats.tag held back: deletes",
      "1 stream blocked",
      "1 stream behind the freshness target",
      "1 stream not swept in time",
      "1 stream paused by an operator"
    ])
  })

  it("is a relay whose oldest event waits for a minute, but not one that is only a moment behind", () => {
    const relay = (seconds: number) => ({ waiting: 7, oldestAt: now - seconds * 1_000 })
    assert.deepStrictEqual(titles({ relay: relay(59) }), [])
    assert.deepStrictEqual(titles({ relay: relay(60) }), ["7 events not in Kafka yet"])
  })

  it("is what other processes report, but the state of the plugins of this process only once", () => {
    const process = {
      id: "p1",
      host: "two",
      pid: 7,
      version: "1",
      address: null,
      clockOffset: 0,
      startedAt: 0,
      seenAt: now,
      silence: 0,
      state: "alive",
      scopes: [],
      problems: [{ name: "kafka", reason: "no broker" }, { name: "plugins", reason: "a plugin has no handler" }]
    } as const
    assert.deepStrictEqual(titles({ processes: [process] }), [
      "Publishing to Kafka does not work",
      "Plugins do not run in a process"
    ])
    const delivering = { state: "stopped", reason: "a plugin has no handler" } as const
    assert.deepStrictEqual(titles({ processes: [process], plugins: { ...calm.plugins, delivering } }), [
      "Publishing to Kafka does not work",
      "Plugins are stopped"
    ])
  })

  it("is a plugin that does not run, a circuit that is open, and writes that an operator has stopped", () => {
    const plugins: Input["plugins"] = {
      ...calm.plugins,
      writes: "stopped",
      items: [{
        plugin: "webhook",
        configured: true,
        on: true,
        handlers: [{
          handler: "ats.tag.created",
          trigger: { kind: "event", of: "ats.tag.created" },
          position: null,
          lag_events: 0,
          running: 0,
          waiting: 0,
          due: 4,
          dead: 0,
          oldest_at: at(5),
          circuit_open: { until: at(-1), failures: 12 }
        }],
        integrations: [
          { integration: "a:1", state: "unconfigured", reason: "URL is not set" },
          { integration: "a:2", state: "blocked", reason: "addTag: the key is not valid" }
        ]
      }]
    }
    assert.sameMembers([...titles({ plugins })], [
      "Circuit open: webhook (ats.tag.created)",
      "webhook does not run in 1 integration",
      "Deliveries of webhook wait for the API in 1 integration",
      "An operator has stopped the writes of all plugins"
    ])
  })
})
