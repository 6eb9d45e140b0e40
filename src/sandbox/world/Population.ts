/**
 * Creates records, when a world starts and while it is active. Hides what a plausible record of each model consists of
 * and which records it is linked to.
 */
import { type Fields, isListed, isLive, type NewRecord, type Records, type Row, type WorldModel } from "./Records.ts"
import * as SampleData from "./SampleData.ts"
import type { SeededRandom } from "./SeededRandom.ts"
import type { Sizes } from "./Sizes.ts"

const day = 86_400_000

/** When a record was created, and when the service last saw a change; ms. */
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

type RecordFactory = (
  records: Records,
  random: SeededRandom,
  moment: Moment,
  given: Record<string, Row | null>
) => NewRecord

const iso = (at: number): string => new Date(at).toISOString()
const date = (at: number): string => iso(at).slice(0, 10)
const pickLiveRecord = (records: Records, model: WorldModel, random: SeededRandom): Row | null =>
  random.pickWhere(records.rows(model), isLive) ?? null
const pickLiveRecords = (records: Records, model: WorldModel, random: SeededRandom, most: number): Array<Row> => {
  const chosen = new Set<Row>()
  for (let i = random.int(0, most); i > 0; i--) {
    const row = pickLiveRecord(records, model, random)
    if (row !== null) chosen.add(row)
  }
  return [...chosen]
}
const numberedName = (records: Records, model: WorldModel, words: ReadonlyArray<string>): string => {
  const n = records.rows(model).length
  const word = words[n % words.length] as string
  return n < words.length ? word : `${word} ${1 + Math.floor(n / words.length)}`
}
const person: RecordFactory = (_, random) => ({
  fields: { first_name: random.pick(SampleData.firstNames), last_name: random.pick(SampleData.lastNames) }
})

const application: RecordFactory = (records, random, moment, given) => {
  const stages = records.rows("ats.stage")
  const outcome = random.boolean(0.45) ? "PENDING" : random.boolean(0.25) ? "HIRED" : "DECLINED"
  const fresh = moment.createdAt === moment.changedAt
  const declined = !fresh && outcome === "DECLINED"
  const hired = !fresh && outcome === "HIRED"
  return {
    fields: {
      outcome: fresh ? "PENDING" : outcome,
      rejection_reason_name: declined ? random.pick(SampleData.rejections) : null,
      rejected_at: declined ? iso(moment.changedAt) : null
    },
    one: {
      candidate: given["candidate"] ??
        (random.boolean(0.08) ? pickLiveRecord(records, "ats.candidate", random) : null) ??
        createRecord(records, "ats.candidate", moment, random),
      current_stage: (fresh ? stages[0] : hired ? stages.at(-1) : stages[random.int(0, stages.length - 2)]) ?? null,
      job: random.pickWhere(records.rows("ats.job"), (job) => isLive(job) && job.fields["status"] !== "CLOSED") ?? null
    },
    many: { interviews: [], offers: [] }
  }
}

const responses = (random: SeededRandom, at: number): Fields[string] => {
  const options = [{ label: "No", remote_id: "o1" }, { label: "Yes", remote_id: "o2" }, {
    label: "Strong yes",
    remote_id: "o3"
  }]
  const of = (label: string, type: string, answer: Fields[string]) => ({
    answer,
    description: null,
    label,
    remote_id: `r-${type.toLowerCase()}`,
    required: random.boolean(0.5),
    type
  })
  return [
    { ...of("Recommendation", "SINGLE_SELECT", random.pick(options)), options },
    { ...of("Strengths", "MULTI_SELECT", options.slice(1, random.int(2, 3))), options },
    of("Impression", "TEXT", random.pick(SampleData.reviewComments)),
    of("Would work with", "BOOLEAN", random.boolean(0.7)),
    of("Score", "NUMBER", random.int(1, 10)),
    of("Available from", "DATE", random.boolean(0.8) ? date(at + random.int(10, 90) * day) : null)
  ]
}

