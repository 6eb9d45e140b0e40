import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Capture } from "../../../src/capture/schedule/Capture.ts"
import * as Server from "../../../src/http/Server.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../../src/store/Store.ts"
import * as Scripted from "../../support/capture/ScriptedApi.ts"
import { temporaryFolder } from "../../support/TemporaryFolder.ts"
import { ask, type Options, post, served, server, stream, using, write } from "./Running.ts"

const list = Effect.map(ask("/v1/integrations"), ({ body }) => body.items)
const acme = "greenhouse:acme"

/** Reads the added integrations while the test runs. */
const reading = <A, E>(test: Effect.Effect<A, E, Capture | Store | Server.Server>, options?: Options) =>
  Effect.gen(function*() {
    const { run } = yield* Capture
    return yield* Effect.raceFirst(test, run)
  }).pipe(using(options))

const soon = Schedule.spaced("20 millis")

describe("POST /v1/integrations", () => {
  it.live("adds an integration, which is listed, read within a second, and recorded as an operator action", () => {
    const api = Scripted.make()
    api.put(0, { id: "a" })
    const test = Effect.gen(function*() {
      const store = yield* Store
      const { body, status } = yield* post("/v1/integrations", {
        id: acme,
        account: "eu",
        models: ["ats.tag", "ats.offer"],
        interval: "10 minutes",
        backfill: "fill"
      })
      assert.strictEqual(status, 200)
      assert.deepInclude(body, {
        id: acme,
        account: "eu",
        state: "active",
        declared: false,
        models: ["ats.offer", "ats.tag"],
        backfill: "fill",
        interval_seconds: 600,
        sweep_interval_seconds: 21_600,
        generation: 1,
        streams: 2
      })
      yield* Effect.repeat(list, { until: ([one]) => one.live === 2, schedule: soon })
      assert.deepStrictEqual((yield* ask("/v1/events")).body.events, [], "its backfill only fills")
      const records = yield* ask(`/v1/records?integration=${acme}&model=ats.tag`)
      assert.deepStrictEqual(records.body.records.map((record: { id: string }) => record.id), ["a"])
      assert.deepStrictEqual((yield* store.auditLog(5)).map(({ command, target }) => [command, target]), [[
        "integrations.add",
        acme
      ]])
      assert.strictEqual((yield* post("/v1/integrations", { id: acme })).status, 409)
    })
    return reading(test, { api })
  })

  it.live("an integration with candidates has their records and events, but no polled stream for them", () => {
    const api = Scripted.make()
    api.put(0, { id: "a", candidate: { id: "c", first_name: "Ada" } })
    const test = Effect.gen(function*() {
      const models = ["ats.application", "ats.candidate"]
      const { body } = yield* post("/v1/integrations", { id: acme, account: "eu", models })
      assert.deepInclude(body, { models, streams: 1 })
      const place = `integration=${acme}&model=ats.candidate`
      const events = Effect.map(ask(`/v1/events?${place}`), ({ body }) => body.events)
      const [event] = yield* Effect.repeat(events, { until: ({ length }) => length > 0, schedule: soon })
      assert.deepInclude(event, { type: "rollcall.ats.candidate.created", subject: "c", origin: "backfill" })
      const { records } = (yield* ask(`/v1/records?${place}`)).body
      assert.deepStrictEqual(records.map(({ after, id }: { after: unknown; id: string }) => [id, after]), [
        ["c", { id: "c", first_name: "Ada" }]
      ])
      const { items } = (yield* ask("/v1/streams")).body
      assert.deepStrictEqual(items.map(({ model }: { model: string }) => model), ["ats.application"])
      assert.strictEqual((yield* ask("/health/ready")).status, 200)
    })
    return reading(test, { api })
  })

  it.live("an integration with a long id accepts commands and can be removed", () =>
    reading(Effect.gen(function*() {
      const id = `greenhouse:${"%".repeat(244)}`
      const path = encodeURIComponent(id)
      assert.strictEqual((yield* post("/v1/integrations", { id: `${id}%`, account: "eu" })).status, 400)
      assert.strictEqual((yield* post("/v1/integrations", { id, account: "eu", models: ["ats.tag"] })).status, 200)
      assert.strictEqual((yield* post(`/v1/streams/${path}/ats.tag/pause`, {})).status, 200)
      assert.strictEqual((yield* post(`/v1/integrations/${path}/remove`, { data: "keep" })).status, 200)
    })))

  served("reports every fault of the body at once, with the known names", function*() {
    const { body, status } = yield* post("/v1/integrations", {
      id: "acme",
      account: "uk",
      models: ["ats.tags"],
      interval: "soon",
      backfill: "none",
      every: 1
    })
    assert.deepInclude(body, {
      status,
      type: "urn:rollcall:problem:integration-invalid",
      detail: "the body has 6 errors"
    })
    assert.strictEqual(status, 400)
    const faults = new Map<string, { message: string; hint: string }>(
      body.faults.map((fault: { where: string }) => [fault.where, fault])
    )
    assert.sameMembers([...faults.keys()], [
      "body, id",
      "body, account",
      "body, models[0]",
      "body, interval",
      "body, backfill",
      "body, every"
    ])
    assert.include(faults.get("body, account")?.hint, "default, eu")
    assert.include(faults.get("body, models[0]")?.hint, "ats.application")
    assert.deepStrictEqual(yield* list, [])
  })

  served("names the location of the fault in a body that is not an integration", function*() {
    for (const [text, where] of [["{", "body"], ["[]", "body"], ["{}", "body, id"], ["null", "body"]] as const) {
      const { body, status } = yield* post("/v1/integrations", text)
      assert.strictEqual(status, 400)
      assert.include(body.faults.map((fault: { where: string }) => fault.where), where)
    }
  })
})

