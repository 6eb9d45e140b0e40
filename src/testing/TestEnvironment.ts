/**
 * The environment of a plugin under test, in memory: published records, the log, the records of the simulated API, the journal,
 * and the faults that the test sets.
 *
 * Invariants
 * 1. Every write that took effect is stored, so a test always sees a write that took effect twice
 *
 * Gotchas
 * - Writes change the records of the simulated API (`live`), not the published ones (`Records`), because nothing polls here.
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import type { EmployeeForm } from "../api/Forms.ts"
import type { ReadName, readSchemas } from "../api/Reads.ts"
import type { WriteBody, WriteName } from "../api/Writes.ts"
import type { MatchedEvent } from "../delivery/handler/PlannedDelivery.ts"
import type { JsonObject, JsonValue } from "../domain/Canonical.ts"
import type { LogEntry, LogIdentity } from "../domain/ChangeEvent.ts"
import type { Model, Models } from "../domain/Model.ts"
import type { AnyEvent, AnyListEvent } from "../plugin/Event.ts"
import { toPublishedEvent } from "../plugin/EventMatching.ts"
import {
  Blocked,
  BlockReason,
  type HandlerError,
  Permanent,
  RateLimited,
  type Refusal,
  Transient
} from "../plugin/Failure.ts"
import type { FencingToken } from "../store/AttemptJournal.ts"
import { type RecordFixture, toLogEntry } from "./Fixtures.ts"
import type { MockResponse, Request } from "./Http.ts"
import type { JournalState } from "./MemoryJournal.ts"
import { type ApiRecords, applyWrite, recordKey, recordsOf } from "./WriteEffects.ts"

/** A write that took effect. `id` is the id in its path; null if it has none. */
export type Write = {
  readonly [W in WriteName]: {
    readonly integration: string
    readonly write: W
    readonly id: string | null
    readonly body: WriteBody<W>
  }
}[WriteName]

/**
 * How a call fails. `response lost` and `request lost`: the handler sees the same failure, but the first took effect and
 * the second did not. `RateLimited`: for one minute. `Unauthorized`, `Inactive` and `NotReady`: the delivery waits (`Blocked`).
 */
export type FailureMode =
  | HandlerError
  | Refusal
  | BlockReason
  | "Transient"
  | "RateLimited"
  | "response lost"
  | "request lost"

export interface Fault {
  /** A write, or a read. */
  readonly on: WriteName | ReadName | "live"
  readonly fail: FailureMode
  /** The integration whose calls fail; any by default. */
  readonly integration?: string
  /** How many calls fail; 1 by default. */
  readonly times?: number
  /** How many such calls succeed before the first failure; 0 by default. */
  readonly after?: number
}

type ReadResponse<R extends ReadName> = (typeof readSchemas)[R]["Type"]

/** Responses of the live reads: a value, or a function of the request. */
export interface ReadResponses {
  readonly employeeForm?:
    | EmployeeForm
    | ((request: { readonly integration: string; readonly staffingEntityId: string | undefined }) => EmployeeForm)
  readonly attachments?:
    | ReadResponse<"attachments">["results"]
    | ((
      request: { readonly integration: string; readonly applicationId: string }
    ) => ReadResponse<"attachments">["results"])
  readonly tools?: ReadResponse<"tools">
}

/** The state in which a test starts. */
export interface Setup {
  readonly records?: ReadonlyArray<RecordFixture>
  readonly reads?: ReadResponses
  readonly faults?: ReadonlyArray<Fault>
  /** Responses to HTTP requests: a function of the request, or a list in the order of the requests. */
  readonly http?: ((request: Request) => MockResponse) | ReadonlyArray<MockResponse>
}

/** A step in the journal. A step without a result was started, and its outcome is unknown. */
export interface Step {
  readonly handler: string
  readonly step: string
  /** The result, as encoded by the step's schema. */
  readonly result?: JsonValue
}

