/** Plugins and dead letters over HTTP and on the command line, with the real delivery engine, as an operator on call uses them. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { type AddressInfo, createServer } from "node:net"
import * as PluginAdmin from "../../../src/delivery/admin/PluginAdmin.ts"
import { sizeOf } from "../../../src/domain/DeliveryProgress.ts"
import * as Server from "../../../src/http/Server.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import { Store } from "../../../src/store/Store.ts"
import { runCommand } from "../cli/Program.ts"
import * as Running from "./Running.ts"

const { ask, post, rollcall, served, stream, using, write } = Running

/** Fails for good for records whose name starts with a prefix, and handles all others. */
const picky = (done: Array<string> = [], broken: { is: boolean } = { is: true }) =>
  Plugin.make("picky")
    .on("ats.tag.created", {}, (event) =>
      Effect.gen(function*() {
        done.push(event.recordId)
        if (broken.is && event.recordId.startsWith("bad")) {
          yield* new Plugin.Permanent({ message: "the receiver refuses it" })
        }
      }))
    .on("ats.tag.updated", { as: "changes" }, () => Effect.void)
    .every("1 day", { as: "daily" }, () => Effect.void)
    .with({ from: "oldest" })

/** Waits until every event of the log is delivered, parked or dead. */
const delivered = Effect.gen(function*() {
  const store = yield* Store
  const { awaitDrained } = yield* PluginAdmin.PluginAdmin
  yield* awaitDrained((yield* store.logRange).newest)
})

/** Three records; the deliveries of two of them are dead letters. */
const died = Effect.gen(function*() {
  yield* stream({ phase: "live" })
  for (const id of ["good", "bad1", "bad2"]) yield* write(id, `{"name":"s3cret"}`)
  yield* delivered
  return (yield* ask("/v1/deadletters")).body.items.map((letter: { id: number }) => letter.id)
})

const auditOf = Effect.gen(function*() {
  const { auditLog } = yield* Store
  return (yield* auditLog(100)).map(({ command, detail, target }) => `${command} ${target} ${detail}`.trim())
    .toReversed()
})

/** A position without its chain. */
const unproven = (position: string): string => position.split("-").slice(0, 3).join("-")

