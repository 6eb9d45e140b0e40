/**
 * How records come into being, at the beginning of a world and while it lives: hides what a plausible record of each
 * model consists of and what it is linked to.
 */
import type { Chance } from "./Chance.ts"
import * as Lexicon from "./Lexicon.ts"
import { type Birth, type Fields, isListed, isLive, type Records, type Row, type WorldModel } from "./Records.ts"
import type { Sizes } from "./Sizes.ts"

const day = 86_400_000

/** When a record was created, and when the service last saw it change; ms. */
export interface Moment {
  readonly createdAt: number
  readonly changedAt: number
}
export const just = (at: number): Moment => ({ createdAt: at, changedAt: at })

/** What the caller wants of a new record; chance decides the rest. */
export interface Given {
  readonly fields?: Fields
  readonly one?: Record<string, Row | null>
}

type Born = (records: Records, chance: Chance, moment: Moment, given: Record<string, Row | null>) => Birth

const iso = (at: number): string => new Date(at).toISOString()
const date = (at: number): string => iso(at).slice(0, 10)
const someOf = (records: Records, model: WorldModel, chance: Chance): Row | null =>
  chance.find(records.rows(model), isLive) ?? null
const few = (records: Records, model: WorldModel, chance: Chance, most: number): Array<Row> => {
  const chosen = new Set<Row>()
  for (let i = chance.int(0, most); i > 0; i--) {
    const row = someOf(records, model, chance)
    if (row !== null) chosen.add(row)
  }
  return [...chosen]
}
const numbered = (records: Records, model: WorldModel, words: ReadonlyArray<string>): string => {
  const n = records.rows(model).length
  const word = words[n % words.length] as string
  return n < words.length ? word : `${word} ${1 + Math.floor(n / words.length)}`
}
const human: Born = (_, chance) => ({
  fields: { first_name: chance.pick(Lexicon.firstNames), last_name: chance.pick(Lexicon.lastNames) }
})

const application: Born = (records, chance, moment, given) => {
  const stages = records.rows("ats.stage")
  const outcome = chance.happens(0.45) ? "PENDING" : chance.happens(0.25) ? "HIRED" : "DECLINED"
  const fresh = moment.createdAt === moment.changedAt
  const declined = !fresh && outcome === "DECLINED"
  const hired = !fresh && outcome === "HIRED"
  return {
    fields: {
      outcome: fresh ? "PENDING" : outcome,
      rejection_reason_name: declined ? chance.pick(Lexicon.rejections) : null,
      rejected_at: declined ? iso(moment.changedAt) : null
    },
    one: {
      candidate: given["candidate"] ??
        (chance.happens(0.08) ? someOf(records, "ats.candidate", chance) : null) ??
        bear(records, "ats.candidate", moment, chance),
      current_stage: (fresh ? stages[0] : hired ? stages.at(-1) : stages[chance.int(0, stages.length - 2)]) ?? null,
      job: chance.find(records.rows("ats.job"), (job) => isLive(job) && job.fields["status"] !== "CLOSED") ?? null
    },
    many: { interviews: [], offers: [] }
  }
}

const responses = (chance: Chance, at: number): Fields[string] => {
  const options = [{ label: "No", remote_id: "o1" }, { label: "Yes", remote_id: "o2" }, {
    label: "Strong yes",
    remote_id: "o3"
  }]
  const of = (label: string, type: string, answer: Fields[string]) => ({
    answer,
    description: null,
    label,
    remote_id: `r-${type.toLowerCase()}`,
    required: chance.happens(0.5),
    type
  })
  return [
    { ...of("Recommendation", "SINGLE_SELECT", chance.pick(options)), options },
    { ...of("Strengths", "MULTI_SELECT", options.slice(1, chance.int(2, 3))), options },
    of("Impression", "TEXT", chance.pick(Lexicon.reviewComments)),
    of("Would work with", "BOOLEAN", chance.happens(0.7)),
    of("Score", "NUMBER", chance.int(1, 10)),
    of("Available from", "DATE", chance.happens(0.8) ? date(at + chance.int(10, 90) * day) : null)
  ]
}

