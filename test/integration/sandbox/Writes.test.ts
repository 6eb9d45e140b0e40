import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { largestBodyBytes } from "../../../src/api/Attachments.ts"
import type { EmployeeForm } from "../../../src/api/Forms.ts"
import { type WriteName, writeNames, writes, writeSchemas } from "../../../src/api/Writes.ts"
import { type Answer, type Client, withSandbox } from "./Client.ts"

const integration = "sandbox:everything"

const succeeded = (name: WriteName, { json, status, text }: Answer): void => {
  assert.strictEqual(status, 200, text)
  assert.strictEqual(json.status, "success")
  assert.isTrue(Schema.is(writeSchemas[name].data)(json.data), text)
}
const refused = ({ json, status, text }: Answer, wanted: number, code = "PLATFORM.INPUT_INVALID"): void => {
  assert.deepStrictEqual([status, json?.error?.code], [wanted, code], text)
}
const steer = async ({ control }: Client, act: object) => {
  const { status, text } = await control("POST", "/mutations", { integration, ...act })
  assert.strictEqual(status, 200, text)
}
/** Ids of a list's records that matched since this moment. */
const since = async ({ get }: Client, path: string, moment: string) =>
  (await get(`${path}?updated_after=${moment}`)).json.data.results.map(({ id }) => id)
const row = async ({ get }: Client, path: string, id: string) =>
  (await get(`${path}?ids=${id}`)).json.data.results[0] ?? assert.fail(`no ${id}`)
/** A moment between what was before and what comes. */
const pause = async () => {
  await new Promise((resolve) => setTimeout(resolve, 5))
  return new Date().toISOString()
}
const file = { name: "cv.pdf", content_type: "application/pdf", data: "aGVsbG8=" }