const payslip: RecordFactory = (records, random, moment, given) => {
  const gross = random.int(28, 110) * 100
  const money = (value: number) => ({ currency: "EUR", value })
  const net = Math.round(gross * 0.64)
  const items = [gross, -Math.round(gross * 0.21), -Math.round(gross * 0.09), -Math.round(gross * 0.06)]
  return {
    fields: { totals: { gross_pay: money(gross), net_pay: money(net), paid_amount: money(net) } },
    one: {
      employee: pickLiveRecord(records, "hris.employee", random),
      pay_run: given["pay_run"] ?? pickLiveRecord(records, "hris.pay_run", random)
    },
    many: {
      line_items: items.map((value, i) =>
        createRecord(records, "hris.line_item", moment, random, {
          fields: { name: SampleData.payItems[i] as string, amount: money(value) }
        })
      )
    }
  }
}

const review: RecordFactory = (records, random, moment) => {
  const fresh = moment.createdAt === moment.changedAt
  return {
    fields: {
      type: random.pick(["MANAGER", "DIRECT_REPORT", "PEER", "SELF"]),
      summary_comment: random.pick(SampleData.reviewComments),
      summary_rating: fresh || random.boolean(0.2) ? null : rating(random)
    },
    one: {
      reviewee: pickLiveRecord(records, "hris.employee", random),
      reviewer: pickLiveRecord(records, "hris.employee", random),
      review_cycle: pickLiveRecord(records, "hris.performance_review_cycle", random)
    }
  }
}
export const rating = (random: SeededRandom): Fields[string] => ({
  type: "SINGLE_SELECT",
  ordered_options: [...SampleData.ratings],
  value: random.pick(SampleData.ratings)
})

const staffingEntity: RecordFactory = (records, random, moment) => {
  const model = random.pick(["JOB", "POSITION", "REQUISITION"])
  const limited = model !== "JOB"
  const open = limited ? "OPEN_LIMITED" : "OPEN_UNLIMITED"
  const status = moment.createdAt === moment.changedAt
    ? open
    : random.pick([open, open, "PENDING", "FROZEN", "FILLED", "CLOSED"])
  const title = `${random.pick(SampleData.seniorities)} ${random.pick(SampleData.titles)}`
  return {
    fields: {
      name: title,
      model_type: model,
      description: `We are looking for a ${title}.`,
      status,
      number_of_openings: limited ? random.int(1, 4) : null
    },
    one: {
      parent: model === "REQUISITION"
        ? random.pickWhere(records.rows("hris.staffing_entity"), (row) => row.fields["model_type"] === "POSITION") ??
          null
        : null
    },
    many: {
      locations: pickLiveRecords(records, "hris.location", random, 2),
      legal_entities: pickLiveRecords(records, "hris.legal_entity", random, 1),
      groups: pickLiveRecords(records, "hris.group", random, 2),
      skills: pickLiveRecords(records, "hris.skill", random, 3).map((skill) =>
        createRecord(records, "hris.expectation", moment, random, { one: { skill } })
      )
    }
  }
}

const scale: RecordFactory = (records) => {
  const n = records.rows("hris.proficiency_scale").length
  if (n % 3 < 2) {
    return { fields: { type: "NUMERIC", min: 0, max: n % 3 === 0 ? 5 : 100, step: n % 3 === 0 ? 1 : null } }
  }
  return {
    fields: {
      type: "SINGLE_SELECT",
      ordered_options: ["Beginner", "Advanced", "Expert"].map((name, i) => ({
        id: records.id("option", i + 1),
        remote_id: `level-${i + 1}`,
        name
      }))
    }
  }
}

