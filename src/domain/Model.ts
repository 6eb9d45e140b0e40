/**
 * What Rollcall knows about each kind of record, as data: the entries of models, and the immutable value `Models` that joins them. The
 * built-in entries are in `BuiltInModels.ts`; a list that the configuration defines is an entry of the same kind.
 *
 * Gotchas
 * - Ids are unique within a model, not across models, so every key contains integration, model and id.
 */
import * as Schema from "effect/Schema"
import type { Propagation } from "../api/Lists.ts"

/** The name of a model, such as `hris.payslip`: its category, a point, and its name in the category. */
export type Model = `${string}.${string}`

/** Lower-case letters, digits and underscores: a name is a part of topics, of metrics and of paths. */
const modelName = /^(?=.{3,64}$)[a-z][a-z0-9]*\.[a-z][a-z0-9_]*$/
export const isModelName = (name: string): name is Model => modelName.test(name)
/** Any valid name, whether this process knows the model or not. */
export const ModelName: Schema.Codec<Model> = Schema.TemplateLiteral([Schema.String, ".", Schema.String]).check(
  Schema.makeFilter(isModelName, { expected: "the name of a model" })
)

/** A business step, such as `hired`, that is recognized by a change of one property. */
export interface TransitionRule {
  readonly name: string
  /** Property names that lead to the value. */
  readonly path: ReadonlyArray<string>
  /**
   * A list: the value becomes one of the listed values and was none of them before. `set`: the property gets a different value, even if
   * it had none before. `moves`: like `set`, but the first value of the property is not a transition.
   */
  readonly when: ReadonlyArray<string> | "set" | "moves"
}

/** A kind of record that other records embed. Within an integration, equal kind and id mean the same record. */
export interface NestedKind {
  readonly kind: string
  /** The properties that every embedded copy of this kind has. */
  readonly shared: ReadonlyArray<string>
}

/** A path at which a record embeds another record's content. */
export interface NestedReference extends NestedKind {
  /** Property names. If a property is an array, the path continues in each member. */
  readonly path: ReadonlyArray<string>
}

/** The structure of a model's records, whether the model is read or derived. */
export interface RecordEntry {
  readonly model: Model
  readonly nested: ReadonlyArray<NestedReference>
  /** Names of arrays without ids whose order has no meaning; their members are compared by content. */
  readonly unordered: ReadonlyArray<string>
  readonly transitions: ReadonlyArray<TransitionRule>
  readonly schema: RecordSchema
}
export type RecordSchema = Schema.Codec<unknown, unknown>

/** A schema of records about which only the id is known. */
export const openSchema = (model: Model): RecordSchema =>
  Schema.Struct({ id: Schema.String }).annotate({ identifier: titleOf(model) })

/** `hris.work_location` → `HrisWorkLocation`: the name of the type of the records. */
export const titleOf = (model: Model): string =>
  model.replaceAll(/(?:^|[._]+)([a-z0-9])/g, (_, first: string) => first.toUpperCase())

/** A model that is a list of the API. */
export interface ListEntry extends RecordEntry {
  /** True if the stream is never polled, because `updated_after` does not return the changes: every run is a sweep. */
  readonly sweepOnly?: true
  /** Path relative to the base URL. */
  readonly path: string
  readonly propagation: Readonly<Record<string, Propagation>>
  /** The kind under which the built-in models embed records of this model; null if they do not. */
  readonly self: NestedKind | null
  /**
   * Names that the tool catalog may use for the model besides its name and the end of its path, in snake case and without the category. The
   * contract does not define them.
   */
  readonly catalogNames: ReadonlyArray<string>
  /** True if the API only returns the list as a whole: it has no filters, pages, timestamps or requests by id. It is `sweepOnly` too. */
  readonly unpaged?: true
}

/** The kinds under which other records embed records of the list: the built-in one, and the name of the model without its category. */
export const kindsOf = ({ model, self }: ListEntry): ReadonlyArray<string> => [
  ...new Set([model.slice(model.indexOf(".") + 1), ...self === null ? [] : [self.kind]])
]

/** A derived model has no list: each of its records is the value of `property` in a record of model `from`. */
export interface DerivedEntry extends RecordEntry {
  readonly from: Model
  readonly property: string
}

/**
 * An entry without the details that are not given. The order of the properties is part of the processing fingerprint (`Processing.ts`): a
 * different order would make every stored fingerprint outdated.
 */
