import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Running from "./Running.ts"

const { send, using } = Running

const token = "an-operate-token-of-32-characters"
const json = { "content-type": "application/json" }
const bearer = { authorization: `Bearer ${token}` }

const add = (id: string, headers: Record<string, string>) =>
  send(
    "POST",
    "/v1/integrations",
    { ...json, ...headers },
    JSON.stringify({ id, models: ["hris.skill"], account: "eu" })
  )

describe("the audit log", () => {
  it.live("shows who sent each command, and from which address", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* add("workday:a", bearer)).status, 200)
      assert.strictEqual((yield* add("workday:b", { ...bearer, "user-agent": "rollcall/0.1.0" })).status, 200)
      const form = { "content-type": "application/x-www-form-urlencoded" }
      const { headers } = yield* send("POST", "/login", { host: "localhost", ...form }, `token=${token}`)
      const cookie = (headers["set-cookie"]?.[0] ?? "").split(";", 1)[0] ?? ""
      assert.strictEqual((yield* add("workday:c", { host: "localhost", cookie })).status, 200)
      const { body } = yield* send("GET", "/v1/audit", bearer)
      const shown = body.items.map((entry: Record<string, string>) =>
        [entry["command"], entry["target"], entry["actor"], entry["address"]].join(" · ")
      )
      assert.deepStrictEqual(shown, [
        "integrations.add · workday:c · session · 127.0.0.1",
        "integrations.add · workday:b · operate token (cli) · 127.0.0.1",
        "integrations.add · workday:a · operate token · 127.0.0.1"
      ])
      assert.notInclude(JSON.stringify(body), token)
      const first = yield* send("GET", "/v1/audit?limit=1", bearer)
      const rest = yield* send("GET", `/v1/audit?limit=2&after=${first.body.next}`, bearer)
      assert.deepStrictEqual([...first.body.items, ...rest.body.items], body.items)
    }).pipe(using({ token })))

  it.live("names the lack of a token for streams and integrations", () =>
    Effect.gen(function*() {
      yield* add("workday:a", {})
      const stream = "/v1/streams/workday:a/hris.skill"
      assert.strictEqual((yield* send("POST", `${stream}/pause`, json)).status, 200)
      const { body } = yield* send("GET", "/v1/audit")
      assert.deepStrictEqual(
        body.items.map(({ actor, command }: Record<string, string>) => [command, actor]),
        [["streams.pause", "no token"], ["integrations.add", "no token"]]
      )
    }).pipe(using()))
})