describe("every write", () => {
  /** A body that the contract accepts, of what need not exist. */
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
  /** The same with one more field, whose text is no UTF-8. */
  const notUtf8 = (body: object) => new Uint8Array(Buffer.from(JSON.stringify({ ...body, more: "\u00ff" }), "latin1"))
  const addressed = (name: WriteName) => writes[name].path.replaceAll(/\{\w+\}/g, "nothing")

  it.live("U56: refuses bodies of another media type, broken ones, and none at all", () =>
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

  it.live("U44: says that what it addresses is not there", () =>
    withSandbox({}, async ({ send }) => {
      for (const name of writeNames.filter((name) => writes[name].path.includes("{"))) {
        refused(await send(writes[name].method, addressed(name), bodies[name]), 404)
      }
      refused(await send("POST", addressed("rateSkill"), bodies.rateSkill), 400)
      refused(await send("POST", addressed("createEmployee"), bodies.createEmployee), 400)
    }))

  it.live("U57: accepts JSON with a charset, and fields nobody knows", () =>
    withSandbox({}, async ({ handle: { ids }, send }) => {
      const path = `/ats/candidates/${ids.candidate}/tags`
      const answer = await send("POST", path, undefined, {
        headers: { "content-type": "application/json; charset=UTF-8" },
        raw: JSON.stringify({ ...bodies.addTag, colour: "red" })
      })
      succeeded("addTag", answer)
    }))

  it.live("U23: refuses a body over 32 MiB with 413, and goes on", () =>
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

  it.live("U56: refuses a body that is nested too deep to be walked through", () =>
    withSandbox({}, async ({ handle: { ids }, send }) => {
      const path = `/ats/applications/${ids.application}/result-links`
      const nested = (depth: number) =>
        `{"label":"x","url":"https://a.example","remote_fields":{"a":${"[".repeat(depth)}${"]".repeat(depth)}}}`
      succeeded("addResultLink", await send("POST", path, {}, { raw: nested(50) }))
      refused(await send("POST", path, {}, { raw: nested(500_000) }), 400)
    }))

  it.live("works while the world is frozen, and is written into its log", () =>
    withSandbox({}, async (client) => {
      succeeded(
        "addTag",
        await client.send("POST", `/ats/candidates/${client.handle.ids.candidate}/tags`, bodies.addTag)
      )
      assert.strictEqual(client.handle.world.mutations["written_addTag"], 1)
    }))
})

describe("POST /ats/jobs/{id}/applications", () => {
  const body = {
    candidate: {
      first_name: "Radia",
      last_name: "Perlman",
      email_address: "radia@mail.example",
      company: "Digital",
      title: "Engineer",
      phone_number: "+1 555 0100",
      location: { city: "Boston", country: "US", state: "MA", zip_code: "02108" },
      gender: "FEMALE",
      availability_date: "2026-12-01",
      salary_expectations: { period: "YEAR", amount: 90_000 }
    },
    attachments: [{ ...file, type: "CV" }],
    screening_question_answers: [
      { question_id: "q-why", answer: "Because." },
      { question_id: "q-languages", answer: ["o1", "o2"] }
    ]
  }

  it.live("U58: creates a candidate and a pending application, which the list shows as they were answered", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send } = client
      const began = await pause()
      const answer = await send("POST", `/ats/jobs/${ids.job}/applications`, { ...body, stage_id: ids.stage })
      succeeded("createApplication", answer)
      const application = answer.json.data
      assert.deepInclude(application, { outcome: "PENDING", job_id: ids.job, current_stage_id: ids.stage })
      assert.deepInclude(application["candidate"] as object, {
        first_name: "Radia",
        email_addresses: [{ email_address: "radia@mail.example", type: "PRIVATE" }],
        company: "Digital",
        tags: []
      })
      assert.deepInclude(
        (application["screening_question_answers"] as ReadonlyArray<object>)[1],
        { answer: { choices: ["o1", "o2"] } }
      )
      assert.deepStrictEqual(await since(client, "/ats/applications", began), [application["id"]])
      assert.deepStrictEqual(await row(client, "/ats/applications", String(application["id"])), application)
      assert.isAtLeast(Date.parse(String(application["changed_at"])), Date.parse(began))
      const attachments = await send("GET", `/ats/applications/${application["id"]}/attachments`)
      assert.deepStrictEqual(attachments.json.data.results.map((row) => row["file_name"]), ["cv.pdf"])
    }))

  it.live("U24: shows answers under the question they belong to; those to no question it knows are kept with a warning", () =>
    withSandbox({}, async ({ handle: { ids }, send }) => {
      const apply = (email_address: string, ...screening_question_answers: ReadonlyArray<object>) =>
        send("POST", `/ats/jobs/${ids.job}/applications`, {
          candidate: { ...body.candidate, email_address },
          screening_question_answers
        })
      const asked = await apply(
        "one@mail.example",
        { question_id: "q-start-1", answer: "In one month" },
        { question_id: "q-why-1", answer: "Because." },
        { question_id: "q-days-1", answer: ["weekdays", "weekends"] }
      )
      const shown = asked.json.data["screening_question_answers"] as ReadonlyArray<{ answer: object; question: object }>
      assert.deepStrictEqual(shown.map(({ answer }) => answer), [
        { choice: "In one month" },
        { content: "Because." },
        { choices: ["weekdays", "weekends"] }
      ])
      assert.deepStrictEqual(shown[0]?.question, {
        remote_id: "q-start-1",
        title: "When could you start?",
        type: "SINGLE_SELECT"
      })
      assert.deepStrictEqual(asked.json.warnings, [])
      const unknown = await apply("two@mail.example", { question_id: "q-other", answer: ["o1"] })
      assert.deepStrictEqual([unknown.status, unknown.json.warnings.length], [200, 1])
      assert.include(unknown.json.warnings[0]?.message, '"q-other"')
      refused(await apply("three@mail.example", { question_id: "q-days-1", answer: "weekdays" }), 400)
      refused(await apply("three@mail.example", { question_id: "q-why-1", answer: ["o1"] }), 400)
    }))

  it.live("U59: refuses a closed job, a second application of the same person, and what makes no sense", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids, world }, send } = client
      const path = `/ats/jobs/${ids.job}/applications`
      const [, other = ""] = world.ids(integration, "ats.job")
      const of = (candidate: object) => ({ ...body, candidate: { ...body.candidate, ...candidate } })
      refused(await send("POST", path, of({ email_address: "nobody" })), 400)
      refused(await send("POST", path, of({ first_name: " " })), 400)
      refused(await send("POST", path, of({ last_name: null })), 400)
      refused(await send("POST", path, of({ availability_date: "soon" })), 400)
      refused(await send("POST", path, { ...body, stage_id: "none" }), 400)
      refused(await send("POST", path, { ...body, attachments: [{ ...file, data: "%%%", type: "CV" }] }), 400)
      succeeded("createApplication", await send("POST", path, body))
      refused(
        await send("POST", path, of({ email_address: "RADIA@mail.example" })),
        409,
        "ATS.APPLICATION_ALREADY_EXISTS"
      )
      succeeded("createApplication", await send("POST", `/ats/jobs/${other}/applications`, body))
      await steer(client, { op: "update", model: "ats.job", id: ids.job, fields: { status: "CLOSED" } })
      refused(await send("POST", path, of({ email_address: "ida@mail.example" })), 409, "ATS.JOB_CLOSED")
    }))
})

