/**
 * Lists of the API that the configuration defines. Each becomes an entry like those of the built-in models.
 *
 * Gotchas
 * - The API returns records without some fields, and with null for others. So every field of a schema except `id` is optional and may be
 *   null, whatever the definition says.
 */
import * as Schema from "effect/Schema"
import { type ListEntry, listEntry, type Model, openSchema, type RecordSchema, titleOf } from "./Model.ts"

export type RecordFields = Schema.Struct.Fields

/** How a list is read, and what its records contain. Only the path is required. */
export interface ListDefinition<F extends RecordFields = RecordFields, T extends string = string> {
  /** Path relative to the base URL, such as `/hris/employees`. */
  readonly path: string
  /** The fields that are known. Records keep all other fields too. Default: a record has an id, and any fields. */
  readonly schema?: Schema.Struct<F>
  /**
   * The paths at which a record repeats content of another record, with dots between the names. When the content of a record of a kind
   * changes in one place, the other records that repeat it are read again. Without references, sweeps find such changes.
   */
  readonly references?: ReadonlyArray<{
    readonly path: string
    /** A name for the records that are repeated, such as `employee`: equal kind and id mean the same record. */
    readonly kind: string
    /** The properties that every copy of this kind has. */
    readonly shared: ReadonlyArray<string>
  }>
  /** Business steps by name. `becomes`: the values that the property gets; without it, every new value is the step. */
  readonly transitions?: { readonly [name in T]: { readonly path: string; readonly becomes?: ReadonlyArray<string> } }
  /** Names of arrays without ids whose order has no meaning. */
  readonly unordered?: ReadonlyArray<string>
}

/** A list of the API as a model, such as `hris.employee`. */
export interface DefinedList<
  M extends Model = Model,
  F extends RecordFields = RecordFields,
  T extends string = string
> {
  readonly model: M
  readonly definition: ListDefinition<F, T>
}

/** Defines a list of the API as the model `model`: `<category>.<name>`. List the result in `lists` of the configuration. */
export const defineList = <
  const M extends Model,
  const F extends RecordFields = RecordFields,
  const T extends string = never
>(model: M, definition: ListDefinition<F, T>): DefinedList<M, F, T> => ({ model, definition })

export const isDefinedList = (value: unknown): value is DefinedList =>
  typeof value === "object" && value !== null && "model" in value && typeof value.model === "string" &&
  "definition" in value && typeof value.definition === "object" && value.definition !== null

const schemaOf = ({ definition: { schema }, model }: DefinedList): RecordSchema => {
  if (schema === undefined) return openSchema(model)
  const fields = Object.entries(schema.fields).map(([name, field]) =>
    [name, Schema.optional(Schema.NullOr(field as Schema.Codec<unknown, unknown>))] as const
  )
  return Schema.Struct({ ...Object.fromEntries(fields), id: Schema.String }).annotate({ identifier: titleOf(model) })
}

const segmentsOf = (path: string): ReadonlyArray<string> => path.split(".")

export const entryOf = (list: DefinedList): ListEntry => {
  const { path, references = [], transitions = {}, unordered = [] } = list.definition
  return listEntry({
    model: list.model,
    path,
    nested: references.map(({ kind, path, shared }) => ({ path: segmentsOf(path), kind, shared })),
    unordered,
    transitions: Object.entries(transitions).map(([name, { becomes, path }]) => ({
      name,
      path: segmentsOf(path),
      when: becomes ?? "set"
    })),
    schema: schemaOf(list)
  })
}
