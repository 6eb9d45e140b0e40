/**
 * Creates records when a world starts and while it is active. A factory per model makes a plausible record that is linked to others.
 */
import * as Data from "effect/Data"
import { dateOf, type Fields, iso, type NewRecord, type Records, type Row, type WorldModel } from "./Records.ts"
import * as SampleData from "./SampleData.ts"
import type { SeededRandom } from "./SeededRandom.ts"

const day = 86_400_000

/** When a record was created, and when the API last noticed a change, in ms. */
export interface Moment {
  readonly createdAt: number
  readonly changedAt: number
}
export const momentOf = (at: number): Moment => ({ createdAt: at, changedAt: at })

/** Values that the caller sets in a new record; all others are random. */
export interface RecordValues {
  readonly fields?: Fields
  readonly one?: Record<string, Row | null>
}

/** The input from which a factory makes a record. */
class Draft extends Data.Class<{
  readonly records: Records
  readonly model: WorldModel
  readonly moment: Moment
  readonly random: SeededRandom
  /** The records that the caller links. */
  readonly given: Record<string, Row | null>
}> {
  /** True if the record is created now; false if it existed before the world started. */
  get isNew(): boolean {
    return this.moment.createdAt === this.moment.changedAt
  }

  /** Records of this model so far. */
  get count(): number {
    return this.records.rows(this.model).length
  }

  pick(model: WorldModel, fits?: (row: Row) => boolean): Row | null {
    return this.records.pick(model, this.random, fits)
  }

  pickSome(model: WorldModel, most: number): Array<Row> {
    const picked = Array.from({ length: this.random.int(0, most) }, () => this.pick(model))
    return [...new Set(picked.filter((row) => row !== null))]
  }

  /** The record that the caller links at this path, or else a random record. */
  linked(path: string, model: WorldModel): Row | null {
    return this.given[path] ?? this.pick(model)
  }

  create(model: WorldModel, values?: RecordValues): Row {
    return createRecord(this.records, model, this.moment, this.random, values)
  }
}

type RecordFactory = (draft: Draft) => NewRecord

/** Gives each record of a model the next of these names. When all are used, starts again with a number appended: `Berlin office 2`. */
const named = (words: ReadonlyArray<string>) => ({ count }: Draft) => {
  const word = words[count % words.length] as string
  return { fields: { name: count < words.length ? word : `${word} ${1 + Math.floor(count / words.length)}` } }
}

const person: RecordFactory = ({ random }) => ({
  fields: { first_name: random.pick(SampleData.firstNames), last_name: random.pick(SampleData.lastNames) }
})

/** Fraction of the applications whose candidate has applied before. */
const returningCandidates = 0.08

const application: RecordFactory = (draft) => {
  const { given, isNew, moment, random, records } = draft
  const stages = records.rows("ats.stage")
  const outcome = random.boolean(0.45) ? "PENDING" : random.boolean(0.25) ? "HIRED" : "DECLINED"
  const declined = !isNew && outcome === "DECLINED"
  const hired = !isNew && outcome === "HIRED"
  return {
    fields: {
      outcome: isNew ? "PENDING" : outcome,
      rejection_reason_name: declined ? random.pick(SampleData.rejections) : null,
      rejected_at: declined ? iso(moment.changedAt) : null
    },
    one: {
      candidate: given["candidate"] ?? (random.boolean(returningCandidates) ? draft.pick("ats.candidate") : null) ??
        draft.create("ats.candidate"),
      current_stage: (isNew ? stages[0] : hired ? stages.at(-1) : stages[random.int(0, stages.length - 2)]) ?? null,
      job: draft.pick("ats.job", (job) => job.fields["status"] !== "CLOSED")
    },
    many: { interviews: [], offers: [] }
  }
}

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
  const title = jobTitle(random)
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
const jobTitle = (random: SeededRandom): string =>
  `${random.pick(SampleData.seniorities)} ${random.pick(SampleData.titles)}`
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

const sampleFile = (title: string): string => Buffer.from(`A ${title} of the sandbox.\n`).toString("base64")

