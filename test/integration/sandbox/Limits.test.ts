import { assert, describe, it } from "@effect/vitest"
import { errorCodes } from "../../../src/api/ErrorClassification.ts"
import { type EndpointName, permissions } from "../../../src/api/Permissions.ts"
import { writes } from "../../../src/api/Writes.ts"
import type { AccountSettings } from "../../../src/sandbox/server/Account.ts"
import { endpoints, permissionNames } from "../../../src/sandbox/server/Endpoints.ts"
import type { FaultSettings } from "../../../src/sandbox/server/FaultInjection.ts"
import { statusOf } from "../../../src/sandbox/world/ApiError.ts"
import { type Client, withSandbox } from "./Client.ts"

const account = (settings: AccountSettings) => settings
const faults = (settings: FaultSettings) => settings
const tag = { tag: { name: "urgent" } }
const addTag = ({ handle: { ids }, send }: Client, integration?: string) =>
  send("POST", `/ats/candidates/${ids.candidate}/tags`, tag, integration === undefined ? {} : { integration })

describe("permissions", () => {
  it.live("that are missing reject their endpoints and no others (U49)", () =>
    withSandbox({}, async ({ control, send }) => {
      const refused = async () => {
        const names: Array<EndpointName> = []
        for (const { kind, method, name, path } of endpoints) {
          const { json } = await send(method, path.slice(3).replaceAll(/:\w+/g, "x"), kind === "write" ? {} : undefined)
          if (json.error?.code !== "INTEGRATION.PERMISSION_MISSING") continue
          assert.include(json.error.message, permissions[name] ?? "?")
          names.push(name)
        }
        return names
      }
      assert.deepStrictEqual(await refused(), [])
      for (const permission of permissionNames) {
        await control("PUT", "/account", account({ missingPermissions: [permission] }))
        assert.deepStrictEqual(
          await refused(),
          endpoints.filter(({ name }) => permissions[name] === permission).map(({ name }) => name),
          permission
        )
      }
      await control("DELETE", "/account")
      assert.deepStrictEqual(await refused(), [])
    }))
})

describe("integrations of one category", () => {
  it.live("offer no model and no action of another category (U50)", () =>
    withSandbox({ integrations: 2 }, async (client) => {
      const { json, status } = await addTag(client, "workday:acme")
      assert.deepStrictEqual([status, json.error.code], [404, "INTEGRATION.ACTION_NOT_AVAILABLE"])
      const read = await client.send("GET", "/hris/employees/form")
      assert.deepStrictEqual([read.status, read.json.error.code], [404, "INTEGRATION.MODEL_NOT_AVAILABLE"])
      assert.strictEqual((await addTag(client)).status, 200)
    }))
})

describe("the rate limit", () => {
  it.live("is off by default; counts every request of the key, and rejects with 429 and the seconds to wait (U51)", () =>
    withSandbox({ integrations: 2 }, async (client) => {
      const { control, get, send } = client
      assert.isNull((await get("/ats/tags")).headers.get("ratelimit-limit"))
      await control("PUT", "/account", account({ rateLimit: { requests: 4, seconds: 60 } }))
      const stranger = await get("/ats/tags", { authorization: "Bearer no" })
      assert.deepStrictEqual([stranger.status, stranger.headers.get("ratelimit-limit")], [401, null])
      const answers = [
        await get("/ats/tags"),
        await addTag(client),
        await send("GET", "/tools/ats", undefined, { integration: null }),
        await send("GET", "/hris/skills", undefined, { integration: "workday:acme" }),
        await get("/ats/offers"),
        await get("/ats/tags")
      ]
      assert.deepStrictEqual(answers.map(({ status }) => status), [200, 200, 200, 200, 429, 429])
      assert.deepStrictEqual(answers.map(({ headers }) => headers.get("ratelimit-remaining")), [
        ..."321000"
      ])
      for (const { headers } of answers) {
        assert.strictEqual(headers.get("ratelimit-limit"), "4")
        assert.isTrue(
          /^\d+$/.test(headers.get("ratelimit-reset") ?? "") && Number(headers.get("ratelimit-reset")) <= 60
        )
      }
      const last = answers.at(-1)
      assert.strictEqual(last?.json.error.code, "PLATFORM.RATE_LIMIT_EXCEEDED")
      assert.strictEqual(last?.headers.get("retry-after"), last?.headers.get("ratelimit-reset"))
      assert.strictEqual((await get("/ats/tags", {})).status, 401)
    }))
})