const payslip: Born = (records, chance, moment, given) => {
  const gross = chance.int(28, 110) * 100
  const money = (value: number) => ({ currency: "EUR", value })
  const net = Math.round(gross * 0.64)
  const items = [gross, -Math.round(gross * 0.21), -Math.round(gross * 0.09), -Math.round(gross * 0.06)]
  return {
    fields: { totals: { gross_pay: money(gross), net_pay: money(net), paid_amount: money(net) } },
    one: {
      employee: someOf(records, "hris.employee", chance),
      pay_run: given["pay_run"] ?? someOf(records, "hris.pay_run", chance)
    },
    many: {
      line_items: items.map((value, i) =>
        bear(records, "hris.line_item", moment, chance, {
          fields: { name: Lexicon.payItems[i] as string, amount: money(value) }
        })
      )
    }
  }
}

const review: Born = (records, chance, moment) => {
  const fresh = moment.createdAt === moment.changedAt
  return {
    fields: {
      type: chance.pick(["MANAGER", "DIRECT_REPORT", "PEER", "SELF"]),
      summary_comment: chance.pick(Lexicon.reviewComments),
      summary_rating: fresh || chance.happens(0.2) ? null : rating(chance)
    },
    one: {
      reviewee: someOf(records, "hris.employee", chance),
      reviewer: someOf(records, "hris.employee", chance),
      review_cycle: someOf(records, "hris.performance_review_cycle", chance)
    }
  }
}
export const rating = (chance: Chance): Fields[string] => ({
  type: "SINGLE_SELECT",
  ordered_options: [...Lexicon.ratings],
  value: chance.pick(Lexicon.ratings)
})

const staffingEntity: Born = (records, chance, moment) => {
  const model = chance.pick(["JOB", "POSITION", "REQUISITION"])
  const limited = model !== "JOB"
  const open = limited ? "OPEN_LIMITED" : "OPEN_UNLIMITED"
  const status = moment.createdAt === moment.changedAt
    ? open
    : chance.pick([open, open, "PENDING", "FROZEN", "FILLED", "CLOSED"])
  const title = `${chance.pick(Lexicon.seniorities)} ${chance.pick(Lexicon.titles)}`
  return {
    fields: {
      name: title,
      model_type: model,
      description: `We are looking for a ${title}.`,
      status,
      number_of_openings: limited ? chance.int(1, 4) : null
    },
    one: {
      parent: model === "REQUISITION"
        ? chance.find(records.rows("hris.staffing_entity"), (row) => row.fields["model_type"] === "POSITION") ?? null
        : null
    },
    many: {
      locations: few(records, "hris.location", chance, 2),
      legal_entities: few(records, "hris.legal_entity", chance, 1),
      groups: few(records, "hris.group", chance, 2),
      skills: few(records, "hris.skill", chance, 3).map((skill) =>
        bear(records, "hris.expectation", moment, chance, { one: { skill } })
      )
    }
  }
}

