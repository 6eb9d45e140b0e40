/** The results of a dry run, and that a dry run cannot write. */
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { limiting, pass } from "../../../test/support/delivery/Limiting.ts"
import * as Rig from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import type { ReadOnlyPorts } from "./DryRunPorts.ts"

const { acme } = Rig
const hired = "ats.application.hired"

const tag = (name: string) => Effect.flatMap(Plugin.Api, (api) => api.addTag("c1", { tag: { name } }))

/** Uses every kind of write. */
const busy = Plugin.make("busy", { needs: { writes: ["addTag", "createEmployee"] } }).on(
  hired,
  {},
  (event) =>
    Effect.gen(function*() {
      const api = yield* Plugin.Api
      yield* api.live("ats.application", event.recordId)
      yield* Plugin.Records.get("ats.application", event.recordId)
      yield* api.addTag("c1", { tag: { name: "hired" } })
      yield* Plugin.Journal.once("twice", Schema.Json, tag("in a step"))
      yield* Plugin.Journal.oncePerRecord("ever", Schema.Json, Effect.as(tag("for ever"), null))
      const hris = api.for("workday:acme")
      yield* hris.createEmployee({ properties: {} })
      const client = yield* HttpClient.HttpClient
      yield* Effect.orDie(client.get("https://hooks.example/state"))
      const request = HttpClientRequest.bodyJsonUnsafe(HttpClientRequest.post("https://hooks.example/in?key=s3cret"), {
        id: event.id
      })
      yield* Effect.orDie(client.execute(request))
      yield* Effect.orDie(client.execute(HttpClientRequest.delete("https://hooks.example/in")))
    })
)

/** The switch of the plugin. It is off, so all requests come from the dry run. */
const off = (name: string) => ({ _tag: "Plugin", plugin: name, integration: null }) as const

