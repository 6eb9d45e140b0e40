/**
 * Lists of the API that the configuration defines. Each becomes an entry like those of the built-in models.
 *
 * Gotchas
 * - The API returns records without some fields, and with null for others. So every field of a schema except `id` is optional and may be
 *   null, whatever the definition says.
 */
import * as Schema from "effect/Schema"
import { builtInModels } from "./BuiltInModels.ts"
import {
  type ListEntry,
  listEntry,
  makeModels,
  type Model,
  type Models,
  openSchema,
  type RecordSchema,
  titleOf
} from "./Model.ts"

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
    /**
     * A name for the records that are repeated, such as `employee`: equal kind and id mean the same record. The name of a list without its
     * category means the records of that list.
     */
    readonly kind: string
    /** The properties that every copy of this kind has. */
    readonly shared: ReadonlyArray<string>
  }>
  /** Business steps by name. `becomes`: the values that the property gets; without it, every new value is the step. */
  readonly transitions?: { readonly [name in T]: { readonly path: string; readonly becomes?: ReadonlyArray<string> } }
  /** Names of arrays without ids whose order has no meaning. */
  readonly unordered?: ReadonlyArray<string>
  /**
   * True if `updated_after` cannot be trusted: the list is never polled, and is read as a whole every ten intervals. Rollcall notices by
   * itself a list that ignores the filter, but not one that returns only a part of the changes.
   */
  readonly sweepOnly?: boolean
}

/** A record of a list as the API returns it: any field except `id` may be null or absent, and it may have further fields. */
export type ListRecord<F extends RecordFields> =
  & { readonly id: string }
  & { readonly [K in Exclude<keyof F, "id">]?: F[K]["Encoded"] | null }

/** An event of a list that a handler can receive: `step` is a kind, or the name of a transition. */
export interface ListTrigger<M extends Model, F extends RecordFields, T extends string, S extends string> {
  readonly list: DefinedList<M, F, T>
  readonly step: S
}

/** A list of the API as a model, such as `hris.employee`, and the events of its records. */
export interface DefinedList<
  M extends Model = Model,
  F extends RecordFields = RecordFields,
  T extends string = string
> {
  readonly model: M
  readonly definition: ListDefinition<F, T>
  readonly created: ListTrigger<M, F, T, "created">
  readonly updated: ListTrigger<M, F, T, "updated">
  readonly deleted: ListTrigger<M, F, T, "deleted">
  readonly transition: <const S extends T>(name: S) => ListTrigger<M, F, T, S>
}

/** Defines a list of the API as the model `model`: `<category>.<name>`. List the result in `lists` of the configuration. */
export const defineList = <
  const M extends Model,
  const F extends RecordFields = RecordFields,
  const T extends string = never
>(model: M, definition: ListDefinition<F, T>): DefinedList<M, F, T> => {
  const list: DefinedList<M, F, T> = {
    model,
    definition,
    get created() {
      return { list, step: "created" } as const
    },
    get updated() {
      return { list, step: "updated" } as const
    },
    get deleted() {
      return { list, step: "deleted" } as const
    },
    transition: (step) => ({ list, step })
  }
  return list
}

/** A list without the types of its records. */
export type AnyList = Pick<DefinedList, "model"> & {
  readonly definition: Omit<ListDefinition, "schema"> & { readonly schema?: object }
}

export const isDefinedList = (value: unknown): value is AnyList =>
  typeof value === "object" && value !== null && "model" in value && typeof value.model === "string" &&
  "definition" in value && typeof value.definition === "object" && value.definition !== null

const schemaOf = ({ definition, model }: AnyList, known: RecordSchema): RecordSchema => {
  const { schema } = definition as ListDefinition
  if (schema === undefined) return known
  const fields = Object.entries(schema.fields).map(([name, field]) =>
    [name, Schema.optional(Schema.NullOr(field as Schema.Codec<unknown, unknown>))] as const
  )
  return Schema.Struct({ ...Object.fromEntries(fields), id: Schema.String }).annotate({ identifier: titleOf(model) })
}

const segmentsOf = (path: string): ReadonlyArray<string> => path.split(".")

/** A list that replaces a derived model has the structure of its records, except for the parts that it defines itself. */
export const entryOf = (list: AnyList): ListEntry => {
  const { path, references, sweepOnly = false, transitions = {}, unordered } = list.definition
  const { nested, schema, unordered: knownUnordered } = builtInModels.derivedOf(list.model) ??
    { nested: [], unordered: [], schema: openSchema(list.model) }
  return listEntry({
    model: list.model,
    ...sweepOnly ? { sweepOnly } : {},
    path,
    nested: references?.map(({ kind, path, shared }) => ({ path: segmentsOf(path), kind, shared })) ?? nested,
    unordered: unordered ?? knownUnordered,
    transitions: Object.entries(transitions).map(([name, { becomes, path }]) => ({
      name,
      path: segmentsOf(path),
      when: becomes ?? "set"
    })),
    schema: schemaOf(list, schema)
  })
}

/** A trigger of a list without the types of its records. */
export interface AnyListTrigger {
  readonly list: AnyList
  readonly step: string
}

export const isListTrigger = (value: unknown): value is AnyListTrigger =>
  typeof value === "object" && value !== null && "list" in value && isDefinedList(value.list) &&
  "step" in value && typeof value.step === "string"

/** The name of a trigger: `hris.employee.created` for `employees.created`. */
export const nameOfTrigger = (of: string | AnyListTrigger): string =>
  typeof of === "string" ? of : `${of.list.model}.${of.step}`

/** The name of a model, or of a defined list. */
export const nameOfModel = (of: Model | AnyList): Model => typeof of === "string" ? of : of.model

/** The built-in models and these lists. */
export const withLists = (lists: ReadonlyArray<AnyList>): Models =>
  lists.length === 0 ? builtInModels : makeModels([...builtInModels.entries, ...lists.map(entryOf)])
