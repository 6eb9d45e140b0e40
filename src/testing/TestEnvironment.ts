/**
 * The environment of a plugin under test, in memory: published records, the simulated API with its records, the journal, and
 * the faults that the test sets.
 *
 * Invariants
 * 1. A write that violates its schema, form or scale is rejected as in the service, and has no effect
 * 2. Every write that took effect is stored with its intent, so a test always sees a write that took effect twice
 *
 * Gotchas
 * - Writes change the records of the simulated API (`live`), not the published ones (`Records`), because nothing polls here.
 * - Business rules of the API (the employee already exists, the job is closed) are not simulated; a test sets them as faults.
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import type { EmployeeForm } from "../api/Forms.ts"
import { type ReadName, readSchemas } from "../api/Reads.ts"
import { checkWrite } from "../api/WriteCheck.ts"
import { type WriteBody, type WriteName, writeSchemas } from "../api/Writes.ts"
import type { JsonObject, JsonValue } from "../domain/Canonical.ts"
import type { Model } from "../domain/Model.ts"
import type { WriteOptions } from "../plugin/Capabilities.ts"
import type { PublishedEvent } from "../plugin/EventMatching.ts"
import { type HandlerError, Permanent, RateLimited, type Refusal, Transient } from "../plugin/Failure.ts"
import type { RecordFixture } from "./Fixtures.ts"
import type { MockResponse, Request } from "./Http.ts"
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
 * the second did not. `RateLimited`: for one minute.
 */
export type FailureMode = HandlerError | Refusal | "Transient" | "RateLimited" | "response lost" | "request lost"

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

/** A write that a handler requests. */
export interface WriteRequest {
  readonly integration: string
  readonly write: WriteName
  readonly id: string | null
  readonly body: unknown
  readonly options: WriteOptions<"createEmployee"> & WriteOptions<"rateSkill">
}

/**
 * Keys under which a step is done once: the key of the event or tick; or the key of the batch, followed by the keys of the
 * larger batches that contained it.
 */
export type DedupKeys = readonly [string, ...ReadonlyArray<string>]

/** A step in the journal. A step without a result was started, and its outcome is unknown. */
export interface Step {
  readonly handler: string
  readonly step: string
  /** The result, as encoded by the step's schema. */
  readonly result?: JsonValue
}

/** All mutable state. */
interface State {
  /** Virtual time, ms. */
  now: number
  readonly published: ApiRecords
  readonly apiRecords: ApiRecords
  readonly appliedWrites: Array<{ readonly intent: string; readonly write: Write; readonly data: JsonValue }>
  readonly requests: Array<Request>
  responsesUsed: number
  readonly log: Array<PublishedEvent>
  readonly journal: Map<string, Step>
  /** Intent of a write → `data` of its response; without `data` its outcome is unknown. `startedAt`: ms. */
  readonly intents: Map<string, { readonly startedAt: number; readonly data?: JsonValue }>
  readonly calls: Array<number>
  readonly parked: Set<string>
  /** Handler and event → keys of the batch in which the event was last delivered. */
  readonly batches: Map<string, DedupKeys>
  /** Handler and integration → length of the log at the handler's last tick. */
  readonly ticks: Map<string, number>
}

const startTime = Date.parse("2026-01-01T00:00:00.000Z")

const failureOf = (fail: FailureMode, on: string): HandlerError => {
  if (typeof fail !== "string") return fail
  if (fail === "RateLimited") return new RateLimited({ retryAfter: Duration.minutes(1) })
  if (fail === "Transient") return new Transient({ message: `${on} failed, as set by the test` })
  if (fail === "response lost" || fail === "request lost") {
    return new Transient({ message: `${on} was sent, and its outcome is unknown` })
  }
  return new Permanent({ message: `${on} was rejected, as set by the test`, refusal: fail })
}

const decodePackages = Schema.decodeUnknownSync(readSchemas.assessmentPackages)

const paramOf = (write: WriteName): string | undefined => Object.keys(writeSchemas[write].params)[0]

export class TestEnvironment {
  readonly #setup: Setup
  readonly state: State

