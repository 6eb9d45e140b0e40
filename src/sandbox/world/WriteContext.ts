/**
 * One integration's records at one moment: finds the records that a write refers to.
 *
 * Gotchas
 * - Deleted records are not found: a write never changes them.
 */
import * as Data from "effect/Data"
import * as Result from "effect/Result"
import type { WriteBody, WriteName, WriteParams } from "../../api/Writes.ts"
import { type ApiError, invalidInput, notFound } from "./ApiError.ts"
import { isLive, type Json, type Records, type Row, type WorldModel } from "./Records.ts"

/** The result of a write. */
export interface WriteResult {
  /** The changed record; null if the write does not change a single record. */
  readonly row: Row | null
  /** The `data` of the response. */
  readonly data: { readonly [key: string]: Json }
  readonly warnings?: ReadonlyArray<string>
}

/** Validates the input against the records and performs the write. */
export type WriteHandler<W extends WriteName> = (
  context: WriteContext,
  params: WriteParams<W>,
  body: WriteBody<W>
) => Result.Result<WriteResult, ApiError>

/** The result of a write that responds with an empty object. */
export const emptyResult = (row: Row, warnings: ReadonlyArray<string> = []): WriteResult => ({
  row,
  data: {},
  warnings
})

export class WriteContext extends Data.Class<{
  readonly records: Records
  /** Server time, in ms. */
  readonly at: number
}> {
  /** A record that the path names; 404 if it does not exist. */
  requireFromPath(model: WorldModel, id: string): Result.Result<Row, ApiError> {
    return Result.fromNullishOr(this.find(model, id), () => notFound(`No ${nounOf(model)} has this id.`))
  }

  /** A record that a field of the body names; 400 if it does not exist. */
  requireFromBody(model: WorldModel, id: string, field: string): Result.Result<Row, ApiError> {
    return Result.fromNullishOr(
      this.find(model, id),
      () => invalidInput(`${field}: no ${nounOf(model)} has this id.`)
    )
  }

  private find(model: WorldModel, id: string): Row | undefined {
    const row = this.records.find(model, id)
    return row && isLive(row) ? row : undefined
  }

  /** Live records of a model. */
  liveRows(model: WorldModel): ReadonlyArray<Row> {
    return this.records.rows(model).filter(isLive)
  }

  /** Sets properties if they differ: repeating a write changes nothing. */
  updateIfChanged(row: Row, fields: Readonly<Record<string, Json>>): Row {
    const differs = Object.entries(fields).some(([name, value]) =>
      JSON.stringify(row.fields[name]) !== JSON.stringify(value)
    )
    return differs ? this.records.change(row, this.at, fields) : row
  }
}

const nounOf = (model: WorldModel): string => model.slice(model.indexOf(".") + 1).replaceAll("_", " ")