describe("candidate tags", () => {
  it.live("N1: show in every application of the candidate, which does not match updated_after for them", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send, truth } = client
      const path = `/ats/candidates/${ids.candidate}/tags`
      const before = await row(client, "/ats/applications", ids.application)
      const began = await pause()
      succeeded("addTag", await send("POST", path, { tag: { name: "brand new" } }))
      const names = async () => {
        const { candidate, changed_at } = await row(client, "/ats/applications", ids.application)
        const { changed_at: candidateChangedAt, tags } = candidate as {
          changed_at: string
          tags: ReadonlyArray<{ name: string }>
        }
        assert.deepStrictEqual(
          [changed_at, candidateChangedAt],
          [before["changed_at"], (before["candidate"] as { changed_at: string }).changed_at]
        )
        return tags.map(({ name }) => name)
      }
      assert.include(await names(), "brand new")
      assert.deepStrictEqual(await since(client, "/ats/applications", began), [])
      const [created] = await since(client, "/ats/tags", began)
      assert.deepInclude(await row(client, "/ats/tags", String(created)), { name: "brand new" })
      const again = await send("POST", path, { tag: { name: "brand new" } })
      assert.lengthOf(again.json.warnings.filter(({ message }) => message.includes("already")), 1)
      assert.lengthOf((await truth("ats.tag")).filter(({ name }) => name === "brand new"), 1)
      succeeded("removeTag", await send("DELETE", path, { tag: { name: "brand new" } }))
      assert.notInclude(await names(), "brand new")
      assert.deepStrictEqual(await since(client, "/ats/applications", began), [])
      refused(await send("DELETE", path, { tag: { name: "brand new" } }), 400, "REMOTE.INPUT_INVALID")
      refused(await send("POST", path, { tag: { name: "" } }), 400)
      refused(await send("POST", path, { tag: "urgent" }), 400)
    }))
})