  constructor(setup: Setup, state?: State) {
    this.#setup = setup
    this.state = state ?? {
      now: startTime,
      published: new Map(),
      apiRecords: new Map(),
      appliedWrites: [],
      requests: [],
      responsesUsed: 0,
      log: [],
      journal: new Map(),
      intents: new Map(),
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

  /** An independent copy of the environment. */
  copy(): TestEnvironment {
    return new TestEnvironment(this.#setup, structuredClone(this.state))
  }

  /** Appends an event to the log, and updates the published records and those of the API. */
  publish(event: PublishedEvent): PublishedEvent {
    const { log, published, apiRecords } = this.state
    const positioned = { ...event, position: `test-1-${log.length + 1}` }
    log.push(positioned)
    const at = recordKey(event.integration, event.model, event.recordId)
    for (const records of [published, apiRecords]) {
      if (event.after === null) records.delete(at)
      else records.set(at, event.after)
    }
    return positioned
  }

  publishedRecord(integration: string, model: Model, id: string): JsonObject | null {
    return this.state.published.get(recordKey(integration, model, id)) ?? null
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

  // ---- reads ------------------------------------------------------------------------------------------------------

  employeeForm(integration: string, staffingEntityId: string | undefined): EmployeeForm {
    const { employeeForm } = this.#setup.reads ?? {}
    if (employeeForm === undefined) throw new Error("the test has no form: pass `reads: { employeeForm: … }`")
    return typeof employeeForm === "function" ? employeeForm({ integration, staffingEntityId }) : employeeForm
  }

  attachments(integration: string, applicationId: string): ReadResponse<"attachments"> {
    const { attachments = [] } = this.#setup.reads ?? {}
    return { results: typeof attachments === "function" ? attachments({ integration, applicationId }) : attachments }
  }

  tools(): ReadResponse<"tools"> {
    const { tools } = this.#setup.reads ?? {}
    if (tools === undefined) throw new Error("the test has no tools: pass `reads: { tools: … }`")
    return tools
  }

  packages(integration: string): ReadResponse<"assessmentPackages"> {
    return decodePackages({ packages: recordsOf(this.state.apiRecords, integration, "assessment.package") })
  }

  // ---- writes -----------------------------------------------------------------------------------------------------

  /**
   * The failure of a write that is rejected before it is sent; null if the write is valid. Without a `form` option, a new
   * employee is checked against the test's form.
   */
  rejectionOf({ body, id, integration, options, write }: WriteRequest): Permanent | null {
    const param = paramOf(write)
    const { scale } = options
    const form = options.form ?? (write === "createEmployee" && this.#setup.reads?.employeeForm !== undefined
      ? this.employeeForm(integration, entityOf(body))
      : undefined)
    const faults = checkWrite({
      write,
      params: param === undefined ? {} : { [param]: id },
      body,
      ...(form === undefined ? {} : { form }),
      ...(scale === undefined ? {} : { scale })
    }).filter(({ rule }) => rule !== "pattern_unsupported")
    if (faults.length === 0) return null
    const message = faults.map(({ message, path }) => `${path}: ${message}`).join("; ")
    return new Permanent({ message: `${write}: ${message}`, refusal: "Invalid", faults })
  }

  /** The write that an intent made, if it took effect. */
  appliedWrite(intent: string): { readonly data: JsonValue } | undefined {
    return this.state.appliedWrites.find((effect) => effect.intent === intent)
  }

  /** Makes the write take effect; returns `data` of its response. */
  apply(intent: string, { body, id, integration, write }: WriteRequest): JsonValue {
    const json: JsonObject = JSON.parse(JSON.stringify(body))
    const nth = this.state.appliedWrites.filter((effect) => effect.write.write === write).length + 1
    const data = applyWrite(this.state.apiRecords, { integration, write, id: id ?? "", body: json }, `${write}-${nth}`)
    this.state.appliedWrites.push({ intent, write: { integration, write, id, body: json } as Write, data })
    return data
  }

  // ---- HTTP -------------------------------------------------------------------------------------------------------

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

const entityOf = (body: unknown): string | undefined => {
  const entity = typeof body === "object" && body !== null && "staffing_entity_id" in body
    ? body.staffing_entity_id
    : null
  return typeof entity === "string" ? entity : undefined
}
