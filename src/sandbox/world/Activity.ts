/**
 * The activity of an organization: which records each kind of activity picks, and how it changes them.
 *
 * Gotchas
 * - An activity may find no suitable record (no offer is waiting for a reply); it then returns `null`.
 */
import { momentOf } from "./RecordDraft.ts"
import { createRecord } from "./RecordFactories.ts"
import { type Fields, isListed, isLive, iso, models, type Records, type Row, type WorldModel } from "./Records.ts"
import * as SampleData from "./SampleData.ts"
import type { SeededRandom } from "./SeededRandom.ts"

/** Performs the activity once, at this server time; returns the changed record, or null. */
type ApplyActivity = (records: Records, at: number, random: SeededRandom) => Row | null

interface Activity {
  /** The model that an integration must have for this activity. */
  readonly model: WorldModel | "any"
  /** The relative frequency of this activity. */
  readonly weight: number
  readonly apply: ApplyActivity
}

type Change = (row: Row, random: SeededRandom, at: number, records: Records) => Row | null

/** Changes a random live record of the model for which `fits` is true; without `fits`, any live record of the model. */
const changeActivity = (
  model: WorldModel,
  weight: number,
  change: Change,
  fits?: (row: Row, records: Records) => boolean
): Activity => ({
  model,
  weight,
  apply: (records, at, random) => {
    const row = records.pick(model, random, fits && ((row) => fits(row, records)))
    return row && change(row, random, at, records)
  }
})

/** Like `changeActivity`, for a change that only sets fields. */
const editActivity = (
  model: WorldModel,
  weight: number,
  edit: (row: Row, random: SeededRandom, at: number) => Fields,
  fits?: (row: Row) => boolean
): Activity =>
  changeActivity(model, weight, (row, random, at, records) => records.change(row, at, edit(row, random, at)), fits)

const hasFieldIn = (field: string, ...values: ReadonlyArray<string>) => (row: Row): boolean =>
  values.includes(String(row.fields[field]))
const pending = hasFieldIn("outcome", "PENDING")

/** The same name with another last word, so that repeated renames do not make it longer. */
export const withNewSuffix = (name: string, random: SeededRandom): string => {
  const revision = random.pick(SampleData.revisions.filter((word) => !name.endsWith(` ${word}`)))
  const base = SampleData.revisions.reduce(
    (base, word) => base.endsWith(` ${word}`) ? base.slice(0, -word.length - 1) : base,
    name
  )
  return `${base} ${revision}`
}
const renameActivity = (model: WorldModel): Activity =>
  editActivity(model, 0.6, (row, random) => ({ name: withNewSuffix(String(row.fields["name"]), random) }))
const lastNameActivity = (model: WorldModel): Activity =>
  editActivity(model, 0.6, (row, random) => ({
    last_name: random.pick(SampleData.lastNames.filter((name) => name !== row.fields["last_name"]))
  }))

/** Gives a record with one of the earlier statuses a new status. */
const statusActivity = (
  model: WorldModel,
  weight: number,
  status: string,
  ...earlier: ReadonlyArray<string>
): Activity => editActivity(model, weight, () => ({ status }), hasFieldIn("status", ...earlier))

const createActivity = (model: WorldModel, weight: number): Activity => ({
  model,
  weight,
  apply: (records, at, random) => createRecord(records, model, momentOf(at), random)
})
/** Creates a record that belongs to a random application. */
const createForApplicationActivity = (model: WorldModel, weight: number, fields: Fields = {}): Activity =>
  changeActivity(
    "ats.application",
    weight,
    (application, random, at, records) =>
      createRecord(records, model, momentOf(at), random, { one: { application }, fields }),
    pending
  )

const nextStage = (application: Row, records: Records): Row | undefined => {
  const stages = records.rows("ats.stage")
  return stages[stages.findIndex((stage) => stage === application.one["current_stage"]) + 1]
}
const moveToNextStage: Change = (row, _, at, records) =>
  records.change(row, at, {}, { current_stage: nextStage(row, records) ?? null })
const hire: Change = (row, _, at, records) =>
  records.change(row, at, { outcome: "HIRED" }, { current_stage: records.rows("ats.stage").at(-1) ?? null })

