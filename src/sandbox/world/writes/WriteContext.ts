/**
 * Where a write takes place: one integration's records at one moment. Hides how a write finds what it names.
 *
 * Gotchas
 * - Deleted and vanished records are not found: nothing is written to them.
 */
import * as Result from "effect/Result"
import type { WriteBody, WriteName, WriteParams } from "../../../api/Writes.ts"
import { type ApiError, invalidInput, notFound } from "../../ApiError.ts"
import { isLive, type Json, type Records, type Row, type WorldModel } from "../Records.ts"

/** What a write did. */
export interface WriteResult {
  /** The record it was done to; null if it was to none in particular. */
  readonly row: Row | null
  /** Of the answer. */
  readonly data: { readonly [key: string]: Json }
  readonly warnings?: ReadonlyArray<string>
}

/** Checks what only the records can tell, and does it. */
export type WriteHandler<W extends WriteName> = (
  context: WriteContext,
  params: WriteParams<W>,
  body: WriteBody<W>
) => Result.Result<WriteResult, ApiError>

/** Of a write that answers an empty object. */
export const emptyResult = (row: Row, warnings: ReadonlyArray<string> = []): WriteResult => ({
  row,
  data: {},
  warnings
})

export class WriteContext {
  readonly records: Records
  /** Server time, ms. */
  readonly at: number

  constructor(records: Records, at: number) {
    this.records = records
    this.at = at
  }

  /** Named by the path: 404 if there is none. */
  requireFromPath(model: WorldModel, id: string): Result.Result<Row, ApiError> {
    const row = this.find(model, id)
    return row === undefined ? Result.fail(notFound(`There is no ${nounOf(model)} with this id.`)) : Result.succeed(row)
  }

  /** Named by a field of the body: 400 if there is none. */
  requireFromBody(model: WorldModel, id: string, field: string): Result.Result<Row, ApiError> {
    const row = this.find(model, id)
    return row === undefined
      ? Result.fail(invalidInput(`${field}: there is no ${nounOf(model)} with this id.`))
      : Result.succeed(row)
  }

  find(model: WorldModel, id: string): Row | undefined {
    const row = this.records.find(model, id)
    return row && isLive(row) ? row : undefined
  }

  /** Live records of a model. */
  liveRows(model: WorldModel): ReadonlyArray<Row> {
    return this.records.rows(model).filter(isLive)
  }

  /** Sets properties, unless they are as they should be already: a write that is sent again changes nothing. */
  updateIfChanged(row: Row, fields: Readonly<Record<string, Json>>): Row {
    const differs = Object.entries(fields).some(([name, value]) =>
      JSON.stringify(row.fields[name]) !== JSON.stringify(value)
    )
    return differs ? this.records.change(row, this.at, fields) : row
  }
}

const nounOf = (model: WorldModel): string => model.slice(model.indexOf(".") + 1).replaceAll("_", " ")