describe("GET /v1/plugins", () => {
  served(
    "shows the position, waiting deliveries and dead letters of every handler, and where the plugin is on",
    function*() {
      yield* died
      const { body } = yield* ask("/v1/plugins")
      assert.deepStrictEqual([body.next, body.writes, body.delivering], [null, "on", {
        state: "running",
        reason: null
      }])
      const [plugin] = body.items
      assert.deepStrictEqual(
        plugin.handlers.map((
          one: Record<string, unknown>
        ) => [one["handler"], one["trigger"], one["lag_events"], one["dead"]]),
        [
          ["ats.tag.created", { kind: "event", of: "ats.tag.created" }, 0, 2],
          ["changes", { kind: "event", of: "ats.tag.updated" }, 0, 0],
          ["daily", { kind: "tick", of: "every 1d" }, 0, 0]
        ]
      )
      const { position } = plugin.handlers[0]
      assert.strictEqual(unproven((yield* ask("/v1/events?after=latest")).body.next), position)
      assert.deepStrictEqual(plugin.integrations, [{ integration: "greenhouse:acme", state: "on", reason: null }])
      assert.deepStrictEqual((yield* ask("/v1/plugins/picky")).body, plugin)
      const unknown = yield* ask("/v1/plugins/pickle")
      assert.deepStrictEqual(
        [unknown.status, unknown.body.detail],
        [404, `there is no plugin "pickle": the plugins are picky`]
      )
    },
    { plugins: [picky()] }
  )

  served("without plugins the list is empty and a switch is refused", function*() {
    assert.deepStrictEqual((yield* ask("/v1/plugins")).body.items, [])
    assert.deepStrictEqual((yield* ask("/v1/deadletters")).body, { items: [], next: null })
    assert.deepStrictEqual((yield* ask("/v1/plugins/writes/unconfirmed")).body, { items: [], next: null })
    const refused = yield* post("/v1/plugins/picky/off")
    assert.deepStrictEqual([refused.status, refused.body.type], [404, "urn:rollcall:problem:not-found"])
    assert.include(refused.body.detail, "no plugin is configured")
    assert.strictEqual((yield* post("/v1/plugins/writes/stop")).status, 404)
  })

  it.live("deliveries wait in an integration in which the plugin is not configured, and the missing configuration is shown", () =>
    Effect.gen(function*() {
      yield* stream({ phase: "live" })
      yield* write("a", "{}")
      yield* delivered
      const [plugin] = (yield* ask("/v1/plugins")).body.items
      const [used] = plugin.integrations
      assert.deepStrictEqual([used.state, plugin.handlers[0].dead], ["unconfigured", 0])
      assert.match(used.reason, /NOWHERE_SET/)
    }).pipe(using({
      plugins: [
        Plugin.make("wanting", { config: Config.all({ key: Config.String("NOWHERE_SET") }) })
          .on("ats.tag.created", {}, () => Effect.void).with({ from: "oldest" }) as unknown as Plugin.Plugin<unknown>
      ]
    })))

  served("the metrics and the overview show plugins and dead letters", function*() {
    yield* died
    const metrics = (yield* ask("/metrics")).text
    assert.match(metrics, /^rollcall_dead_letters\{.*handler="ats.tag.created".*\} 2$/m)
    assert.match(metrics, /^rollcall_delivery_backlog\{.*state="waiting".*\} 0$/m)
    assert.match(metrics, /^rollcall_delivery_oldest_seconds\{.*\} 0$/m)
    assert.match(metrics, /^rollcall_plugin_writes_stopped 0$/m)
    assert.match(metrics, /^rollcall_deliveries_total\{.*outcome="settled".*\} \d+$/m)
    assert.match(metrics, /^rollcall_deliveries_total\{.*outcome="dead".*\} \d+$/m)
    assert.notInclude(metrics, "bad1")
    const { matters } = (yield* ask("/v1/overview")).body
    assert.deepStrictEqual(
      matters.map(({ link, title }: { link: string; title: string }) => [title, link]),
      [["2 dead letters of picky (ats.tag.created)", "/dead-letters?plugin=picky&handler=ats.tag.created"]]
    )
    yield* post("/v1/plugins/writes/stop")
    assert.match((yield* ask("/metrics")).text, /^rollcall_plugin_writes_stopped 1$/m)
    const stopped = yield* ask("/v1/overview", { "cache-control": "no-cache" })
    assert.include(stopped.text, "An operator has stopped the writes of all plugins")
  }, { plugins: [picky()] })
})