// The next activities add an entry to an array of a random record, or remove one.
const tagCandidate: ApplyActivity = (records, at, random) => {
  const tag = records.pick("ats.tag", random)
  if (tag === null) return null
  const row = records.pick("ats.candidate", random, (row) => row.many["tags"]?.includes(tag) === false)
  return row && records.attach(row, "tags", tag, at)
}
const untag: Change = (row, random, at, records) => {
  const tag = random.pick(row.many["tags"] ?? [])
  return tag && records.detach(row, "tags", tag, at) ? row : null
}
const staffingEntityLinks = [
  { path: "locations", model: "hris.location" },
  { path: "groups", model: "hris.group" },
  { path: "legal_entities", model: "hris.legal_entity" }
] as const
const toggleStaffingEntityLink: ApplyActivity = (records, at, random) => {
  const row = records.pick("hris.staffing_entity", random)
  const { model, path } = random.pick(staffingEntityLinks)
  const entry = records.pick(model, random)
  if (row === null || entry === null) return null
  if (!records.detach(row, path, entry, at)) records.attach(row, path, entry, at)
  return row
}
const setExpectedProficiency: ApplyActivity = (records, at, random) => {
  const row = records.pick("hris.staffing_entity", random)
  const skill = records.pick("hris.skill", random)
  if (row === null || skill === null) return null
  const known = row.many["skills"]?.find((entry) => entry.one["skill"] === skill)
  if (known) records.change(known, at, { expected_proficiency: SampleData.proficiency(skill, random) })
  else {
    const entry = createRecord(records, "hris.expectation", momentOf(at), random, { one: { skill } })
    records.attach(row, "skills", entry, at)
  }
  return row
}
const correctPayslip: Change = (row, random, at, records) => {
  const item = random.pick(row.many["line_items"] ?? [])
  if (!item) return null
  if (random.boolean(0.5)) records.change(item, at, { name: withNewSuffix(String(item.fields["name"]), random) })
  else {
    const fields = { name: random.pick(SampleData.payItems), amount: { currency: "EUR", value: random.int(10, 400) } }
    records.attach(row, "line_items", createRecord(records, "hris.line_item", momentOf(at), random, { fields }), at)
  }
  return row
}

/** A random record of a listed model; every model has the same chance, however many records it has. */
const pickListedRecord = (records: Records, random: SeededRandom): Row | null => {
  for (const model of random.shuffled(models.filter(isListed))) {
    // Short lists are left alone: a world without any absence types would test less.
    const rows = records.rows(model)
    const row = rows.length > 8 ? random.pickWhere(rows, isLive) : undefined
    if (row) return row
  }
  return null
}
const anyRecordActivity = (weight: number, change: (records: Records, row: Row, at: number) => Row): Activity => ({
  model: "any",
  weight,
  apply: (records, at, random) => {
    const row = pickListedRecord(records, random)
    return row && change(records, row, at)
  }
})

