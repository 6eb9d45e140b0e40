/**
 * The port `Source` of the test environment: the simulated API, with its records and the faults that the test sets.
 *
 * Invariants
 * 1. A write that violates its schema, form or scale is rejected as in the service, and has no effect
 *
 * Gotchas
 * - Business rules of the API (the employee already exists, the job is closed) are not simulated; a test sets them as faults.
 * - As in the API, an application shows its candidate, and every candidate is shown by an application, even if the test has none.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { EmployeeForm } from "../api/Forms.ts"
import { readSchemas } from "../api/Reads.ts"
import { checkWrite, type UncheckedWrite } from "../api/WriteCheck.ts"
import type { WriteData, WriteName } from "../api/Writes.ts"
import type { JsonObject, JsonValue } from "../domain/Canonical.ts"
import { RawRow } from "../domain/RawRow.ts"
import { Invalid, OutcomeUnknown, type SendHooks, type Source, WriteError } from "../source/Source.ts"
import type { TestEnvironment } from "./TestEnvironment.ts"
import { recordsOf } from "./WriteEffects.ts"

/** The form if the test sets none. A write is not checked against it. */
const noForm: EmployeeForm = { properties: {} }

const impliedPrefix = "application of candidate "
/** Id of the application that shows a candidate for which the test has none. */
export const impliedApplication = (candidate: string): string => impliedPrefix + candidate

const decodePackages = Schema.decodeUnknownSync(readSchemas.assessmentPackages)

const outcomeUnknown = new WriteError({
  reason: new OutcomeUnknown({ code: null, message: "it was sent, and its outcome is unknown" })
})

/** `crashPoint`: see `AttemptControl`. */
export const make = (
  environment: TestEnvironment,
  crashPoint: (label: string) => Effect.Effect<void>
): Source["Service"] => {
  const { apiRecords } = environment.state

  const candidateOf = (integration: string, id: string): JsonObject =>
    environment.apiRecord(integration, "ats.candidate", id) ?? { id }

  const withCandidate = (integration: string, application: JsonObject): JsonObject => {
    const { candidate_id } = application
    return typeof candidate_id !== "string"
      ? application
      : { candidate: candidateOf(integration, candidate_id), ...application }
  }

  const rowsOf = ({ ids, integration, model }: Parameters<Source["Service"]["page"]>[0]): ReadonlyArray<JsonObject> => {
    const all = recordsOf(apiRecords, integration, model)
    if (model !== "ats.application") return all
    const implied = (ids ?? []).filter((id) => id.startsWith(impliedPrefix)).map((id): JsonObject => ({
      id,
      candidate_id: id.slice(impliedPrefix.length)
    }))
    return [...all, ...implied].map((application) => withCandidate(integration, application))
  }

  const read = (request: Parameters<Source["Service"]["read"]>[0]): unknown => {
    const { integration, params } = request
    switch (request.read) {
      case "attachments": {
        const { attachments = [] } = environment.reads
        const { application_id: applicationId } = params as { readonly application_id: string }
        return {
          results: typeof attachments === "function"
            ? attachments({ integration: integration ?? "", applicationId })
            : attachments
        }
      }
      case "employeeForm": {
        const { employeeForm = noForm } = environment.reads
        const { staffing_entity_id: staffingEntityId } = params as { readonly staffing_entity_id?: string }
        return typeof employeeForm === "function"
          ? employeeForm({ integration: integration ?? "", staffingEntityId })
          : employeeForm
      }
      case "tools":
        return environment.reads.tools
      case "assessmentPackages":
        return decodePackages({ packages: recordsOf(apiRecords, integration ?? "", "assessment.package") })
    }
  }

  const write = Effect.fnUntraced(function*<E>(
    { form, integration, ...request }: UncheckedWrite & { readonly integration: string },
    { before, onNoEffect }: SendHooks<E>
  ): Effect.fn.Return<JsonValue, WriteError | Invalid | E> {
    const { body, params, write } = request
    const faults = checkWrite({ ...request, ...(form === undefined || form === noForm ? {} : { form }) })
      .filter(({ rule }) => rule !== "pattern_unsupported")
    if (faults.length > 0) return yield* new Invalid({ faults })
    yield* before
    yield* crashPoint(`${write}: about to be sent`)
    const fault = environment.fault(write, integration)
    if (fault !== null && !isLost(fault.fail)) {
      yield* onNoEffect
      // the handler receives the failure that the test set: `WriteBack` changes only errors of this port
      return yield* Effect.fail(fault.error as never)
    }
    if (fault?.fail === "request lost") return yield* outcomeUnknown
    const [id = null] = Object.values(params)
    const data = environment.apply(integration, write, id === null ? null : String(id), body)
    if (fault !== null) return yield* outcomeUnknown
    yield* crashPoint(`${write}: done, response not recorded`)
    return data
  })

  return {
    page: (request) =>
      Effect.map(Clock.currentTimeMillis, (now) => ({
        results: rowsOf(request).filter(({ id }) => request.ids === null || request.ids.includes(String(id)))
          .map((row) => RawRow.of(row)),
        next: null,
        serverTime: now,
        requestedAt: now,
        duration: 0
      })),
    // `read` returns the data of this read
    read: (request) => Effect.sync(() => read(request) as never),
    // `applyWrite` returns the data of this write
    write: <W extends WriteName, E>(request: UncheckedWrite & { integration: string; write: W }, hooks: SendHooks<E>) =>
      write(request, hooks) as Effect.Effect<WriteData<W>, WriteError | Invalid | E>
  }
}

const isLost = (fail: unknown): boolean => fail === "response lost" || fail === "request lost"
