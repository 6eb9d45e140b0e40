import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { Capture } from "../../../src/capture/schedule/Capture.ts"
import * as Server from "../../../src/http/Server.ts"
import * as Scripted from "../../support/capture/ScriptedApi.ts"
import { runCommand } from "../cli/Program.ts"
import { ask, post, served, stream, using } from "./Running.ts"

const record = { integration: "greenhouse:acme", model: "ats.tag", id: "8Xi6iZrwusZqJmDGXs49GBmJ" }

/** A proxy that ends the connection of each request for this path instead of answering it; `passOn`: after the server has carried it out. */
const cutting = Effect.fnUntraced(function*(url: string, path: string) {
  const state = { passOn: false, port: "" }
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", async () => {
      const isCut = request.url === path
      if (isCut && !state.passOn) return request.socket.destroy()
      const answer = await fetch(`${url}${request.url}`, {
        method: request.method ?? "GET",
        headers: { "content-type": "application/json" },
        ...(request.method === "POST" && { body: Buffer.concat(chunks) })
      })
      const text = await answer.text()
      if (isCut) return request.socket.destroy()
      response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" }).end(text)
    })
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () => Effect.sync(() => server.close())
  )
  state.port = String((server.address() as AddressInfo).port)
  return state
})

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
      assert.strictEqual((yield* post("/v1/forget/progress", record)).status, 404)
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
      const progress = yield* post("/v1/forget/progress", record)
      assert.deepStrictEqual([progress.body, progress.body.progress], [done.body, null])
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

  it.live("--wait returns when the removal is complete, even if the connection ended after the request was saved", () => {
    const api = Scripted.make()
    api.put(0, { id: record.id, name: "ann@people.example" })
    api.put(0, { id: "other", name: "bob" })
    const test = Effect.gen(function*() {
      yield* post("/v1/integrations", { id: record.integration, models: [record.model] })
      yield* Effect.repeat(ask("/v1/events"), {
        until: ({ body }) => body.events.length === 2,
        schedule: Schedule.spaced("20 millis")
      })
      const { url } = yield* Server.Server
      const forget = (port: string, id: string, ...flags: ReadonlyArray<string>) =>
        Effect.promise(() =>
          runCommand(["forget", `${record.integration}/${record.model}/${id}`, ...flags], { ROLLCALL_HTTP_PORT: port })
        )
      const { port } = new URL(url)
      const done = yield* forget(port, record.id, "--yes", "--wait", "--json")
      assert.deepInclude(JSON.parse(done.stdout), { id: record.id, state: "forgotten", progress: null })
      assert.strictEqual(done.code, 0)
      for (const flags of [["--allow", "--wait"], ["--yes", "--timeout", "1 second"]]) {
        assert.strictEqual((yield* forget(port, "other", ...flags)).code, 1)
      }

      const { body: { plan } } = yield* post("/v1/forget/plan", { ...record, id: "other" })
      const cut = yield* cutting(url, "/v1/forget")
      const unsaved = yield* forget(cut.port, "other", "--plan", plan, "--wait")
      assert.strictEqual(unsaved.code, 1)
      assert.match(unsaved.stderr, /the request is not saved\n.*forget --list.*run the command again/)
      assert.match(
        (yield* forget(cut.port, "other", "--plan", plan)).stderr,
        /may have saved the request\n.*forget --list/
      )
      cut.passOn = true
      const saved = yield* forget(cut.port, "other", "--plan", plan, "--wait")
      assert.deepStrictEqual([saved.code, saved.stderr], [0, ""])
      assert.match(saved.stdout, /^forgotten: the store no longer has any of its content/)
    }).pipe(Effect.scoped)
    return Effect.flatMap(Capture, ({ run }) => Effect.raceFirst(test, run)).pipe(using({ api }))
  })

  served(
    "refuses an id that no stored record has, without repeating it, and a text that is not the name of a model",
    function*() {
      yield* stream()
      const unknown = yield* post("/v1/forget/plan", { ...record, id: "ann@people.example" })
      assert.deepStrictEqual([unknown.status, unknown.body.detail], [
        404,
        "nothing is stored about ats.tag with this id in greenhouse:acme: pass the id of the unified API, as events " +
        "and `GET /v1/records` show it"
      ])
      assert.strictEqual((yield* post("/v1/forget/plan", { ...record, model: "ats.person" })).status, 404)
      assert.strictEqual((yield* post("/v1/forget/plan", { ...record, model: "person" })).status, 400)
      assert.strictEqual((yield* post("/v1/forget", record)).status, 400)
    },
    {}
  )
})
