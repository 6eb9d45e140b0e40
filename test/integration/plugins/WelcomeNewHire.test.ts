/** A hire over HTTP, checked in the records of both systems, with a kill at every point. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import welcomeNewHire from "../../../plugins/welcome-new-hire/plugin.ts"
import * as Acme from "./Acme.ts"

const plugin = (acme: Acme.Acme, fields: object = {}) =>
  welcomeNewHire.with({
    others: false,
    integrations: {
      [Acme.ats]: {
        values: {
          WELCOME_HRIS: Acme.hris,
          WELCOME_EMPLOYEE_URL: "https://hr.acme.example/{/id}",
          WELCOME_STAFFING_ENTITY: acme.sandbox.ids.staffing_entity,
          WELCOME_FIELDS: {
            work_email: "{/candidate/first_name|handle}.{/remote_id|handle}@acme.example",
            start_date: "2027-01-04",
            probation_months: 6,
            work_location: "{/staffing_entity/locations/0/id}",
            ...fields
          },
          WELCOME_DOCUMENTS: { CV: acme.sandbox.ids.document_category }
        }
      }
    }
  })

/** Creates a new application with a CV. */
const applicant = Effect.fnUntraced(function*({ sandbox }: Acme.Acme) {
  const integration = Acme.ats
  const { id } = yield* sandbox.mutate({ op: "create", integration, model: "ats.application" })
  yield* sandbox.mutate({
    op: "create",
    integration,
    model: "ats.attachment",
    links: { application: id },
    fields: { type: "CV" }
  })
  return id
})
const outcome = (acme: Acme.Acme, id: string, outcome: string) =>
  acme.sandbox.mutate({ op: "update", integration: Acme.ats, model: "ats.application", id, fields: { outcome } })

/** The employees, documents and links that the hire of an application created. */
const made = Effect.fnUntraced(function*({ records }: Acme.Acme, application: string) {
  const [shown] = (yield* records("ats.application")).filter(({ id }) => id === application)
  const mine = `.${String(shown?.["remote_id"])}@acme.example`
  const employees = (yield* records("hris.employee")).filter(({ work_email }) => String(work_email).endsWith(mine))
  const ids = employees.map(({ id }) => id)
  return {
    employees,
    documents: (yield* records("hris.document")).filter(({ employee_id }) => ids.includes(employee_id)),
    links: (yield* records("ats.result_link")).filter(({ application_id }) => application_id === application)
  }
})

describe("welcome-new-hire, over HTTP", () => {
  it.live("repeated hires of an application make one employee with one document and one link (T1)", () =>
    Effect.scoped(Effect.gen(function*() {
      const acme = yield* Acme.make
      const id = yield* applicant(acme)
      yield* acme.read
      yield* acme.deliver([plugin(acme)])
      for (const next of ["HIRED", "PENDING", "HIRED"]) {
        yield* outcome(acme, id, next)
        yield* acme.read
        yield* acme.deliver([plugin(acme)])
      }
      const { documents, employees, links } = yield* made(acme, id)
      assert.deepStrictEqual([employees.length, documents.length, links.length], [1, 1, 1])
      assert.propertyVal(employees[0], "start_date", "2027-01-04")
      assert.propertyVal(employees[0], "staffing_entity_id", acme.sandbox.ids.staffing_entity)
      assert.propertyVal(documents[0], "category_id", acme.sandbox.ids.document_category)
      assert.propertyVal(links[0], "url", `https://hr.acme.example/${String(employees[0]?.["id"])}`)
      assert.deepStrictEqual(yield* acme.deliveries.deadLetters({ limit: 10 }), [])
    })))

  it.live(
    "nothing is created twice and an unknown outcome is reported, wherever the process is killed (L5)",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const acme = yield* Acme.make
        yield* acme.read
        yield* acme.deliver([plugin(acme)])
        const seen: Array<string> = []
        for (let at = 0;; at++) {
          const id = yield* applicant(acme)
          yield* acme.read
          yield* outcome(acme, id, "HIRED")
          yield* acme.read
          const killPoint = { ...Acme.never(), at }
          yield* acme.deliver([plugin(acme)], killPoint)
          if (killPoint.label === null) break
          seen.push(killPoint.label)
          yield* acme.deliver([plugin(acme)])
          const { documents, employees, links } = yield* made(acme, id)
          for (const there of [employees, documents, links]) assert.isAtMost(there.length, 1, killPoint.label)
          const dead = yield* acme.deliveries.deadLetters({ limit: 100, after: 0 })
          const mine = dead.filter(({ event }) => event?.id === id)
          if (mine.length === 0) assert.strictEqual(links.length, 1, killPoint.label)
          else assert.strictEqual(mine[0]?.failure.refusal, "OutcomeUnknown", killPoint.label)
        }
        assert.isAbove(seen.length, 20)
      }))
  )
})