describe("PATCH /ats/applications/{id}/interviews", () => {
  it.live("U60: changes what is given, answers without warnings, and makes the application match", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send } = client
      const path = `/ats/applications/${ids.application}/interviews`
      const began = await pause()
      const answer = await send("PATCH", path, {
        interview_id: ids.interview,
        title: "Second talk",
        start_time: "2026-12-01T10:00:00Z",
        end_time: "2026-12-01T11:00:00+00:00",
        interviewer_user_ids: ["u1"],
        location: { address: "Room 1" }
      })
      assert.deepStrictEqual([answer.status, answer.json], [200, { status: "success", data: {} } as never])
      assert.deepStrictEqual(await since(client, "/ats/applications", began), [ids.application])
      const { interviews } = await row(client, "/ats/applications", ids.application)
      const interview = (interviews as ReadonlyArray<Record<string, unknown>>).find(({ id }) => id === ids.interview)
      assert.deepInclude(interview, {
        title: "Second talk",
        starting_at: "2026-12-01T10:00:00.000Z",
        ending_at: "2026-12-01T11:00:00.000Z"
      })
      assert.deepInclude(interview?.["location"] as object, { raw: "Room 1" })
      const later = await pause()
      await send("PATCH", path, { interview_id: ids.interview, title: "Second talk" })
      assert.deepStrictEqual(await since(client, "/ats/applications", later), [])
      const wrong = [
        { interview_id: "none" },
        { interview_id: ids.interview, start_time: "tomorrow" },
        { interview_id: ids.interview, start_time: "2026-12-01T12:00:00Z" },
        { interview_id: ids.interview, title: "" },
        { title: "Whose?" }
      ]
      for (const body of wrong) refused(await send("PATCH", path, body), 400)
    }))
})

