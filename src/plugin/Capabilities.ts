/**
 * The services that a handler may use. Each attempt gets its own instances, so dry runs, tests and replays provide other layers.
 *
 * Invariants
 * 1. An attempt that no longer owns its delivery writes nothing   (X16)
 * 2. A write whose outcome is unknown is repeated only if repeating it is safe, or if the handler has declared that it is   (L5)
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { HttpClient } from "effect/http/HttpClient"
import type * as Schema from "effect/Schema"
import type { EmployeeForm } from "../api/Forms.ts"
import type { ProficiencyScale } from "../api/Proficiency.ts"
import type { readSchemas } from "../api/Reads.ts"
import type { ToolCategory } from "../api/Tools.ts"
import type { Empty, WriteBody, WriteData, WriteName, WriteParams, writeSchemas } from "../api/Writes.ts"
import type { BuiltInModel, ReadModel } from "../domain/BuiltInModels.ts"
import type { AnyList, AnyListTrigger } from "../domain/DefinedList.ts"
import type { OneOf, RecordIn, RecordOf, Trigger } from "./Event.ts"
import type { HandlerError } from "./Failure.ts"

/**
 * How to handle a write that was sent and whose outcome is unknown. `repeat`: send it again. `verify`: read the API to find
 * out whether it took effect. `deadLetter`: stop, so that an operator decides.
 */
export type OnUnknown = "repeat" | "verify" | "deadLetter"

/** Options of a write: the form or scale against which it is checked before it is sent, in addition to its schema, and `onUnknown`. */
export type WriteOptions<W extends WriteName> =
  & { readonly onUnknown?: OnUnknown }
  & (W extends "createEmployee" ? { readonly form?: EmployeeForm }
    : W extends "rateSkill" | "expectSkill" ? { readonly scale?: ProficiencyScale }
    : unknown)

type IdOf<W extends WriteName> = keyof WriteParams<W> extends never ? [] : [id: string]
type BodyOf<W extends WriteName> = (typeof writeSchemas)[W]["body"] extends typeof Empty ? [] : [body: WriteBody<W>]

/** Arguments of a write: the id in its path, if it has one, then its body, if it has one: `addTag(candidateId, { tag: { name } })`. */
export type Writes = {
  readonly [W in WriteName]: (
    ...request: [...id: IdOf<W>, ...body: BodyOf<W>, options?: WriteOptions<W>]
  ) => Effect.Effect<WriteData<W>, HandlerError>
}

type ReadResult<R extends keyof typeof readSchemas> = (typeof readSchemas)[R]["Type"]

/** Reads that send a request to the API. */
export interface Reads {
  readonly attachments: (applicationId: string) => Effect.Effect<ReadResult<"attachments">, HandlerError>
  readonly employeeForm: (staffingEntityId?: string) => Effect.Effect<EmployeeForm, HandlerError>
  readonly assessmentPackages: () => Effect.Effect<ReadResult<"assessmentPackages">, HandlerError>
  readonly tools: (category: ToolCategory) => Effect.Effect<ReadResult<"tools">, HandlerError>
  /** The record's current state, requested from the API; null if the API does not return it. */
  readonly live: <M extends ReadModel | AnyList>(
    model: M,
    id: string
  ) => Effect.Effect<RecordIn<M> | null, HandlerError>
}

/** The twelve writes and the live reads, of one integration. */
export interface UnifiedApi extends Writes, Reads {
  readonly integration: string
}

/** The API of the event's integration or, with `for`, of another one: a hire is in an ATS, the employee form in an HRIS. */
export class Api extends Context.Service<Api, UnifiedApi & { readonly for: (integration: string) => UnifiedApi }>()(
  "rollcall/plugin/Api"
) {
  static for(integration: string): Effect.Effect<UnifiedApi, never, Api> {
    return Effect.map(Api, (api) => api.for(integration))
  }
}

/** The stored snapshots, by default of the event's integration. Reading them sends no request. */
export class Records extends Context.Service<Records, {
  /** The record as last published; null if it is unknown or deleted. */
  readonly get: <M extends BuiltInModel | AnyList>(
    model: M,
    id: string,
    integration?: string
  ) => Effect.Effect<RecordIn<M> | null, HandlerError>
  /** The candidate's applications as last published, without deleted ones; at most 50. */
  readonly applicationsOf: (
    candidateId: string,
    integration?: string
  ) => Effect.Effect<ReadonlyArray<RecordOf<"ats.application">>, HandlerError>
}>()("rollcall/plugin/Records") {
  static get<M extends BuiltInModel | AnyList>(
    model: M,
    id: string,
    integration?: string
  ): Effect.Effect<RecordIn<M> | null, HandlerError, Records> {
    return Effect.flatMap(Records, (records) => records.get(model, id, integration))
  }
  static applicationsOf(
    candidateId: string,
    integration?: string
  ): Effect.Effect<ReadonlyArray<RecordOf<"ats.application">>, HandlerError, Records> {
    return Effect.flatMap(Records, (records) => records.applicationsOf(candidateId, integration))
  }
}

/** The event log of the event's integration. */
export class Events extends Context.Service<Events, {
  /** The events after position `from`, up to and including position `to`, in order. */
  readonly between: <const T extends Trigger | AnyListTrigger>(
    trigger: T,
    from: string,
    to: string
  ) => Effect.Effect<ReadonlyArray<OneOf<T>>, HandlerError>
}>()("rollcall/plugin/Events") {
  static between<const T extends Trigger | AnyListTrigger>(
    trigger: T,
    from: string,
    to: string
  ): Effect.Effect<ReadonlyArray<OneOf<T>>, HandlerError, Events> {
    return Effect.flatMap(Events, (events) => events.between(trigger, from, to))
  }
}

export interface StepOptions {
  /**
   * How to handle a step that started but has no result, because the process died or the attempt timed out. (A step that
   * failed is handled according to its failure.) The default, `repeat`, runs it again: its `Api` writes are recorded
   * separately and are not repeated. Use `deadLetter` if the step has another effect that must not happen twice and cannot be verified.
   */
  readonly onUnknown?: "repeat" | "deadLetter"
}

/** Runs `effect`, or returns the stored result if the step already has one. */
type Step<Needed = never> = <A, I, E, R>(
  step: string,
  schema: Schema.Codec<A, I>,
  effect: Effect.Effect<A, E, R>,
  options?: StepOptions
) => Effect.Effect<A, E | HandlerError, R | Needed>

/** Step results, which survive retries, redrives and replays. Step names are unique within a handler. */
export class Journal extends Context.Service<Journal, {
  /** Runs the step once for this event (or batch, or tick). */
  readonly once: Step
  /** Runs the step only once, ever, per handler, integration, model and record of the event   (T1, L6). */
  readonly oncePerRecord: Step
}>()("rollcall/plugin/Journal") {
  static readonly once: Step<Journal> = (...step) => Effect.flatMap(Journal, (journal) => journal.once(...step))
  static readonly oncePerRecord: Step<Journal> = (...step) =>
    Effect.flatMap(Journal, (journal) => journal.oncePerRecord(...step))
}

/** A handler that needs any other service does not compile. `HttpClient` stops with the attempt, like `Api`. */
export type Capabilities = Api | Records | Events | Journal | HttpClient

/** The effect of a handler: it succeeds, or fails in one of the four ways. */
export type HandlerEffect = Effect.Effect<void, HandlerError, Capabilities>