describe("the concurrency limit", () => {
  it.live("applies to writes and live reads of one integration together, by default 30; lists are exempt (U52)", () =>
    withSandbox({}, async (client) => {
      const { control, get, handle: { ids }, send } = client
      const alone = await addTag(client)
      assert.deepStrictEqual(
        [alone.headers.get("concurrency-limit"), alone.headers.get("concurrency-remaining")],
        ["30", "29"]
      )
      assert.isNull((await get("/ats/tags")).headers.get("concurrency-limit"))
      await control("PUT", "/account", account({ concurrencyLimit: 3 }))
      await control("PUT", "/faults", faults({ faults: [{ kind: "delay", delay: 2_000 }] }))
      const answers = await Promise.all([
        ...[1, 2, 3, 4].map(() => addTag(client)),
        send("GET", `/ats/applications/${ids.application}/attachments`),
        get("/ats/tags")
      ])
      const refused = answers.filter(({ status }) => status === 429)
      assert.lengthOf(refused, 2)
      for (const { headers, json } of refused) {
        assert.strictEqual(json.error.code, "PLATFORM.CONCURRENCY_LIMIT_EXCEEDED")
        assert.strictEqual(headers.get("concurrency-remaining"), "0")
      }
      assert.strictEqual((await addTag(client)).status, 200)
    }))

  it.live("is separate per integration, and a client that disconnects frees its slot (U52)", () =>
    withSandbox({ integrations: 4 }, async (client) => {
      const { control, handle: { ids, key, url } } = client
      await control("PUT", "/account", account({ concurrencyLimit: 1 }))
      await control("PUT", "/faults", faults({ faults: [{ kind: "delay", delay: 60_000, count: 1 }] }))
      const leaving = new AbortController()
      const abandoned = fetch(`${url}/ats/candidates/${ids.candidate}/tags`, {
        method: "POST",
        signal: leaving.signal,
        headers: {
          authorization: `Bearer ${key}`,
          "x-integration-id": "greenhouse:acme",
          "content-type": "application/json"
        },
        body: JSON.stringify(tag)
      }).catch(() => "gone")
      while ((await addTag(client)).status !== 429);
      assert.strictEqual((await addTag(client, "lever:globex")).json.error?.code, "PLATFORM.INPUT_INVALID")
      leaving.abort()
      assert.strictEqual(await abandoned, "gone")
      while ((await addTag(client)).status !== 200);
    }))
})

describe("filters that the integration does not support", () => {
  it.live("empty the list, or are ignored with a warning (U53)", () =>
    withSandbox({}, async ({ control, get, handle: { ids, integrations } }) => {
      const [integration = ""] = integrations
      const unsupported = ["job_ids", "updated_after", "ids"]
      await control("PUT", "/account", account({ unsupportedFilters: { [integration]: unsupported } }))
      const all = (await get("/ats/applications?page_size=250")).json.data.results.length
      for (const filter of [`job_ids=${ids.job}`, "updated_after=2090-01-01", "ids=none"]) {
        const [name = ""] = filter.split("=")
        const empty = await get(`/ats/applications?${filter}`)
        assert.deepStrictEqual([empty.status, empty.json.data], [200, { next: null, results: [] }], filter)
        const whole = await get(`/ats/applications?${filter}&ignore_unsupported_filters=true&page_size=250`)
        assert.lengthOf(whole.json.data.results, all, filter)
        assert.include(whole.json.warnings.map(({ message }) => message).join(), name)
        assert.lengthOf(
          (await get(`/ats/applications?${name}=&page_size=250`.replace(/updated_after=&/, ""))).json.data.results,
          all
        )
      }
      const supported = await get("/ats/applications?outcomes=HIRED&page_size=250")
      assert.isBelow(supported.json.data.results.length, all)
      const mixed = await get("/ats/applications?outcomes=HIRED&ids=none&ignore_unsupported_filters=true&page_size=250")
      assert.deepStrictEqual(mixed.json.data.results, supported.json.data.results)
    }))
})

