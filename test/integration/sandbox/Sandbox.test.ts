import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { incrementalModels, lists } from "../../../src/api/Lists.ts"
import { serve } from "../../../src/sandbox/Sandbox.ts"
import type { FaultSettings } from "../../../src/sandbox/server/FaultInjection.ts"
import type { MutationRequest } from "../../../src/sandbox/world/Mutations.ts"
import { withSandbox } from "./Client.ts"

const faults = (settings: FaultSettings) => settings
const mutation = (act: MutationRequest) => act

describe("the lists over HTTP", () => {
  it.live("all eleven respond with the list envelope and the server's date (U37)", () =>
    withSandbox({}, async ({ get }) => {
      for (const model of incrementalModels) {
        const askedAt = Date.now()
        const { headers, json, status } = await get(lists[model].path)
        assert.deepStrictEqual([status, json.status, headers.get("content-type")], [200, "success", "application/json"])
        assert.isNotEmpty(json.data.results)
        assert.isArray(json.warnings)
        const date = Date.parse(headers.get("date") ?? "")
        // in whole seconds; Node.js computes it once a second
        assert.isAbove(date, askedAt - 2000)
        assert.isAtMost(date, Date.now())
      }
    }))

  it.live("are complete after the page whose data.next is null (U38)", () =>
    withSandbox({}, async ({ get, handle }) => {
      const ids: Array<unknown> = []
      let next: string | null = ""
      for (let pages = 0; next !== null && pages < 10; pages++) {
        const page = await get(
          `/ats/applications?page_size=25&include_deleted=true&cursor=${next}`.replace(/&cursor=$/, "")
        )
        ids.push(...page.json.data.results.map((row) => row["id"]))
        next = page.json.data.next
      }
      assert.isNull(next)
      assert.strictEqual(new Set(ids).size, 60)
      assert.deepStrictEqual(
        ids.filter((id) => handle.world.truth("sandbox:everything", "ats.application").has(String(id))).length,
        handle.world.truth("sandbox:everything", "ats.application").size
      )
    }))

  it.live("take the cursor from the configured parameter, and the OpenAPI document names it (U39)", () =>
    withSandbox({ cursorParameter: "page_token" }, async ({ control, get }) => {
      const first = await get("/ats/applications?page_size=40&include_deleted=true")
      const second = await get(`/ats/applications?page_size=40&include_deleted=true&page_token=${first.json.data.next}`)
      assert.deepStrictEqual([second.json.data.results.length, second.json.data.next], [20, null])
      const other = await get(`/ats/applications?page_size=40&include_deleted=true&cursor=${first.json.data.next}`)
      assert.deepStrictEqual(other.json.data, first.json.data)
      assert.include(other.json.warnings[0]?.message, '"cursor"')
      const { json } = await control("GET", "/openapi.json")
      // the version of the API's interface, which does not change with Rollcall's
      assert.strictEqual((json["info"] as { version: string }).version, "1.0.0")
      assert.match((json["info"] as { title: string }).title, /sandbox/)
      const { "/ats/tags": tags } = json["paths"] as Record<
        string,
        { get: { parameters: ReadonlyArray<{ name: string }> } }
      >
      const names = (tags?.get.parameters ?? []).map(({ name }) => name)
      assert.include(names, "page_token")
      assert.notInclude(names, "cursor")
    }))

  it.live("accept the key under any spelling of the scheme, and name the scheme if the key is missing (U40)", () =>
    withSandbox({}, async ({ get, handle }) => {
      const [first = ""] = handle.integrations
      const spelled = await get("/ats/tags", { authorization: `bearer ${handle.key}`, "x-integration-id": first })
      assert.strictEqual(spelled.status, 200)
      const other = await get("/ats/tags", { authorization: `Bearer ${handle.key.toUpperCase()}` })
      assert.deepStrictEqual([other.status, other.headers.get("www-authenticate")], [401, "Bearer"])
    }))

  it.live("reject invalid requests, with the error envelope (U41)", () =>
    withSandbox({ integrations: 2 }, async ({ get, handle }) => {
      const key = { authorization: `Bearer ${handle.key}` }
      const cases: ReadonlyArray<readonly [number, string, string, Record<string, string>?]> = [
        [401, "PLATFORM.AUTHENTICATION_INVALID", "/ats/tags", { "x-integration-id": "greenhouse:acme" }],
        [401, "PLATFORM.AUTHENTICATION_INVALID", "/ats/tags", { authorization: "Bearer no" }],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags", key],
        [404, "PLATFORM.INTEGRATION_NOT_FOUND", "/ats/tags", { ...key, "x-integration-id": "a:b" }],
        [404, "INTEGRATION.MODEL_NOT_AVAILABLE", "/hris/skills"],
        [404, "PLATFORM.INPUT_INVALID", "/ats/nothing"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?page_size=0"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?page_size=251"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?page_size=ten"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?page_size="],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?page_size=5&page_size=6"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?updated_after=yesterday"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?updated_after=2026-03-01T12:00:00%2B01:00"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?updated_after=2026-13-41"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?updated_after=2026-02-30"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?cursor="],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?include_deleted=yes"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/tags?cursor=nonsense"],
        [400, "PLATFORM.INPUT_INVALID", "/ats/applications?outcomes=HIRED,FIRED"]
      ]
      for (const [status, code, path, headers] of cases) {
        const answer = await get(path, headers)
        assert.deepStrictEqual([answer.status, answer.json.error.code], [status, code], path)
        assert.deepStrictEqual(Object.keys(answer.json.error).sort(), ["code", "log_url", "message", "title"])
        assert.isString(answer.json.error.message)
      }
      const { message } = (await get("/ats/tags?cursor=")).json.error
      assert.strictEqual(message, "cursor is empty: leave it out for the first page; data.next is null on the last.")
    }))

  it.live("accept every documented form of updated_after, and shared and own filters (U10)", () =>
    withSandbox({}, async ({ control, get, handle }) => {
      const id = handle.ids.application
      const [integration = ""] = handle.integrations
      const before = new Date(Date.now() - 1000).toISOString()
      await control(
        "POST",
        "/mutations",
        mutation({ op: "update", integration, model: "ats.application", id, fields: { outcome: "HIRED" } })
      )
      const found = async (query: string) =>
        (await get(`/ats/applications?${query}`)).json.data.results.map((row) => row["id"])
      for (const at of [before, before.slice(0, -1), `${before.slice(0, 19)}Z`, before.slice(0, 19)]) {
        assert.deepStrictEqual(await found(`updated_after=${at}`), [id], at)
      }
      assert.include(await found(`updated_after=${before.slice(0, 10)}Z&page_size=250`), id)
      assert.deepStrictEqual(await found(`updated_after=${before}&outcomes=DECLINED`), [])
      assert.deepStrictEqual(await found(`updated_after=${before}&outcomes=DECLINED,HIRED&job_ids=&ids=${id},x`), [id])
      assert.strictEqual((await found("outcomes=&page_size=250")).length, 59)
    }))

  it.live("ignore an unknown parameter, with a warning (U42)", () =>
    withSandbox({}, async ({ get }) => {
      const { json, status } = await get("/ats/tags?limit=3")
      assert.deepStrictEqual([status, json.warnings.some(({ message }) => message.includes('"limit"'))], [200, true])
    }))

  it.live("show activity in real time, with real timestamps", () =>
    withSandbox({ speed: 20_000 }, async ({ get, handle }) => {
      const began = new Date().toISOString()
      const changed = async () => (await get(`/ats/applications?updated_after=${began}`)).json.data.results
      let rows = await changed()
      while (rows.length === 0) rows = await changed()
      await Effect.runPromise(handle.freeze)
      const one = await get("/ats/applications?page_size=250")
      const lived = handle.world.log.length
      await Effect.runPromise(Effect.sleep("200 millis"))
      const two = await get("/ats/applications?page_size=250")
      assert.deepStrictEqual([two.json.data, handle.world.log.length], [one.json.data, lived])
      await Effect.runPromise(handle.unfreeze)
      while (handle.world.log.length === lived) await changed()
      assert.isAtMost(Date.parse(String(rows[0]?.["remote_updated_at"])), Date.now())
    }))
})

