/**
 * Events and records for tests, built from the few properties that matter to the test.
 *
 * Gotchas
 * - Kind, changes and transitions are derived from `before` and `after` as in the service. Contents that do not match the
 *   trigger are rejected.
 */
import { type BuiltInModel, builtInModels } from "../domain/BuiltInModels.ts"
import { isObject, type JsonObject, type JsonValue } from "../domain/Canonical.ts"
import {
  type DeleteReason,
  eventIdOf,
  genesis,
  type Json,
  type Kind,
  type LogEntry,
  type Origin
} from "../domain/ChangeEvent.ts"
import {
  type AnyList,
  type AnyListTrigger,
  type DefinedList,
  type ListRecord,
  type ListTrigger,
  nameOfTrigger,
  type RecordFields,
  withLists
} from "../domain/DefinedList.ts"
import { diff } from "../domain/Diff.ts"
import { type Model, type Models, type RecordEntry, recordEntryOf } from "../domain/Model.ts"
import { defaultProcessing } from "../domain/Processing.ts"
import { transitionsOf } from "../domain/Transition.ts"
import type {
  AnyEvent,
  AnyListEvent,
  Cause,
  EventOf,
  ListEventOf,
  ModelOf,
  RecordOf,
  Trigger
} from "../plugin/Event.ts"
import { eventFor, type PublishedEvent, unfiltered } from "../plugin/EventMatching.ts"
import {
  anything,
  type Checks,
  count,
  flag,
  issuesIn,
  name,
  object,
  oneOf,
  type PluginIssue
} from "../plugin/PropertyChecks.ts"
import { triggerIssues } from "../plugin/Validation.ts"

/** The integration of all events and records whose integration the test does not set. */
export const integration = "sandbox:test"

/** The properties that matter to the test; `id` defaults to `application-1`, `tag-1`, … */
export type RecordContent<M extends BuiltInModel> = Partial<RecordOf<M>>

export interface EventOverrides {
  readonly integration?: string
  /** `poll` by default. */
  readonly origin?: Origin
  /** Version of the record: 1, 2, 3 …; by default 1 for a created record, 2 for other events. */
  readonly version?: number
  /** `flagged` by default. */
  readonly reason?: DeleteReason
  readonly restored?: boolean
  /** 2026-01-01 by default. */
  readonly detectedAt?: Date
  /** The plugin write that caused the event; by default none. */
  readonly cause?: Cause
}

/** The record before and after the event. A property that only one of the two sets has the same value in the other. */
export type EventFixture<T extends Trigger> =
  & EventOverrides
  & (T extends `${string}.created` ? { readonly after?: RecordContent<ModelOf<T>> }
    : T extends `${string}.deleted` ? { readonly before?: RecordContent<ModelOf<T>> }
    : T extends `${string}.updated` ?
      { readonly before: RecordContent<ModelOf<T>>; readonly after: RecordContent<ModelOf<T>> }
    /** `before: null`: the transition happens in the record's first event. */
    : { readonly before?: RecordContent<ModelOf<T>> | null; readonly after?: RecordContent<ModelOf<T>> })

/** As `EventFixture`, for an event of a defined list. */
export type ListFixture<F extends RecordFields, S extends string> =
  & EventOverrides
  & (S extends "created" ? { readonly after?: Partial<ListRecord<F>> }
    : S extends "deleted" ? { readonly before?: Partial<ListRecord<F>> }
    : S extends "updated" ? { readonly before: Partial<ListRecord<F>>; readonly after: Partial<ListRecord<F>> }
    : { readonly before?: Partial<ListRecord<F>> | null; readonly after?: Partial<ListRecord<F>> })

type Loose = EventOverrides & { readonly before?: object | null; readonly after?: object }

const start = new Date("2026-01-01T00:00:00.000Z")

/** Reports mistakes that the compiler finds, because a test runner runs tests without compiling them. */
export const refuse = (issues: ReadonlyArray<PluginIssue>): void => {
  if (issues.length > 0) throw new Error(issues.map(({ hint, message }) => `${message}. ${hint}.`).join("\n"))
}

const eventProperties: Checks = {
  before: anything,
  after: object,
  integration: name,
  origin: anything,
  version: count,
  reason: anything,
  restored: flag,
  detectedAt: anything,
  cause: anything
}

const entryOfTrigger = (models: Models, trigger: string): RecordEntry =>
  recordEntryOf(models, trigger.slice(0, trigger.lastIndexOf(".")) as Model)

const isKind = (name: string): name is Kind => ["created", "updated", "deleted"].includes(name)

/** Converts to plain JSON, in which records arrive from the API. */
const json = (content: object): JsonObject => JSON.parse(JSON.stringify(content))

const textOf = (value: object | null | undefined): Json | null => value == null ? null : JSON.stringify(value)

const asObject = (value: JsonValue | undefined): JsonObject => isObject(value) ? value : {}

const withValue = (record: JsonObject, [name = "", ...rest]: ReadonlyArray<string>, value: JsonValue): JsonObject => ({
  ...record,
  [name]: rest.length === 0 ? value : withValue(asObject(record[name]), rest, value)
})
const has = (record: JsonObject, [name = "", ...rest]: ReadonlyArray<string>): boolean =>
  rest.length === 0 ? Object.hasOwn(record, name) : has(asObject(record[name]), rest)

interface Contents {
  readonly before: JsonObject | null
  readonly after: JsonObject | null
}