describe("switches", () => {
  it.live("a plugin that is off gets no delivery and loses none; each switch is recorded as an operator action", () => {
    const done: Array<string> = []
    return Effect.gen(function*() {
      yield* stream({ phase: "live" })
      const off = yield* post("/v1/plugins/picky/off")
      assert.deepStrictEqual([off.status, off.body.on], [200, false])
      assert.strictEqual(off.body.integrations[0].reason, "by an operator, everywhere")
      yield* write("a", "{}")
      yield* delivered
      assert.deepStrictEqual(done, [])
      assert.strictEqual((yield* ask("/v1/plugins/picky")).body.handlers[0].due, 1)
      const half = yield* post("/v1/plugins/picky/on?integration=greenhouse:acme")
      assert.deepStrictEqual([half.status, half.body.detail], [409, "picky is switched off everywhere"])
      yield* post("/v1/plugins/picky/on")
      yield* write("b", "{}")
      yield* delivered
      assert.deepStrictEqual(done, ["a", "b"])
      assert.deepStrictEqual(yield* auditOf, ["plugins.off picky", "plugins.on picky"])
    }).pipe(using({ plugins: [picky(done)] }))
  })

  served(
    "a plugin is switched off in one integration; one that the configuration switches off cannot be switched on",
    function*() {
      yield* stream({ phase: "live" })
      yield* stream({ phase: "live" }, { integration: "lever:acme", model: "ats.tag" })
      const off = yield* post("/v1/plugins/picky/off?integration=greenhouse:acme")
      assert.deepStrictEqual(off.body.integrations, [
        { integration: "greenhouse:acme", state: "off", reason: "by an operator" },
        { integration: "lever:acme", state: "off", reason: "in the configuration" }
      ])
      const on = yield* post("/v1/plugins/picky/on?integration=lever:acme")
      assert.deepStrictEqual([on.status, on.body.type], [409, "urn:rollcall:problem:conflict"])
      assert.include(on.body.hint, "with({ … })")
      const nowhere = yield* post("/v1/plugins/picky/off?integration=lever:other")
      assert.deepStrictEqual([nowhere.status, nowhere.body.detail.split(":").length > 1], [404, true])
      assert.include(nowhere.body.detail, "there is no integration lever:other")
    },
    { plugins: [picky().with({ integrations: { "lever:acme": false } })] }
  )

  served("one switch stops the writes of all plugins, even after restarts, until it is reversed", function*() {
    const stopped = yield* post("/v1/plugins/writes/stop")
    assert.deepStrictEqual([stopped.status, stopped.body.writes], [200, "stopped"])
    const { switchedOff } = yield* Deliveries
    assert.deepStrictEqual(yield* switchedOff, [{ _tag: "Writes" }])
    assert.strictEqual((yield* post("/v1/plugins/writes/resume")).body.writes, "on")
    assert.deepStrictEqual(yield* auditOf, ["plugins.stop-writes all plugins", "plugins.resume-writes all plugins"])
  }, { plugins: [picky()] })
})

describe("GET /v1/deadletters", () => {
  served(
    "lists dead letters by filter and in pages, and shows the details of each, without content (I11)",
    function*() {
      const [first, second] = yield* died
      const { body, text } = yield* ask("/v1/deadletters?limit=1")
      const [letter] = body.items
      assert.deepStrictEqual(
        [letter.id, letter.plugin, letter.event.record, letter.reason, letter.message, letter.attempts, body.next],
        [first, "picky", "bad1", "Permanent", "the receiver refuses it", 1, String(first)]
      )
      const rest = (yield* ask(`/v1/deadletters?limit=1&after=${body.next}`)).body
      assert.strictEqual(rest.items[0].id, second)
      const of = (query: string) => Effect.map(ask(`/v1/deadletters?${query}`), ({ body }) => body.items.length)
      assert.strictEqual(
        yield* of("plugin=picky&handler=ats.tag.created&integration=greenhouse:acme&reason=Permanent"),
        2
      )
      for (
        const none of ["plugin=p", "handler=daily", "integration=l:x", "reason=Transient", "until=2020-01-01T00:00:00Z"]
      ) {
        assert.strictEqual(yield* of(none), 0, none)
      }
      for (const time of ["lately", "1", "2026-03-01T12:00:00"]) {
        assert.strictEqual((yield* ask(`/v1/deadletters?since=${time}`)).status, 400, time)
      }
      const story = yield* ask(`/v1/deadletters/${first}`)
      assert.strictEqual(story.body.failed_attempts.length, 1)
      assert.deepStrictEqual(
        [story.body.failed_attempts[0].reason, story.body.failed_attempts[0].requests, story.body.journal],
        ["Permanent", [], []]
      )
      assert.notInclude(text + story.text, "s3cret")
      assert.strictEqual((yield* ask("/v1/deadletters/77")).status, 404)
      assert.strictEqual((yield* ask("/v1/deadletters/seven")).status, 400)
    },
    { plugins: [picky()] }
  )
})

