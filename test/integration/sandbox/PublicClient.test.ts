/**
 * The sandbox against the public TypeScript client of this family of APIs: the client sends its requests over HTTP, and
 * rejects any response that violates its schemas.
 */
import { assert, describe, it } from "@effect/vitest"
import { HTTPClient, Kombo } from "@kombo-api/sdk"
import * as Effect from "effect/Effect"
import { serve } from "../../../src/sandbox/Sandbox.ts"
import type { ExampleIds } from "../../../src/sandbox/world/ExampleIds.ts"
import { clientCalls, endpointNames } from "../../support/api/PublicClient.ts"
import { file } from "./Client.ts"

const everything = "sandbox:everything"

// ---- requests -----------------------------------------------------------------------------------------------------

type Send = (client: Kombo, ids: ExampleIds) => Promise<unknown>

interface ListPage {
  readonly result: { readonly data: { readonly results: ReadonlyArray<{ readonly id: string }> } }
}

const moment = new Date("2020-02-29T12:34:56.789Z")
const shared = {
  page_size: 3,
  updated_after: moment,
  include_deleted: true,
  ignore_unsupported_filters: true
} as const

/** Reads all pages; fails if there is only one. */
const everyPage = (read: (client: Kombo) => Promise<AsyncIterable<ListPage>>): Send => async (client) => {
  const sizes: Array<number> = []
  for await (const { result } of await read(client)) sizes.push(result.data.results.length)
  assert.isAbove(sizes.length, 1)
}

/** A file by its content, and one by its URL. */
const files = [
  { ...file, type: "CV" },
  { name: "letter.pdf", data_url: "https://files.example/letter.pdf", type: "COVER_LETTER" }
] as const

const application = {
  candidate: {
    first_name: "Ada",
    last_name: "Lovelace",
    email_address: "ada@mail.example",
    additional_email_addresses: [{ type: "WORK", email_address: "ada@work.example" }],
    company: "Analytical Engines",
    title: "Engineer",
    phone_number: "+44 20 555 1",
    additional_phone_numbers: [{ type: "WORK", phone_number: "+44 20 555 2" }],
    location: { city: "London", country: "GB", state: "England", street_1: "Square 12", zip_code: "SW1Y" },
    gender: "FEMALE",
    availability_date: moment,
    salary_expectations: { period: "YEAR", amount: 90_000 },
    social_links: [{ url: "https://social.example/ada" }]
  },
  attachments: [...files],
  source: { name: "Referral" },
  sourced_by: { user_id: "u1" },
  gdpr_consent: { expires_at: moment, given: true },
  remote_fields: { greenhouse: { post_headers: { on_behalf_of: "7" } } },
  screening_question_answers: [
    { question_id: "q-start-1", answer: "Immediately" },
    { question_id: "q-why-1", answer: "Because." },
    { question_id: "q-days-1", answer: ["weekdays"] },
    { question_id: "q-relocate-1", answer: true },
    { question_id: "q-years-1", answer: 7 },
    { question_id: "q-visit-1", answer: moment },
    { question_id: "q-unknown", answer: { ...file } }
  ]
} as const satisfies Parameters<Kombo["ats"]["createApplication"]>[0]["body"]

const answers = {
  first_name: "Ada",
  last_name: "King",
  work_email: "ada@work.example",
  start_date: "2031-01-01",
  job_title: "Analyst",
  cost_shares: [60, 40],
  emergency_contacts: [{ name: "Annabella", phone: "+44 555 0199" }]
}

const createEmployee: Send = async ({ hris }) => {
  const { data: { properties } } = await hris.getEmployeeForm()
  const { contract } = properties
  if (contract?.type !== "single_select" || contract.options.type !== "inline") return assert.fail("no contract")
  const [option] = contract.options.entries
  return hris.createEmployeeWithForm({ properties: { ...answers, contract: option?.id ?? "" } })
}

const tag = { tag: { name: "vip" }, remote_fields: { workable: { on_behalf_of_user_remote_id: "7" } } }

