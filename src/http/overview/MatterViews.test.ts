import { assert, describe, it } from "@effect/vitest"
import { holdView as hold } from "../../../test/support/http/HoldViews.ts"
import { streamView } from "../../../test/support/http/StreamViews.ts"
import type { HoldView } from "../contract/HoldApi.ts"
import type { StreamView } from "../contract/StreamApi.ts"
import { headlineOf, type Installation, mattersOf } from "../matters/Matters.ts"
import { type Condition, conditionOf, defaultIntervals } from "../matters/StreamConditions.ts"
import { viewsOf } from "./MatterViews.ts"

const now = Date.parse("2026-03-01T12:00:00Z")
const at = (minutesAgo: number): string => new Date(now - minutesAgo * 60_000).toISOString()

type Plugins = Installation["plugins"]

const plugins: Plugins = {
  items: [],
  next: null,
  writes: "on",
  delivering: { state: "running", reason: null }
}

const row = (integration: string, change: Partial<StreamView> = {}): Condition =>
  conditionOf(streamView(integration, "ats.tag", change), defaultIntervals)

const blocked = (integration: string, message: string, minutes: number): Condition =>
  row(integration, { blocked: { reason: "key", message, since: at(minutes) } })

/** Four deliveries wait for its open circuit. */
const handler = {
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
} as const

const plugin = (
  name: string,
  handlers: Plugins["items"][number]["handlers"] = [handler],
  integrations: Plugins["items"][number]["integrations"] = []
) => ({ plugin: name, configured: true, on: true, handlers, integrations })

const titles = (state: Partial<Installation>) => viewsOf(mattersOf(state)).map(({ title }) => title)

