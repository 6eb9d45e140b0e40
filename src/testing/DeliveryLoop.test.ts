/** The rules by which the test kit delivers events, batches and ticks: those of the service. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Schema from "effect/Schema"
import * as Plugin from "../plugin/Plugin.ts"
import * as Testing from "./Testing.ts"

const hired = Testing.event("ats.application.hired", { after: { id: "a1", candidate_id: "c1" } })

describe("a delivery in the test kit", () => {
  it("reports a defect; later events of the same record are parked, those of other records are not", async () => {
    const plugin = Plugin.make("faulty").on("ats.tag.updated", {}, ({ recordId }) => {
      if (recordId === "bad") throw new Error("oops")
      return Effect.void
    })
    const named = (id: string) => Testing.event("ats.tag.updated", { before: { id, name: "a" }, after: { name: "b" } })
    const { deliveries, failure } = await Testing.make(plugin).deliver([named("bad"), named("bad"), named("good")])
    assert.deepStrictEqual(deliveries.map(({ state }) => state), ["dead", "parked", "done"])
    assert.deepStrictEqual([failure?._tag, failure?.message], ["Defect", "oops"])
  })

  it("a failed batch is halved until the failing event is alone, and the halves do not repeat its writes (L7)", async () => {
    const sizes: Array<number> = []
    const plugin = Plugin.make("batches", { needs: { writes: ["addResultLink"] } }).batch(
      "ats.tag.created",
      { size: 4, within: "1 minute" },
      Effect.fnUntraced(function*(events) {
        sizes.push(events.length)
        const api = yield* Plugin.Api
        for (const { recordId } of events) {
          if (recordId === "t3") return yield* new Plugin.Permanent({ message: "no" })
          yield* api.addResultLink(recordId, { label: "x", url: "https://x.example" })
        }
      })
    )
    const events = ["t1", "t2", "t3", "t4", "t5"].map((id) => Testing.event("ats.tag.created", { after: { id } }))
    const { deliveries, writes } = await Testing.make(plugin).deliver(events)
    assert.deepStrictEqual(sizes, [4, 2, 2, 1, 1, 1])
    assert.deepStrictEqual(deliveries.map(({ state }) => state), ["done", "dead", "done", "done"])
    assert.deepStrictEqual(writes.map(({ id }) => id), ["t1", "t2", "t4", "t5"])
  })

  it("a batch has one event of each record, and a dead event parks the later events of its record (I5)", async () => {
    const received: Array<string> = []
    const plugin = (onDeadLetter: "park" | "skip") =>
      Plugin.make("batches").batch("ats.tag.updated", { size: 4, within: "1 minute", onDeadLetter }, (events) => {
        received.push(events.map(({ recordId, version }) => `${recordId}.${version}`).join(" "))
        const fails = events.some(({ recordId, version }) => recordId === "bad" && version === 2)
        return fails ? new Plugin.Permanent({ message: "no" }) : Effect.void
      })
    const updated = (id: string, version: number) =>
      Testing.event("ats.tag.updated", {
        version,
        before: { id, name: `${version - 1}` },
        after: { name: `${version}` }
      })
    const events = [updated("bad", 2), updated("good", 2), updated("bad", 3), updated("good", 3)]
    const parking = Testing.make(plugin("park"))
    const states = async (testing: Testing.Testing, ...events: ReadonlyArray<Plugin.AnyEvent>) =>
      (await testing.deliver(events)).deliveries.map(({ state }) => state)
    assert.deepStrictEqual(await states(parking, ...events), ["dead", "done", "parked", "done"])
    assert.deepStrictEqual(await states(parking, updated("bad", 4)), ["parked"])
    assert.deepStrictEqual(received.splice(0), ["bad.2 good.2", "bad.2", "good.2", "good.3"])
    const skipping = Testing.make(plugin("skip"))
    assert.deepStrictEqual(await states(skipping, ...events), ["dead", "done", "done"])
    assert.deepStrictEqual(received, ["bad.2 good.2", "bad.2", "good.2", "bad.3 good.3"])
  })

  it("events that are delivered again in other batches repeat no step and no write (L4)", async () => {
    const steps: Array<string> = []
    const plugin = Plugin.make("batches", { needs: { writes: ["addResultLink"] } }).batch(
      "ats.application.hired",
      { size: 4, within: "1 minute" },
      (events) =>
        Effect.gen(function*() {
          const api = yield* Plugin.Api
          for (const { recordId } of events) {
            yield* Plugin.Journal.once(`note ${recordId}`, Schema.Number, Effect.sync(() => steps.push(recordId)))
            yield* api.addResultLink(recordId, { label: "x", url: "https://x.example" })
          }
          const ids = events.map(({ recordId }) => recordId).join(" ")
          yield* Plugin.Journal.once("all", Schema.Number, Effect.sync(() => steps.push(ids)))
        })
    )
    const testing = Testing.make(plugin)
    const [a, b, c] = ["a", "b", "c"].map((id) => Testing.event("ats.application.hired", { after: { id } }))
    if (a === undefined || b === undefined || c === undefined) return assert.fail("three events")
    const runs = [await testing.deliver([a, b]), await testing.deliver([b, c]), await testing.deliver([a, b, c])]
    assert.deepStrictEqual(runs.map(({ writes }) => writes.map(({ id }) => id)), [["a", "b"], ["c"], []])
    assert.deepStrictEqual(steps, ["a", "b", "a b", "c", "c"])
  })

  it("a tick covers the events since the previous one (L8)", async () => {
    const plugin = Plugin.make("digests").every(
      "1 day",
      { as: "digest" },
      Effect.fnUntraced(function*({ from, to }) {
        const events = yield* Plugin.Events.between("ats.application.hired", from, to)
        yield* Effect.log(events.map(({ recordId }) => recordId).join())
      })
    )
    const testing = Testing.make(plugin)
    await testing.deliver([hired, Testing.event("ats.application.declined", {})])
    assert.deepStrictEqual(await testing.crashes({ tick: "digest" }), [])
    assert.deepStrictEqual((await testing.tick("digest")).logs, ["Info: a1"])
    assert.deepStrictEqual((await testing.tick("digest")).logs, ["Info: "])
  })

  it("a tick is due at a multiple of its interval, after the previous one, and repeats its steps and writes (L6)", async () => {
    const due: Array<string> = []
    const plugin = Plugin.make("digests", { needs: { writes: ["addResultLink"] } }).every(
      "6 hours",
      { as: "digest" },
      Effect.fnUntraced(function*({ scheduledAt }) {
        const at = scheduledAt.toISOString().slice(0, 13)
        yield* Plugin.Journal.once("tell", Schema.Number, Effect.sync(() => due.push(at)))
        yield* (yield* Plugin.Api).addResultLink("a1", { label: "Digest", url: "https://digest.example" })
      })
    )
    const testing = Testing.make(plugin)
    const written = []
    for (const integration of ["sandbox:a", "sandbox:a", "sandbox:b", "sandbox:a"]) {
      written.push((await testing.tick("digest", integration)).writes.length)
    }
    assert.deepStrictEqual(due, ["2026-01-01T06", "2026-01-01T12", "2026-01-01T12", "2026-01-01T18"])
    assert.deepStrictEqual(written, [1, 1, 1, 1])
  })

  it("a plugin has no tick in an integration in which it is off", async () => {
    const plugin = Plugin.make("digests").every("1 day", { as: "digest" }, () => Effect.log("ran"))
    const testing = Testing.make(plugin.with({ integrations: { "sandbox:off": false } }))
    assert.deepStrictEqual((await testing.tick("digest", "sandbox:off")).deliveries, [])
    assert.deepStrictEqual((await testing.tick("digest", "sandbox:on")).logs, ["Info: ran"])
  })

  it("a tick can crash at every point too (L5)", async () => {
    const plugin = Plugin.make("digests").every(
      "1 day",
      { as: "digest" },
      ({ to }) =>
        Effect.asVoid(Plugin.Journal.once(
          "send",
          Schema.Number,
          HttpClient.post(`https://chat.example/${to}`).pipe(
            Effect.map(({ status }) => status),
            Effect.catchTag("HttpClientError", () => new Plugin.Transient({ message: "no answer" }))
          ),
          { onUnknown: "deadLetter" }
        ))
    )
    const crashes = await Testing.make(plugin, { http: () => ({ status: 200 }) }).crashes({ tick: "digest" })
    assert.deepStrictEqual(crashes.map(({ at, result }) => [at, result.requests.length, result.failure?._tag]), [
      ['step "send": about to run', 0, "Permanent"],
      ["POST https://chat.example/test-1-0: about to be sent", 0, "Permanent"],
      ["POST https://chat.example/test-1-0: answered, response not processed", 1, "Permanent"],
      ['step "send": done, result not recorded', 1, "Permanent"],
      ['step "send": done', 1, undefined]
    ])
  })

  it("a handler receives events by kind, transition, property, origin and echo, as in the service", async () => {
    const seen: Array<string> = []
    const see = (what: string) => () => Effect.sync(() => void seen.push(what))
    const plugin = Plugin.make("all")
      .on("ats.application.updated", {}, see("updated"))
      .on("ats.application.updated", { as: "stage", changed: ["current_stage_id"] }, see("stage"))
      .on("ats.application.hired", {}, see("hired"))
      .on("ats.application.hired", { as: "old", origins: ["backfill", "poll"] }, see("old"))
      .on("ats.application.created", {}, see("created"))
      .on("ats.application.created", { as: "backfilled", origins: ["backfill"] }, see("backfilled"))
      .on("ats.tag.created", {}, see("tag"))
    const testing = Testing.make(plugin.with({ integrations: { "sandbox:off": false } }))
    const deliver = async (event: Plugin.AnyEvent) => {
      seen.length = 0
      await testing.deliver(event)
      return [...seen]
    }
    assert.deepStrictEqual(await deliver(hired), ["updated", "hired", "old"])
    assert.deepStrictEqual(await deliver(Testing.event("ats.application.hired", { before: null })), [
      "hired",
      "old",
      "created"
    ])
    assert.deepStrictEqual(
      await deliver(Testing.event("ats.application.stage_changed", {
        before: { current_stage_id: "s1" },
        after: { current_stage_id: "s2" }
      })),
      ["updated", "stage"]
    )
    const old = Testing.event("ats.application.created", { after: { outcome: "HIRED" }, origin: "backfill" })
    assert.deepStrictEqual(await deliver(old), ["backfilled"])
    assert.deepStrictEqual(await deliver(Testing.event("ats.tag.created", { integration: "sandbox:off" })), [])
    const cause = { plugin: "all", delivery: "1", depth: 1, paths: ["/outcome"] }
    assert.deepStrictEqual(await deliver(Testing.event("ats.application.hired", { cause })), [])
  })
})
