/** Schemas that several responses and queries of the operating API share. */
import * as Schema from "effect/Schema"
import { modelNames } from "../domain/Model.ts"
import { formatTime } from "../domain/Watermark.ts"

export const Model = Schema.Literals(modelNames)
export const Limit = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: 1000 }))
/** An id that the store assigns. */
export const PositiveInt = Schema.FiniteFromString.check(
  Schema.isInt(),
  Schema.isBetween({ minimum: 1, maximum: 2 ** 31 - 1 })
)
export const Instant = Schema.NullOr(Schema.String).annotate({ description: "RFC 3339, UTC" })
export const DurationText = Schema.String.annotate({ description: "A number and a unit, such as `10 minutes`" })

export const page = <S extends Schema.Top>(item: S) =>
  Schema.Struct({ items: Schema.Array(item), next: Schema.NullOr(Schema.String) })

export const formatTimeOrNull = (millis: number | null | undefined): string | null =>
  millis === null || millis === undefined ? null : formatTime(millis)

/** A page of rows with ids; `next` is the last id if more rows may follow. */
export const pageOf = <A extends { readonly id: number }>(items: ReadonlyArray<A>, limit: number) => ({
  items,
  next: items.length < limit ? null : String(items.at(-1)?.id)
})