describe("a plan", () => {
  it.live("counts exactly the dead letters that a redrive affects; if they changed meanwhile, it is a conflict and nothing is done", () => {
    const broken = { is: true }
    const done: Array<string> = []
    return Effect.gen(function*() {
      const [first] = yield* died
      const plan = (yield* post("/v1/deadletters/plan", { plugin: "picky" })).body
      assert.deepStrictEqual([plan.count, plan.parked, plan.shares], [2, 0, [
        { plugin: "picky", handler: "ats.tag.created", reason: "Permanent", count: 2 }
      ]])
      assert.strictEqual((yield* post("/v1/deadletters/plan", { plugin: "picky" })).body.plan, plan.plan)
      assert.strictEqual((yield* post("/v1/deadletters/plan", { ids: [first] })).body.count, 1)

      yield* write("bad3", "{}")
      yield* delivered
      for (const act of ["redrive", "discard"]) {
        const late = yield* post(`/v1/deadletters/${act}`, { plugin: "picky", plan: plan.plan })
        assert.deepStrictEqual(
          [late.status, late.body.detail],
          [409, "the plan is outdated: 3 dead letters match now"]
        )
      }
      assert.strictEqual((yield* post("/v1/deadletters/redrive", { plan: "x", over: "some time" })).status, 400)

      broken.is = false
      done.length = 0
      const now = (yield* post("/v1/deadletters/plan", { plugin: "picky" })).body
      const redriven = yield* post("/v1/deadletters/redrive", { plugin: "picky", plan: now.plan })
      assert.deepStrictEqual([redriven.status, redriven.body.count], [200, 3])
      yield* delivered
      assert.deepStrictEqual(done.toSorted(), ["bad1", "bad2", "bad3"])
      assert.deepStrictEqual((yield* ask("/v1/deadletters")).body.items, [])
      assert.deepStrictEqual(yield* auditOf, [`deadletters.redrive plan ${now.plan} 1 of 1`])
    }).pipe(using({ plugins: [picky(done, broken)] }))
  })

  served("names the requested dead letters that do not exist or do not match the filter", function*() {
    const [first] = yield* died
    for (const filter of [{ ids: [first, 77, 78] }, { ids: [first], reason: "Defect" }]) {
      const { body, status } = yield* post("/v1/deadletters/plan", filter)
      assert.deepStrictEqual([status, body.type], [404, "urn:rollcall:problem:not-found"])
      assert.include(body.detail, filter.reason === undefined ? "no dead letter matches 77, 78" : `matches ${first}`)
      assert.include(body.detail, "GET /v1/deadletters")
    }
  }, { plugins: [picky()] })

  served("spreads a redrive over a duration, in order", function*() {
    yield* died
    const { plan } = (yield* post("/v1/deadletters/plan")).body
    const { body } = yield* post("/v1/deadletters/redrive", { plan, over: "10 minutes" })
    assert.strictEqual(body.count, 2)
    assert.strictEqual(Date.parse(body.to) - Date.parse(body.from), 300_000)
    yield* delivered
    // the first has already failed again, the second waits until it is due
    const [{ handlers: [handler] }] = (yield* ask("/v1/plugins")).body.items
    assert.deepStrictEqual([handler.dead, handler.due + handler.waiting], [1, 1])
  }, { plugins: [picky()] })

  it.live("discards the planned dead letters, and deliveries parked behind them continue", () => {
    const done: Array<string> = []
    return Effect.gen(function*() {
      const [first] = yield* died
      yield* write("bad1", null)
      yield* write("bad1", "{}")
      yield* delivered
      const plan = (yield* post("/v1/deadletters/plan", { ids: [first] })).body
      assert.strictEqual(plan.parked, 1)
      done.length = 0
      const { body } = yield* post("/v1/deadletters/discard", { ids: [first], plan: plan.plan })
      assert.deepStrictEqual(body, { count: 1 })
      yield* delivered
      assert.deepStrictEqual(done, ["bad1"])
      assert.strictEqual((yield* ask(`/v1/deadletters/${first}`)).status, 404)
    }).pipe(using({ plugins: [picky(done)] }))
  })
})