/** All mutable state. */
interface State {
  /** Virtual time, in ms. */
  now: number
  readonly published: ApiRecords
  readonly apiRecords: ApiRecords
  readonly appliedWrites: Array<Write>
  readonly requests: Array<Request>
  responsesUsed: number
  readonly log: Array<LogEntry>
  readonly journal: JournalState
  readonly calls: Array<number>
  readonly parked: Set<string>
  /** The batch in which an event was last delivered, by handler and position of the event. */
  readonly batches: Map<number, Map<number, string>>
  /** The last tick, by handler and integration: when it was due, in ms, and the length of the log then. */
  readonly ticks: Map<string, { readonly scheduledAt: number; readonly to: number }>
}

const startTime = Date.parse("2026-01-01T00:00:00.000Z")
/** Positions of the log are `test-1-<number>`. */
export const identity: LogIdentity = { store: "test", generation: 1 }

/** The process that delivers. */
export const owner = { scope: "test", epoch: 1 }

const isBlockReason = Schema.is(BlockReason)

const failureOf = (fail: FailureMode, on: string): HandlerError => {
  if (typeof fail !== "string") return fail
  if (fail === "RateLimited") return new RateLimited({ retryAfter: Duration.minutes(1) })
  if (fail === "Transient") return new Transient({ message: `${on} failed, as set by the test` })
  if (fail === "response lost" || fail === "request lost") {
    return new Transient({ message: `${on} was sent, and its outcome is unknown` })
  }
  if (isBlockReason(fail)) {
    return new Blocked({ message: `${on} was not accepted, as set by the test`, refusal: fail })
  }
  return new Permanent({ message: `${on} was rejected, as set by the test`, refusal: fail })
}

export class TestEnvironment {
  readonly #setup: Setup
  readonly #models: Models
  readonly state: State

  constructor(setup: Setup, models: Models, state?: State) {
    this.#setup = setup
    this.#models = models
    this.state = state ?? {
      now: startTime,
      published: new Map(),
      apiRecords: new Map(),
      appliedWrites: [],
      requests: [],
      responsesUsed: 0,
      log: [],
      journal: { rows: [], newest: { delivery: 0, claim: 0 }, counted: new Map() },
      calls: (setup.faults ?? []).map(() => 0),
      parked: new Set(),
      batches: new Map(),
      ticks: new Map()
    }
    if (state === undefined) {
      for (const { content, integration, model } of setup.records ?? []) {
        const at = recordKey(integration, model, String(content["id"]))
        this.state.published.set(at, content)
        this.state.apiRecords.set(at, content)
      }
    }
  }

  get reads(): ReadResponses {
    return this.#setup.reads ?? {}
  }

