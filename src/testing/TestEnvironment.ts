/**
 * A small world in memory behind the capabilities: records, what writes make of them, and what goes wrong when.
 *
 * Invariants
 * 1. What is wrong with a write by its schemas, its form or its scale is refused as for real, and has no effect
 * 2. Every effect is remembered with the intent that it belongs to: nothing happens twice unseen
 *
 * Gotchas
 * - Writes show in what the API shows (`live`), not in what was published (`Records`): nobody polls here.
 * - The API's own refusals (an employee who exists, a job that is closed) happen only where a test says so.
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

/** A write that took effect. `id` is the one in its path, null where it has none. */
export type Write = {
  readonly [W in WriteName]: {
    readonly integration: string
    readonly write: W
    readonly id: string | null
    readonly body: WriteBody<W>
  }
}[WriteName]

/**
 * How a call fails. `response lost`: it took effect and nobody knows; `request lost`: it did not, and nobody knows.
 * `RateLimited`: for a minute.
 */
export type FailureMode = HandlerError | Refusal | "Transient" | "RateLimited" | "response lost" | "request lost"

export interface Fault {
  /** A write, or a read. */
  readonly on: WriteName | ReadName | "live"
  readonly fail: FailureMode
  /** Any by default. */
  readonly integration?: string
  /** How often; once by default. */
  readonly times?: number
  /** How many such calls go well before; none by default. */
  readonly after?: number
}

type ReadResponse<R extends ReadName> = (typeof readSchemas)[R]["Type"]

/** What the live reads answer; by what was asked, if it is a function. */
export interface ReadResponses {
  readonly employeeForm?:
    | EmployeeForm
    | ((asked: { readonly integration: string; readonly staffingEntityId: string | undefined }) => EmployeeForm)
  readonly attachments?:
    | ReadResponse<"attachments">["results"]
    | ((
      asked: { readonly integration: string; readonly applicationId: string }
    ) => ReadResponse<"attachments">["results"])
  readonly tools?: ReadResponse<"tools">
}

/** What a test begins with. */
export interface Setup {
  readonly records?: ReadonlyArray<RecordFixture>
  readonly reads?: ReadResponses
  readonly faults?: ReadonlyArray<Fault>
  /** By request, or in this order. */
  readonly http?: ((request: Request) => MockResponse) | ReadonlyArray<MockResponse>
}

/** One request for a write. */
export interface WriteRequest {
  readonly integration: string
  readonly write: WriteName
  readonly id: string | null
  readonly body: unknown
  readonly options: WriteOptions<"createEmployee"> & WriteOptions<"rateSkill">
}

/** What a step is done once for: the event, the tick; the batch, then those that it was a part of. */
export type DedupKeys = readonly [string, ...ReadonlyArray<string>]

/** A step of the journal. Without a result it was begun, and nobody knows how far it came. */
export interface Step {
  readonly handler: string
  readonly step: string
  /** As its schema encodes it. */
  readonly result?: JsonValue
}

/** Everything that changes. */
interface State {
  /** Virtual, ms. */
  now: number
  readonly published: ApiRecords
  readonly apiRecords: ApiRecords
  readonly appliedWrites: Array<{ readonly intent: string; readonly write: Write; readonly data: JsonValue }>
  readonly requests: Array<Request>
  answered: number
  readonly log: Array<PublishedEvent>
  readonly journal: Map<string, Step>
  /** Intent of a write → `data` of the answer; without one it is unknown. `begunAt`: ms. */
  readonly intents: Map<string, { readonly begunAt: number; readonly data?: JsonValue }>
  readonly calls: Array<number>
  readonly parked: Set<string>
  /** Handler and event → what the batch in which it was last delivered did its steps once for. */
  readonly batches: Map<string, DedupKeys>
  /** Where in the log the last tick of a handler ended. */
  readonly ticks: Map<string, number>
}

const begin = Date.parse("2026-01-01T00:00:00.000Z")

const failureOf = (fail: FailureMode, on: string): HandlerError => {
  if (typeof fail !== "string") return fail
  if (fail === "RateLimited") return new RateLimited({ retryAfter: Duration.minutes(1) })
  if (fail === "Transient") return new Transient({ message: `${on} failed, as the test says` })
  if (fail === "response lost" || fail === "request lost") {
    return new Transient({ message: `${on} was sent, and nobody knows whether it took effect` })
  }
  return new Permanent({ message: `${on} was refused, as the test says`, refusal: fail })
}

const decodePackages = Schema.decodeUnknownSync(readSchemas.assessmentPackages)

const paramOf = (write: WriteName): string | undefined => Object.keys(writeSchemas[write].params)[0]

export class TestEnvironment {
  readonly #setting: Setup
  readonly state: State

