/**
 * Types of the events that handlers receive, derived from the trigger: its model, kind and transition.
 *
 * Gotchas
 * - A record is typed as the API returns it: any field except `id` may be null or absent, and an enumeration may have unknown values.
 */
import type { modelSchemas } from "../api/ModelSchemas.ts"
import type { BuiltInModel, TransitionName } from "../domain/BuiltInModels.ts"
import type { JsonValue } from "../domain/Canonical.ts"
import type { DeleteReason, Kind, Origin } from "../domain/ChangeEvent.ts"
import type { AnyListTrigger, DefinedList, ListRecord, ListTrigger, RecordFields } from "../domain/DefinedList.ts"
import type { Cause } from "../domain/Echo.ts"
import type { Model } from "../domain/Model.ts"

export type { Cause }

/** A record of a model, as the API returns it. */
export type RecordOf<M extends Model> = M extends BuiltInModel ? (typeof modelSchemas)[M]["Type"] : OpenRecord

/** A record of a built-in model, or of a defined list. */
export type RecordIn<M> = M extends BuiltInModel ? RecordOf<M>
  : M extends DefinedList<infer _M, infer F, infer _T> ? ListRecord<F>
  : OpenRecord

/** A record without a schema. */
export interface OpenRecord {
  readonly id: string
  readonly [property: string]: JsonValue
}

/** `ats.application.updated`, or a transition: `ats.application.hired`. */
export type Trigger = { [M in BuiltInModel]: `${M}.${Kind | TransitionName<M>}` }[BuiltInModel]

type FirstLetter<S extends string> = S extends `${infer First}${string}` ? First : ""
type FirstFound<Sets extends ReadonlyArray<string>> = Sets extends
  readonly [infer Found extends string, ...infer Others extends ReadonlyArray<string>]
  ? [Found] extends [never] ? FirstFound<Others> : Found
  : never
/** The triggers that resemble a misspelled one: the right model and the first letter of the end, or the right end and the first letter of the model. */
export type Resembling<T extends string> = T extends `${infer Category}.${infer Name}.${infer End}` ? FirstFound<[
    Extract<Trigger, `${Category}.${Name}.${FirstLetter<End>}${string}`>,
    Extract<Trigger, `${Category}.${Name}.${string}`>,
    Extract<Trigger, `${string}.${FirstLetter<Name>}${string}.${End}`>,
    Trigger
  ]>
  : Trigger
/** The trigger, or the triggers that it resembles if it is unknown: the compiler's message then names these. */
export type CheckedTrigger<T extends string> = T extends Trigger ? T : Resembling<T>
export type KnownTrigger<T extends string> = Extract<T, Trigger>
export type ModelOf<T extends Trigger> = {
  [M in BuiltInModel]: T extends `${M}.${Kind | TransitionName<M>}` ? M : never
}[BuiltInModel]
/** Properties that never count as changed: two contents that differ only in them are the same content. */
type Unchanging = "id" | "changed_at" | "remote_updated_at"
/** The properties whose changes an update can be about. */
export type PropertyOf<T extends Trigger> = Exclude<Extract<keyof RecordOf<ModelOf<T>>, string>, Unchanging>

/** One difference. `path` is a JSON Pointer in which an array member that has an id is named by that id, not by its index. */
export interface Change {
  readonly path: string
  readonly before?: JsonValue
  readonly after?: JsonValue
}

/** The fields of every event, except the content of its record. */
export interface Envelope<M extends Model> {
  /** Id of the event. The same change always has the same id, even when it is delivered again. */
  readonly id: string
  readonly model: M
  /** `<tool>:<identifier>` */
  readonly integration: string
  readonly recordId: string
  readonly remoteId: string | null
  /** Events of a record are ordered by (generation, version). */
  readonly generation: number
  readonly version: number
  readonly kind: Kind
  readonly origin: Origin
  readonly changes: ReadonlyArray<Change>
  /** Why the record was published as deleted; null for other events. */
  readonly reason: DeleteReason | null
  /** Whether the record was created again after it was deleted. */
  readonly restored: boolean
  /** `changed_at` as the API returns it. */
  readonly changedAt: string | null
  readonly detectedAt: Date
  readonly cause: Cause | null
  /** Position in the event log. */
  readonly position: string
}

export interface Created<R> {
  readonly kind: "created"
  readonly before: null
  readonly after: R
}
export interface Deleted<R> {
  readonly kind: "deleted"
  /** Null if the reason is `forgotten`: an operator had the record removed, so its content no longer exists. */
  readonly before: R | null
  readonly after: null
}
export interface Updated<R, P extends string> {
  readonly kind: "updated"
  readonly before: R
  readonly after: R
  /** The top-level properties that changed, each with its whole value before and after. */
  readonly change: {
    readonly [K in Extract<keyof R, string>]?: {
      readonly before: R[K] | undefined
      readonly after: R[K] | undefined
    }
  }
  /** Names of the changed properties; only those listed in the handler's `changed` option, if it has one. */
  readonly changed: ReadonlyArray<P>
}
/** A transition can also happen on a `created` event; `before` is then null. */
export interface Transitioned<R, N extends string> {
  readonly kind: "created" | "updated"
  readonly before: R | null
  readonly after: R
  readonly transition: { readonly name: N; readonly from: string | null; readonly to: string | null }
}

/** The event that a handler of trigger `T` receives; `P`: the properties in its `changed` option. */
export type EventOf<T extends Trigger, P extends string = never> =
  & Omit<Envelope<ModelOf<T>>, "kind">
  & (T extends `${string}.created` ? Created<RecordOf<ModelOf<T>>>
    : T extends `${string}.deleted` ? Deleted<RecordOf<ModelOf<T>>>
    : T extends `${string}.updated` ? Updated<RecordOf<ModelOf<T>>, [P] extends [never] ? PropertyOf<T> : P>
    : Transitioned<RecordOf<ModelOf<T>>, TransitionName<ModelOf<T>>>)

/** The properties of a list's records whose changes an update can be about. */
export type ListPropertyOf<F extends RecordFields> = Exclude<Extract<keyof F, string>, Unchanging>

/** The event that a handler of a list's trigger receives; `S`: a kind, or a transition. */
export type ListEventOf<M extends Model, F extends RecordFields, S extends string, P extends string = never> =
  & Omit<Envelope<M>, "kind">
  & (S extends "created" ? Created<ListRecord<F>>
    : S extends "deleted" ? Deleted<ListRecord<F>>
    : S extends "updated" ? Updated<ListRecord<F>, [P] extends [never] ? ListPropertyOf<F> : P>
    : Transitioned<ListRecord<F>, S>)

/** The event that a handler of several triggers receives: the event of the trigger that matched. */
export type OneOf<T extends Trigger | AnyListTrigger, P extends string = never> = T extends Trigger ? EventOf<T, P>
  : T extends ListTrigger<infer M, infer F, infer _T, infer S> ? ListEventOf<M, F, S, P>
  : never

/** The properties whose changes the updates among several triggers can be about. */
export type UpdatedPropertyOf<T extends Trigger | AnyListTrigger> = T extends Trigger
  ? T extends `${string}.updated` ? PropertyOf<T> : never
  : T extends ListTrigger<infer _M, infer F, infer _T, "updated"> ? ListPropertyOf<F>
  : never

/** An event of any trigger. */
export type AnyEvent = OneOf<Trigger>

/** An event of a defined list whose type is not known. */
export type AnyListEvent = Omit<Envelope<Model>, "kind"> & {
  readonly kind: Kind
  readonly before: { readonly id: string } | null
  readonly after: { readonly id: string } | null
}