const scale: Born = (records) => {
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

/** An expectation on this skill's scale. */
export const proficiency = (skill: Row | null | undefined, chance: Chance): Fields[string] => {
  const scale = skill?.one["proficiency_scale"]?.fields
  if (scale === undefined || chance.happens(0.2)) return null
  if (scale["type"] === "NUMERIC") {
    return { type: "NUMERIC", value: chance.int(Number(scale["min"]) + 1, Number(scale["max"])) }
  }
  const option = chance.pick(scale["ordered_options"] as ReadonlyArray<{ readonly id: string }>)
  return { type: "SINGLE_SELECT", selected_option_id: option.id }
}

const sampleFile = (title: string): string => Buffer.from(`A ${title} of the sandbox.\n`).toString("base64")

const births: Record<WorldModel, Born> = {
  "ats.user": human,
  "ats.job": (records, chance) => ({
    fields: {
      name: `${chance.pick(Lexicon.seniorities)} ${chance.pick(Lexicon.titles)}`,
      status: records.rows("ats.job").length % 10 === 9 ? "CLOSED" : "OPEN"
    }
  }),
  "ats.stage": (records) => ({
    fields: { name: numbered(records, "ats.stage", Lexicon.stageNames), index: records.rows("ats.stage").length }
  }),
  "ats.tag": (records) => ({ fields: { name: numbered(records, "ats.tag", Lexicon.tagNames) } }),
  "ats.candidate": (records, chance, moment, given) => ({
    ...human(records, chance, moment, given),
    many: { tags: few(records, "ats.tag", chance, 2) }
  }),
  "ats.application": application,
  "ats.interview": (records, chance, moment, given) => {
    const startingAt = moment.createdAt + chance.int(1, 14) * day
    return {
      fields: {
        title: chance.pick(Lexicon.interviewTitles),
        starting_at: iso(startingAt),
        ending_at: iso(startingAt + 3_600_000),
        canceled: false
      },
      one: { application: given["application"] ?? someOf(records, "ats.application", chance) }
    }
  },
  "ats.offer": (records, chance, _, given) => ({
    fields: { status: chance.pick(["SENT", "SENT", "ACCEPTED", "DECLINED", "DRAFT", "APPROVED", "ABANDONED"]) },
    one: { application: given["application"] ?? someOf(records, "ats.application", chance) }
  }),
  "ats.scorecard": (records, chance, moment, given) => {
    const application = given["application"] ?? someOf(records, "ats.application", chance)
    return {
      fields: { responses: responses(chance, moment.createdAt) },
      one: {
        application,
        candidate: application?.one["candidate"] ?? null,
        interview: application?.many["interviews"]?.at(-1) ?? null,
        author: someOf(records, "ats.user", chance)
      }
    }
  },
  "hris.legal_entity": (_, chance) => ({
    fields: { name: `${chance.pick(Lexicon.companies)} ${chance.pick(Lexicon.legalForms)}` }
  }),
  "hris.location": (records) => ({
    fields: { name: numbered(records, "hris.location", Lexicon.places.map((place) => `${place.city} office`)) }
  }),
  "hris.group": (records, chance) => ({
    fields: {
      name: numbered(records, "hris.group", Lexicon.groupNames),
      type: chance.pick(["DEPARTMENT", "TEAM", "COST_CENTER"])
    }
  }),
  "hris.proficiency_scale": scale,
  "hris.skill": (records, chance) => ({
    fields: { name: numbered(records, "hris.skill", Lexicon.skillNames) },
    one: { proficiency_scale: someOf(records, "hris.proficiency_scale", chance) }
  }),
  "hris.expectation": (_, chance, __, given) => ({
    fields: { expected_proficiency: proficiency(given["skill"], chance) }
  }),
  "hris.absence_type": (records, chance) => ({
    fields: {
      name: numbered(records, "hris.absence_type", Lexicon.absences),
      unit: chance.pick(["HOURS", "DAYS"]),
      half_days_supported: chance.happens(0.5),
      exact_times_supported: chance.happens(0.3)
    }
  }),
  "hris.salary_type": (records) => ({ fields: { name: numbered(records, "hris.salary_type", ["Fixed", "Variable"]) } }),
  "hris.employee": human,
  "hris.pay_run": (records, chance, moment) => ({
    fields: { start_date: date(moment.createdAt - 30 * day), end_date: date(moment.createdAt) },
    one: { legal_entity: someOf(records, "hris.legal_entity", chance) }
  }),
  "hris.payslip": payslip,
  "hris.line_item": (records, chance) => ({ one: { salary_type: someOf(records, "hris.salary_type", chance) } }),
  "hris.performance_review_cycle": (_, chance, moment) => ({
    fields: {
      name: `${chance.pick(["Spring", "Autumn", "Annual", "Probation"])} review ${iso(moment.createdAt).slice(0, 7)}`,
      review_period_start_date: iso(moment.createdAt - 180 * day)
    }
  }),
  "hris.performance_review": review,
  "hris.staffing_entity": staffingEntity,
  "hris.document_category": (_, chance) => ({ fields: { name: chance.pick(["Contract", "Certificate", "Payroll"]) } }),
  "lms.course": (records, chance) => {
    const skill = someOf(records, "hris.skill", chance)
    const topic = skill?.fields["name"] ?? chance.pick(Lexicon.skillNames)
    return {
      fields: { name: `Introduction to ${String(topic)}`, status: "ACTIVE" },
      many: { skills: skill === null ? [] : [skill] }
    }
  },
  "ats.attachment": (records, chance, _, given) => {
    const application = given["application"] ?? someOf(records, "ats.application", chance)
    const type = chance.pick(["CV", "CV", "COVER_LETTER", "OTHER"])
    return {
      fields: { type, file_name: `${type.toLowerCase()}.txt`, content_type: "text/plain", data: sampleFile(type) },
      one: { application, candidate: application?.one["candidate"] ?? null }
    }
  },
  "ats.result_link": (records, chance, _, given) => ({
    fields: { label: "Result", url: "https://results.example/1", details: null, remote_fields: null },
    one: { application: given["application"] ?? someOf(records, "ats.application", chance) }
  }),
  "hris.document": (records, chance, _, given) => ({
    fields: { name: "document.txt", content_type: "text/plain", data: sampleFile("document") },
    one: {
      employee: given["employee"] ?? someOf(records, "hris.employee", chance),
      category: given["category"] ?? someOf(records, "hris.document_category", chance)
    }
  }),
  "hris.rating": (records, chance, _, given) => {
    const skill = given["skill"] ?? someOf(records, "hris.skill", chance)
    return {
      fields: { rating_source: "EXTERNAL", proficiency: proficiency(skill, chance) },
      one: { employee: given["employee"] ?? someOf(records, "hris.employee", chance), skill }
    }
  },
  "assessment.package": (records) => {
    const n = records.rows("assessment.package").length
    const [name, type] = Lexicon.packages[n % Lexicon.packages.length] as (typeof Lexicon.packages)[number]
    return { fields: { name, type, description: `${name}, about half an hour.` } }
  }
}

/** Which array of which parent a new record is an entry of. */
const joins: Partial<Record<WorldModel, readonly [parent: string, path: string]>> = {
  "ats.interview": ["application", "interviews"],
  "ats.offer": ["application", "offers"]
}

/** Only where both have some is a third object made: large worlds are made of small ones. */
const merged = <A extends object>(own: A | undefined, wanted: A | undefined): A | undefined =>
  own && wanted ? { ...own, ...wanted } : own ?? wanted

/** A new record, and in its parent's array if it belongs in one. */
export const bear = (
  records: Records,
  model: WorldModel,
  moment: Moment,
  chance: Chance,
  given: Given = {}
): Row => {
  const birth = births[model](records, chance, moment, given.one ?? {})
  const row = records.insert(model, moment.changedAt, {
    ...birth,
    fields: merged(birth.fields, given.fields),
    one: merged(birth.one, given.one),
    createdAt: moment.createdAt
  })
  const join = joins[model]
  const parent = join && row.one[join[0]]
  if (join && parent) records.attach(parent, join[1], row, moment.changedAt)
  return row
}

/** Days to years before the world begins, both the creation and the last change. */
const past = (start: number, chance: Chance): Moment => {
  const age = (2 + 900 * chance.next() ** 2) * day
  const createdAt = Math.floor(start - age)
  return { createdAt, changedAt: Math.floor(createdAt + (age - day) * chance.next()) }
}

/** Fills an integration with what it has when the world begins; every fiftieth record is already deleted. */
export const populate = (
  records: Records,
  models: ReadonlyArray<WorldModel>,
  sizes: Required<Sizes>,
  start: number,
  chance: Chance
): void => {
  for (const model of Object.keys(sizes) as ReadonlyArray<WorldModel>) {
    if (!models.includes(model)) continue
    for (let n = 1; n <= sizes[model]; n++) {
      const moment = past(start, chance)
      const row = bear(records, model, moment, chance)
      if (isListed(model) && n % 50 === 0) records.flag(row, moment.changedAt)
    }
  }
}
