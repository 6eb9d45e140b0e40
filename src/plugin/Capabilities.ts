/**
 * All that a handler may touch, as services: each is handed out per attempt, so dry run, tests and replay are other layers.
 *
 * Invariants
 * 1. Nothing here writes for an attempt that is no longer the delivery's   (X16)
 * 2. A write whose outcome is unknown is never repeated unless that is safe, or was declared so   (L5)
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
import type { Model, StreamModel } from "../domain/Model.ts"
import type { EventOf, RecordOf, Trigger } from "./Event.ts"
import type { HandlerError } from "./Failure.ts"

/**
 * What is done about a write that was sent and of which nobody knows whether it took effect. `repeat`: it is sent again.
 * `verify`: the API is read to find out whether it did. `deadLetter`: a person decides.
 */
export type OnUnknown = "repeat" | "verify" | "deadLetter"

/** What a write is checked against before it is sent, beside its schema; and what is done if its outcome is unknown. */
export type WriteOptions<W extends WriteName> =
  & { readonly onUnknown?: OnUnknown }
  & (W extends "createEmployee" ? { readonly form?: EmployeeForm }
    : W extends "rateSkill" | "expectSkill" ? { readonly scale?: ProficiencyScale }
    : unknown)

type IdOf<W extends WriteName> = keyof WriteParams<W> extends never ? [] : [id: string]
type BodyOf<W extends WriteName> = (typeof writeSchemas)[W]["body"] extends typeof Empty ? [] : [body: WriteBody<W>]

/** `addTag(candidateId, { name })`: the id in the path, if there is one, then the body, if there is one. */
export type Writes = {
  readonly [W in WriteName]: (
    ...request: [...id: IdOf<W>, ...body: BodyOf<W>, options?: WriteOptions<W>]
  ) => Effect.Effect<WriteData<W>, HandlerError>
}

type ReadResult<R extends keyof typeof readSchemas> = (typeof readSchemas)[R]["Type"]

/** Asks the API, now. */
export interface Reads {
  readonly attachments: (applicationId: string) => Effect.Effect<ReadResult<"attachments">, HandlerError>
  readonly employeeForm: (staffingEntityId?: string) => Effect.Effect<EmployeeForm, HandlerError>
  readonly assessmentPackages: () => Effect.Effect<ReadResult<"assessmentPackages">, HandlerError>
  readonly tools: (category: ToolCategory) => Effect.Effect<ReadResult<"tools">, HandlerError>
  /** One record as it is now; null if the API does not show it. */
  readonly live: <M extends StreamModel>(model: M, id: string) => Effect.Effect<RecordOf<M> | null, HandlerError>
}

/** The twelve writes and the live reads, of one integration. */
export interface UnifiedApi extends Writes, Reads {
  readonly integration: string
}

/** The API, of the event's own integration or of another one: a hire is in an ATS, the employee form in an HRIS. */
export class Api extends Context.Service<Api, UnifiedApi & { readonly for: (integration: string) => UnifiedApi }>()(
  "rollcall/plugin/Api"
) {
  static for(integration: string): Effect.Effect<UnifiedApi, never, Api> {
    return Effect.map(Api, (api) => api.for(integration))
  }
}

/** Our own snapshots, of the event's own integration unless told: reading them costs no request. */
export class Records extends Context.Service<Records, {
  /** As last published; null if it is not known, or deleted. */
  readonly get: <M extends Model>(
    model: M,
    id: string,
    integration?: string
  ) => Effect.Effect<RecordOf<M> | null, HandlerError>
  /** The applications that show a candidate, as last published, deleted ones left out; at most fifty. */
  readonly applicationsOf: (
    candidateId: string,
    integration?: string
  ) => Effect.Effect<ReadonlyArray<RecordOf<"ats.application">>, HandlerError>
}>()("rollcall/plugin/Records") {
  static get<M extends Model>(
    model: M,
    id: string,
    integration?: string
  ): Effect.Effect<RecordOf<M> | null, HandlerError, Records> {
    return Effect.flatMap(Records, (records) => records.get(model, id, integration))
  }
  static applicationsOf(
    candidateId: string,
    integration?: string
  ): Effect.Effect<ReadonlyArray<RecordOf<"ats.application">>, HandlerError, Records> {
    return Effect.flatMap(Records, (records) => records.applicationsOf(candidateId, integration))
  }
}

/** The event log, of the event's own integration. */
export class Events extends Context.Service<Events, {
  /** What happened behind one position up to another, in order. */
  readonly between: <T extends Trigger>(
    trigger: T,
    from: string,
    to: string
  ) => Effect.Effect<ReadonlyArray<EventOf<T>>, HandlerError>
}>()("rollcall/plugin/Events") {
  static between<T extends Trigger>(
    trigger: T,
    from: string,
    to: string
  ): Effect.Effect<ReadonlyArray<EventOf<T>>, HandlerError, Events> {
    return Effect.flatMap(Events, (events) => events.between(trigger, from, to))
  }
}

export interface StepOptions {
  /**
   * Of a step that was begun and has no result, because the process died or its time was up; one that failed says itself
   * what is to be done. By default `repeat`: what it did with `Api` is known by itself; declare `deadLetter` for what must
   * not be done twice and can be told by nobody.
   */
  readonly onUnknown?: "repeat" | "deadLetter"
}

/** Runs `effect` unless it has a result already: that one is given then. */
type Step<Needed = never> = <A, I, E, R>(
  step: string,
  schema: Schema.Codec<A, I>,
  effect: Effect.Effect<A, E, R>,
  options?: StepOptions
) => Effect.Effect<A, E | HandlerError, R | Needed>

/** Results of steps, kept over retries, redrives and replays. Names are unique within a handler. */
export class Journal extends Context.Service<Journal, {
  /** Once for this event (or batch, or tick). */
  readonly once: Step
  /** Once for ever per handler, integration, model and record of the event   (T1, L6). */
  readonly oncePerRecord: Step
}>()("rollcall/plugin/Journal") {
  static readonly once: Step<Journal> = (...step) => Effect.flatMap(Journal, (journal) => journal.once(...step))
  static readonly oncePerRecord: Step<Journal> = (...step) =>
    Effect.flatMap(Journal, (journal) => journal.oncePerRecord(...step))
}

/** Anything else is a compile error. `HttpClient` is fenced like `Api`. */
export type Capabilities = Api | Records | Events | Journal | HttpClient

/** What a handler is: it did what it had to, or failed in one of three ways. */
export type HandlerEffect = Effect.Effect<void, HandlerError, Capabilities>