describe("what is kept and no list shows", () => {
  it.live("U61: result links are visible under /_sandbox, and change no application", () =>
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

  it.live("U62: documents and attachments are visible under /_sandbox with their content", () =>
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

describe("POST /hris/employees/form", () => {
  const optionOf = (form: EmployeeForm, key: string): string => {
    const field = form.properties[key]
    return field?.type === "single_select" && "options" in field ? field.options?.entries?.[0]?.id ?? "" : ""
  }
  const ada = { first_name: "Ada", last_name: "King", work_email: "ada@work.example", start_date: "2031-01-01" }

  it.live("U63: creates an employee from answers that keep to the form, once per work e-mail", () =>
    withSandbox({}, async ({ handle: { ids }, send, truth }) => {
      const form = (await send("GET", "/hris/employees/form")).json.data as unknown as EmployeeForm
      const properties = {
        ...ada,
        job_title: "Analyst",
        contract: optionOf(form, "contract"),
        cost_shares: [60, 40],
        emergency_contacts: [{ name: "Annabella", phone: "+44 555 0199" }]
      }
      const answer = await send("POST", "/hris/employees/form", { properties })
      succeeded("createEmployee", answer)
      const employee = (await truth("hris.employee")).find(({ id }) => id === answer.json.data["id"])
      assert.deepInclude(employee, properties)
      assert.deepInclude(answer.json.data, { remote_id: employee?.["remote_id"] })
      assert.match(String((answer.json.data["prehire"] as { remote_id: string }).remote_id), /^PRE-/)
      refused(await send("POST", "/hris/employees/form", { properties }), 409, "HRIS.EMPLOYEE_ALREADY_EXISTS")
      const placed = (await send("GET", `/hris/employees/form?staffing_entity_id=${ids.staffing_entity}`)).json
        .data as unknown as EmployeeForm
      succeeded(
        "createEmployee",
        await send("POST", "/hris/employees/form", {
          staffing_entity_id: ids.staffing_entity,
          properties: {
            ...ada,
            work_email: "ida@work.example",
            probation_months: 6,
            ...("work_location" in placed.properties && { work_location: optionOf(placed, "work_location") })
          }
        })
      )
    }))

  it.live("U64: enforces the form, in every place of it at once", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send, truth } = client
      const before = await truth("hris.employee")
      const answer = await send("POST", "/hris/employees/form", {
        properties: {
          first_name: "",
          work_email: "nobody",
          start_date: "2026-02-30",
          weekly_hours: 60,
          home_address: { city: "Bern", zip_code: "?", country: "XX" },
          cost_shares: [1, 2, 3, 4, 101],
          emergency_contacts: [{ name: "A" }],
          job_title: 7,
          contract: "FULL_TIME",
          shoe_size: 43
        }
      })
      refused(answer, 400)
      for (
        const place of [
          "first_name",
          "last_name",
          "work_email",
          "start_date",
          "weekly_hours",
          "home_address/zip_code",
          "home_address/country",
          "cost_shares",
          "cost_shares/4",
          "emergency_contacts/0/phone",
          "job_title",
          "contract",
          "shoe_size"
        ]
      ) assert.include(answer.json.error.message, `properties/${place} `)
      const forPlace = { ...ada, probation_months: 3 }
      refused(await send("POST", "/hris/employees/form", { properties: forPlace }), 400)
      await steer(client, {
        op: "update",
        model: "hris.staffing_entity",
        id: ids.staffing_entity,
        fields: { status: "CLOSED" }
      })
      refused(
        await send("POST", "/hris/employees/form", { staffing_entity_id: ids.staffing_entity, properties: forPlace }),
        409,
        "HRIS.STAFFING_ENTITY_CLOSED"
      )
      assert.deepStrictEqual(await truth("hris.employee"), before)
    }))
})

/** A skill of each kind of scale, by the scale. */
const skillsByScale = async ({ get }: Client) => {
  const skills = (await get("/hris/skills?page_size=250")).json.data.results as ReadonlyArray<{
    readonly id: string
    readonly proficiency_scale: {
      readonly type: string
      readonly min: number
      readonly max: number
      readonly step: number | null
      readonly ordered_options?: ReadonlyArray<{ readonly id: string }>
    }
  }>
  const find = (fits: (scale: (typeof skills)[number]["proficiency_scale"]) => boolean) =>
    skills.find(({ proficiency_scale }) => fits(proficiency_scale)) ?? assert.fail("no such scale")
  return {
    stepped: find(({ step, type }) => type === "NUMERIC" && step !== null),
    continuous: find(({ step, type }) => type === "NUMERIC" && step === null),
    chosen: find(({ type }) => type === "SINGLE_SELECT")
  }
}

describe("POST /hris/staffing-entities/{id}/skills", () => {
  it.live("U65: attaches a skill, updates its expectation in place, and makes the staffing entity match, not change", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send } = client
      const { continuous, stepped } = await skillsByScale(client)
      const path = `/hris/staffing-entities/${ids.staffing_entity}/skills`
      const { changed_at, skills } = await row(client, "/hris/staffing-entities", ids.staffing_entity)
      for (const { skill_id } of skills as ReadonlyArray<{ skill_id: string }>) {
        const entry = client.handle.world.site(integration).records.find("hris.staffing_entity", ids.staffing_entity)
          ?.many["skills"]?.find((row) => row.one["skill"]?.id === skill_id)
        await steer(client, {
          op: "detach",
          model: "hris.staffing_entity",
          id: ids.staffing_entity,
          path: "skills",
          entry: entry?.id
        })
      }
      const expected = async () =>
        ((await row(client, "/hris/staffing-entities", ids.staffing_entity))["skills"] as ReadonlyArray<
          { skill_id: string; expected_proficiency: unknown }
        >).map((entry) => [entry.skill_id, entry.expected_proficiency])
      const steps: ReadonlyArray<readonly [object, ReadonlyArray<unknown>]> = [
        [{ skill_id: stepped.id, expected_proficiency: 3 }, [[stepped.id, { type: "NUMERIC", value: 3 }]]],
        [{ skill_id: stepped.id, expected_proficiency: 4 }, [[stepped.id, { type: "NUMERIC", value: 4 }]]],
        [{ skill_id: stepped.id }, [[stepped.id, null]]],
        [{ skill_id: continuous.id, expected_proficiency: 0.125 }, [
          [stepped.id, null],
          [continuous.id, { type: "NUMERIC", value: 0.125 }]
        ]]
      ]
      for (const [body, skills] of steps) {
        const began = await pause()
        const answer = await send("POST", path, body)
        succeeded("expectSkill", answer)
        assert.deepInclude(answer.json.data, { staffing_entity_id: ids.staffing_entity })
        assert.deepStrictEqual(await expected(), skills)
        assert.deepStrictEqual(await since(client, "/hris/staffing-entities", began), [ids.staffing_entity])
        const later = await pause()
        succeeded("expectSkill", await send("POST", path, body))
        assert.deepStrictEqual(await since(client, "/hris/staffing-entities", later), [])
      }
      assert.strictEqual((await row(client, "/hris/staffing-entities", ids.staffing_entity))["changed_at"], changed_at)
    }))

  it.live("U66: holds the expectation strictly to the scale of the skill", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send } = client
      const { chosen, continuous, stepped } = await skillsByScale(client)
      const path = `/hris/staffing-entities/${ids.staffing_entity}/skills`
      const [option] = chosen.proficiency_scale.ordered_options ?? []
      const { max, min, step } = stepped.proficiency_scale
      for (const value of [min - 1, max + 1, min + (step ?? 1) / 2, "3", option?.id, null, true]) {
        refused(await send("POST", path, { skill_id: stepped.id, expected_proficiency: value }), 400)
      }
      for (const value of [1, "no option", "Beginner"]) {
        refused(await send("POST", path, { skill_id: chosen.id, expected_proficiency: value }), 400)
      }
      refused(await send("POST", path, { skill_id: continuous.id, expected_proficiency: 100.001 }), 400)
      refused(await send("POST", path, { skill_id: "none" }), 400)
      const answer = await send("POST", path, { skill_id: chosen.id, expected_proficiency: option?.id })
      succeeded("expectSkill", answer)
      assert.deepStrictEqual(answer.json.data["expected_proficiency"], {
        type: "SINGLE_SELECT",
        selected_option_id: option?.id
      })
    }))
})