describe("/_sandbox", () => {
  it.live("returns the live records, applies mutations, and keeps a request log without the key", () =>
    withSandbox({ key: "very-secret" }, async ({ control, get, handle }) => {
      const [integration = ""] = handle.integrations
      const done = await control(
        "POST",
        "/mutations",
        mutation({ op: "create", integration, model: "ats.tag", fields: { name: "made by the test" } })
      )
      const truth = await control("GET", "/models/ats.tag?integration=sandbox:everything")
      assert.deepInclude(
        (truth.json["records"] as ReadonlyArray<Record<string, unknown>>).find((row) => row["id"] === done.json["id"]),
        { name: "made by the test", remote_deleted_at: null }
      )
      assert.deepInclude((await get("/ats/tags?page_size=250")).json.data.results.at(-1), { name: "made by the test" })
      await get("/ats/tags?page_size=0")
      const requests = await control("GET", "/requests")
      assert.deepStrictEqual(
        (requests.json["requests"] as ReadonlyArray<Record<string, unknown>>).map((entry): unknown => ({
          ...entry,
          at: "now"
        })),
        [
          { at: "now", method: "GET", path: "/v1/ats/tags", query: "page_size=250", integration, status: 200 },
          { at: "now", method: "GET", path: "/v1/ats/tags", query: "page_size=0", integration, status: 400 }
        ]
      )
      assert.notInclude(requests.text, "very-secret")
    }))

  it.live("rejects invalid bodies and explains why", () =>
    withSandbox({}, async ({ control }) => {
      for (
        const [method, path, body] of [
          ["POST", "/mutations", { op: "explode" }],
          ["POST", "/mutations", { op: "delete", integration: "sandbox:everything", model: "ats.tag", id: "x" }],
          ["PUT", "/faults", { faults: [{ kind: "plague" }] }],
          ["PUT", "/faults", { faults: [{ kind: "html", probability: 2 }] }],
          ["GET", "/models/ats.nothing", undefined],
          ["GET", "/models/ats.tag?integration=a:b", undefined]
        ] as const
      ) {
        const { json, status } = await control(method, path, body)
        assert.deepStrictEqual([status, json.error.code], [400, "PLATFORM.INPUT_INVALID"], `${method} ${path}`)
      }
    }))
})

