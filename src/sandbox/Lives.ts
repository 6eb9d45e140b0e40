/**
 * What happens in an organisation: hides which records each kind of mutation looks for and what it does to them.
 *
 * Gotchas
 * - A kind may find nothing to happen to (no offer is waiting for an answer) and then says so with `null`.
 */
import type { Chance } from "./Chance.ts"
import * as Lexicon from "./Lexicon.ts"
import { bear, just, proficiency, rating } from "./Population.ts"
import { type Fields, isListed, isLive, models, type Records, type Row, type WorldModel } from "./Records.ts"

/** Does it once, at this server time; the record it happened to, or null. */
type Act = (records: Records, at: number, chance: Chance) => Row | null

interface Life {
  /** The model an integration must have for this to happen in it. */
  readonly model: WorldModel | "any"
  /** How often, compared with the others. */
  readonly weight: number
  readonly act: Act
}

const iso = (at: number): string => new Date(at).toISOString()

const some = (
  records: Records,
  model: WorldModel,
  chance: Chance,
  fits: (row: Row) => boolean = () => true
): Row | null => chance.find(records.rows(model), (row) => isLive(row) && fits(row)) ?? null

/** An own change of some record. */
const edits = (
  model: WorldModel,
  weight: number,
  edit: (row: Row, chance: Chance, at: number) => Fields,
  fits?: (row: Row) => boolean
): Life => ({
  model,
  weight,
  act: (records, at, chance) => {
    const row = some(records, model, chance, fits)
    return row && records.change(row, at, edit(row, chance, at))
  }
})

const is = (field: string, ...values: ReadonlyArray<string>) => (row: Row): boolean =>
  values.includes(String(row.fields[field]))
const pending = is("outcome", "PENDING")

/** The same name with another last word, so that it can go on for ever without growing. */
export const renamed = (name: string, chance: Chance): string => {
  const revision = chance.pick(Lexicon.revisions.filter((word) => !name.endsWith(` ${word}`)))
  const base = Lexicon.revisions.reduce(
    (base, word) => base.endsWith(` ${word}`) ? base.slice(0, -word.length - 1) : base,
    name
  )
  return `${base} ${revision}`
}
const renames = (model: WorldModel): Life =>
  edits(model, 0.6, (row, chance) => ({ name: renamed(String(row.fields["name"]), chance) }))
const marries = (model: WorldModel): Life =>
  edits(model, 0.6, (row, chance) => ({
    last_name: chance.pick(Lexicon.lastNames.filter((name) => name !== row.fields["last_name"]))
  }))

const born = (model: WorldModel, weight: number): Life => ({
  model,
  weight,
  act: (records, at, chance) => bear(records, model, just(at), chance)
})
/** Something new for some application. */
const forApplication = (model: WorldModel, weight: number, fields?: Fields): Life => ({
  model: "ats.application",
  weight,
  act: (records, at, chance) => {
    const application = some(records, "ats.application", chance, pending)
    if (application === null) return null
    return bear(records, model, just(at), chance, { one: { application }, ...(fields && { fields }) })
  }
})

const moves: Act = (records, at, chance) => {
  const stages = records.rows("ats.stage")
  const next = (row: Row) => stages[stages.findIndex((stage) => stage === row.one["current_stage"]) + 1]
  const row = some(records, "ats.application", chance, (row) => pending(row) && next(row) !== undefined)
  return row && records.change(row, at, {}, { current_stage: next(row) ?? null })
}
const hires: Act = (records, at, chance) => {
  const row = some(records, "ats.application", chance, pending)
  return row &&
    records.change(row, at, { outcome: "HIRED" }, { current_stage: records.rows("ats.stage").at(-1) ?? null })
}

/** Something is put into, or taken out of, an array of some record. */
const tags: Act = (records, at, chance) => {
  const tag = some(records, "ats.tag", chance)
  if (tag === null) return null
  const row = some(records, "ats.candidate", chance, (row) => row.many["tags"]?.includes(tag) === false)
  return row && records.attach(row, "tags", tag, at)
}
const untags: Act = (records, at, chance) => {
  const row = some(records, "ats.candidate", chance, (row) => (row.many["tags"]?.length ?? 0) > 0)
  const tag = row && chance.pick(row.many["tags"] ?? [])
  return row && tag && records.detach(row, "tags", tag, at) ? row : null
}
const belongings = [
  { path: "locations", model: "hris.location" },
  { path: "groups", model: "hris.group" },
  { path: "legal_entities", model: "hris.legal_entity" }
] as const
const regroups: Act = (records, at, chance) => {
  const row = some(records, "hris.staffing_entity", chance)
  const { model, path } = chance.pick(belongings)
  const entry = some(records, model, chance)
  if (row === null || entry === null) return null
  if (!records.detach(row, path, entry, at)) records.attach(row, path, entry, at)
  return row
}
const expects: Act = (records, at, chance) => {
  const row = some(records, "hris.staffing_entity", chance)
  const skill = some(records, "hris.skill", chance)
  if (row === null || skill === null) return null
  const known = row.many["skills"]?.find((entry) => entry.one["skill"] === skill)
  if (known) records.change(known, at, { expected_proficiency: proficiency(skill, chance) })
  else records.attach(row, "skills", bear(records, "hris.expectation", just(at), chance, { one: { skill } }), at)
  return row
}
const corrects: Act = (records, at, chance) => {
  const row = some(records, "hris.payslip", chance)
  const item = row && chance.pick(row.many["line_items"] ?? [])
  if (!row || !item) return null
  if (chance.happens(0.5)) records.change(item, at, { name: renamed(String(item.fields["name"]), chance) })
  else {
    const fields = { name: chance.pick(Lexicon.payItems), amount: { currency: "EUR", value: chance.int(10, 400) } }
    records.attach(row, "line_items", bear(records, "hris.line_item", just(at), chance, { fields }), at)
  }
  return row
}

