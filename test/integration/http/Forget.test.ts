import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { Capture } from "../../../src/capture/schedule/Capture.ts"
import * as Scripted from "../../support/capture/ScriptedApi.ts"
import { ask, post, stream, using } from "./Running.ts"

const record = { integration: "greenhouse:acme", model: "ats.tag", id: "8Xi6iZrwusZqJmDGXs49GBmJ" }

describe("POST /v1/forget", () => {
  it.live("shows a plan, forgets the record that the plan counts, lists it, and allows it again", () => {
    const api = Scripted.make()
    api.put(0, { id: record.id, name: "ann@people.example" })
    const test = Effect.gen(function*() {
      yield* post("/v1/integrations", { id: record.integration, models: [record.model] })
      yield* Effect.repeat(ask("/v1/events"), {
        until: ({ body }) => body.events.length === 1,
        schedule: Schedule.spaced("20 millis")
      })
      const planned = yield* post("/v1/forget/plan", record)
      assert.strictEqual(planned.status, 200)
      assert.deepInclude(planned.body, { live: true, versions: 1, pending: 0, deliveries: 0, steps: 0, copies: [] })
      const wrong = yield* post("/v1/forget", { ...record, plan: "0123456789abcdef" })
      assert.deepStrictEqual([wrong.status, wrong.body.detail], [409, "the plan is outdated: other counts apply now"])
      const done = yield* post("/v1/forget", { ...record, plan: planned.body.plan })
      assert.deepInclude(done.body, { ...record, state: "forgotten" })
      const { body: { events }, text } = yield* ask("/v1/events")
      assert.deepStrictEqual(events.map(({ data }: { data: object }) => data), [{
        ...record,
        remote_id: null,
        generation: 1,
        version: 2,
        kind: "deleted",
        origin: "refresh",
        before: null,
        after: null,
        changes: [],
        transitions: [],
        reason: "forgotten",
        restored: false,
        changed_at: null,
        detected_at: events[0].data.detected_at,
        cause: null
      }])
      assert.notInclude(text, "@")
      assert.deepStrictEqual((yield* ask("/v1/forget")).body.items, [done.body])
      const again = yield* post("/v1/forget/plan", record)
      assert.strictEqual(again.status, 409)
      assert.match(
        again.body.detail,
        /^greenhouse:acme\/ats.tag\/8Xi6iZrwusZqJmDGXs49GBmJ is already forgotten, since 2/
      )
      assert.deepStrictEqual((yield* post("/v1/forget/allow", record)).body, record)
      assert.deepStrictEqual((yield* ask("/v1/forget")).body.items, [])
      assert.strictEqual((yield* post("/v1/forget/allow", record)).status, 404)
    })
    return Effect.flatMap(Capture, ({ run }) => Effect.raceFirst(test, run)).pipe(using({ api }))
  })

  it.live("refuses an id that no stored record has, without repeating it, and a model that does not exist", () =>
    Effect.gen(function*() {
      yield* stream()
      const unknown = yield* post("/v1/forget/plan", { ...record, id: "ann@people.example" })
      assert.deepStrictEqual([unknown.status, unknown.body.detail], [
        404,
        "nothing is stored about ats.tag with this id in greenhouse:acme: pass the id of the unified API, as events " +
        "and `GET /v1/records` show it"
      ])
      assert.strictEqual((yield* post("/v1/forget/plan", { ...record, model: "ats.person" })).status, 400)
      assert.strictEqual((yield* post("/v1/forget", record)).status, 400)
    }).pipe(using({})))
})