/** `name`: a kind, or the name of a transition. */
const contentsOf = ({ model, transitions }: RecordEntry, name: string, fixture: Loose): Contents => {
  const before = json(fixture.before ?? {})
  const after = json(fixture.after ?? {})
  const both: JsonObject = { id: `${model.split(".")[1]}-1`, ...before, ...after }
  if (name === "created") return { before: null, after: both }
  if (name === "deleted") return { before: both, after: null }
  const was: JsonObject = { ...both, ...before }
  const rule = transitions.find((transition) => transition.name === name)
  if (rule === undefined) return { before: was, after: both }
  // If the test does not set the property that the transition depends on, it goes from null to a value that triggers it.
  const { path, when } = rule
  return {
    before: fixture.before === null ? null : has(before, path) ? was : withValue(was, path, null),
    after: has(after, path) || typeof when === "string" ? both : withValue(both, path, when[0] ?? null)
  }
}

/** Builds an event as the event log would contain it. */
const buildEvent = (models: Models, trigger: string, fixture: Loose): PublishedEvent => {
  const entry = entryOfTrigger(models, trigger)
  const { model } = entry
  const name = trigger.slice(model.length + 1)
  const { after, before } = contentsOf(entry, name, fixture)
  const content: JsonObject = after ?? before ?? {}
  const kind = isKind(name) ? name : before === null ? "created" : "updated"
  const { shape } = defaultProcessing(model, models)
  const version = fixture.version ?? (kind === "created" ? 1 : 2)
  const origin = fixture.origin ?? "poll"
  const stream = { generation: 1, integration: fixture.integration ?? integration, model }
  const recordId = String(content["id"])
  return {
    id: eventIdOf(stream, recordId, version, kind, textOf(after)),
    model,
    integration: stream.integration,
    recordId,
    remoteId: typeof content["remote_id"] === "string" ? content["remote_id"] : null,
    generation: 1,
    version,
    kind,
    origin,
    // the content of a forgotten record no longer exists
    before: fixture.reason === "forgotten" ? null : before,
    after,
    changes: before === null || after === null ? [] : diff(shape, before, after),
    transitions: after === null || origin === "backfill" ? [] : transitionsOf(entry, before, after),
    reason: kind === "deleted" ? fixture.reason ?? "flagged" : fixture.reason ?? null,
    restored: fixture.restored ?? false,
    changedAt: typeof content["changed_at"] === "string" ? content["changed_at"] : null,
    detectedAt: fixture.detectedAt ?? start,
    cause: fixture.cause ?? null,
    position: "test-1-0",
    traceparent: null
  }
}

/** Converts an event from the form that a handler receives to a row of the event log. */
export const toLogEntry = (models: Models, event: AnyEvent | AnyListEvent, position: number): LogEntry => {
  const { generation, integration, kind, model, origin, reason, recordId, remoteId, restored, version } = event
  const [before, after] = [event.before, event.after].map((content) => content === null ? null : json(content))
  return {
    eventId: event.id,
    model,
    integration,
    id: recordId,
    remoteId,
    generation,
    version,
    kind,
    origin,
    reason,
    restored,
    before: textOf(before),
    after: textOf(after),
    changes: JSON.stringify(event.changes),
    transitions: JSON.stringify(
      after == null || origin === "backfill"
        ? []
        : transitionsOf(recordEntryOf(models, model), before ?? null, after)
    ),
    changedAt: event.changedAt,
    detectedAt: event.detectedAt.getTime(),
    cause: textOf(event.cause),
    position,
    chain: genesis,
    traceparent: null
  }
}

/**
 * An event of a trigger, as a handler receives it. `event("ats.application.hired", { after: { candidate_id: "c1" } })` is
 * enough: `outcome` goes from null to `HIRED`.
 */
export function event<M extends Model, F extends RecordFields, T extends string, S extends string>(
  trigger: ListTrigger<M, F, T, S>,
  fixture: ListFixture<F, S>
): ListEventOf<M, F, S>
export function event<const T extends Trigger>(trigger: T, fixture: EventFixture<T>): EventOf<T>
export function event(given: string | AnyListTrigger, fixture: Loose): object {
  const models = withLists(typeof given === "string" ? [] : [given.list])
  const trigger = nameOfTrigger(given)
  refuse([
    ...triggerIssues(models, "Testing.event", trigger),
    ...issuesIn("Testing.event", "the second argument", fixture, eventProperties)
  ])
  const published = buildEvent(models, trigger, fixture)
  if (published.kind === "updated" && published.changes.length === 0) {
    throw new Error(`an update must change something: "before" and "after" of ${trigger} are equal`)
  }
  const activation = { _tag: "Event", triggers: [trigger], changed: null } as const
  const received = eventFor("", { activation, options: unfiltered }, published)
  if (received === null) {
    const paths = recordEntryOf(models, published.model).transitions
      .filter(({ name }) => `${published.model}.${name}` === trigger)
      .map(({ path }) => path.join("."))
    throw new Error(`the contents are not a ${trigger}: set ${paths.join(", ")} in "before" and in "after"`)
  }
  return received
}

/** A record that exists before the test starts: it is published, and the API returns it. */
export interface RecordFixture {
  readonly integration: string
  readonly model: Model
  readonly content: JsonObject
}

export function record<M extends Model, F extends RecordFields, T extends string>(
  list: DefinedList<M, F, T>,
  content: Partial<ListRecord<F>>,
  where?: string
): RecordFixture
export function record<const M extends BuiltInModel>(model: M, content: RecordContent<M>, where?: string): RecordFixture
export function record(of: Model | AnyList, content: object, where: string = integration): RecordFixture {
  const model = typeof of === "string" ? of : of.model
  if (typeof of === "string") refuse(issuesIn("Testing.record", "", { model }, { model: oneOf(builtInModels.names) }))
  return { integration: where, model, content: { id: `${model.split(".")[1]}-1`, ...json(content) } }
}