describe("a replay", () => {
  it.live("delivers a range of the log to one handler again, by positions or times", () => {
    const done: Array<string> = []
    return Effect.gen(function*() {
      yield* stream({ phase: "live" })
      for (const [index, id] of ["a", "b", "c", "d"].entries()) yield* write(id, "{}", { detectedAt: index * 60_000 })
      yield* delivered
      const positions = (yield* ask("/v1/events")).body.events.map((event: { position: string }) => event.position)
      const replay = Effect.fnUntraced(function*(stretch: Record<string, unknown>) {
        done.length = 0
        const answer = yield* post("/v1/plugins/picky/replay", { handler: "ats.tag.created", ...stretch })
        yield* delivered
        return { ...answer, done: [...done] }
      })
      const whole = yield* replay({})
      assert.deepStrictEqual([whole.status, whole.body.deliveries, whole.done], [200, 4, ["a", "b", "c", "d"]])
      assert.deepStrictEqual([whole.body.from, whole.body.to], [positions[0], positions[3]].map(unproven))
      assert.deepStrictEqual((yield* replay({ from: positions[1], to: positions[2] })).done, ["b", "c"])
      const times = { from: "1970-01-01T00:01:00Z", to: "1970-01-01T00:03:00Z" }
      assert.deepStrictEqual((yield* replay(times)).done, ["b", "c"])
      assert.deepStrictEqual((yield* replay({ from: "1970-01-01T00:02:30Z" })).done, ["d"])
      assert.include(yield* auditOf, "plugins.replay picky/ats.tag.created positions 2 to 3")
      const tick = yield* replay({ handler: "daily" })
      assert.strictEqual(tick.body.deliveries, 1)
    }).pipe(using({ plugins: [picky(done)] }))
  })

  served("names its deliveries, so that they can be counted until none is open; a dry run makes none", function*() {
    yield* stream({ phase: "live" })
    for (const id of ["a", "b", "bad"]) yield* write(id, "{}")
    yield* delivered
    const replay = { handler: "ats.tag.created" }
    const dry = yield* post("/v1/plugins/picky/replay", { ...replay, dryRun: true })
    assert.deepStrictEqual([dry.body.deliveries, dry.body.ranges], [3, []])
    yield* post("/v1/plugins/picky/off")
    const { body: { ranges } } = yield* post("/v1/plugins/picky/replay", replay)
    assert.strictEqual(sizeOf(ranges), 3)
    const progress = () => Effect.map(post("/v1/deadletters/progress", { ranges }), ({ body }) => body)
    assert.deepStrictEqual(yield* progress(), { done: 0, open: 3, dead: 0 })
    yield* post("/v1/plugins/picky/on")
    // the replay of `bad` waits behind its dead letter
    yield* Effect.repeat(progress(), { until: ({ open }) => open === 1, schedule: Schedule.spaced("20 millis") })
    const letters = (yield* ask("/v1/deadletters")).body.items.map(({ id }: { id: number }) => id)
    const { plan } = (yield* post("/v1/deadletters/plan", { ids: letters })).body
    yield* post("/v1/deadletters/discard", { ids: letters, plan })
    yield* Effect.repeat(progress(), { until: ({ open }) => open === 0, schedule: Schedule.spaced("20 millis") })
    assert.deepStrictEqual(yield* progress(), { done: 2, open: 0, dead: 1 })
    const wrong = yield* post("/v1/deadletters/progress", { ranges: [{ first: 2, last: 1 }] })
    assert.strictEqual(wrong.status, 400)
  }, { plugins: [picky()] })

  served("refuses a range that is not in this log, and says which range is", function*() {
    yield* stream({ phase: "live" })
    yield* write("a", "{}")
    yield* delivered
    const refusal = Effect.fnUntraced(function*(stretch: Record<string, unknown>, plugin = "picky") {
      const { body, status } = yield* post(`/v1/plugins/${plugin}/replay`, { handler: "ats.tag.created", ...stretch })
      return [status, body.type.split(":").at(-1), body.detail]
    })
    assert.deepStrictEqual(yield* refusal({ from: "yesterday" }), [
      400,
      "replay-malformed",
      `"yesterday" is neither a position nor a time`
    ])
    assert.deepStrictEqual((yield* refusal({ from: "other-1-1" })).slice(0, 2), [400, "replay-malformed"])
    assert.deepStrictEqual(yield* refusal({ from: "2999-01-01T00:00:00Z" }), [
      400,
      "replay-malformed",
      "there is no event in this range of the log"
    ])
    assert.deepStrictEqual(yield* refusal({ handler: "hourly" }), [
      404,
      "not-found",
      `picky has no handler "hourly": its handlers are ats.tag.created, changes, daily`
    ])
    assert.deepStrictEqual((yield* refusal({}, "pickle")).slice(0, 2), [404, "not-found"])
    assert.deepStrictEqual((yield* refusal({ integration: "l:x" })).slice(0, 2), [404, "not-found"])
    assert.strictEqual((yield* post("/v1/plugins/picky/replay", {})).status, 400)
  }, { plugins: [picky()] })
})

