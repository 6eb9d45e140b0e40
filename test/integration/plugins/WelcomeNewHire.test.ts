/** A hire over HTTP: seen in the truth of both systems, and whoever is killed in the middle of it. */
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

/** Somebody whom nobody has looked at yet applies, with a CV. */
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

/** What the hire of one application has made. */
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
  it.live("T1: a hire makes an employee with their file, and a link, once for ever", () =>
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
    "L5: whoever is killed at whatever moment, nothing is there twice, and what nobody can know is said",
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
          const doom = { ...Acme.never(), at }
          yield* acme.deliver([plugin(acme)], doom)
          if (doom.label === null) break
          seen.push(doom.label)
          yield* acme.deliver([plugin(acme)])
          const { documents, employees, links } = yield* made(acme, id)
          for (const there of [employees, documents, links]) assert.isAtMost(there.length, 1, doom.label)
          const dead = yield* acme.deliveries.deadLetters({ limit: 100, after: 0 })
          const mine = dead.filter(({ event }) => event?.id === id)
          if (mine.length === 0) assert.strictEqual(links.length, 1, doom.label)
          else assert.match(String(mine[0]?.failure.message), /nobody knows/, doom.label)
        }
        assert.isAbove(seen.length, 20)
      })),
    120_000
  )

  it.live("L5: an answer that was lost is not made good by other answers to the form", () =>
    Effect.scoped(Effect.gen(function*() {
      const acme = yield* Acme.make
      const id = yield* applicant(acme)
      const named = plugin(acme, { work_email: "{/staffing_entity/name|handle}@acme.example" })
      yield* acme.read
      yield* acme.deliver([named])
      const before = (yield* acme.records("hris.employee")).length
      yield* outcome(acme, id, "HIRED")
      yield* acme.read
      yield* acme.sandbox.setFaults({ faults: [{ kind: "drop_response", endpoint: "createEmployee", count: 1 }] })
      yield* acme.deliver([named])
      yield* acme.sandbox.mutate({
        op: "rename",
        integration: Acme.hris,
        model: "hris.staffing_entity",
        id: acme.sandbox.ids.staffing_entity,
        name: "Renamed meanwhile"
      })
      yield* acme.read
      yield* acme.deliver([named], Acme.never(), "1 hour")
      const [dead] = yield* acme.deliveries.deadLetters({ limit: 10 })
      assert.match(String(dead?.failure.message), /nobody knows/)
      assert.strictEqual((yield* acme.records("hris.employee")).length, before + 1)
    })))
})