describe("what needs attention", () => {
  it("is nothing while all is well", () => {
    assert.deepStrictEqual(
      titles({ streams: [row("a:1"), row("b:1")], disk: { freeBytes: 9e12, totalBytes: 1e13 } }),
      []
    )
  })

  it("is one matter for all streams with the same cause, across integrations, and names the first five of these", () => {
    const streams = Array.from(
      { length: 40 },
      (_, index) => blocked(`lever:${index % 20}`, "unknown integration", index)
    )
    const [matter, ...others] = viewsOf(mattersOf({ streams: [...streams, blocked("a:1", "key", 0)] }))
    assert.lengthOf(others, 1)
    assert.deepInclude(matter, {
      title: "40 streams blocked",
      detail: "unknown integration.",
      since: at(39),
      integrations: ["lever:0", "lever:1", "lever:2", "lever:3", "lever:4"],
      integration_count: 20,
      stream_count: 40,
      action: "Show streams",
      link: "/streams?state=blocked",
      command: "rollcall streams list"
    })
    assert.deepInclude(others[0], {
      title: "1 stream blocked",
      action: "Open stream",
      link: "/streams/a%3A1/ats.tag",
      command: "rollcall streams show a:1/ats.tag"
    })
  })

  it("names the page of the API's log, which does not make the causes of two streams different", () => {
    const streams = [1, 2].map((number) =>
      row(`a:${number}`, {
        failing: { count: 3, message: "status 500", since: at(number), log_url: `https://logs.example.com/${number}` }
      })
    )
    assert.deepStrictEqual(
      viewsOf(mattersOf({ streams })).map(({ detail, title }) => [title, detail]),
      [["2 streams failing", "status 500. Log: https://logs.example.com/1"]]
    )
  })

  it("names the known integration that was probably meant, and leads to the page of the misspelled one", () => {
    const unknown = "status 404 · PLATFORM.INTEGRATION_NOT_FOUND · There is no such integration"
    const of = (...streams: ReadonlyArray<Condition>) => viewsOf(mattersOf({ streams }), ["lever:acme", "lever:other"])
    assert.deepInclude(of(blocked("lever:acm", unknown, 1))[0], {
      detail: `${unknown}. Did you mean lever:acme instead of lever:acm? Then remove the misspelled integration.`,
      action: "Open integration",
      link: "/integrations/lever%3Aacm"
    })
    assert.strictEqual(of(blocked("lever:quite-another", unknown, 1))[0]?.detail, `${unknown}.`)
    assert.strictEqual(of(blocked("lever:acm", "the key is wrong", 1))[0]?.detail, "the key is wrong.")
  })

  it("begins with what stops everything, then has what has lasted longest, and ends with what may wait", () => {
    const streams = [
      blocked("a:1", "key", 40),
      row("b:1", { paused: true }),
      row("c:1", { freshness_seconds: 9_999, watermark: at(99) }),
      row("d:1", { sweep_age_seconds: 47_000 })
    ]
    const disk = { freeBytes: 1024 ** 3, totalBytes: 100 * 1024 ** 3 }
    assert.deepStrictEqual(titles({ streams, holds: [hold], disk }), [
      "1.0 GiB left on the disk of the store",
      "1 stream blocked",
      "12 changes of ats.tag held back: deletes",
      "1 stream behind the freshness target",
      "1 stream not swept in time",
      "1 stream paused by an operator"
    ])
  })

  it("begins with what affects most streams, although it is the newest", () => {
    const failing = (integration: string) =>
      row(integration, { failing: { count: 1, message: "no answer", since: at(1) } })
    assert.deepStrictEqual(
      titles({ holds: [hold], streams: [blocked("a:1", "key", 90), failing("b:1"), failing("c:1")] }),
      [
        "2 streams failing",
        "1 stream blocked",
        "12 changes of ats.tag held back: deletes"
      ]
    )
  })

  it("names the kind of a hold in words", () => {
    assert.deepStrictEqual(titles({ holds: [hold, { ...hold, id: 4, kind: "scope" }] }), [
      "12 changes of ats.tag held back: deletes",
      "12 changes of ats.tag held back"
    ])
  })

  it("has the hold that a sweep ends before the greater hold, and both before what has lasted longer", () => {
    const items = [plugin("webhook", [{ ...handler, oldest_at: at(99) }])]
    const greater: HoldView = { ...hold, id: 4, kind: "scope", records: 340, opened_at: at(10) }
    const ending: HoldView = { ...hold, id: 5, records: 8, opened_at: at(5), sweep_at: at(-30) }
    assert.deepStrictEqual(titles({ holds: [hold, greater, ending], plugins: { ...plugins, items } }), [
      "8 changes of ats.tag held back: deletes",
      "340 changes of ats.tag held back",
      "12 changes of ats.tag held back: deletes",
      "Circuit open: webhook (ats.tag.created)"
    ])
  })

  it("is a relay whose oldest event waits for a minute, but not one that is only a moment behind", () => {
    const relay = (seconds: number) => ({ waiting: 7, oldestAt: now - seconds * 1_000, now })
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
    assert.deepStrictEqual(titles({ processes: [process], plugins: { ...plugins, delivering } }), [
      "Publishing to Kafka does not work",
      "Plugins are stopped"
    ])
    const other = { ...delivering, reason: "another process delivers" }
    assert.include(
      titles({ processes: [process], plugins: { ...plugins, delivering: other } }),
      "Plugins do not run in a process"
    )
  })

  it("names the integrations for which a circuit is open, and says with dead letters that their handler has an open circuit", () => {
    const items = [plugin("badges"), plugin("audience", [{ ...handler, due: 0, dead: 13, oldest_at: null }])]
    const open = ["a:1", "a:2"].map((integration) => ({ plugin: "badges", handler: handler.handler, integration }))
    const found = viewsOf(mattersOf({ plugins: { ...plugins, items }, open }))
    assert.deepStrictEqual(
      found.map(({ detail, integrations, title }) => [title, integrations, /circuit of the handler/.test(detail)]),
      [
        ["Circuit open: badges (ats.tag.created)", ["a:1", "a:2"], false],
        ["13 dead letters of audience (ats.tag.created)", [], true]
      ]
    )
  })

  it("has the integrations in which a plugin does not run for the same reason together, and its left deliveries", () => {
    const of = (integration: string, state: "off" | "on" | "unconfigured" | "removed", reason: string | null) => ({
      integration,
      state,
      reason
    })
    const items = [
      plugin("digest", [], [
        of("a:1", "on", null),
        of("a:2", "off", "by an operator"),
        of("a:3", "off", "in the configuration"),
        of("a:4", "unconfigured", "URL is not set"),
        of("a:5", "unconfigured", "URL is not set"),
        of("a:6", "unconfigured", "KEY is not set"),
        of("a:7", "removed", "1 delivery is waiting until the integration is added again")
      ]),
      { ...plugin("off", [], [of("a:1", "off", "by an operator, everywhere")]), on: false },
      { ...plugin("gone", []), configured: false, on: false }
    ]
    const found = viewsOf(mattersOf({ plugins: { ...plugins, items } }))
    assert.deepStrictEqual(found.map(({ detail, integrations, title }) => [title, integrations, detail]), [
      ["digest does not run in 2 integrations", ["a:4", "a:5"], "URL is not set."],
      ["digest does not run in 1 integration", ["a:6"], "KEY is not set."],
      ["digest is switched off in 1 integration", ["a:2"], "by an operator."],
      [
        "Deliveries of digest wait in 1 removed integration",
        ["a:7"],
        "1 delivery is waiting until the integration is added again."
      ],
      ["off is switched off", [], "Its deliveries wait, in order, until an operator switches it on."],
      ["gone is no longer configured", [], "It has deliveries left, which wait until it is configured again."]
    ])
    assert.strictEqual(found[4]?.command, "rollcall plugins on off")
  })

  it("has commands that a shell understands, whatever characters the names have", () => {
    const odd = { ...handler, handler: "it's $HOME", dead: 1 }
    const items = [plugin("webhook", [odd])]
    const streams = [row("a:$(id)&b", { paused: true })]
    assert.sameMembers(viewsOf(mattersOf({ streams, plugins: { ...plugins, items } })).map(({ command }) => command), [
      "rollcall plugins try webhook 'it'\\''s $HOME'",
      "rollcall deadletters list --plugin webhook --handler 'it'\\''s $HOME'",
      "rollcall streams resume 'a:$(id)&b/ats.tag'"
    ])
  })

  it("is not an open circuit while the plugin is off or no longer configured, because none of its deliveries is tried", () => {
    for (const change of [{ on: false }, { on: false, configured: false }]) {
      const items = [{ ...plugin("webhook", [{ ...handler, dead: 1 }]), ...change }]
      assert.lengthOf(titles({ plugins: { ...plugins, items } }).filter((title) => title.startsWith("Circuit")), 0)
      assert.include(titles({ plugins: { ...plugins, items } }), "1 dead letter of webhook (ats.tag.created)")
    }
  })

  it("is a plugin that does not run, an open circuit for which deliveries wait, and writes that an operator has stopped", () => {
    const withoutDelivery = { ...handler, handler: "no delivery is open", due: 0, oldest_at: null }
    const items = [plugin("webhook", [handler, withoutDelivery], [
      { integration: "a:1", state: "unconfigured", reason: "URL is not set" },
      { integration: "a:2", state: "blocked", reason: "addTag: the key is not valid" }
    ])]
    assert.sameMembers([...titles({ plugins: { ...plugins, writes: "stopped", items } })], [
      "Circuit open: webhook (ats.tag.created)",
      "webhook does not run in 1 integration",
      "Deliveries of webhook wait for the API in 1 integration",
      "An operator has stopped the writes of all plugins"
    ])
  })
})