describe("injected errors", () => {
  it.live("have the error envelope and every known code, with the code's status or any other (U54)", () =>
    withSandbox({}, async (client) => {
      const { control, get } = client
      for (const code of [...Object.keys(errorCodes), "REMOTE.NEVER_HEARD_OF"]) {
        await control("PUT", "/faults", faults({ faults: [{ kind: "api_error", code }] }))
        for (const { headers, json, status } of [await get("/ats/tags"), await addTag(client)]) {
          assert.deepStrictEqual([status, json.error.code], [statusOf(code), code])
          assert.sameMembers(Object.keys(json.error), ["code", "title", "message", "log_url"])
          assert.strictEqual(json.error.title === null, code === "REMOTE.NEVER_HEARD_OF")
          assert.strictEqual(headers.get("retry-after"), status === 429 ? "1" : null)
        }
      }
      await control(
        "PUT",
        "/faults",
        faults({
          faults: [{
            kind: "api_error",
            code: "ATS.JOB_CLOSED",
            status: 422,
            retryAfter: "Tue, 01 Jan 2030 00:00:00 GMT"
          }]
        })
      )
      const { headers, status } = await addTag(client)
      assert.deepStrictEqual([status, headers.get("retry-after")], [422, "Tue, 01 Jan 2030 00:00:00 GMT"])
    }))

  it.live("apply to single endpoints", () =>
    withSandbox({}, async (client) => {
      await client.control("PUT", "/faults", faults({ faults: [{ kind: "rate_limit", endpoint: "addTag", count: 1 }] }))
      assert.strictEqual((await client.get("/ats/tags")).status, 200)
      assert.deepStrictEqual([(await addTag(client)).status, (await addTag(client)).status], [429, 200])
    }))
})

describe("broken connections", () => {
  it.live("change nothing before the write; after it, the change remains and the client has no response", () =>
    withSandbox({}, async (client) => {
      const { control, truth } = client
      const tags = async () => (await truth("ats.tag")).some(({ name }) => name === tag.tag.name)
      const [urgent] = (await truth("ats.tag")).filter(({ name }) => name === tag.tag.name)
      if (urgent !== undefined) {
        await control("POST", "/mutations", {
          op: "delete",
          integration: "sandbox:everything",
          model: "ats.tag",
          id: urgent["id"]
        })
      }
      const broken = () => addTag(client).then(() => "answered", () => "broken")
      await control("PUT", "/faults", faults({ faults: [{ kind: "drop_request" }] }))
      assert.deepStrictEqual([await broken(), await tags()], ["broken", false])
      await control("PUT", "/faults", faults({ faults: [{ kind: "drop_response" }] }))
      assert.deepStrictEqual([await broken(), await tags()], ["broken", true])
    }))
})

describe("paths and methods", () => {
  it.live("that do not exist are distinguished (U55)", () =>
    withSandbox({}, async ({ handle: { ids }, send }) => {
      const wrong = await send("PUT", `/ats/candidates/${ids.candidate}/tags`, tag)
      assert.deepStrictEqual([wrong.status, wrong.headers.get("allow")], [405, "POST, DELETE"])
      assert.strictEqual((await send("GET", "/ats/interviews")).status, 404)
      assert.lengthOf(Object.keys(writes), 12)
    }))
})
