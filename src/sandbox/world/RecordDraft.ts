/** The input of a record factory, and the factories that several models share. */
import * as Data from "effect/Data"
import type { Fields, NewRecord, Records, Row, WorldModel } from "./Records.ts"
import * as SampleData from "./SampleData.ts"
import type { SeededRandom } from "./SeededRandom.ts"

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
export class Draft extends Data.Class<{
  readonly records: Records
  readonly model: WorldModel
  readonly moment: Moment
  readonly random: SeededRandom
  /** The records that the caller links. */
  readonly given: Record<string, Row | null>
  /** Creates a record that this record contains or links. */
  readonly create: (model: WorldModel, values?: RecordValues) => Row
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
}

export type RecordFactory = (draft: Draft) => NewRecord

/** Gives each record of a model the next of these names. When all are used, starts again with a number appended: `Berlin office 2`. */
export const named = (words: ReadonlyArray<string>) => ({ count }: Draft) => {
  const word = words[count % words.length] as string
  return { fields: { name: count < words.length ? word : `${word} ${1 + Math.floor(count / words.length)}` } }
}

export const person: RecordFactory = ({ random }) => ({
  fields: { first_name: random.pick(SampleData.firstNames), last_name: random.pick(SampleData.lastNames) }
})
