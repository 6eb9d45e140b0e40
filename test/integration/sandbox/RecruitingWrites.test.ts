import { assert, describe, it } from "@effect/vitest"
import { writeExamples } from "../../support/api/Examples.ts"
import { file, integration, mutate, pause, refused, row, since, succeeded, withSandbox } from "./Client.ts"

describe("POST /ats/jobs/{id}/applications", () => {
  const { candidate } = writeExamples.createApplication.body
  const body = {
    candidate: { ...candidate, email_address: "radia@mail.example" },
    attachments: [{ ...file, type: "CV" }],
    screening_question_answers: [
      { question_id: "q-why", answer: "Because." },
      { question_id: "q-languages", answer: ["o1", "o2"] }
    ]
  }

  it.live("creates a candidate and a pending application, which the list shows like the response (U58)", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send } = client
      const began = await pause()
      const answer = await send("POST", `/ats/jobs/${ids.job}/applications`, { ...body, stage_id: ids.stage })
      succeeded("createApplication", answer)
      const application = answer.json.data
      assert.deepInclude(application, { outcome: "PENDING", job_id: ids.job, current_stage_id: ids.stage })
      assert.deepInclude(application["candidate"] as object, {
        first_name: candidate.first_name,
        email_addresses: [{ email_address: "radia@mail.example", type: "PRIVATE" }],
        company: candidate.company,
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

  it.live("shows answers under their question; answers to an unknown question are kept with a warning (U24)", () =>
    withSandbox({}, async ({ handle: { ids }, send }) => {
      const apply = (email_address: string, ...screening_question_answers: ReadonlyArray<object>) =>
        send("POST", `/ats/jobs/${ids.job}/applications`, {
          candidate: { ...body.candidate, email_address },
          screening_question_answers
        })
      const response = await apply(
        "one@mail.example",
        { question_id: "q-start-1", answer: "In one month" },
        { question_id: "q-why-1", answer: "Because." },
        { question_id: "q-days-1", answer: ["weekdays", "weekends"] }
      )
      const shown = response.json.data["screening_question_answers"] as ReadonlyArray<
        { answer: object; question: object }
      >
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
      assert.deepStrictEqual(response.json.warnings, [])
      const unknown = await apply("two@mail.example", { question_id: "q-other", answer: ["o1"] })
      assert.deepStrictEqual([unknown.status, unknown.json.warnings.length], [200, 1])
      assert.include(unknown.json.warnings[0]?.message, '"q-other"')
      refused(await apply("three@mail.example", { question_id: "q-days-1", answer: "weekdays" }), 400)
      refused(await apply("three@mail.example", { question_id: "q-why-1", answer: ["o1"] }), 400)
    }))

  it.live("rejects a closed job, a second application of the same person, and invalid values (U59)", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids, world }, send } = client
      const path = `/ats/jobs/${ids.job}/applications`
      const [, other = ""] = world.ids(integration, "ats.job")
      const of = (candidate: object) => ({ ...body, candidate: { ...body.candidate, ...candidate } })
      refused(await send("POST", path, of({ email_address: "no-address" })), 400)
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
      await mutate(client, { op: "update", model: "ats.job", id: ids.job, fields: { status: "CLOSED" } })
      refused(await send("POST", path, of({ email_address: "ida@mail.example" })), 409, "ATS.JOB_CLOSED")
    }))
})

describe("candidate tags", () => {
  it.live("show in every application of the candidate, which does not match updated_after because of them (N1)", () =>
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
  it.live("changes the given properties, responds without warnings, and makes the application match (U60)", () =>
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
