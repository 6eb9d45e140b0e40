/**
 * The port for reading and writing the unified API. `SourceError.ts` has its errors.
 *
 * Invariants
 * 1. A write is sent again only if the API certainly did nothing, or if its `resolutionPolicy` is "safe"
 * 2. An invalid request is not sent: it fails with `Invalid`, which lists every problem
 * 3. A write is sent only while it has a slot, and immediately after `SendHooks.before` succeeded
 *
 * Gotchas
 * - Records are returned as valid JSON that is not parsed. Capture reads what it needs, so one bad record never fails a page.
 * - If a page is too large, or takes the API too long, it and the later pages of its run are requested with fewer rows (S1).
 * - This port retries requests as often as that can help. So callers do not retry: an error ends their run or their write.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type EmployeeForm, StaffingEntityId } from "../api/Forms.ts"
import type { ProficiencyScale } from "../api/Proficiency.ts"
import type { ReadName, readSchemas } from "../api/Reads.ts"
import { ToolCategory } from "../api/Tools.ts"
import type { WriteBody, WriteData, WriteName, WriteParams } from "../api/Writes.ts"
import type { Model } from "../domain/Model.ts"
import type { RawRow } from "../domain/RawRow.ts"
import type { Invalid, SourceError, WriteError } from "./SourceError.ts"

export {
  ApplicationAlreadyExists,
  EmployeeAlreadyExists,
  Forbidden,
  Inactive,
  Invalid,
  isRefused,
  JobClosed,
  NotReady,
  NotSent,
  OutcomeUnknown,
  RateLimited,
  Rejected,
  SourceError,
  StaffingEntityClosed,
  Transient,
  Unauthorized,
  Unreadable,
  Unsupported,
  WriteError
} from "./SourceError.ts"

/** The priorities of an account's requests, most urgent first; `write` is for requests of plugins. */
export type Priority = "write" | "confirm" | "poll" | "refresh" | "sweep" | "backfill"

// ---- lists --------------------------------------------------------------------------------------------------------

export interface PageRequest {
  readonly account: string
  readonly integration: string
  readonly model: Model
  readonly priority: Priority
  /** `data.next` of the previous page. */
  readonly cursor: string | null
  /** Server time, in ms. */
  readonly updatedAfter: number | null
  /** Only these ids (at most 250). */
  readonly ids: ReadonlyArray<string> | null
}

export interface Page {
  readonly results: ReadonlyArray<RawRow>
  /** Null if this is the last page, even if the API sent an empty text or no value. */
  readonly next: string | null
  /** The `Date` header, in ms; null if missing or unreadable. */
  readonly serverTime: number | null
  /** When the successful request was sent (our clock, in ms), and how long it took (ms). */
  readonly requestedAt: number
  readonly duration: number
  /** The simulated world that answered; null or absent if the API is not the sandbox. */
  readonly world?: string | null
}

// ---- other reads --------------------------------------------------------------------------------------------------

/** The parameters of the four other reads. */
export const readParams = {
  attachments: Schema.Struct({ application_id: Schema.NonEmptyString }),
  employeeForm: Schema.Struct({ staffing_entity_id: Schema.optionalKey(StaffingEntityId) }),
  assessmentPackages: Schema.Struct({}),
  tools: Schema.Struct({ category: ToolCategory })
} as const satisfies Record<ReadName, Schema.Top>

export interface ReadRequest<R extends ReadName> {
  readonly account: string
  /** Null for the tools, because they belong to the account. */
  readonly integration: R extends "tools" ? null : string
  readonly read: R
  readonly params: (typeof readParams)[R]["Type"]
  readonly priority: Priority
}
export type ReadData<R extends ReadName> = (typeof readSchemas)[R]["Type"]

// ---- writes -------------------------------------------------------------------------------------------------------

/**
 * Additional input for checking a body before it is sent: the form that `read` returned for the same staffing entity, or the skill's
 * scale, if the caller knows it. Without a scale, only the API checks the value; the error is then `Rejected`.
 */
type WriteCheckContext<W extends WriteName> = W extends "createEmployee" ? { readonly form: EmployeeForm }
  : W extends "rateSkill" | "expectSkill" ? { readonly scale?: ProficiencyScale }
  : unknown

export type WriteRequest<W extends WriteName> = {
  readonly account: string
  readonly integration: string
  readonly write: W
  readonly params: WriteParams<W>
  readonly body: WriteBody<W>
} & WriteCheckContext<W>

// ---- waiting and sending ------------------------------------------------------------------------------------------

/** The caller stopped waiting for a slot: the request was not sent. */
export class SlotWaitAborted extends Data.TaggedError("SlotWaitAborted")<{ readonly message: string }> {}

/**
 * Wraps a request's wait for its slot, which may last as long as the account is paused. A caller that must stop its own
 * timer during the wait, or that may have to abort the wait, provides its own wrapper.
 */
export const SlotWait = Context.Reference<(slot: Effect.Effect<void>) => Effect.Effect<void, SlotWaitAborted>>(
  "rollcall/source/SlotWait",
  { defaultValue: () => (slot) => slot }
)

/**
 * Called around each attempt of a write. A write is attempted again after a rate-limit response, after a failure that
 * certainly had no effect, and, if its `resolutionPolicy` is "safe", after any other failure.
 */
export interface SendHooks<E> {
  /** Runs when the request has its slot, immediately before it is sent. If this fails, nothing is sent. */
  readonly before: Effect.Effect<void, E>
  /**
   * Runs before the next attempt if the attempt that `before` allowed certainly had no effect. It also runs if `before` was interrupted,
   * because `before` may have finished.
   */
  readonly onNoEffect: Effect.Effect<void, E>
}

// ---- port ---------------------------------------------------------------------------------------------------------

export class Source extends Context.Service<Source, {
  /**
   * One page of a list, with `include_deleted` and a `page_size` of at most 250; unsupported filters are ignored. The list of
   * assessment packages is always returned whole, whatever the request contains.
   */
  readonly page: (request: PageRequest) => Effect.Effect<Page, SourceError>
  /** One of the four other reads. */
  readonly read: <R extends ReadName>(request: ReadRequest<R>) => Effect.Effect<ReadData<R>, SourceError | Invalid>
  /** One of the twelve writes; returns the response's `data`. A failure of a hook ends the write. */
  readonly write: <W extends WriteName, E>(
    request: WriteRequest<W>,
    hooks: SendHooks<E>
  ) => Effect.Effect<WriteData<W>, WriteError | Invalid | E>
}>()("rollcall/source/Source") {}