const activities = {
  applied: createActivity("ats.application", 14),
  stage_moved: changeActivity(
    "ats.application",
    18,
    moveToNextStage,
    (row, records) => pending(row) && nextStage(row, records) !== undefined
  ),
  interviewed: createForApplicationActivity("ats.interview", 8),
  interview_changed: editActivity("ats.interview", 3, (row, random) => ({
    canceled: random.boolean(0.3),
    title: withNewSuffix(String(row.fields["title"]), random)
  })),
  scored: createForApplicationActivity("ats.scorecard", 6),
  offered: createForApplicationActivity("ats.offer", 4, { status: "SENT" }),
  offer_accepted: statusActivity("ats.offer", 2, "ACCEPTED", "SENT"),
  offer_declined: statusActivity("ats.offer", 1, "DECLINED", "SENT"),
  hired: changeActivity("ats.application", 3, hire, pending),
  declined: editActivity("ats.application", 6, (_, random, at) => ({
    outcome: "DECLINED",
    rejection_reason_name: random.pick(SampleData.rejections),
    rejected_at: iso(at)
  }), pending),
  reopened: editActivity("ats.application", 1, () => ({
    outcome: "PENDING",
    rejection_reason_name: null,
    rejected_at: null
  }), hasFieldIn("outcome", "DECLINED")),
  candidate_edited: editActivity("ats.candidate", 4, (row, random) => ({
    company: random.pick(SampleData.companies.filter((name) => name !== row.fields["company"])),
    title: random.pick(SampleData.titles)
  })),
  tagged: { model: "ats.candidate", weight: 3, apply: tagCandidate },
  untagged: changeActivity("ats.candidate", 1, untag, (row) => (row.many["tags"]?.length ?? 0) > 0),
  renamed_tag: renameActivity("ats.tag"),
  renamed_stage: renameActivity("ats.stage"),
  renamed_job: renameActivity("ats.job"),
  renamed_user: lastNameActivity("ats.user"),
  opened: createActivity("hris.staffing_entity", 3),
  frozen: statusActivity("hris.staffing_entity", 1, "FROZEN", "OPEN_LIMITED", "OPEN_UNLIMITED"),
  filled: statusActivity("hris.staffing_entity", 2, "FILLED", "OPEN_LIMITED", "FROZEN"),
  closed: statusActivity("hris.staffing_entity", 1, "CLOSED", "FILLED", "FROZEN"),
  regrouped: { model: "hris.staffing_entity", weight: 2, apply: toggleStaffingEntityLink },
  skill_expected: { model: "hris.staffing_entity", weight: 2, apply: setExpectedProficiency },
  payroll_run: createActivity("hris.pay_run", 0.5),
  payslip_issued: {
    model: "hris.payslip",
    weight: 6,
    apply: (records, at, random) =>
      createRecord(records, "hris.payslip", momentOf(at), random, {
        one: { pay_run: records.rows("hris.pay_run").at(-1) ?? null }
      })
  },
  payslip_corrected: changeActivity("hris.payslip", 2, correctPayslip),
  review_cycle_started: createActivity("hris.performance_review_cycle", 0.4),
  review_cycle_renamed: renameActivity("hris.performance_review_cycle"),
  review_written: createActivity("hris.performance_review", 4),
  review_rated: editActivity(
    "hris.performance_review",
    3,
    (_, random) => ({ summary_rating: SampleData.rating(random) }),
    (row) => row.fields["summary_rating"] === null
  ),
  renamed_employee: lastNameActivity("hris.employee"),
  renamed_group: renameActivity("hris.group"),
  renamed_location: renameActivity("hris.location"),
  renamed_legal_entity: renameActivity("hris.legal_entity"),
  renamed_skill: renameActivity("hris.skill"),
  rescaled: editActivity(
    "hris.proficiency_scale",
    0.4,
    (row) => ({ max: Number(row.fields["max"]) + 1 }),
    hasFieldIn("type", "NUMERIC")
  ),
  absence_type_changed: editActivity("hris.absence_type", 0.6, (row) => ({
    half_days_supported: row.fields["half_days_supported"] !== true
  })),
  remote_touched: anyRecordActivity(2, (records, row, at) => records.touchRemote(row, at)),
  deleted_flagged: anyRecordActivity(1.5, (records, row, at) => records.softDelete(row, at)),
  deleted_hard: anyRecordActivity(0.7, (records, row, at) => records.hardDelete(row, at)),
  restored: {
    model: "any",
    weight: 0.7,
    apply: (records, at, random) => {
      const row = random.pickWhere([...records.deletedRows], () => true)
      return row ? records.restore(row, at) : null
    }
  }
} as const satisfies Record<string, Activity>

export type ActivityKind = keyof typeof activities
export const activityKinds = Object.keys(activities) as ReadonlyArray<ActivityKind>

export const weightOf = (kind: ActivityKind): number => activities[kind].weight
/** Whether this activity is possible in an integration with these models. */
export const isActivityPossible = (kind: ActivityKind, has: (model: WorldModel) => boolean): boolean => {
  const { model } = activities[kind] as Activity
  return model === "any" || has(model)
}
/** Performs the activity once; returns the changed record, or null if no record is suitable. */
export const performActivity = (kind: ActivityKind, records: Records, at: number, random: SeededRandom): Row | null =>
  (activities[kind] as Activity).apply(records, at, random)
