/** A hire, from the application to the link on it, with a crash at every possible point. */
import type { EmployeeForm } from "#plugin"
import * as Testing from "#testing"
import { assert, describe, it } from "@effect/vitest"
import plugin from "./plugin.ts"

const hris = "workday:acme"
const entity = "3vQB7B6MrGQZaxCuFg4ohAbC"

const form: EmployeeForm = {
  properties: {
    first_name: { type: "text", required: true, unified_key: "first_name" },
    work_email: { type: "text", required: true, unified_key: "work_email", reg_exp: "^[^@]+@acme\\.example$" },
    start_date: { type: "date", required: true, unified_key: "start_date" },
    probation_months: { type: "number", required: true, max: 12 }
  }
}
const values = {
  WELCOME_HRIS: hris,
  WELCOME_EMPLOYEE_URL: "https://hr.example/{/id}",
  WELCOME_STAFFING_ENTITY: "{/custom_fields/opening}",
  WELCOME_FIELDS: { work_email: "{/candidate/first_name|handle}@acme.example", probation_months: 6 },
  WELCOME_DOCUMENTS: { CV: "category-1" },
  WELCOME_LARGEST_DOCUMENT: "16 B"
}
const application = {
  id: "a1",
  candidate_id: "c1",
  candidate: { id: "c1", first_name: "Zoë" },
  offers: [{ id: "o0", status: "DECLINED" }, { id: "o1", status: "ACCEPTED" }],
  custom_fields: { opening: entity }
}
const hired = (version: number) => Testing.event("ats.application.hired", { version, after: application })
const offer = Testing.record("ats.offer", { id: "o1", employment_start_date: "2026-04-01T00:00:00.000Z" })
const attachment = (id: string, more: object = {}) => ({
  id,
  type: "CV",
  data_url: `https://files.example/${id}`,
  file_name: `${id}.txt`,
  content_type: "text/plain",
  ...more
})
const setting: Testing.Setup = {
  records: [offer, Testing.record("hris.staffing_entity", { id: entity }, hris)],
  reads: {
    employeeForm: form,
    attachments: [attachment("f1"), attachment("f2"), attachment("f3", { type: "OTHER" })]
  },
  http: ({ url }) => ({ status: 200, body: `file ${url.at(-1)}` })
}
const used = (more: object = {}) => plugin.with({ values: { ...values, ...more } })
const namesOf = ({ writes }: Testing.Result) => writes.map(({ write }) => write)