/** Some record of a model that has a list, every model as often as any other, however many records it has. */
const anything = (records: Records, chance: Chance): Row | null => {
  for (const model of chance.shuffled(models.filter(isListed))) {
    // The shortest lists are spared: an organisation without absence types teaches nobody anything.
    const rows = records.rows(model)
    const row = rows.length > 8 ? chance.find(rows, isLive) : undefined
    if (row) return row
  }
  return null
}
const toAnything = (weight: number, does: (records: Records, row: Row, at: number) => Row): Life => ({
  model: "any",
  weight,
  act: (records, at, chance) => {
    const row = anything(records, chance)
    return row && does(records, row, at)
  }
})

const lives = {
  applied: born("ats.application", 14),
  stage_moved: { model: "ats.application", weight: 18, act: moves },
  interviewed: forApplication("ats.interview", 8),
  interview_changed: edits("ats.interview", 3, (row, chance) => ({
    canceled: chance.happens(0.3),
    title: renamed(String(row.fields["title"]), chance)
  })),
  scored: forApplication("ats.scorecard", 6),
  offered: forApplication("ats.offer", 4, { status: "SENT" }),
  offer_accepted: edits("ats.offer", 2, () => ({ status: "ACCEPTED" }), is("status", "SENT")),
  offer_declined: edits("ats.offer", 1, () => ({ status: "DECLINED" }), is("status", "SENT")),
  hired: { model: "ats.application", weight: 3, act: hires },
  declined: edits("ats.application", 6, (_, chance, at) => ({
    outcome: "DECLINED",
    rejection_reason_name: chance.pick(Lexicon.rejections),
    rejected_at: iso(at)
  }), pending),
  reopened: edits("ats.application", 1, () => ({
    outcome: "PENDING",
    rejection_reason_name: null,
    rejected_at: null
  }), is("outcome", "DECLINED")),
  candidate_edited: edits("ats.candidate", 4, (row, chance) => ({
    company: chance.pick(Lexicon.companies.filter((name) => name !== row.fields["company"])),
    title: chance.pick(Lexicon.titles)
  })),
  tagged: { model: "ats.candidate", weight: 3, act: tags },
  untagged: { model: "ats.candidate", weight: 1, act: untags },
  renamed_tag: renames("ats.tag"),
  renamed_stage: renames("ats.stage"),
  renamed_job: renames("ats.job"),
  renamed_user: marries("ats.user"),
  opened: born("hris.staffing_entity", 3),
  frozen: edits(
    "hris.staffing_entity",
    1,
    () => ({ status: "FROZEN" }),
    is("status", "OPEN_LIMITED", "OPEN_UNLIMITED")
  ),
  filled: edits("hris.staffing_entity", 2, () => ({ status: "FILLED" }), is("status", "OPEN_LIMITED", "FROZEN")),
  closed: edits("hris.staffing_entity", 1, () => ({ status: "CLOSED" }), is("status", "FILLED", "FROZEN")),
  regrouped: { model: "hris.staffing_entity", weight: 2, act: regroups },
  skill_expected: { model: "hris.staffing_entity", weight: 2, act: expects },
  payroll_run: born("hris.pay_run", 0.5),
  payslip_issued: {
    model: "hris.payslip",
    weight: 6,
    act: (records, at, chance) =>
      bear(records, "hris.payslip", just(at), chance, { one: { pay_run: records.rows("hris.pay_run").at(-1) ?? null } })
  },
  payslip_corrected: { model: "hris.payslip", weight: 2, act: corrects },
  review_cycle_started: born("hris.performance_review_cycle", 0.4),
  review_cycle_renamed: renames("hris.performance_review_cycle"),
  review_written: born("hris.performance_review", 4),
  review_rated: edits(
    "hris.performance_review",
    3,
    (_, chance) => ({ summary_rating: rating(chance) }),
    (row) => row.fields["summary_rating"] === null
  ),
  renamed_employee: marries("hris.employee"),
  renamed_group: renames("hris.group"),
  renamed_location: renames("hris.location"),
  renamed_legal_entity: renames("hris.legal_entity"),
  renamed_skill: renames("hris.skill"),
  rescaled: edits(
    "hris.proficiency_scale",
    0.4,
    (row) => ({ max: Number(row.fields["max"]) + 1 }),
    is("type", "NUMERIC")
  ),
  absence_type_changed: edits("hris.absence_type", 0.6, (row) => ({
    half_days_supported: row.fields["half_days_supported"] !== true
  })),
  remote_touched: toAnything(2, (records, row, at) => records.stir(row, at)),
  deleted_flagged: toAnything(1.5, (records, row, at) => records.flag(row, at)),
  deleted_hard: toAnything(0.7, (records, row, at) => records.vanish(row, at)),
  restored: {
    model: "any",
    weight: 0.7,
    act: (records, at, chance) => {
      const row = chance.find([...records.gone], () => true)
      return row ? records.restore(row, at) : null
    }
  }
} as const satisfies Record<string, Life>

export type LifeKind = keyof typeof lives
export const lifeKinds = Object.keys(lives) as ReadonlyArray<LifeKind>

export const weightOf = (kind: LifeKind): number => lives[kind].weight
/** Can this happen in an integration with these models? */
export const belongs = (kind: LifeKind, has: (model: WorldModel) => boolean): boolean => {
  const { model } = lives[kind] as Life
  return model === "any" || has(model)
}
/** Lets it happen once; the record it happened to, or null if there was none. */
export const happen = (kind: LifeKind, records: Records, at: number, chance: Chance): Row | null =>
  (lives[kind] as Life).act(records, at, chance)