  constructor(setting: Setup, state?: State) {
    this.#setting = setting
    this.state = state ?? {
      now: begin,
      published: new Map(),
      apiRecords: new Map(),
      appliedWrites: [],
      requests: [],
      answered: 0,
      log: [],
      journal: new Map(),
      intents: new Map(),
      calls: (setting.faults ?? []).map(() => 0),
      parked: new Set(),
      batches: new Map(),
      ticks: new Map()
    }
    if (state === undefined) {
      for (const { content, integration, model } of setting.records ?? []) {
        const at = recordKey(integration, model, String(content["id"]))
        this.state.published.set(at, content)
        this.state.apiRecords.set(at, content)
      }
    }
  }

  /** The same world, to go on another way. */
  copy(): TestEnvironment {
    return new TestEnvironment(this.#setting, structuredClone(this.state))
  }

  /** Something happened: it is in the log, in the snapshots and at the API. */
  publish(event: PublishedEvent): PublishedEvent {
    const { log, published, apiRecords } = this.state
    const placed = { ...event, position: `test-1-${log.length + 1}` }
    log.push(placed)
    const at = recordKey(event.integration, event.model, event.recordId)
    for (const records of [published, apiRecords]) {
      if (event.after === null) records.delete(at)
      else records.set(at, event.after)
    }
    return placed
  }

  publishedRecord(integration: string, model: Model, id: string): JsonObject | null {
    return this.state.published.get(recordKey(integration, model, id)) ?? null
  }

  apiRecord(integration: string, model: Model, id: string): JsonObject | null {
    return this.state.apiRecords.get(recordKey(integration, model, id)) ?? null
  }

  /** Those that were published and show the candidate, deleted ones left out. */
  applicationsOf(integration: string, candidate: string): ReadonlyArray<JsonObject> {
    return recordsOf(this.state.published, integration, "ats.application").filter(
      (application) => application["candidate_id"] === candidate && application["remote_deleted_at"] == null
    )
  }

  /** Its fault, if one is scripted for this call. */
  fault(on: Fault["on"], integration: string): { readonly fail: FailureMode; readonly error: HandlerError } | null {
    let found: FailureMode | null = null
    for (const [index, fault] of (this.#setting.faults ?? []).entries()) {
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
    const { employeeForm } = this.#setting.reads ?? {}
    if (employeeForm === undefined) throw new Error("no form is given: pass `reads: { employeeForm: … }`")
    return typeof employeeForm === "function" ? employeeForm({ integration, staffingEntityId }) : employeeForm
  }

  attachments(integration: string, applicationId: string): ReadResponse<"attachments"> {
    const { attachments = [] } = this.#setting.reads ?? {}
    return { results: typeof attachments === "function" ? attachments({ integration, applicationId }) : attachments }
  }

  tools(): ReadResponse<"tools"> {
    const { tools } = this.#setting.reads ?? {}
    if (tools === undefined) throw new Error("no tools are given: pass `reads: { tools: … }`")
    return tools
  }

  packages(integration: string): ReadResponse<"assessmentPackages"> {
    return decodePackages({ packages: recordsOf(this.state.apiRecords, integration, "assessment.package") })
  }

  // ---- writes -----------------------------------------------------------------------------------------------------

  /** Why nothing is sent; null if all is well. An employee is held against the form of the world, if there is one. */
  rejectionOf({ body, id, integration, options, write }: WriteRequest): Permanent | null {
    const param = paramOf(write)
    const { scale } = options
    const form = options.form ?? (write === "createEmployee" && this.#setting.reads?.employeeForm !== undefined
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

  /** What an intent made, if it took effect. */
  appliedWrite(intent: string): { readonly data: JsonValue } | undefined {
    return this.state.appliedWrites.find((effect) => effect.intent === intent)
  }

  /** The write takes effect; `data` of the answer. */
  apply(intent: string, { body, id, integration, write }: WriteRequest): JsonValue {
    const json: JsonObject = JSON.parse(JSON.stringify(body))
    const nth = this.state.appliedWrites.filter((effect) => effect.write.write === write).length + 1
    const data = applyWrite(this.state.apiRecords, { integration, write, id: id ?? "", body: json }, `${write}-${nth}`)
    this.state.appliedWrites.push({ intent, write: { integration, write, id, body: json } as Write, data })
    return data
  }

  // ---- HTTP -------------------------------------------------------------------------------------------------------

  respond(request: Request): MockResponse {
    const { http = [] } = this.#setting
    const answer = typeof http === "function" ? http(request) : http[this.state.answered++]
    if (answer === undefined) {
      throw new Error(`no answer is given to ${request.method} ${request.url}: say \`http: () => ({ status: 200 })\``)
    }
    if (answer !== "unreachable") this.state.requests.push(request)
    return answer
  }
}

const entityOf = (body: unknown): string | undefined => {
  const entity = typeof body === "object" && body !== null && "staffing_entity_id" in body
    ? body.staffing_entity_id
    : null
  return typeof entity === "string" ? entity : undefined
}