describe("welcome-new-hire", () => {
  it("a hire creates the employee with the form, uploads the configured files, and links the application", async () => {
    const run = await Testing.make(used(), setting).deliver(hired(2))
    assert.isNull(run.failure)
    const document = (id: string, data: string) => ({
      integration: hris,
      write: "uploadDocument",
      id: "createEmployee-1",
      body: { category_id: "category-1", document: { name: `${id}.txt`, content_type: "text/plain", data } }
    })
    assert.deepStrictEqual<unknown>(run.writes, [
      {
        integration: hris,
        write: "createEmployee",
        id: null,
        body: {
          staffing_entity_id: entity,
          properties: {
            first_name: "Zoë",
            work_email: "zoe@acme.example",
            start_date: "2026-04-01",
            probation_months: 6
          }
        }
      },
      document("f1", btoa("file 1")),
      document("f2", btoa("file 2")),
      {
        integration: "sandbox:test",
        write: "addResultLink",
        id: "a1",
        body: {
          label: "Employee record",
          url: "https://hr.example/createEmployee-1",
          details: { attributes: [{ key: "documents", value: "2 of 2" }] }
        }
      }
    ])
  })

  it("an applicant who is hired twice becomes one employee, with one link and no duplicate document (T1)", async () => {
    const testing = Testing.make(used(), setting)
    await testing.deliver(hired(2))
    assert.deepStrictEqual(namesOf(await testing.deliver(hired(4))), [])
  })

  it("after a crash at any point nothing is done twice, and an unknown outcome is a dead letter (L5)", async () => {
    const crashes = await Testing.make(used(), setting).crashes(hired(2))
    assert.isAbove(crashes.length, 20)
    for (const { at, result } of crashes) {
      assert.isAtMost(namesOf(result).filter((name) => name === "createEmployee").length, 1, at)
      assert.isAtMost(namesOf(result).filter((name) => name === "addResultLink").length, 1, at)
      assert.strictEqual(new Set(result.writes.map((write) => JSON.stringify(write))).size, result.writes.length, at)
      const isUnknown = /about to be sent|response not recorded/.test(at) && !at.startsWith("GET")
      if (isUnknown) assert.propertyVal(result.failure, "refusal", "OutcomeUnknown", at)
      else assert.deepStrictEqual([result.failure, result.writes.length], [null, 4], at)
    }
  })

  it("a creation whose response was lost is not repeated with other answers to the form (L5)", async () => {
    let formReads = 0
    const again = { type: "text", unified_key: "first_name" } as const
    const run = await Testing.make(used(), {
      ...setting,
      reads: { employeeForm: () => ({ properties: { ...form.properties, [`field_${++formReads}`]: again } }) },
      faults: [{ on: "createEmployee", fail: "response lost" }]
    }).deliver(hired(2))
    assert.strictEqual(formReads, 2)
    assert.propertyVal(run.failure, "refusal", "OutcomeUnknown")
    assert.deepStrictEqual(namesOf(run), ["createEmployee"])
  })

  it("a form that cannot be answered fails with all faulty fields, and no value", async () => {
    const run = await Testing.make(used({ WELCOME_FIELDS: { work_email: "{/candidate/first_name}" } }), setting)
      .deliver(hired(2))
    assert.deepStrictEqual(run.writes, [])
    assert.propertyVal(run.failure, "refusal", "Invalid")
    const faults = run.failure?._tag === "Permanent" ? run.failure.faults : []
    assert.deepStrictEqual(faults.map(({ path, rule }) => [path, rule]), [
      ["/body/properties/work_email", "pattern"],
      ["/body/properties/probation_months", "required"]
    ])
    assert.notInclude(JSON.stringify([run.failure, run.logs]), "Zoë")
  })

  it("a missing or too large file is left out, and the link shows how many files were uploaded", async () => {
    const run = await Testing.make(used(), {
      ...setting,
      http: ({ url }) => url.endsWith("f1") ? { status: 404 } : { status: 200, body: "more than 16 bytes" }
    }).deliver(hired(2))
    assert.deepStrictEqual(namesOf(run), ["createEmployee", "addResultLink"])
    assert.include(JSON.stringify(run.writes.at(-1)), "0 of 2")
    assert.strictEqual(run.logs.length, 2)
  })

  it("the delivery is tried again while the file server is unavailable", async () => {
    const run = await Testing.make(used(), {
      ...setting,
      http: [{ status: 200, body: "a" }, { status: 503 }, "unreachable", { status: 200, body: "b" }]
    }).deliver(hired(2))
    assert.deepStrictEqual(run.deliveries.map(({ attempts, state }) => [state, attempts]), [["done", 3]])
    assert.strictEqual(run.writes.length, 4)
  })

  it("an application without a staffing entity makes no employee", async () => {
    const run = await Testing.make(used({ WELCOME_STAFFING_ENTITY: "{/custom_fields/nowhere}" }), setting).deliver(
      hired(2)
    )
    assert.propertyVal(run.failure, "_tag", "Permanent")
    assert.deepStrictEqual(run.writes, [])
  })

  it("the same application id in two integrations makes two hires (L6)", async () => {
    const testing = Testing.make(used(), { ...setting, records: [offer, { ...offer, integration: "lever:acme" }] })
    await testing.deliver(hired(2))
    const elsewhere = Testing.event("ats.application.hired", { integration: "lever:acme", after: application })
    assert.include(namesOf(await testing.deliver(elsewhere)), "createEmployee")
  })
})