describe("the headline", () => {
  const failing = (integration: string, message: string, minutes: number, change: Partial<StreamView> = {}) =>
    row(integration, { failing: { count: 1, message, since: at(minutes) }, last_poll_at: at(minutes), ...change })
  const of = (...streams: ReadonlyArray<Condition>) => headlineOf(mattersOf({ streams }))

  it("is absent while half of the streams that should be read are read", () => {
    assert.isNull(of(failing("a:1", "no answer", 5), row("b:1"), row("c:1", { paused: true })))
  })

  it("says since when nothing was read, and takes an open circuit for the failure that opened it", () => {
    const opened = (integration: string, minutes: number, change: Partial<StreamView> = {}) =>
      row(integration, {
        failing: { count: 1, message: "circuit open", opened_by: "no answer", since: at(minutes) },
        last_poll_at: at(minutes),
        ...change
      })
    const neverRead = opened("c:1", 2, { phase: "starting", last_poll_at: null })
    assert.deepStrictEqual(
      of(opened("a:1", 9), failing("b:1", "no answer", 5), neverRead, row("d:1", { paused: true })),
      {
        title: "Nothing has been read since 2026-03-01 11:55:00 UTC (3 of 3 streams)",
        cause: "no answer",
        since: at(5)
      }
    )
  })

  it("says since when most streams are not read, and the cause that made them most", () => {
    assert.deepStrictEqual(
      of(failing("a:1", "no answer", 5), failing("b:1", "no answer", 4), blocked("c:1", "key", 90), row("d:1")),
      {
        title: "Most streams have not been read since 2026-03-01 11:56:00 UTC (3 of 4 streams)",
        cause: "no answer. This stopped 2 streams; 1 had stopped before",
        since: at(4)
      }
    )
  })

  it("names the cause of the streams that were read last, even if as many, or more, have been blocked for longer", () => {
    const long = ["b:1", "c:1", "d:1"].map((name) => blocked(name, "key", 90))
    assert.deepStrictEqual(of(failing("a:1", "no answer", 5), failing("e:1", "no answer", 7), ...long), {
      title: "Nothing has been read since 2026-03-01 11:55:00 UTC",
      cause: "no answer. This stopped 2 streams; 3 had stopped before",
      since: at(5)
    })
  })
})