describe("a dry run", () => {
  it.effect("a dry run ends at the handler's time-out, even while the account is paused (R1)", () =>
    Effect.gen(function*() {
      const api = limiting(1, 900)
      const rig = yield* Rig.makeWith(api)
      const plugin = Plugin.make("p").on(
        hired,
        {},
        ({ recordId }) => Effect.flatMap(Plugin.Api, ({ live }) => Effect.asVoid(live("ats.application", recordId)))
      )
      const { plugins } = yield* rig.start([plugin.with({ from: "oldest" })])
      yield* plugins.setSwitch(off("p"), false)
      yield* rig.hire("a")
      const running = yield* Effect.forkChild(plugins.dryRun({ plugin: "p", handler: hired, fresh: false, limit: 1 }))
      yield* rig.until(() => api.requests.length === 1)
      yield* pass(60)
      const exit = running.pollUnsafe()
      if (exit === undefined || exit._tag === "Failure") return assert.fail("the dry run still waits")
      assert.strictEqual(exit.value.results[0]?.failure?.reason, "TimedOut")
    }))

  it.effect("a dry run gets no port that can write to the source, the store or the network", () =>
    Effect.gen(function*() {
      expectTypeOf<keyof ReadOnlyPorts["source"]>().toEqualTypeOf<"page" | "read">()
      expectTypeOf<keyof ReadOnlyPorts["deliveries"]>().toEqualTypeOf<
        "result" | "entries" | "batches" | "content" | "applicationsOf"
      >()
      const rig = yield* Rig.make
      const methods: Array<string> = []
      rig.script.http = ({ method }) => Effect.sync(() => (methods.push(method), 200))
      rig.script.answer = () => Effect.die(new Error("a dry run has written"))
      const { plugins } = yield* rig.start([busy.with({ from: "oldest" })])
      yield* plugins.setSwitch(off("busy"), false)
      yield* rig.hire("a")
      rig.calledMethods.clear()
      const { deliveries, omitted, results } = yield* plugins.dryRun({
        plugin: "busy",
        handler: hired,
        fresh: false,
        limit: 10
      })
      assert.deepStrictEqual([deliveries, omitted], [1, 0])
      assert.deepStrictEqual(results[0]?.failure, null)
      assert.deepStrictEqual(
        results[0]?.requests.map(({ integration, what }) => [what, integration]),
        [
          ["addTag", acme],
          ["addTag", acme],
          ["addTag", acme],
          ["createEmployee", "workday:acme"],
          ["POST https://hooks.example/in", null],
          ["DELETE https://hooks.example/in", null]
        ]
      )
      assert.deepStrictEqual(results[0]?.requests[0], {
        what: "addTag",
        integration: acme,
        params: { candidate_id: "c1" },
        body: { tag: { name: "hired" } }
      })
      assert.notInclude(JSON.stringify(results), "s3cret")
      assert.deepStrictEqual(methods, ["GET"])
      assert.deepStrictEqual(rig.sent, [])
      assert.deepStrictEqual([...rig.calledMethods].toSorted(), ["content", "handlers", "result"])
      assert.deepStrictEqual(yield* rig.deliveries.deadLetters({ limit: 10 }), [])
    }).pipe(Effect.scoped))

  it.effect("a dry run reports how a handler would fail: an undeclared write, an invalid request, a permanent failure, a defect", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const failing = Plugin.make("failing", { needs: { writes: ["addTag"] } })
        .on(
          hired,
          { as: "undeclared" },
          () => Effect.flatMap(Plugin.Api, (api) => api.removeTag("c1", { tag: { name: "x" } }))
        )
        .on(hired, { as: "wrong" }, () => tag(7 as unknown as string))
        .on(hired, { as: "permanent" }, () => new Plugin.Permanent({ message: "no such place" }))
        .on(hired, { as: "mistaken" }, () => Effect.die(new RangeError("of a s3cret")))
        .with({ from: "oldest" })
      const { plugins } = yield* rig.start([failing])
      yield* plugins.setSwitch(off("failing"), false)
      yield* rig.hire("a")
      const failureOf = (handler: string) =>
        Effect.map(
          plugins.dryRun({ plugin: "failing", handler, fresh: false, limit: 1 }),
          ({ results: [first] }) => first?.failure ?? null
        )
      assert.strictEqual((yield* failureOf("undeclared"))?.refusal, "Undeclared")
      const wrong = yield* failureOf("wrong")
      assert.deepStrictEqual([wrong?.reason, wrong?.refusal, wrong?.faults[0]?.path], [
        "Permanent",
        "Invalid",
        "/body/tag/name"
      ])
      assert.strictEqual((yield* failureOf("permanent"))?.message, "no such place")
      const mistaken = yield* failureOf("mistaken")
      assert.strictEqual(mistaken?.reason, "Defect")
      assert.notInclude(mistaken?.message ?? "", "s3cret")
      assert.deepStrictEqual(rig.sent, [])
    }).pipe(Effect.scoped))

  it.effect("a dry run leaves out requests whose results are in the journal, unless it is fresh", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const ever = Plugin.Journal.oncePerRecord("ever", Schema.Json, Effect.as(tag("for ever"), null))
      const tagger = Plugin.make("tagger", { needs: { writes: ["addTag"] } })
        .on(hired, {}, () => Effect.andThen(tag("hired"), ever))
        .with({ from: "oldest" })
      const { delivery, plugins } = yield* rig.start([tagger])
      yield* rig.hire("a")
      yield* rig.quiet(delivery)
      assert.strictEqual(rig.sent.length, 2)
      const dryRequests = (fresh: boolean) =>
        Effect.map(
          plugins.dryRun({ plugin: "tagger", handler: hired, fresh, limit: 1 }),
          ({ results: [first] }) => first?.requests.map(({ what }) => what)
        )
      assert.deepStrictEqual(yield* dryRequests(false), [])
      assert.deepStrictEqual(yield* dryRequests(true), ["addTag"])
      assert.strictEqual(rig.sent.length, 2)

      yield* plugins.replay({ plugin: "tagger", handler: hired, fresh: false })
      yield* rig.empty
      assert.strictEqual(rig.sent.length, 2)
      yield* plugins.replay({ plugin: "tagger", handler: hired, fresh: true })
      yield* rig.empty
      assert.strictEqual(rig.sent.length, 3)
    }).pipe(Effect.scoped))

  it.effect("a dry run tries batches as batches, a tick once for the whole range, and at most `limit` deliveries", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const sizes: Array<number> = []
      const spans: Array<string> = []
      const several = Plugin.make("several")
        .batch(
          hired,
          { as: "batch", size: 2, within: "1 minute" },
          (events) => Effect.sync(() => void sizes.push(events.length))
        )
        .every(
          "1 day",
          { as: "daily" },
          ({ from, to }) =>
            Effect.sync(() => void spans.push([from, to].map((position) => position.split("-").at(-1)).join(" to ")))
        )
        .with({ from: "oldest", integrations: { [acme]: true }, others: false })
      const { plugins } = yield* rig.start([several])
      yield* plugins.setSwitch(off("several"), false)
      for (const id of ["a", "b", "c"]) yield* rig.hire(id)
      yield* rig.hire("d", "lever:beta")
      const batches = yield* plugins.dryRun({ plugin: "several", handler: "batch", fresh: false, limit: 1 })
      assert.deepStrictEqual([sizes, batches.deliveries, batches.omitted], [[2], 2, 1])
      yield* plugins.dryRun({ plugin: "several", handler: "daily", fresh: false, limit: 10 })
      assert.deepStrictEqual(spans, ["0 to 4"])
    }).pipe(Effect.scoped))

  it.effect("a dry run, like the engine, has at most one event of a record in a batch (I5)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const batches: Array<string> = []
      const plugin = Plugin.make("p").batch(
        "ats.application.updated",
        { size: 3, within: "1 second" },
        (events) =>
          Effect.sync(() => void batches.push(events.map(({ recordId, version }) => recordId + version).join(" ")))
      )
      const { delivery, plugins } = yield* rig.start([plugin])
      yield* plugins.setSwitch(off("p"), false)
      for (const id of ["a", "a", "b", "a", "b", "c", "c", "d", "d"]) yield* rig.append(id)
      yield* rig.quiet(delivery)
      yield* plugins.dryRun({ plugin: "p", handler: "ats.application.updated", fresh: false, limit: 10 })
      const planned = batches.splice(0)
      yield* plugins.setSwitch(off("p"), true)
      for (let round = 0; round < 3; round++) {
        yield* rig.quiet(delivery)
        yield* TestClock.adjust("1 second")
      }
      yield* rig.empty
      assert.deepStrictEqual(batches, ["a2 b2 c2", "a3 d2"])
      assert.deepStrictEqual(planned, batches)
    }).pipe(Effect.scoped))
})