describe("rollcall plugins replay", () => {
  const replay = ["plugins", "replay", "picky", "ats.tag.created"]
  const rollcall = (url: string, ...args: ReadonlyArray<string>) =>
    Effect.promise(() => runCommand([...replay, ...args], { ROLLCALL_HTTP_PORT: new URL(url).port }))

  it.live("--wait returns when all deliveries are done, with exit code 1 if one failed", () => {
    const broken = { is: false }
    return Effect.gen(function*() {
      yield* stream({ phase: "live" })
      for (const id of ["a", "bad"]) yield* write(id, "{}")
      yield* delivered
      const { url } = yield* Server.Server
      const good = yield* rollcall(url, "--wait", "--json")
      const { progress, ranges } = JSON.parse(good.stdout)
      assert.deepStrictEqual([good.code, progress, sizeOf(ranges)], [0, { done: 2, open: 0, dead: 0 }, 2])
      broken.is = true
      const failing = yield* rollcall(url, "--wait")
      assert.strictEqual(failing.code, 1)
      assert.match(failing.stdout, /^2 deliveries made for picky\/ats.tag.created, .*: 1 done, 1 failed\n$/)
      assert.match(failing.stderr, /1 delivery failed\n.*rollcall deadletters list/)
      yield* post("/v1/plugins/picky/off")
      const late = yield* rollcall(url, "--wait", "--timeout", "1 second")
      assert.strictEqual(late.code, 1)
      assert.match(late.stderr, /the replay of 2 deliveries was not done within 1s\n.*It continues/)
      for (const flags of [["--timeout", "1 second"], ["--wait", "--dry-run"]]) {
        const refused = yield* rollcall(url, ...flags)
        assert.deepStrictEqual([refused.code, /has no effect/.test(refused.stderr)], [1, true])
      }
    }).pipe(using({ plugins: [picky([], broken)] }))
  })

  it.live("says that some deliveries may have been made if the connection ends before the answer", () =>
    Effect.gen(function*() {
      const server = createServer((socket) => socket.once("data", () => socket.destroy()))
      yield* Effect.acquireRelease(
        Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
        () => Effect.sync(() => server.close())
      )
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const plain = yield* rollcall(url, "--wait")
      assert.strictEqual(plain.code, 1)
      assert.match(
        plain.stderr,
        /the connection to the process at .* ended .*; some of the deliveries may have been made/
      )
      assert.include(plain.stderr, "Run the command again")
      const fresh = yield* rollcall(url, "--fresh", "--yes")
      assert.match(fresh.stderr, /`rollcall plugins show picky` shows what waits/)
    }).pipe(Effect.scoped))
})