/** A random expected proficiency on this skill's scale. */
export const proficiency = (skill: Row | null | undefined, random: SeededRandom): Fields[string] => {
  const scale = skill?.one["proficiency_scale"]?.fields
  if (scale === undefined || random.boolean(0.2)) return null
  if (scale["type"] === "NUMERIC") {
    return { type: "NUMERIC", value: random.int(Number(scale["min"]) + 1, Number(scale["max"])) }
  }
  const option = random.pick(scale["ordered_options"] as ReadonlyArray<{ readonly id: string }>)
  return { type: "SINGLE_SELECT", selected_option_id: option.id }
}

const sampleFile = (title: string): string => Buffer.from(`A ${title} of the sandbox.\n`).toString("base64")

const recordFactories: Record<WorldModel, RecordFactory> = {
  "ats.user": person,
  "ats.job": (records, random) => ({
    fields: {
      name: `${random.pick(SampleData.seniorities)} ${random.pick(SampleData.titles)}`,
      status: records.rows("ats.job").length % 10 === 9 ? "CLOSED" : "OPEN"
    }
  }),
  "ats.stage": (records) => ({
    fields: { name: numberedName(records, "ats.stage", SampleData.stageNames), index: records.rows("ats.stage").length }
  }),
  "ats.tag": (records) => ({ fields: { name: numberedName(records, "ats.tag", SampleData.tagNames) } }),
  "ats.candidate": (records, random, moment, given) => ({
    ...person(records, random, moment, given),
    many: { tags: pickLiveRecords(records, "ats.tag", random, 2) }
  }),
  "ats.application": application,
  "ats.interview": (records, random, moment, given) => {
    const startingAt = moment.createdAt + random.int(1, 14) * day
    return {
      fields: {
        title: random.pick(SampleData.interviewTitles),
        starting_at: iso(startingAt),
        ending_at: iso(startingAt + 3_600_000),
        canceled: false
      },
      one: { application: given["application"] ?? pickLiveRecord(records, "ats.application", random) }
    }
  },
  "ats.offer": (records, random, _, given) => ({
    fields: { status: random.pick(["SENT", "SENT", "ACCEPTED", "DECLINED", "DRAFT", "APPROVED", "ABANDONED"]) },
    one: { application: given["application"] ?? pickLiveRecord(records, "ats.application", random) }
  }),
  "ats.scorecard": (records, random, moment, given) => {
    const application = given["application"] ?? pickLiveRecord(records, "ats.application", random)
    return {
      fields: { responses: responses(random, moment.createdAt) },
      one: {
        application,
        candidate: application?.one["candidate"] ?? null,
        interview: application?.many["interviews"]?.at(-1) ?? null,
        author: pickLiveRecord(records, "ats.user", random)
      }
    }
  },
  "hris.legal_entity": (_, random) => ({
    fields: { name: `${random.pick(SampleData.companies)} ${random.pick(SampleData.legalForms)}` }
  }),
  "hris.location": (records) => ({
    fields: { name: numberedName(records, "hris.location", SampleData.places.map((place) => `${place.city} office`)) }
  }),
  "hris.group": (records, random) => ({
    fields: {
      name: numberedName(records, "hris.group", SampleData.groupNames),
      type: random.pick(["DEPARTMENT", "TEAM", "COST_CENTER"])
    }
  }),
  "hris.proficiency_scale": scale,
  "hris.skill": (records, random) => ({
    fields: { name: numberedName(records, "hris.skill", SampleData.skillNames) },
    one: { proficiency_scale: pickLiveRecord(records, "hris.proficiency_scale", random) }
  }),
  "hris.expectation": (_, random, __, given) => ({
    fields: { expected_proficiency: proficiency(given["skill"], random) }
  }),
  "hris.absence_type": (records, random) => ({
    fields: {
      name: numberedName(records, "hris.absence_type", SampleData.absences),
      unit: random.pick(["HOURS", "DAYS"]),
      half_days_supported: random.boolean(0.5),
      exact_times_supported: random.boolean(0.3)
    }
  }),
  "hris.salary_type": (records) => ({
    fields: { name: numberedName(records, "hris.salary_type", ["Fixed", "Variable"]) }
  }),
  "hris.employee": person,
  "hris.pay_run": (records, random, moment) => ({
    fields: { start_date: date(moment.createdAt - 30 * day), end_date: date(moment.createdAt) },
    one: { legal_entity: pickLiveRecord(records, "hris.legal_entity", random) }
  }),
  "hris.payslip": payslip,
  "hris.line_item": (records, random) => ({
    one: { salary_type: pickLiveRecord(records, "hris.salary_type", random) }
  }),
  "hris.performance_review_cycle": (_, random, moment) => ({
    fields: {
      name: `${random.pick(["Spring", "Autumn", "Annual", "Probation"])} review ${iso(moment.createdAt).slice(0, 7)}`,
      review_period_start_date: iso(moment.createdAt - 180 * day)
    }
  }),
  "hris.performance_review": review,
  "hris.staffing_entity": staffingEntity,
  "hris.document_category": (_, random) => ({ fields: { name: random.pick(["Contract", "Certificate", "Payroll"]) } }),
  "lms.course": (records, random) => {
    const skill = pickLiveRecord(records, "hris.skill", random)
    const topic = skill?.fields["name"] ?? random.pick(SampleData.skillNames)
    return {
      fields: { name: `Introduction to ${String(topic)}`, status: "ACTIVE" },
      many: { skills: skill === null ? [] : [skill] }
    }
  },
  "ats.attachment": (records, random, _, given) => {
    const application = given["application"] ?? pickLiveRecord(records, "ats.application", random)
    const type = random.pick(["CV", "CV", "COVER_LETTER", "OTHER"])
    return {
      fields: { type, file_name: `${type.toLowerCase()}.txt`, content_type: "text/plain", data: sampleFile(type) },
      one: { application, candidate: application?.one["candidate"] ?? null }
    }
  },
  "ats.result_link": (records, random, _, given) => ({
    fields: { label: "Result", url: "https://results.example/1", details: null, remote_fields: null },
    one: { application: given["application"] ?? pickLiveRecord(records, "ats.application", random) }
  }),
  "hris.document": (records, random, _, given) => ({
    fields: { name: "document.txt", content_type: "text/plain", data: sampleFile("document") },
    one: {
      employee: given["employee"] ?? pickLiveRecord(records, "hris.employee", random),
      category: given["category"] ?? pickLiveRecord(records, "hris.document_category", random)
    }
  }),
  "hris.rating": (records, random, _, given) => {
    const skill = given["skill"] ?? pickLiveRecord(records, "hris.skill", random)
    return {
      fields: { rating_source: "EXTERNAL", proficiency: proficiency(skill, random) },
      one: { employee: given["employee"] ?? pickLiveRecord(records, "hris.employee", random), skill }
    }
  },
  "assessment.package": (records) => {
    const n = records.rows("assessment.package").length
    const [name, type] = SampleData.packages[n % SampleData.packages.length] as (typeof SampleData.packages)[number]
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
  const generated = recordFactories[model](records, random, moment, given.one ?? {})
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

/** Days to years before the world starts: the creation and the last change. */
const pastMoment = (start: number, random: SeededRandom): Moment => {
  const age = (2 + 900 * random.next() ** 2) * day
  const createdAt = Math.floor(start - age)
  return { createdAt, changedAt: Math.floor(createdAt + (age - day) * random.next()) }
}

/** Creates the initial records of an integration; every fiftieth is already deleted. */
export const populate = (
  records: Records,
  models: ReadonlyArray<WorldModel>,
  sizes: Required<Sizes>,
  start: number,
  random: SeededRandom
): void => {
  for (const model of Object.keys(sizes) as ReadonlyArray<WorldModel>) {
    if (!models.includes(model)) continue
    for (let n = 1; n <= sizes[model]; n++) {
      const moment = pastMoment(start, random)
      const row = createRecord(records, model, moment, random)
      if (isListed(model) && n % 50 === 0) records.softDelete(row, moment.changedAt)
    }
  }
}