describe("POST /v1/integrations/{id}/remove", () => {
  const remove = (id: string, data: unknown) => post(`/v1/integrations/${encodeURIComponent(id)}/remove`, data)

  it.live("keeps the records or erases them", () => {
    const api = Scripted.make()
    api.put(0, { id: "a" })
    const test = Effect.gen(function*() {
      yield* post("/v1/integrations", { id: acme, models: ["ats.tag"] })
      yield* Effect.repeat(list, { until: ([one]) => one.records_live === 1, schedule: soon })
      const kept = yield* remove(acme, { data: "keep" })
      assert.deepInclude(kept.body, { id: acme, state: "removed", streams: 0, records_live: 1 })
      assert.strictEqual((yield* ask("/v1/events")).body.events.length, 1)
      assert.deepStrictEqual((yield* ask("/v1/streams")).body.items, [])

      const erased = yield* remove(acme, { data: "erase" })
      assert.deepInclude(erased.body, { state: "erasing", generation: 2 })
      yield* Effect.repeat(list, { until: (items) => items.length === 0, schedule: soon })
      assert.deepStrictEqual((yield* ask("/v1/events")).body.events, [])
      assert.strictEqual((yield* ask(`/v1/records?integration=${acme}&model=ats.tag`)).status, 404)
      const gone = yield* remove(acme, { data: "keep" })
      assert.deepStrictEqual([gone.status, gone.body.detail], [
        404,
        `${acme} does not exist: run \`rollcall integrations list\` to see all integrations`
      ])
    })
    return reading(test, { api })
  })

  it.live("erases the records from the bytes of the store's files too (I11)", () => {
    const api = Scripted.make()
    for (let n = 0; n < 72; n++) api.put(0, { id: `a${n}`, name: `person.${n}@people.example` })
    const addressesIn = (directory: string) =>
      readdirSync(directory).flatMap((name) =>
        readFileSync(join(directory, name), "latin1").match(/person\.\d+@/g) ?? []
      ).length
    return Effect.gen(function*() {
      const directory = yield* temporaryFolder
      const test = Effect.gen(function*() {
        yield* post("/v1/integrations", { id: acme, models: ["ats.tag"] })
        yield* Effect.repeat(list, { until: ([one]) => one.records_live === 72, schedule: soon })
        assert.isAtLeast(addressesIn(directory), 72)
        yield* remove(acme, { data: "erase" })
        yield* Effect.repeat(list, { until: (items) => items.length === 0, schedule: soon })
        assert.strictEqual(addressesIn(directory), 0)
      })
      const store = Sqlite.layer({ file: join(directory, "rollcall.db") })
      yield* Effect.flatMap(Capture, ({ run }) => Effect.raceFirst(test, run)).pipe(
        Effect.provide(server({ api }).pipe(Layer.provideMerge(store)))
      )
    }).pipe(Effect.scoped)
  })

  served("an integration with a long id is found by the id that the list shows", function*() {
    const integration = `workday:${"ä".repeat(300)}`
    yield* stream({}, { integration, model: "ats.tag" })
    assert.strictEqual((yield* ask(`/v1/streams/${encodeURIComponent(integration)}/ats.tag`)).status, 200)
  })

  served("requires `data`, and refuses to remove a declared integration", function*() {
    yield* post("/v1/integrations", { id: acme })
    for (const body of [{}, { data: "all" }, { data: "keep", more: 1 }]) {
      assert.strictEqual((yield* remove(acme, body)).status, 400, JSON.stringify(body))
    }
    yield* stream({}, { integration: "workday:acme", model: "ats.tag" })
    yield* write("a", "{}", { integration: "workday:acme" })
    const { body, status } = yield* remove("workday:acme", { data: "erase" })
    assert.deepStrictEqual([status, body.type], [409, "urn:rollcall:problem:conflict"])
    assert.include(body.hint, "remove it in the configuration")
  })
})
