/**
 * Where a write takes place: one integration's records at one moment. Hides how a write finds what it names.
 *
 * Gotchas
 * - Deleted and vanished records are not found: nothing is written to them.
 */
import * as Result from "effect/Result"
import type { WriteBody, WriteName, WriteParams } from "../api/Writes.ts"
import { isLive, type Json, type Records, type Row, type WorldModel } from "./Records.ts"
import { absent, invalid, type Refusal } from "./Refusal.ts"

/** What a write did. */
export interface Written {
  /** The record it was done to; null if it was to none in particular. */
  readonly row: Row | null
  /** Of the answer. */
  readonly data: { readonly [key: string]: Json }
  readonly warnings?: ReadonlyArray<string>
}

/** Checks what only the records can tell, and does it. */
export type Act<W extends WriteName> = (
  site: Site,
  params: WriteParams<W>,
  body: WriteBody<W>
) => Result.Result<Written, Refusal>

/** Of a write that answers an empty object. */
export const done = (row: Row, warnings: ReadonlyArray<string> = []): Written => ({ row, data: {}, warnings })

export class Site {
  readonly records: Records
  /** Server time, ms. */
  readonly at: number

  constructor(records: Records, at: number) {
    this.records = records
    this.at = at
  }

  /** Named by the path: 404 if there is none. */
  addressed(model: WorldModel, id: string): Result.Result<Row, Refusal> {
    const row = this.find(model, id)
    return row === undefined ? Result.fail(absent(`There is no ${nounOf(model)} with this id.`)) : Result.succeed(row)
  }

  /** Named by a field of the body: 400 if there is none. */
  meant(model: WorldModel, id: string, field: string): Result.Result<Row, Refusal> {
    const row = this.find(model, id)
    return row === undefined
      ? Result.fail(invalid(`${field}: there is no ${nounOf(model)} with this id.`))
      : Result.succeed(row)
  }

  find(model: WorldModel, id: string): Row | undefined {
    const row = this.records.find(model, id)
    return row && isLive(row) ? row : undefined
  }

  /** Live records of a model. */
  rows(model: WorldModel): ReadonlyArray<Row> {
    return this.records.rows(model).filter(isLive)
  }

  /** Sets properties, unless they are as they should be already: a write that is sent again changes nothing. */
  settle(row: Row, fields: Readonly<Record<string, Json>>): Row {
    const differs = Object.entries(fields).some(([name, value]) =>
      JSON.stringify(row.fields[name]) !== JSON.stringify(value)
    )
    return differs ? this.records.change(row, this.at, fields) : row
  }
}

const nounOf = (model: WorldModel): string => model.slice(model.indexOf(".") + 1).replaceAll("_", " ")
