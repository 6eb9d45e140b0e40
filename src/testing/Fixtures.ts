/**
 * Events and records for tests, from the few properties that matter: hides what else an event carries.
 *
 * Gotchas
 * - What happened is derived of `before` and `after` as it is for real: an event that is no such trigger is refused.
 */
import { canonicalHash, isObject, type JsonObject, type JsonValue } from "../domain/Canonical.ts"
import { type DeleteReason, eventIdOf, type Kind, type Origin } from "../domain/ChangeEvent.ts"
import { diff } from "../domain/Diff.ts"
import { entryOf, type Model, modelNames } from "../domain/Model.ts"
import { defaultProcessing } from "../domain/Processing.ts"
import { transitionsOf } from "../domain/Transition.ts"
import type { AnyEvent, Cause, EventOf, ModelOf, RecordOf, Trigger } from "../plugin/Event.ts"
import { eventFor, type PublishedEvent } from "../plugin/EventMatching.ts"

/** Where everything happens unless a test says otherwise. */
export const integration = "sandbox:test"

/** The properties that matter; `id` is `application-1`, `tag-1`, … unless given. */
export type RecordFields<M extends Model> = Partial<RecordOf<M>>

export interface EventOverrides {
  readonly integration?: string
  /** `poll` by default. */
  readonly origin?: Origin
  /** Per record 1, 2, 3 …; 1 of what is created, 2 of everything else by default. */
  readonly version?: number
  /** `flagged` by default. */
  readonly reason?: DeleteReason
  readonly restored?: boolean
  /** 2026-01-01 by default. */
  readonly detectedAt?: Date
  /** The write of a plugin that caused it. */
  readonly cause?: Cause
}

/** What became of the record: what `before` does not say is as in `after`, and the other way round. */
export type EventFixture<T extends Trigger> =
  & EventOverrides
  & (T extends `${string}.created` ? { readonly after?: RecordFields<ModelOf<T>> }
    : T extends `${string}.deleted` ? { readonly before?: RecordFields<ModelOf<T>> }
    : T extends `${string}.updated` ?
      { readonly before: RecordFields<ModelOf<T>>; readonly after: RecordFields<ModelOf<T>> }
    /** `before: null`: the record is first seen like this. */
    : { readonly before?: RecordFields<ModelOf<T>> | null; readonly after?: RecordFields<ModelOf<T>> })

type Loose = EventOverrides & { readonly before?: object | null; readonly after?: object }

const start = new Date("2026-01-01T00:00:00.000Z")

const modelOf = (trigger: string): Model => {
  const model = modelNames.find((name) =>
    trigger.startsWith(`${name}.`) && !trigger.slice(name.length + 1).includes(".")
  )
  if (model === undefined) throw new Error(`"${trigger}" is no trigger: write <model>.<kind> or <model>.<transition>`)
  return model
}

const isKind = (happening: string): happening is Kind => ["created", "updated", "deleted"].includes(happening)

/** As JSON, which is how a record arrives. */
const json = (content: object): JsonObject => JSON.parse(JSON.stringify(content))

const below = (value: JsonValue | undefined): JsonObject => isObject(value) ? value : {}

const withValue = (record: JsonObject, [name = "", ...rest]: ReadonlyArray<string>, value: JsonValue): JsonObject => ({
  ...record,
  [name]: rest.length === 0 ? value : withValue(below(record[name]), rest, value)
})
const has = (record: JsonObject, [name = "", ...rest]: ReadonlyArray<string>): boolean =>
  rest.length === 0 ? Object.hasOwn(record, name) : has(below(record[name]), rest)

interface Contents {
  readonly before: JsonObject | null
  readonly after: JsonObject | null
}

const contentsOf = (model: Model, happening: string, sample: Loose): Contents => {
  const before = json(sample.before ?? {})
  const after = json(sample.after ?? {})
  const both: JsonObject = { id: `${model.split(".")[1]}-1`, ...before, ...after }
  if (happening === "created") return { before: null, after: both }
  if (happening === "deleted") return { before: both, after: null }
  const was: JsonObject = { ...both, ...before }
  const rule = entryOf(model).transitions.find(({ name }) => name === happening)
  if (rule === undefined) return { before: was, after: both }
  // The property that decides: where the test leaves it open, the transition happens, from nothing.
  const { path, when } = rule
  return {
    before: sample.before === null ? null : has(before, path) ? was : withValue(was, path, null),
    after: has(after, path) || typeof when === "string" ? both : withValue(both, path, when[0] ?? null)
  }
}

