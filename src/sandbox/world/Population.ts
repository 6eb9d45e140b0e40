/** The records with which an integration starts: their number by model, and their age. */
import type { Moment } from "./RecordDraft.ts"
import { createRecord } from "./RecordFactories.ts"
import { isListed, type Records, type WorldModel } from "./Records.ts"
import * as SampleData from "./SampleData.ts"
import type { SeededRandom } from "./SeededRandom.ts"

const day = 86_400_000

export type Sizes = Readonly<Partial<Record<WorldModel, number>>>

const clamp = (least: number, value: number, most: number): number => Math.round(Math.min(most, Math.max(least, value)))

/** How many records of each model an integration starts with. `records`: the number of applications, and of payslips. */
export const sizesOf = (records: number): Required<Sizes> => ({
  "ats.user": clamp(5, records / 30, 200),
  "ats.job": clamp(4, records / 25, 400),
  "ats.stage": SampleData.stageNames.length,
  "ats.tag": clamp(12, records / 20, 60),
  "ats.candidate": 0,
  "ats.application": records,
  "ats.interview": clamp(4, records / 2, records),
  "ats.offer": clamp(6, records / 8, records),
  "ats.scorecard": clamp(4, records / 3, records),
  "hris.legal_entity": clamp(4, records / 50, 12),
  "hris.location": clamp(4, records / 40, 30),
  "hris.group": SampleData.groupNames.length,
  "hris.proficiency_scale": 3,
  "hris.skill": clamp(12, records / 10, 120),
  "hris.absence_type": SampleData.absences.length,
  "hris.salary_type": 4,
  "hris.employee": clamp(8, records / 8, 5000),
  "hris.pay_run": clamp(3, records / 60, 36),
  "hris.payslip": records,
  "hris.line_item": 0,
  "hris.performance_review_cycle": clamp(4, records / 100, 12),
  "hris.performance_review": clamp(6, records / 3, records),
  "hris.staffing_entity": clamp(10, records / 6, records),
  "hris.expectation": 0,
  "hris.document_category": 4,
  "lms.course": 6,
  "ats.attachment": clamp(4, records / 10, 500),
  "ats.result_link": 0,
  "hris.document": 0,
  "hris.rating": 0,
  "assessment.package": SampleData.packages.length
})

/** When an initial record was created and last changed: between two days and two and a half years before the world starts. */
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
