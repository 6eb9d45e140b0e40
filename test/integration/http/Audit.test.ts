import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Server from "../../../src/http/Server.ts"
import * as Running from "./Running.ts"

const { bearer, json, readToken, send, served, token } = Running

const operator = bearer(token)

const add = (id: string, headers: Record<string, string>) =>
  send(
    "POST",
    "/v1/integrations",
    { ...json, ...headers },
    JSON.stringify({ id, models: ["hris.skill"], account: "eu" })
  )

describe("the audit log", () => {
  served("shows who sent each command, and from which address", function*() {
    assert.strictEqual((yield* add("workday:a", operator)).status, 200)
    assert.strictEqual((yield* add("workday:b", { ...operator, "user-agent": "rollcall/0.1.0" })).status, 200)
    const form = { "content-type": "application/x-www-form-urlencoded" }
    const { headers } = yield* send("POST", "/login", { host: "localhost", ...form }, `token=${token}`)
    const cookie = (headers["set-cookie"]?.[0] ?? "").split(";", 1)[0] ?? ""
    assert.strictEqual((yield* add("workday:c", { host: "localhost", cookie })).status, 200)
    const { body } = yield* send("GET", "/v1/audit", operator)
    const shown = body.items.map((entry: Record<string, string>) =>
      [entry["command"], entry["target"], entry["actor"], entry["address"]].join(" · ")
    )
    assert.deepStrictEqual(shown, [
      "integrations.add · workday:c · session · 127.0.0.1",
      "integrations.add · workday:b · operate token (cli) · 127.0.0.1",
      "integrations.add · workday:a · operate token · 127.0.0.1"
    ])
    assert.notInclude(JSON.stringify(body), token)
    const first = yield* send("GET", "/v1/audit?limit=1", operator)
    const rest = yield* send("GET", `/v1/audit?limit=2&after=${first.body.next}`, operator)
    assert.deepStrictEqual([...first.body.items, ...rest.body.items], body.items)
  }, { token })

  served("names the lack of a token for streams and integrations", function*() {
    yield* add("workday:a", {})
    const stream = "/v1/streams/workday:a/hris.skill"
    assert.strictEqual((yield* send("POST", `${stream}/pause`, json)).status, 200)
    const { body } = yield* send("GET", "/v1/audit")
    assert.deepStrictEqual(
      body.items.map(({ actor, command }: Record<string, string>) => [command, actor]),
      [["streams.pause", "no token"], ["integrations.add", "no token"]]
    )
  })
})

describe("the reads in the audit log", () => {
  const readBearer = bearer(readToken)
  const reads = Effect.map(
    send("GET", "/v1/audit/reads", operator),
    ({ body }) =>
      body.items.map(({ actor, address, route, target }: Record<string, string>) =>
        [route, target, actor, address].join(" · ")
      )
  )

  served("show who read records, from which address, without the ids of the records", function*() {
    yield* Running.stream()
    yield* Running.write("r-of-a-person", `{"name":"Jane"}`)
    for (const path of ["/v1/events?integration=greenhouse:acme", "/v1/events?integration=greenhouse:acme&limit=1"]) {
      assert.include((yield* send("GET", path, readBearer)).text, "r-of-a-person")
    }
    yield* send("GET", "/v1/events", readBearer)
    assert.strictEqual((yield* send("GET", "/v1/events?after=x", readBearer)).status, 400)
    assert.strictEqual((yield* send("GET", "/v1/records?integration=x:y&model=ats.tag", readBearer)).status, 404)
    yield* send("GET", "/v1/records?integration=greenhouse:acme&model=ats.tag", {
      ...operator,
      "user-agent": "rollcall/1"
    })
    const plan = { integration: "greenhouse:acme", model: "ats.tag", id: "r-of-a-person" }
    assert.strictEqual(
      (yield* send("POST", "/v1/forget/plan", { ...operator, ...json }, JSON.stringify(plan))).status,
      200
    )
    const listed = yield* reads
    assert.sameMembers(listed, [
      "/v1/events · greenhouse:acme/* · read token · 127.0.0.1",
      "/v1/events · * · read token · 127.0.0.1",
      "/v1/records · greenhouse:acme/ats.tag · operate token (cli) · 127.0.0.1",
      "/v1/forget/plan · * · operate token · 127.0.0.1"
    ])
    const { body, text } = yield* send("GET", "/v1/audit/reads?limit=3", operator)
    assert.notInclude(text, "person")
    const rest = yield* send("GET", `/v1/audit/reads?limit=9&after=${body.next}`, operator)
    assert.lengthOf([...body.items, ...rest.body.items], 4)
  }, { token, readToken })

  served("show reads on a machine without a token, and neither probes nor other requests there", function*() {
    yield* send("GET", "/health/ready")
    yield* send("GET", "/v1/streams")
    yield* send("GET", "/v1/events")
    assert.deepStrictEqual(yield* reads, ["/v1/events · * · no token · 127.0.0.1"])
  })

  served("show a reader of the event stream", function*() {
    const { url } = yield* Server.Server
    const stop = new AbortController()
    const headers = { ...operator, accept: "text/event-stream" }
    const response = yield* Effect.promise(() => fetch(`${url}/v1/events`, { headers, signal: stop.signal }))
    yield* Effect.promise(() => response.body!.getReader().read())
    assert.include(yield* reads, "/v1/events · * · operate token · 127.0.0.1")
    stop.abort()
  }, { token })
})