/** An event as the log would have it. */
const buildEvent = (trigger: string, sample: Loose): PublishedEvent => {
  const model = modelOf(trigger)
  const happening = trigger.slice(model.length + 1)
  const { after, before } = contentsOf(model, happening, sample)
  const content: JsonObject = after ?? before ?? {}
  const kind = isKind(happening) ? happening : before === null ? "created" : "updated"
  const { shape } = defaultProcessing(model)
  const version = sample.version ?? (kind === "created" ? 1 : 2)
  const origin = sample.origin ?? "poll"
  const key = { generation: 1, integration: sample.integration ?? integration, model, id: String(content["id"]) }
  return {
    id: eventIdOf(key, version, kind, after === null ? null : canonicalHash(shape, after)),
    model,
    integration: key.integration,
    recordId: key.id,
    remoteId: typeof content["remote_id"] === "string" ? content["remote_id"] : null,
    generation: 1,
    version,
    kind,
    origin,
    before,
    after,
    changes: before === null || after === null ? [] : diff(shape, before, after),
    transitions: after === null || origin === "backfill" ? [] : transitionsOf(model, before, after),
    reason: kind === "deleted" ? sample.reason ?? "flagged" : sample.reason ?? null,
    restored: sample.restored ?? false,
    changedAt: typeof content["changed_at"] === "string" ? content["changed_at"] : null,
    detectedAt: sample.detectedAt ?? start,
    cause: sample.cause ?? null,
    position: "test-1-0"
  }
}

/** The event as the log has it, whatever a handler is given of it. */
export const toPublishedEvent = (event: AnyEvent): PublishedEvent => {
  const { after, before, changes, id, integration, kind, generation, model, origin, position, recordId, version } =
    event
  const was = before === null ? null : json(before)
  const is = after === null ? null : json(after)
  return {
    id,
    model,
    integration,
    recordId,
    generation,
    version,
    kind,
    origin,
    changes,
    position,
    before: was,
    after: is,
    remoteId: event.remoteId,
    reason: event.reason,
    restored: event.restored,
    changedAt: event.changedAt,
    detectedAt: event.detectedAt,
    cause: event.cause,
    transitions: is === null || origin === "backfill" ? [] : transitionsOf(model, was, is)
  }
}

/**
 * An event of a trigger, as a handler receives it. `event("ats.application.hired", { after: { candidate_id: "c1" } })` is
 * complete: `outcome` goes from nothing to `HIRED`.
 */
export const event = <const T extends Trigger>(trigger: T, sample: EventFixture<T>): EventOf<T> => {
  const published = buildEvent(trigger, sample)
  if (published.kind === "updated" && published.changes.length === 0) {
    throw new Error(`this is no event: "before" and "after" of ${trigger} say the same`)
  }
  const activation = { _tag: "Event", triggers: [trigger], changed: null } as const
  const given = eventFor("", { activation, options: { origins: [published.origin], echo: "deliver" } }, published)
  if (given === null) {
    const paths = entryOf(published.model).transitions
      .filter(({ name }) => `${published.model}.${name}` === trigger)
      .map(({ path }) => path.join("."))
    throw new Error(`this is no ${trigger}: say what ${paths.join(", ")} was in "before" and is in "after"`)
  }
  return given as EventOf<T>
}

/** A record that exists before the test begins: published, and shown by the API. */
export interface RecordFixture {
  readonly integration: string
  readonly model: Model
  readonly content: JsonObject
}

export const record = <const M extends Model>(
  model: M,
  content: RecordFields<M>,
  where: string = integration
): RecordFixture => ({
  integration: where,
  model,
  content: { id: `${model.split(".")[1]}-1`, ...json(content) }
})
