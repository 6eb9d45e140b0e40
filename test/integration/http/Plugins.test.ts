/** Plugins over HTTP, with the real delivery engine, as an operator on call uses them. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as TestClock from "effect/testing/TestClock"
import { sizeOf } from "../../../src/domain/DeliveryProgress.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import { auditOf, delivered, died, picky, unproven } from "./Picky.ts"
import * as Running from "./Running.ts"

const { ask, post, served, stream, using, write } = Running

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
    const stopped = yield* post("/v1/plugins/writes/stop")
    assert.strictEqual(stopped.status, 404)
    assert.match(stopped.body.detail, /^no plugin is configured, so there are no writes to stop or resume/)
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

describe("GET /v1/plugins/:plugin/attempts", () => {
  served.virtual(
    "counts the attempts of each handler and shows the last failure, also of a delivery that is tried again",
    function*() {
      yield* stream({ phase: "live" })
      for (const id of ["a", "flaky"]) yield* write(id, "{}")
      yield* delivered
      yield* TestClock.adjust("10 seconds")
      const path = "/v1/plugins/flaky/attempts"
      const read = Effect.map(ask(path), ({ body }) => body)
      const body = yield* Effect.repeat(read, { until: ({ handlers }) => handlers[0].steps.length > 0 })
      const failed = { at: "1970-01-01T00:00:00.000Z", integration: "greenhouse:acme", refusal: null }
      assert.deepStrictEqual(body, {
        as_of: body.as_of,
        step_seconds: 600,
        handlers: [
          {
            handler: "ats.tag.created",
            steps: [{ at: "1970-01-01T00:00:00.000Z", attempts: 2, failed: 1, settled: 1 }],
            last_failure: { ...failed, reason: "Transient", message: "the receiver does not answer" }
          },
          { handler: "changes", steps: [], last_failure: null }
        ]
      })
      assert.strictEqual((yield* ask("/v1/deadletters")).body.items.length, 0)
      assert.strictEqual((yield* ask("/v1/plugins/other/attempts")).status, 404)
    },
    {
      plugins: [
        Plugin.make("flaky")
          .on(
            "ats.tag.created",
            { retry: { first: "1 hour" } },
            ({ recordId }) =>
              recordId === "flaky" ? new Plugin.Transient({ message: "the receiver does not answer" }) : Effect.void
          )
          .on("ats.tag.updated", { as: "changes" }, () => Effect.void)
          .with({ from: "oldest" })
      ]
    }
  )
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

describe("a replay", () => {
  it.live("delivers a range of the log to one handler again, by positions or times", () => {
    const done: Array<string> = []
    return Effect.gen(function*() {
      yield* stream({ phase: "live" })
      for (const id of ["a", "b", "c", "d"]) yield* write(id, "{}")
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
      const times = { from: "1970-01-01T00:00:00Z", to: "2999-01-01T00:00:00Z" }
      assert.deepStrictEqual((yield* replay(times)).done, ["a", "b", "c", "d"])
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