export const listEntry = (
  { model, path, propagation = {}, schema, sweepOnly, unpaged, ...details }:
    & Pick<ListEntry, "model" | "path" | "schema">
    & Partial<ListEntry>
): ListEntry => ({
  model,
  ...sweepOnly === true ? { sweepOnly } : {},
  path,
  propagation,
  self: details.self ?? null,
  nested: details.nested ?? [],
  unordered: details.unordered ?? [],
  transitions: details.transitions ?? [],
  catalogNames: details.catalogNames ?? [],
  schema,
  ...unpaged === true ? { unpaged } : {}
})

/** The details of an entry that determine hashes and stored content. */
export const identityOf = (entry: RecordEntry): object =>
  Object.fromEntries(Object.entries(entry).filter(([name]) => !["schema", "catalogNames", "unpaged"].includes(name)))

// ---- all models ---------------------------------------------------------------------------------------------------

/** The models that this process knows. */
export interface Models {
  readonly entries: ReadonlyArray<RecordEntry>
  readonly names: ReadonlyArray<Model>
  /** The models that are lists of the API, in the order of their names. */
  readonly read: ReadonlyArray<Model>
  readonly lists: ReadonlyArray<ListEntry>
  readonly derived: ReadonlyArray<DerivedEntry>
  /** The names of all transitions. */
  readonly transitionNames: ReadonlyArray<string>
  /** Undefined for a model that only the store knows: a later version, or another configuration, used it before. */
  readonly entryOf: (model: string) => RecordEntry | undefined
  readonly listOf: (model: string) => ListEntry | undefined
  /** The entry of a derived model; undefined if the model is not derived. */
  readonly derivedOf: (model: string) => DerivedEntry | undefined
}

/** Of several entries with one name, the last one counts: a defined list replaces the derivation of its model. */
export const makeModels = (all: ReadonlyArray<ListEntry | DerivedEntry | RecordEntry>): Models => {
  const byName = new Map<string, RecordEntry>(all.map((entry) => [entry.model, entry]))
  const entries = [...byName.values()]
  const lists = entries.filter((entry): entry is ListEntry => "path" in entry)
  const derived = entries.filter((entry): entry is DerivedEntry => "from" in entry)
  return {
    entries,
    names: entries.map(({ model }) => model),
    read: lists.map(({ model }) => model),
    lists,
    derived,
    transitionNames: [...new Set(entries.flatMap(({ transitions }) => transitions.map(({ name }) => name)))],
    entryOf: (model) => byName.get(model),
    listOf: (model) => lists.find((entry) => entry.model === model),
    derivedOf: (model) => derived.find((entry) => entry.model === model)
  }
}

/** The entry of a model; for a model that only the store knows, one that says nothing about its records. */
export const recordEntryOf = (models: Models, model: Model): RecordEntry =>
  models.entryOf(model) ?? { model, nested: [], unordered: [], transitions: [], schema: openSchema(model) }

/** These models, and those of a store that has been used with others. */
export const withStored = (models: Models, stored: ReadonlyArray<Model>): Models => {
  const others = [...new Set(stored)].filter((model) => models.entryOf(model) === undefined)
  return others.length === 0
    ? models
    : makeModels([...models.entries, ...others.map((model) => recordEntryOf(models, model))])
}

export const isModel = (models: Models, name: string): name is Model => models.entryOf(name) !== undefined

/** These models and the models derived from them. */
export const withDerived = (models: Models, read: ReadonlyArray<Model>): ReadonlyArray<Model> => [
  ...read,
  ...models.derived.filter(({ from }) => read.includes(from)).map(({ model }) => model)
]

/** The model among `chosen` that is derived from `source`, if there is one. */
export const derivedFrom = (models: Models, source: Model, chosen: ReadonlyArray<Model>): Model | undefined =>
  models.derived.find(({ from, model }) => from === source && chosen.includes(model))?.model

/** A table that is computed once for each value of `Models`. */
export const perModels = <A>(compute: (models: Models) => A): (models: Models) => A => {
  const known = new WeakMap<Models, A>()
  return (models) => {
    const found = known.get(models) ?? compute(models)
    known.set(models, found)
    return found
  }
}

// ---- streams ------------------------------------------------------------------------------------------------------

/** One model of one integration. */
export interface StreamKey {
  readonly integration: string
  readonly model: Model
}
/** A stream's name in logs, metrics and progress keys, such as `greenhouse:acme/ats.application`. */
export const streamName = (key: StreamKey): string => `${key.integration}/${key.model}`
