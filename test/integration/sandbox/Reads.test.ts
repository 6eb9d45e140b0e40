import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { type ReadName, readSchemas } from "../../../src/api/Reads.ts"
import { type Tool, toolCategories } from "../../../src/api/Tools.ts"
import { toolOf } from "../../../src/api/Tools.ts"
import type { AccountSettings } from "../../../src/sandbox/server/Account.ts"
import { endpoints } from "../../../src/sandbox/server/Endpoints.ts"
import { type Answer, withSandbox } from "./Client.ts"

const fits = (name: ReadName, { json, status, text }: Answer): void => {
  assert.strictEqual(status, 200, text)
  assert.isArray(json.warnings)
  assert.isTrue(Schema.is(readSchemas[name])(json.data), text)
}
const base64 = (text: string) => Buffer.from(text).toString("base64")
const file = (name: string, type = "CV") => ({ name, content_type: "text/plain", data: base64(`of ${name}`), type })
const candidate = (name: string) => ({ first_name: name, last_name: "Noor", email_address: `${name}@mail.example` })

describe("GET /ats/applications/{id}/attachments", () => {
  it.live("returns the candidate's attachments where the system keeps them on the candidate (U43)", () =>
    withSandbox({}, async ({ control, handle: { ids, integrations }, send }) => {
      const [integration] = integrations
      const path = `/ats/applications/${ids.application}/attachments`
      const second = await control("POST", "/mutations", {
        op: "create",
        integration,
        model: "ats.application",
        links: { candidate: ids.candidate }
      })
      await send("POST", `/ats/candidates/${ids.candidate}/attachments`, { attachment: file("cv.txt") })
      for (const id of [ids.application, second.json["id"]]) {
        const answer = await send("GET", `/ats/applications/${id}/attachments`)
        fits("attachments", answer)
        assert.deepInclude(answer.json.data.results.at(-1), {
          type: "CV",
          file_name: "cv.txt",
          content_type: "text/plain"
        })
      }
      const [attachment] = (await send("GET", path)).json.data.results.slice(-1)
      const stored = await fetch(String(attachment?.["data_url"]))
      assert.deepStrictEqual([stored.headers.get("content-type"), await stored.text()], ["text/plain", "of cv.txt"])
    }))

  it.live("returns the application's attachments where the system keeps them on the application (U43)", () =>
    withSandbox({ integrations: 4 }, async ({ control, handle: { world }, send }) => {
      const integration = "lever:globex"
      const [job = "", other = ""] = world.ids(integration, "ats.job")
      const apply = async (job: string, ...names: ReadonlyArray<string>) =>
        String(
          (await send("POST", `/ats/jobs/${job}/applications`, {
            candidate: candidate("vera"),
            attachments: names.map((name) => file(name))
          }, { integration })).json.data["id"]
        )
      const names = async (application: string) =>
        (await send("GET", `/ats/applications/${application}/attachments`, undefined, { integration })).json.data
          .results
          .map((row) => row["file_name"])
      const [one, two] = [await apply(job, "a.txt", "b.txt"), await apply(other, "c.txt")]
      assert.deepStrictEqual([await names(one), await names(two)], [["a.txt", "b.txt"], ["c.txt"]])
      const { candidate_id } = (await send("GET", `/ats/applications?ids=${two}`, undefined, { integration })).json.data
        .results[0] ?? {}
      await control("POST", "/mutations", {
        op: "create",
        integration,
        model: "ats.application",
        links: { candidate: candidate_id }
      })
      const newest = world.ids(integration, "ats.application").at(-1) ?? ""
      await send("POST", `/ats/candidates/${candidate_id}/attachments`, { attachment: file("d.txt") }, { integration })
      assert.deepStrictEqual([await names(two), await names(newest)], [["c.txt"], ["d.txt"]])
    }))

  it.live("returns 404 for an application that does not exist (U44)", () =>
    withSandbox({}, async ({ send }) => {
      const { json, status } = await send("GET", "/ats/applications/unknown/attachments")
      assert.deepStrictEqual([status, json.error.code], [404, "PLATFORM.INPUT_INVALID"])
    }))
})