/** A request for each call; the lists with every filter are below. */
const requests: Readonly<Record<string, Send>> = {
  "ats.getApplications": everyPage(({ ats }) => ats.getApplications(shared)),
  "ats.getOffers": everyPage(({ ats }) => ats.getOffers(shared)),
  "ats.getTags": everyPage(({ ats }) => ats.getTags(shared)),
  "hris.getAbsenceTypes": everyPage(({ hris }) => hris.getAbsenceTypes(shared)),
  "hris.getLegalEntities": everyPage(({ hris }) => hris.getLegalEntities(shared)),
  "hris.getPerformanceReviewCycles": everyPage(({ hris }) => hris.getPerformanceReviewCycles(shared)),
  "hris.getPerformanceReviews": everyPage(({ hris }) => hris.getPerformanceReviews(shared)),
  "hris.getStaffingEntities": everyPage(({ hris }) => hris.getStaffingEntities(shared)),
  "ats.getApplicationAttachments": async ({ ats }, { application, candidate }) => {
    for (const attachment of files) await ats.addCandidateAttachment({ candidate_id: candidate, body: { attachment } })
    const { data: { results } } = await ats.getApplicationAttachments({ application_id: application })
    assert.include(results.map(({ data_url }) => data_url), "https://files.example/letter.pdf")
  },
  "hris.getEmployeeForm": ({ hris }) => hris.getEmployeeForm(),
  "assessment.getPackages": ({ assessment }) => assessment.getPackages(),
  "general.getTools": ({ general }) =>
    Promise.all((["hris", "ats", "assessment", "lms"] as const).map((category) => general.getTools({ category }))),
  "ats.createApplication": async ({ ats }, { job, stage }) => {
    const { data } = await ats.createApplication({ job_id: job, body: { stage_id: stage, ...application } })
    const { result } = await ats.getApplications({ ids: [data.id] })
    assert.deepStrictEqual(
      result.data.results[0]?.screening_question_answers?.map(({ question: { type } }) => type),
      ["SINGLE_SELECT", "TEXT", "MULTI_SELECT", "BOOLEAN", "NUMBER", "DATE", "UNKNOWN"]
    )
    assert.deepStrictEqual(data.candidate?.email_addresses?.map(({ email_address }) => email_address), [
      "ada@mail.example",
      "ada@work.example"
    ])
  },
  "ats.addApplicationResultLink": ({ ats }, ids) =>
    ats.addApplicationResultLink({
      application_id: ids.application,
      body: {
        label: "Result",
        url: "https://results.example/1",
        details: { custom_field_name_prefix: "Acme:", attributes: [{ key: "Score", value: "90 %" }] },
        remote_fields: { icims: { assessment_package_id: "1" } }
      }
    }),
  "ats.addCandidateTag": ({ ats }, { candidate }) => ats.addCandidateTag({ candidate_id: candidate, body: tag }),
  "ats.removeCandidateTag": async ({ ats }, { candidate }) => {
    await ats.addCandidateTag({ candidate_id: candidate, body: tag })
    await ats.removeCandidateTag({ candidate_id: candidate, body: tag })
  },
  "ats.addCandidateAttachment": ({ ats }, { candidate }) =>
    Promise.all(
      files.map((attachment) => ats.addCandidateAttachment({ candidate_id: candidate, body: { attachment } }))
    ),
  "hris.addEmployeeDocument": ({ hris }, { document_category, employee }) =>
    Promise.all(
      files.map((document) =>
        hris.addEmployeeDocument({ employee_id: employee, body: { category_id: document_category, document } })
      )
    ),
  "hris.createEmployeeWithForm": createEmployee,
  "assessment.setPackages": ({ assessment }) =>
    assessment.setPackages({ packages: [{ id: "p1", type: "BEHAVIORAL", name: "Behavior", description: "" }] })
}

const two = ["one", "another"]
/** Lists with every filter of the client. `Filters.test.ts` checks which records a filter selects. */
const filtered: Readonly<Record<string, Send>> = {
  "ats.getApplications": ({ ats }) =>
    ats.getApplications({
      ids: two,
      remote_ids: two,
      outcomes: ["PENDING", "HIRED"],
      job_ids: two,
      job_remote_ids: two,
      current_stage_ids: two,
      remote_created_after: moment
    }),
  "hris.getPerformanceReviews": ({ hris }) =>
    hris.getPerformanceReviews({ types: ["PEER", "SELF"], reviewee_ids: two, review_cycle_ids: two }),
  "hris.getStaffingEntities": ({ hris }) =>
    hris.getStaffingEntities({ model_types: ["JOB", "POSITION"], statuses: ["CLOSED", "FILLED"] }),
  "hris.getLegalEntities": ({ hris }) => hris.getLegalEntities({ name_contains: "one" })
}

// ---- tests --------------------------------------------------------------------------------------------------------

/** Sends the request to a sandbox, and returns the warnings of all responses. */
const warningsOf = (send: Send) =>
  Effect.scoped(Effect.gen(function*() {
    const { ids, key, url } = yield* serve({ speed: 0, records: 60 })
    const warnings: Array<string> = []
    const http_client = new HTTPClient()
    http_client.addHook("response", async (response) => {
      const body = await response.clone().json() as { readonly warnings?: ReadonlyArray<{ readonly message: string }> }
      // some responses of the sandbox have this warning by chance
      const messages = (body.warnings ?? []).map(({ message }) => message)
      warnings.push(...messages.filter((message) => !message.endsWith("answered slowly.")))
    })
    const client = new Kombo({ api_key: key, integration_id: everything, server_url: url, http_client })
    yield* Effect.promise(() => send(client, ids))
    return warnings
  }))

const servedCalls = clientCalls.filter(({ request }) => endpointNames.has(request)).map(({ name }) => name)

describe("the public TypeScript client", () => {
  it.live.each(servedCalls)(
    "is served as its schemas demand: %s (U71)",
    (name) =>
      Effect.map(warningsOf(requests[name] ?? assert.fail(`${name} has no request in this test`)), (warnings) => {
        const known = name === "ats.createApplication" ? [/No screening question has the id "q-unknown"/] : []
        assert.lengthOf(warnings, known.length, warnings.join("; "))
        known.forEach((pattern, i) => assert.match(warnings[i] ?? "", pattern))
      })
  )

  it.live.each(Object.keys(filtered))(
    "has all its filters understood: %s (U71)",
    (name) =>
      Effect.map(warningsOf(filtered[name] ?? assert.fail(name)), (warnings) => assert.deepStrictEqual(warnings, []))
  )

  it("lacks these endpoints of the specification", () => {
    const known = new Set(clientCalls.map(({ request }) => request))
    const unknown = [...endpointNames].filter(([request]) => !known.has(request)).map(([, name]) => name)
    assert.sameMembers(unknown, [
      "ats.scorecard",
      "hris.payslip",
      "hris.skill",
      "updateInterview",
      "rateSkill",
      "expectSkill",
      "deactivateCourse"
    ])
  })
})