describe("faults", () => {
  it.live("apply to the configured models, as often as configured, until they are removed", () =>
    withSandbox({}, async ({ control, get }) => {
      await control(
        "PUT",
        "/faults",
        faults({ faults: [{ kind: "rate_limit", model: "ats.tag", count: 2, retryAfter: 7 }] })
      )
      const statuses = [
        await get("/ats/offers"),
        await get("/ats/tags"),
        await get("/ats/tags"),
        await get("/ats/tags")
      ]
      assert.deepStrictEqual(statuses.map(({ status }) => status), [200, 429, 429, 200])
      assert.strictEqual(statuses[1]?.headers.get("retry-after"), "7")
      assert.strictEqual(statuses[1]?.json.error.code, "PLATFORM.RATE_LIMIT_EXCEEDED")
      await control("PUT", "/faults", faults({ faults: [{ kind: "server_error", status: 502 }] }))
      assert.strictEqual((await get("/ats/tags")).status, 502)
      await control("DELETE", "/faults")
      assert.strictEqual((await get("/ats/tags")).status, 200)
    }))

  it.live("break bodies, delay responses and drop connections", () =>
    withSandbox({}, async ({ control, get }) => {
      const whole = await get("/ats/tags")
      await control("PUT", "/faults", faults({ faults: [{ kind: "truncated" }] }))
      const half = await get("/ats/tags")
      assert.deepStrictEqual([half.status, half.headers.get("content-type")], [200, "application/json"])
      assert.isTrue(whole.text.startsWith(half.text) && half.text.length < whole.text.length)
      await control("PUT", "/faults", faults({ faults: [{ kind: "html" }] }))
      assert.match((await get("/ats/tags")).text, /^<!doctype html>/)
      await control("PUT", "/faults", faults({ faults: [{ kind: "delay", delay: 150 }] }))
      const began = performance.now()
      assert.strictEqual((await get("/ats/tags")).text, whole.text)
      assert.isAtLeast(performance.now() - began, 149)
      await control("PUT", "/faults", faults({ faults: [{ kind: "drop_request" }] }))
      const broken = await get("/ats/tags").then(() => "answered", () => "broken")
      assert.strictEqual(broken, "broken")
      const { requests } = (await control("GET", "/requests")).json as unknown as {
        requests: ReadonlyArray<{ status: unknown }>
      }
      assert.isNull(requests.at(-1)?.status)
    }))

  it.live("of the heavy profile are the same for the same seed, and do not affect /_sandbox", () => {
    const statusesWith = (seed: number) => {
      const statuses: Array<number | string> = []
      return Effect.as(
        withSandbox({ seed, faults: "heavy" }, async ({ control, get }) => {
          for (let i = 0; i < 40; i++) {
            const status = await get("/ats/tags?page_size=1").then(
              ({ json, status }) => json === null ? "broken" : status,
              () => "dropped"
            )
            statuses.push(status)
            assert.strictEqual((await control("GET", "/requests")).status, 200)
          }
        }),
        statuses
      )
    }
    return Effect.gen(function*() {
      const [one, same, other] = [yield* statusesWith(4), yield* statusesWith(4), yield* statusesWith(5)]
      assert.deepStrictEqual(one, same)
      assert.notDeepEqual(one, other)
      assert.isAbove(one.filter((status) => status !== 200).length, 3)
    })
  })
})

describe("serving", () => {
  it.live("a port in use is reported, with a hint", () =>
    Effect.scoped(Effect.gen(function*() {
      const { url } = yield* serve({ records: 10 })
      const port = Number(new URL(url).port)
      const error = yield* Effect.flip(serve({ records: 10, port }))
      assert.include(error.message, `port ${port} on 127.0.0.1 is taken by another program`)
      assert.include(error.message, "--port")
    })))

  it.live("the handle names a live record of every kind that requests need", () =>
    Effect.scoped(Effect.gen(function*() {
      const handle = yield* serve({ records: 10, integrations: 2 })
      assert.match(handle.url, /^http:\/\/127\.0\.0\.1:\d+\/v1$/)
      assert.deepStrictEqual(handle.integrations, ["greenhouse:acme", "workday:acme"])
      for (const id of Object.values(handle.ids)) assert.match(id, /^[1-9A-HJ-NP-Za-km-z]{24}$/)
    })))
})