describe("GET /hris/employees/form", () => {
  it.live("differs by staffing entity, and has every type of field (U45)", () =>
    withSandbox({}, async ({ handle: { ids }, send }) => {
      const plain = await send("GET", "/hris/employees/form")
      const placed = await send("GET", `/hris/employees/form?staffing_entity_id=${ids.staffing_entity}`)
      fits("employeeForm", plain)
      fits("employeeForm", placed)
      const properties = (answer: Answer) => answer.json.data["properties"] as Record<string, Record<string, unknown>>
      assert.sameMembers([...new Set(Object.values(properties(plain)).map(({ type }) => type))], [
        "text",
        "date",
        "number",
        "object",
        "array",
        "single_select"
      ])
      assert.property(properties(plain), "job_title")
      assert.notProperty(properties(placed), "job_title")
      assert.property(properties(placed), "probation_months")
      for (const field of Object.values(properties(plain))) {
        assert.containsAllKeys(field, ["label", "required", "description", "unified_key", "type"])
      }
    }))

  it.live("rejects ids that are not 24 characters of base58 or belong to no staffing entity (U14)", () =>
    withSandbox({}, async ({ handle: { ids }, send }) => {
      const id = ids.staffing_entity
      for (const wrong of ["", "x", id.slice(1), `${id}x`, `0${id.slice(1)}`, `l${id.slice(1)}`, ids.employee]) {
        const { json, status } = await send("GET", `/hris/employees/form?staffing_entity_id=${wrong}`)
        assert.deepStrictEqual([status, json.error.code], [400, "PLATFORM.INPUT_INVALID"], wrong)
        assert.include(json.error.message, wrong === ids.employee ? "no staffing entity" : "24 characters", wrong)
      }
    }))
})

describe("GET /assessment/packages", () => {
  it.live("returns all packages of the integration (U46)", () =>
    withSandbox({}, async ({ send }) => {
      const answer = await send("GET", "/assessment/packages")
      fits("assessmentPackages", answer)
      assert.lengthOf(answer.json.data["packages"] as ReadonlyArray<unknown>, 3)
    }))
})

describe("GET /tools/{category}", () => {
  const toolsOf = ({ json }: Answer) => json.data["tools"] as ReadonlyArray<Tool>
  const alone = { integration: null }

  it.live("needs the key and no integration (U47)", () =>
    withSandbox({ integrations: 4 }, async ({ get, send }) => {
      assert.strictEqual((await get("/tools/ats", {})).status, 401)
      const byCategory: Array<ReadonlyArray<string>> = []
      for (const category of toolCategories) {
        const answer = await send("GET", `/tools/${category}`, undefined, alone)
        fits("tools", answer)
        byCategory.push(toolsOf(answer).map(({ id }) => id))
      }
      assert.deepStrictEqual(byCategory, [["workday", "bamboohr"], ["greenhouse", "lever"], [], [
        "workday",
        "bamboohr"
      ]])
      const { json, status } = await send("GET", "/tools/payroll", undefined, alone)
      assert.deepStrictEqual([status, json.error.code], [400, "PLATFORM.INPUT_INVALID"])
    }))

  it.live("lists exactly the endpoints that the tool's integrations are served (U48)", () =>
    withSandbox({ integrations: 4 }, async ({ control, handle, send }) => {
      const unavailable: AccountSettings["unavailable"] = {
        lever: ["addTag", "ats.scorecard"],
        workday: ["employeeForm", "hris.skill", "expectSkill"]
      }
      await control("PUT", "/account", { unavailable })
      const covered = new Map<string, ReadonlySet<string>>()
      for (const category of toolCategories) {
        for (const { coverage, id } of toolsOf(await send("GET", `/tools/${category}`, undefined, alone))) {
          const ids = [...coverage?.read_models ?? [], ...coverage?.write_actions ?? []]
            .filter(({ coverage_status }) => coverage_status === "SUPPORTED").map(({ id }) => id)
          covered.set(id, new Set([...covered.get(id) ?? [], ...ids]))
        }
      }
      const refusals = ["INTEGRATION.MODEL_NOT_AVAILABLE", "INTEGRATION.ACTION_NOT_AVAILABLE"]
      const idOf = ({ kind, name, path }: (typeof endpoints)[number]) =>
        kind === "write"
          ? name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
          : path.replaceAll(/^\/v1\/|\/:\w+/g, "").replaceAll(/[/-]/g, "_")
      for (const integration of handle.integrations) {
        for (const endpoint of endpoints.filter(({ category }) => category !== null)) {
          const path = endpoint.path.slice(3).replaceAll(/:\w+/g, "x")
          const { json } = await send(endpoint.method, path, undefined, { integration })
          const served = json.status === "success" || !refusals.includes(String(json.error.code))
          const claimed = covered.get(toolOf(integration))?.has(idOf(endpoint)) === true
          assert.strictEqual(served, claimed, `${endpoint.name} of ${integration}`)
        }
      }
    }))
})