  /** An independent copy of the environment. */
  copy(): TestEnvironment {
    return new TestEnvironment(this.#setup, this.#models, structuredClone(this.state))
  }

  /**
   * Appends an event to the log, and updates the published records and those of the API. If the event is already in the log, its earlier
   * entry is used, so the journal recognizes the event, as in a replay.
   */
  publish(event: AnyEvent | AnyListEvent): MatchedEvent {
    const { log, published, apiRecords } = this.state
    const appended = toLogEntry(this.#models, event, log.length + 1)
    log.push(appended)
    const at = recordKey(event.integration, event.model, event.recordId)
    for (const records of [published, apiRecords]) {
      if (appended.after === null) records.delete(at)
      else records.set(at, JSON.parse(appended.after))
    }
    return { entry: this.#entryOf(event.id) ?? appended, event: toPublishedEvent(identity, appended) }
  }

  #entryOf(event: string): LogEntry | undefined {
    return this.state.log.find(({ eventId }) => eventId === event)
  }

  /** The batch in which an event was last delivered to the handler, by position. */
  batchesOf(handler: number): Map<number, string> {
    const { batches } = this.state
    const own = batches.get(handler) ?? new Map<number, string>()
    batches.set(handler, own)
    return own
  }

  rememberBatch(handler: number, events: ReadonlyArray<{ readonly id: string }>, batch: string | null): void {
    for (const { id } of events) {
      const position = this.#entryOf(id)?.position
      if (batch !== null && position !== undefined) this.batchesOf(handler).set(position, batch)
    }
  }

  /** Id of the delivery that is claimed next. */
  get nextDelivery(): number {
    return this.state.journal.newest.delivery + 1
  }

  /** Claims the delivery for its next attempt, or, if it is null, a new delivery. */
  claim(delivery: number | null): FencingToken {
    const { newest } = this.state.journal
    this.state.journal.newest = { delivery: delivery ?? this.nextDelivery, claim: newest.claim + 1 }
    return { owner, ...this.state.journal.newest }
  }

  /**
   * Makes the next tick due, at a multiple of `interval` (in ms) as in the service, and lets time pass until then. Returns when it is due, and
   * the positions of its span.
   */
  nextTick(key: string, interval: number) {
    const { log, ticks } = this.state
    const last = ticks.get(key)
    const multipleBefore = (at: number) => Math.floor(at / interval) * interval
    const next = multipleBefore(last?.scheduledAt ?? startTime) + interval
    const scheduledAt = Math.max(next, multipleBefore(this.state.now))
    this.state.now = Math.max(this.state.now, scheduledAt)
    return { scheduledAt, from: last?.to ?? 0, to: log.length }
  }

  apiRecord(integration: string, model: Model, id: string): JsonObject | null {
    return this.state.apiRecords.get(recordKey(integration, model, id)) ?? null
  }

  /** The candidate's published applications, without deleted ones. */
  applicationsOf(integration: string, candidate: string): ReadonlyArray<JsonObject> {
    return recordsOf(this.state.published, integration, "ats.application").filter(
      (application) => application["candidate_id"] === candidate && application["remote_deleted_at"] == null
    )
  }

  /** The fault that the test set for this call; null if there is none. Counts the call. */
  fault(on: Fault["on"], integration: string): { readonly fail: FailureMode; readonly error: HandlerError } | null {
    let found: FailureMode | null = null
    for (const [index, fault] of (this.#setup.faults ?? []).entries()) {
      if (fault.on !== on || (fault.integration ?? integration) !== integration) continue
      const call = this.state.calls[index] ?? 0
      this.state.calls[index] = call + 1
      const { after = 0, times = 1 } = fault
      if (found === null && call >= after && call < after + times) found = fault.fail
    }
    return found === null ? null : { fail: found, error: failureOf(found, on) }
  }

  /** Makes the write take effect; returns `data` of its response. */
  apply(integration: string, write: WriteName, id: string | null, body: unknown): JsonValue {
    const { apiRecords, appliedWrites } = this.state
    const json: JsonObject = JSON.parse(JSON.stringify(body))
    const nth = appliedWrites.filter((one) => one.write === write).length + 1
    const data = applyWrite(apiRecords, { integration, write, id: id ?? "", body: json }, `${write}-${nth}`)
    appliedWrites.push({ integration, write, id, body: json } as Write)
    return data
  }

  /** Fails, as a mistake in the test, if the test has no response to this read. */
  requireResponse(read: Fault["on"]): void {
    if (read !== "employeeForm" && read !== "tools") return
    if (this.reads[read] !== undefined) return
    const what = read === "tools" ? "tools" : "form"
    throw new Error(`the test has no ${what}: pass \`reads: { ${read}: … }\``)
  }

  /** The response to an HTTP request. */
  respond(request: Request): MockResponse {
    const { http = [] } = this.#setup
    const response = typeof http === "function" ? http(request) : http[this.state.responsesUsed++]
    if (response === undefined) {
      throw new Error(
        `the test has no response for ${request.method} ${request.url}: pass \`http: () => ({ status: 200 })\``
      )
    }
    if (response !== "unreachable") this.state.requests.push(request)
    return response
  }
}
