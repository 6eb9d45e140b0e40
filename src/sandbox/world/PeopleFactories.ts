/** The factories of the records about employees: payslips, reviews, skills and staffing. */
import { type Draft, named, person, type RecordFactory } from "./RecordDraft.ts"
import { dateOf, iso, type Row, type WorldModel } from "./Records.ts"
import * as SampleData from "./SampleData.ts"

const day = 86_400_000

const payslip: RecordFactory = (draft) => {
  const gross = draft.random.int(28, 110) * 100
  const money = (value: number) => ({ currency: "EUR", value })
  const net = Math.round(gross * 0.64)
  const items = [gross, -Math.round(gross * 0.21), -Math.round(gross * 0.09), -Math.round(gross * 0.06)]
  return {
    fields: { totals: { gross_pay: money(gross), net_pay: money(net), paid_amount: money(net) } },
    one: { employee: draft.pick("hris.employee"), pay_run: draft.linked("pay_run", "hris.pay_run") },
    many: {
      line_items: items.map((value, i) =>
        draft.create("hris.line_item", { fields: { name: SampleData.payItems[i] as string, amount: money(value) } })
      )
    }
  }
}

const review: RecordFactory = (draft) => {
  const { isNew, random } = draft
  return {
    fields: {
      type: random.pick(["MANAGER", "DIRECT_REPORT", "PEER", "SELF"]),
      summary_comment: random.pick(SampleData.reviewComments),
      summary_rating: isNew || random.boolean(0.2) ? null : SampleData.rating(random)
    },
    one: {
      reviewee: draft.pick("hris.employee"),
      reviewer: draft.pick("hris.employee"),
      review_cycle: draft.pick("hris.performance_review_cycle")
    }
  }
}
const staffingEntity: RecordFactory = (draft) => {
  const { random } = draft
  const model = random.pick(["JOB", "POSITION", "REQUISITION"])
  const limited = model !== "JOB"
  const open = limited ? "OPEN_LIMITED" : "OPEN_UNLIMITED"
  const status = draft.isNew ? open : random.pick([open, open, "PENDING", "FROZEN", "FILLED", "CLOSED"])
  const title = SampleData.jobTitle(random)
  return {
    fields: {
      name: title,
      model_type: model,
      description: `We are looking for a ${title}.`,
      status,
      number_of_openings: limited ? random.int(1, 4) : null
    },
    one: { parent: model === "REQUISITION" ? pickPosition(draft) : null },
    many: {
      locations: draft.pickSome("hris.location", 2),
      legal_entities: draft.pickSome("hris.legal_entity", 1),
      groups: draft.pickSome("hris.group", 2),
      skills: draft.pickSome("hris.skill", 3).map((skill) => draft.create("hris.expectation", { one: { skill } }))
    }
  }
}
const pickPosition = ({ random, records }: Draft): Row | null =>
  random.pickWhere(records.rows("hris.staffing_entity"), (row) => row.fields["model_type"] === "POSITION") ?? null

const scale: RecordFactory = ({ count, records }) => {
  const kind = count % 3
  if (kind < 2) return { fields: { type: "NUMERIC", min: 0, max: kind === 0 ? 5 : 100, step: kind === 0 ? 1 : null } }
  const options = ["Beginner", "Advanced", "Expert"].map((name, i) => ({
    id: records.id("option", i + 1),
    remote_id: `level-${i + 1}`,
    name
  }))
  return { fields: { type: "SINGLE_SELECT", ordered_options: options } }
}

export const peopleFactories = {
  "hris.legal_entity": ({ random }) => ({
    fields: { name: `${random.pick(SampleData.companies)} ${random.pick(SampleData.legalForms)}` }
  }),
  "hris.location": named(SampleData.places.map((place) => `${place.city} office`)),
  "hris.group": (draft) => ({
    fields: {
      ...named(SampleData.groupNames)(draft).fields,
      type: draft.random.pick(["DEPARTMENT", "TEAM", "COST_CENTER"])
    }
  }),
  "hris.proficiency_scale": scale,
  "hris.skill": (draft) => ({
    ...named(SampleData.skillNames)(draft),
    one: { proficiency_scale: draft.pick("hris.proficiency_scale") }
  }),
  "hris.expectation": ({ given, random }) => ({
    fields: { expected_proficiency: SampleData.proficiency(given["skill"], random) }
  }),
  "hris.absence_type": (draft) => ({
    fields: {
      ...named(SampleData.absences)(draft).fields,
      unit: draft.random.pick(["HOURS", "DAYS"]),
      half_days_supported: draft.random.boolean(0.5),
      exact_times_supported: draft.random.boolean(0.3)
    }
  }),
  "hris.salary_type": named(["Fixed", "Variable"]),
  "hris.employee": person,
  "hris.pay_run": (draft) => ({
    fields: { start_date: dateOf(draft.moment.createdAt - 30 * day), end_date: dateOf(draft.moment.createdAt) },
    one: { legal_entity: draft.pick("hris.legal_entity") }
  }),
  "hris.payslip": payslip,
  "hris.line_item": (draft) => ({ one: { salary_type: draft.pick("hris.salary_type") } }),
  "hris.performance_review_cycle": ({ moment, random }) => ({
    fields: {
      name: `${random.pick(["Spring", "Autumn", "Annual", "Probation"])} review ${iso(moment.createdAt).slice(0, 7)}`,
      review_period_start_date: iso(moment.createdAt - 180 * day)
    }
  }),
  "hris.performance_review": review,
  "hris.staffing_entity": staffingEntity,
  "hris.document_category": ({ random }) => ({ fields: { name: random.pick(["Contract", "Certificate", "Payroll"]) } }),
  "hris.document": (draft) => ({
    fields: { name: "document.txt", content_type: "text/plain", data: SampleData.fileContent("document") },
    one: {
      employee: draft.linked("employee", "hris.employee"),
      category: draft.linked("category", "hris.document_category")
    }
  }),
  "hris.rating": (draft) => {
    const skill = draft.linked("skill", "hris.skill")
    return {
      fields: { rating_source: "EXTERNAL", proficiency: SampleData.proficiency(skill, draft.random) },
      one: { employee: draft.linked("employee", "hris.employee"), skill }
    }
  }
} satisfies Partial<Record<WorldModel, RecordFactory>>
