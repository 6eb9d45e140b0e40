import { assert, describe, it } from "@effect/vitest"
import { largestBodyBytes } from "../../../src/api/Attachments.ts"
import { type WriteName, writeNames, writes } from "../../../src/api/Writes.ts"
import { file, pause, refused, since, succeeded, withSandbox } from "./Client.ts"

describe("every write", () => {
  /** A body that the contract accepts; the records it refers to need not exist. */
  const bodies: Record<WriteName, object> = {
    createApplication: { candidate: { first_name: "A", last_name: "B", email_address: "a@mail.example" } },
    addResultLink: { label: "Result", url: "https://results.example" },
    addTag: { tag: { name: "urgent" } },
    removeTag: { tag: { name: "urgent" } },
    updateInterview: { interview_id: "x" },
    addCandidateAttachment: { attachment: { ...file, type: "CV" } },
    createEmployee: { staffing_entity_id: "x", properties: {} },
    uploadDocument: { category_id: "x", document: file },
    rateSkill: { employee_id: "x", skill_id: "x" },
    expectSkill: { skill_id: "x" },
    replacePackages: { packages: [] },
    deactivateCourse: {}
  }
  /** The same body with one more field, whose text is not valid UTF-8. */
  const notUtf8 = (body: object) => new Uint8Array(Buffer.from(JSON.stringify({ ...body, more: "\u00ff" }), "latin1"))
  const addressed = (name: WriteName) => writes[name].path.replaceAll(/\{\w+\}/g, "nothing")

  it.live("rejects bodies of another media type, broken bodies, and a missing body (U56)", () =>
    withSandbox({}, async ({ send }) => {
      for (const name of writeNames) {
        const { method } = writes[name]
        const raw = JSON.stringify(bodies[name])
        const type = (type: string) => ({ headers: { "content-type": type }, raw })
        refused(await send(method, addressed(name), undefined, type("text/plain")), 400)
        refused(await send(method, addressed(name), undefined, type("application/json; charset=latin1")), 400)
        refused(await send(method, addressed(name), {}, { raw: "{" }), 400)
        refused(await send(method, addressed(name), {}, { raw: notUtf8(bodies[name]) }), 400)
        refused(await send(method, addressed(name)), 400)
        refused(await send(method, addressed(name), [1]), 400)
        refused(
          await send(method, addressed(name), bodies[name], { headers: { authorization: "Bearer no" } }),
          401,
          "PLATFORM.AUTHENTICATION_INVALID"
        )
      }
    }))

  it.live("reports that the addressed record does not exist (U44)", () =>
    withSandbox({}, async ({ send }) => {
      for (const name of writeNames.filter((name) => writes[name].path.includes("{"))) {
        refused(await send(writes[name].method, addressed(name), bodies[name]), 404)
      }
      refused(await send("POST", addressed("rateSkill"), bodies.rateSkill), 400)
      refused(await send("POST", addressed("createEmployee"), bodies.createEmployee), 400)
    }))

  it.live("accepts JSON with a charset, and unknown fields (U57)", () =>
    withSandbox({}, async ({ handle: { ids }, send }) => {
      const path = `/ats/candidates/${ids.candidate}/tags`
      const answer = await send("POST", path, undefined, {
        headers: { "content-type": "application/json; charset=UTF-8" },
        raw: JSON.stringify({ ...bodies.addTag, color: "red" })
      })
      succeeded("addTag", answer)
    }))

  it.live("rejects a body over 32 MiB with 413, and keeps serving (U23)", () =>
    withSandbox({}, async ({ handle: { ids }, send }) => {
      const path = `/ats/candidates/${ids.candidate}/attachments`
      const sized = (bytes: number) => {
        const wrap = (data: string) => JSON.stringify({ attachment: { ...file, data, type: "CV" } })
        const room = bytes - wrap("").length
        return wrap("A".repeat(room - (room % 4))).padEnd(bytes, " ")
      }
      succeeded("addCandidateAttachment", await send("POST", path, {}, { raw: sized(largestBodyBytes) }))
      refused(await send("POST", path, {}, { raw: sized(largestBodyBytes + 1) }), 413)
      succeeded("addCandidateAttachment", await send("POST", path, bodies.addCandidateAttachment))
    }))

  it.live("rejects a body that is nested too deep (U56)", () =>
    withSandbox({}, async ({ handle: { ids }, send }) => {
      const path = `/ats/applications/${ids.application}/result-links`
      const nested = (depth: number) =>
        `{"label":"x","url":"https://a.example","remote_fields":{"a":${"[".repeat(depth)}${"]".repeat(depth)}}}`
      succeeded("addResultLink", await send("POST", path, {}, { raw: nested(50) }))
      refused(await send("POST", path, {}, { raw: nested(500_000) }), 400)
    }))

  it.live("works while the world is frozen, and is recorded in the world's log", () =>
    withSandbox({}, async (client) => {
      succeeded(
        "addTag",
        await client.send("POST", `/ats/candidates/${client.handle.ids.candidate}/tags`, bodies.addTag)
      )
      assert.strictEqual(client.handle.world.mutations["written_addTag"], 1)
    }))
})

describe("records that no list shows", () => {
  it.live("result links are visible under /_sandbox, and change no application (U61)", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send, truth } = client
      const began = await pause()
      const path = `/ats/applications/${ids.application}/result-links`
      const link = {
        label: "Logic test",
        url: "https://results.example/7",
        details: { custom_field_name_prefix: "LT", attributes: [{ key: "score", value: "87 %" }] },
        remote_fields: { greenhouse: { a: [1, null] } }
      }
      const answer = await send("POST", path, link)
      succeeded("addResultLink", answer)
      assert.deepInclude((await truth("ats.result_link"))[0], { ...link, application_id: ids.application })
      assert.deepStrictEqual(await since(client, "/ats/applications", began), [])
      for (const wrong of [{ ...link, url: "javascript:alert(1)" }, { ...link, url: "x" }, { ...link, label: "" }]) {
        refused(await send("POST", path, wrong), 400)
      }
      assert.lengthOf(await truth("ats.result_link"), 1)
    }))

  it.live("documents and attachments are visible under /_sandbox with their content (U62)", () =>
    withSandbox({}, async ({ handle: { ids }, send, truth }) => {
      const path = `/hris/employees/${ids.employee}/documents`
      succeeded("uploadDocument", await send("POST", path, { category_id: ids.document_category, document: file }))
      assert.deepInclude((await truth("hris.document"))[0], {
        ...file,
        employee_id: ids.employee,
        category_id: ids.document_category
      })
      refused(await send("POST", path, { category_id: "none", document: file }), 400)
      refused(await send("POST", path, { category_id: ids.document_category, document: { ...file, data: "é" } }), 400)
      succeeded(
        "addCandidateAttachment",
        await send("POST", `/ats/candidates/${ids.candidate}/attachments`, { attachment: { ...file, type: "CV" } })
      )
      assert.deepInclude((await truth("ats.attachment")).at(-1), {
        file_name: file.name,
        data: file.data,
        candidate_id: ids.candidate
      })
    }))
})
