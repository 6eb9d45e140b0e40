/** Schemas that several responses and queries of the operating API share. */
import * as Effect from "effect/Effect"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaGetter from "effect/SchemaGetter"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { type Model as AnyModel, ModelName, type Models } from "../../domain/Model.ts"
import { formatTime, parseInstant } from "../../domain/Watermark.ts"

/** The name of a model in a response: any valid one, because the store may have records of a list that is no longer defined. */
export const Model = ModelName.annotate({ identifier: "Model" })

type KnownNames = (models: Models) => ReadonlyArray<string>
/** The names that a value of a request can have. */
export const knownNamesOf = SchemaAST.resolveAt<KnownNames>("knownNames")

/** One of the names that this process knows. */
const known = <A extends string>(name: Schema.Codec<A, string>, knownNames: KnownNames) =>
  name.pipe(Schema.decode({
    decode: SchemaGetter.checkEffect((name: A) =>
      Effect.map(CurrentModels, (models) => {
        const names = knownNames(models)
        return names.includes(name) || `Expected ${names.map((one) => `"${one}"`).join(" | ")}`
      })
    ),
    encode: SchemaGetter.passthrough()
  })).annotate({ knownNames })

/** A model in a query, or in the path of a stream. */
export const KnownModel: Schema.Codec<AnyModel, string> = known(
  Schema.String.pipe(Schema.decodeTo(ModelName, {
    decode: SchemaGetter.transform((name: string) => name as AnyModel),
    encode: SchemaGetter.passthrough()
  })),
  ({ names }) => names
)
export const KnownTransition = known(Schema.String, ({ transitionNames }) => transitionNames)
export const Limit = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: 1000 }))
export const Kind = Schema.Literals(["created", "updated", "deleted"])

/**
 * The values of a query parameter, separated by commas or in repeated parameters; at least one. Repeated values are removed, because
 * the length of an SQL statement is limited.
 */
export const oneOrMore = <S extends Schema.Codec<string, string>>(item: S) =>
  Schema.Union([Schema.String, Schema.Array(Schema.String)]).pipe(
    Schema.decodeTo(Schema.Array(item).check(Schema.isMinLength(1)), {
      decode: SchemaGetter.transform((
        given: string | ReadonlyArray<string>
      ) => [...new Set([given].flat().flatMap((text) => text === "" ? [] : text.split(",")))]),
      encode: SchemaGetter.transform((items: ReadonlyArray<string>) => items.join(","))
    })
  )

/** A time in a request, as ms. */
export const Time = Schema.String.check(
  Schema.makeFilter((text: string) => parseInstant(text) !== null, {
    expected: "a time such as 2026-03-01T12:00:00Z (in a URL, a + is written %2B)"
  })
).pipe(
  Schema.decodeTo(Schema.Finite, {
    decode: SchemaGetter.transform((text: string) => parseInstant(text) ?? Number.NaN),
    encode: SchemaGetter.transform(formatTime)
  })
)

/** An id that the store assigns. */
export const PositiveInt = Schema.FiniteFromString.check(
  Schema.isInt(),
  Schema.isBetween({ minimum: 1, maximum: 2 ** 31 - 1 })
)
export const Instant = Schema.NullOr(Schema.String).annotate({ description: "RFC 3339, UTC" })
export const DurationText = Schema.String.annotate({ description: "A number and a unit, such as `10 minutes`" })

/** A page of a list; the OpenAPI document calls it like its items. */
export const page = <S extends Schema.Top>(item: S) =>
  Schema.Struct({ items: Schema.Array(item), next: Schema.NullOr(Schema.String) }).annotate({
    identifier: `${SchemaAST.resolveIdentifier(item.ast)}Page`
  })

export const formatTimeOrNull = (millis: number | null | undefined): string | null =>
  millis === null || millis === undefined ? null : formatTime(millis)

/** A page of rows with ids; `next` is the last id if more rows may follow. */
export const pageOf = <A extends { readonly id: number }>(items: ReadonlyArray<A>, limit: number) => ({
  items,
  next: items.length < limit ? null : String(items.at(-1)?.id)
})

/** Ids of deliveries, each once. */
export const IdRanges = Schema.Array(
  Schema.Struct({ first: Schema.Int, last: Schema.Int }).check(
    Schema.makeFilter(({ first, last }) => first <= last || "`last` must not be before `first`")
  )
).check(
  Schema.makeFilter((ranges) =>
    ranges.every(({ first }, index) => index === 0 || first > ranges[index - 1]!.last) ||
    "the ranges must ascend and not overlap"
  )
)

/** The name, the summary and the description of an endpoint in the OpenAPI document. */
export const words = (identifier: string, summary: string, description: string) =>
  OpenApi.annotations({ identifier, summary, description })