describe("POST /hris/skill-proficiency-ratings", () => {
  it.live("U67: overwrites the rating of the same source, and keeps it when only the skill is assigned again", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send, truth } = client
      const { chosen, stepped } = await skillsByScale(client)
      const [option] = chosen.proficiency_scale.ordered_options ?? []
      const rate = async (skill_id: string, rating?: object) => {
        const answer = await send("POST", "/hris/skill-proficiency-ratings", {
          employee_id: ids.employee,
          skill_id,
          ...(rating && { rating })
        })
        succeeded("rateSkill", answer)
        return answer.json.data
      }
      const first = await rate(stepped.id, { rating_source: "EXTERNAL", proficiency: 2 })
      const second = await rate(stepped.id, { rating_source: "EXTERNAL", proficiency: 5 })
      const own = await rate(stepped.id, { rating_source: "SELF", proficiency: 1 })
      assert.deepInclude(second, {
        id: first["id"],
        proficiency: { type: "NUMERIC", value: 5 },
        rating_source: "EXTERNAL",
        employee_id: ids.employee,
        skill_id: stepped.id
      })
      assert.match(String(first["rating_provider_id"]), /^[1-9A-HJ-NP-Za-km-z]{24}$/)
      assert.strictEqual(own["rating_provider_id"], first["rating_provider_id"])
      assert.notStrictEqual(own["id"], first["id"])
      assert.deepStrictEqual(await rate(stepped.id), second)
      assert.deepInclude(await rate(chosen.id), { proficiency: null })
      assert.deepInclude(await rate(chosen.id, { rating_source: "EXTERNAL", proficiency: option?.id }), {
        proficiency: { type: "SINGLE_SELECT", selected_option_id: option?.id }
      })
      assert.lengthOf(await truth("hris.rating"), 3)
      for (
        const wrong of [
          { employee_id: "none", skill_id: stepped.id },
          { employee_id: ids.employee, skill_id: "none" },
          { employee_id: ids.employee, skill_id: stepped.id, rating: { rating_source: "EXTERNAL", proficiency: 99 } },
          { employee_id: ids.employee, skill_id: stepped.id, rating: { proficiency: 1 } }
        ]
      ) refused(await send("POST", "/hris/skill-proficiency-ratings", wrong), 400)
      assert.lengthOf(await truth("hris.rating"), 3)
    }))
})

