/**
 * Creates records when a world starts and while it is active. A factory per model makes a plausible record that is linked to others.
 */
import { peopleFactories } from "./PeopleFactories.ts"
import { Draft, type Moment, type RecordFactory, type RecordValues } from "./RecordDraft.ts"
import type { Records, Row, WorldModel } from "./Records.ts"
import { recruitingFactories } from "./RecruitingFactories.ts"
import * as SampleData from "./SampleData.ts"
import type { SeededRandom } from "./SeededRandom.ts"

const factories: Record<WorldModel, RecordFactory> = {
  ...recruitingFactories,
  ...peopleFactories,
  "lms.course": (draft) => {
    const skill = draft.pick("hris.skill")
    const topic = skill?.fields["name"] ?? draft.random.pick(SampleData.skillNames)
    return {
      fields: { name: `Introduction to ${String(topic)}`, status: "ACTIVE" },
      many: { skills: skill === null ? [] : [skill] }
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
  const create = (other: WorldModel, values?: RecordValues) => createRecord(records, other, moment, random, values)
  const generated = factories[model](new Draft({ records, model, moment, random, given: given.one ?? {}, create }))
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