const recordFactories: Record<WorldModel, RecordFactory> = {
  "ats.user": person,
  "ats.job": ({ count, random }) => ({
    fields: { name: jobTitle(random), status: count % 10 === 9 ? "CLOSED" : "OPEN" }
  }),
  "ats.stage": (draft) => ({ fields: { ...named(SampleData.stageNames)(draft).fields, index: draft.count } }),
  "ats.tag": named(SampleData.tagNames),
  "ats.candidate": (draft) => ({ ...person(draft), many: { tags: draft.pickSome("ats.tag", 2) } }),
  "ats.application": application,
  "ats.interview": (draft) => {
    const startingAt = draft.moment.createdAt + draft.random.int(1, 14) * day
    return {
      fields: {
        title: draft.random.pick(SampleData.interviewTitles),
        starting_at: iso(startingAt),
        ending_at: iso(startingAt + 3_600_000),
        canceled: false
      },
      one: { application: draft.linked("application", "ats.application") }
    }
  },
  "ats.offer": (draft) => ({
    fields: { status: draft.random.pick(["SENT", "SENT", "ACCEPTED", "DECLINED", "DRAFT", "APPROVED", "ABANDONED"]) },
    one: { application: draft.linked("application", "ats.application") }
  }),
  "ats.scorecard": (draft) => {
    const application = draft.linked("application", "ats.application")
    return {
      fields: { responses: SampleData.scorecardResponses(draft.random, draft.moment.createdAt) },
      one: {
        application,
        candidate: application?.one["candidate"] ?? null,
        interview: application?.many["interviews"]?.at(-1) ?? null,
        author: draft.pick("ats.user")
      }
    }
  },
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
  "lms.course": (draft) => {
    const skill = draft.pick("hris.skill")
    const topic = skill?.fields["name"] ?? draft.random.pick(SampleData.skillNames)
    return {
      fields: { name: `Introduction to ${String(topic)}`, status: "ACTIVE" },
      many: { skills: skill === null ? [] : [skill] }
    }
  },
  "ats.attachment": (draft) => {
    const application = draft.linked("application", "ats.application")
    const type = draft.random.pick(["CV", "CV", "COVER_LETTER", "OTHER"])
    return {
      fields: { type, file_name: `${type.toLowerCase()}.txt`, content_type: "text/plain", data: sampleFile(type) },
      one: { application, candidate: application?.one["candidate"] ?? null }
    }
  },
  "ats.result_link": (draft) => ({
    fields: { label: "Result", url: "https://results.example/1", details: null, remote_fields: null },
    one: { application: draft.linked("application", "ats.application") }
  }),
  "hris.document": (draft) => ({
    fields: { name: "document.txt", content_type: "text/plain", data: sampleFile("document") },
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
  },
  "assessment.package": ({ count }) => {
    const [name, type] = SampleData.packages[count % SampleData.packages.length] as (typeof SampleData.packages)[number]
    return { fields: { name, type, description: `${name}, about half an hour.` } }
  }
}

/** The array of the parent record that contains a new record of this model. */
const parentArrays: Partial<Record<WorldModel, readonly [parent: string, path: string]>> = {
  "ats.interview": ["application", "interviews"],
  "ats.offer": ["application", "offers"]
}

/** Merges only if both are set: otherwise no third object is created, which saves memory in large worlds. */
const merged = <A extends object>(own: A | undefined, wanted: A | undefined): A | undefined =>
  own && wanted ? { ...own, ...wanted } : own ?? wanted

/** Creates a record and adds it to its parent's array, if the model has one. */
export const createRecord = (
  records: Records,
  model: WorldModel,
  moment: Moment,
  random: SeededRandom,
  given: RecordValues = {}
): Row => {
  const generated = recordFactories[model](new Draft({ records, model, moment, random, given: given.one ?? {} }))
  const row = records.insert(model, moment.changedAt, {
    ...generated,
    fields: merged(generated.fields, given.fields),
    one: merged(generated.one, given.one),
    createdAt: moment.createdAt
  })
  const join = parentArrays[model]
  const parent = join && row.one[join[0]]
  if (join && parent) records.attach(parent, join[1], row, moment.changedAt)
  return row
}