describe("PUT /assessment/packages", () => {
  it.live("U68: replaces the whole list, and dates only what changed", () =>
    withSandbox({}, async ({ send, truth }) => {
      const one = { id: "logic", type: "SKILLS_TEST", name: "Logic", description: "Riddles." }
      const two = { id: "talk", type: "VIDEO_INTERVIEW", name: "Talk", description: "Ten minutes." }
      const put = async (...packages: ReadonlyArray<object>) =>
        succeeded("replacePackages", await send("PUT", "/assessment/packages", { packages }))
      const packages = async () =>
        (await send("GET", "/assessment/packages")).json.data["packages"] as ReadonlyArray<Record<string, string>>
      await put(one, two)
      const first = await packages()
      assert.deepStrictEqual(
        first.map(({ description, id, name, type }) => ({ id, type, name, description })),
        [one, two]
      )
      await pause()
      await put(one, { ...two, name: "Long talk" })
      const second = await packages()
      assert.deepStrictEqual(second[0], first[0])
      assert.isAbove(Date.parse(second[1]?.["updated_at"] ?? ""), Date.parse(first[1]?.["updated_at"] ?? ""))
      await put(two)
      assert.deepStrictEqual((await packages()).map(({ id }) => id), ["talk"])
      refused(await send("PUT", "/assessment/packages", { packages: [one, one] }), 400)
      refused(await send("PUT", "/assessment/packages", { packages: [{ id: "x" }] }), 400)
      assert.lengthOf(await truth("assessment.package"), 1)
      await put()
      assert.deepStrictEqual(await packages(), [])
    }))
})

describe("POST /lms/courses/{id}/deactivate", () => {
  it.live("U69: takes the course's id or remote id, and changes it once", () =>
    withSandbox({}, async ({ handle: { ids }, send, truth }) => {
      const [, second] = await truth("lms.course")
      const statuses = (data: Answer["json"]["data"]) =>
        (data["revisions"] as ReadonlyArray<{ status: string }>).map(({ status }) => status)
      assert.deepStrictEqual(statuses(second as never), ["ACTIVE"])
      const skills = new Set((await truth("hris.skill")).map(({ id }) => id))
      const taught = (second as { revisions: ReadonlyArray<{ skill_assignments: ReadonlyArray<{ skill: object }> }> })
        .revisions.flatMap(({ skill_assignments }) => skill_assignments.map(({ skill }) => skill as { id: string }))
      assert.isNotEmpty(taught)
      for (const { id } of taught) assert.isTrue(skills.has(id), id)
      const one = await send("POST", `/lms/courses/${ids.course}/deactivate`, {})
      const remote = encodeURIComponent(`remote:${second?.["remote_id"]}`)
      const two = await send("POST", `/lms/courses/${remote}/deactivate`, {})
      for (const answer of [one, two]) {
        succeeded("deactivateCourse", answer)
        assert.deepStrictEqual(statuses(answer.json.data), ["INACTIVE"])
      }
      assert.strictEqual(two.json.data["id"], second?.["id"])
      await pause()
      const again = await send("POST", `/lms/courses/${ids.course}/deactivate`, {})
      assert.deepStrictEqual(again.json.data, one.json.data)
      refused(await send("POST", "/lms/courses/remote:/deactivate", {}), 400)
      refused(await send("POST", `/lms/courses/remote:${ids.course}/deactivate`, {}), 404)
    }))
})