describe("rollcall plugins, rollcall deadletters", () => {
  served(
    "show, switch, plan, redrive and discard; exit code 1 for a failure, 2 for wrong usage",
    function*() {
      const [first, second] = yield* died
      const list = yield* rollcall("plugins", "list")
      assert.match(list.stdout, /^picky +ats.tag.created +on +0 +0 +0 +0 +2 +–$/m)
      assert.match(
        (yield* rollcall("plugins", "off", "picky", "--integration", "greenhouse:acme")).stdout,
        /off +by an op/
      )
      assert.match((yield* rollcall("plugins", "show", "picky")).stdout, /^greenhouse:acme +off +by an operator$/m)
      assert.match((yield* rollcall("plugins", "on", "picky", "--integration", "greenhouse:acme")).stdout, /^picky/m)
      assert.strictEqual(
        (yield* rollcall("plugins", "stop-writes")).stdout,
        "the writes of all plugins are stopped\n"
      )
      assert.match((yield* rollcall("status")).stdout, /writes of all plugins are stopped.*\n.*\n.*picky/)
      assert.strictEqual(
        (yield* rollcall("plugins", "resume-writes")).stdout,
        "the writes of all plugins are resumed\n"
      )
      const unknown = yield* rollcall("plugins", "show", "pickle")
      assert.deepStrictEqual([unknown.code, unknown.stderr.includes("the plugins are picky")], [1, true])
      const dry = yield* rollcall("plugins", "replay", "picky", "ats.tag.created", "--dry-run")
      assert.match(dry.stdout, /ats.tag\/bad1 in greenhouse:acme.*\n +would fail: Permanent: the receiver refuses it/)
      assert.match(dry.stdout, /dry run, nothing was written: .* 3 of 3 deliveries tried, 0 writes, 2 failures/)
      assert.strictEqual((yield* rollcall("plugins", "replay", "picky")).code, 2)
      const fresh = yield* rollcall("plugins", "replay", "picky", "ats.tag.created", "--fresh")
      assert.deepStrictEqual([fresh.code, fresh.stdout], [1, ""])
      assert.match(fresh.stderr, /nothing was changed\n.*--dry-run.*--yes/)

      assert.match((yield* rollcall("deadletters", "list")).stdout, /bad1 v1 .* Permanent: the receiver refuses it/)
      assert.match((yield* rollcall("deadletters", "show", String(first))).stdout, /attempt 1, .*: Permanent/)
      const plan = yield* rollcall("deadletters", "plan", "--plugin", "picky", "--json")
      assert.strictEqual(JSON.parse(plan.stdout).count, 2)
      for (const act of ["plan", "redrive", "discard"]) {
        const unknown = yield* rollcall("deadletters", act, "--id", "77", ...(act === "plan" ? [] : ["--yes"]))
        assert.deepStrictEqual([unknown.code, unknown.stdout], [1, ""])
        assert.include(unknown.stderr, "no dead letter matches 77")
      }
      const unsure = yield* rollcall("deadletters", "discard", "--id", String(first))
      assert.deepStrictEqual(
        [unsure.code, /Pass --plan [0-9a-f]+ to confirm exactly this plan/.test(unsure.stderr)],
        [1, true]
      )
      const stale = yield* rollcall("deadletters", "redrive", "--plan", JSON.parse(plan.stdout).plan)
      assert.strictEqual(stale.stdout, "2 dead letters due again now\n")
      assert.match(
        (yield* rollcall("deadletters", "discard", "--id", String(second), "--yes")).stdout,
        /^1 dead letter discarded/m
      )
      const gone = yield* rollcall("deadletters", "redrive", "--plan", JSON.parse(plan.stdout).plan)
      assert.deepStrictEqual([gone.code, gone.stderr.includes("the plan is outdated")], [1, true])
      assert.strictEqual((yield* rollcall("deadletters", "show", "all")).code, 2)
      assert.strictEqual((yield* rollcall("deadletters", "list", "--reason", "Bad")).code, 2)
    },
    { plugins: [picky()] }
  )
})
