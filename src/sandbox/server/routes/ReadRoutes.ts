/**
 * The four reads besides the lists over HTTP: attachments, employee form, assessment packages and tools.
 *
 * Source: docs/contract.md, "Other reads".
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Schema from "effect/Schema"
import { StaffingEntityId } from "../../../api/Forms.ts"
import { toolCategories, ToolCategory } from "../../../api/Tools.ts"
import { invalidInput } from "../../ApiError.ts"
import { render, renderAttachment } from "../../world/Rendering.ts"
import { attachmentsOf } from "../../world/writes/Attachments.ts"
import { employeeFormFor } from "../../world/writes/EmployeeForms.ts"
import { requireStaffingEntity } from "../../world/writes/PeopleWrites.ts"
import { endpointOf } from "../Endpoints.ts"
import * as Middleware from "../Middleware.ts"
import type { SandboxState } from "../SandboxState.ts"
import { queryParameters } from "./ListRequest.ts"
import { listTools } from "./ToolCatalog.ts"

export const layer = (state: SandboxState) =>
  HttpRouter.addAll([
    Middleware.route(state, endpointOf("attachments"), (integration) => listAttachments(state, integration)),
    Middleware.route(state, endpointOf("employeeForm"), (integration) => readEmployeeForm(state, integration)),
    Middleware.route(state, endpointOf("assessmentPackages"), (integration) =>
      listAssessmentPackages(state, integration)),
    Middleware.route(state, endpointOf("tools"), () =>
      listToolsOfCategory(state))
  ])

const unknownParameterWarnings = (
  given: Readonly<Record<string, string>>,
  ...known: ReadonlyArray<string>
): ReadonlyArray<string> =>
  Object.keys(given).filter((name) => !known.includes(name)).map((name) =>
    `The parameter "${name}" is unknown here and was ignored.`
  )

const listAttachments = Effect.fnUntraced(function*(state: SandboxState, integration: string) {
  const { application_id = "" } = yield* HttpRouter.params
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  const warnings = unknownParameterWarnings(yield* queryParameters)
  yield* state.advanceToNow
  const context = state.world.writeContext(integration)
  const application = yield* Effect.fromResult(context.requireFromPath("ats.application", application_id))
  const address = `http://${headers["host"]}/_sandbox/files/${integration}`
  const results = attachmentsOf(context.records, application).map((row) =>
    renderAttachment(row, `${address}/${row.id}`)
  )
  return { data: { results }, warnings }
})

const isStaffingEntityId = Schema.is(StaffingEntityId)

const readEmployeeForm = Effect.fnUntraced(function*(state: SandboxState, integration: string) {
  const given = yield* queryParameters
  const { staffing_entity_id } = given
  if (staffing_entity_id !== undefined && !isStaffingEntityId(staffing_entity_id)) {
    return yield* invalidInput("staffing_entity_id must be 24 characters of base58.")
  }
  yield* state.advanceToNow
  const context = state.world.writeContext(integration)
  const entity = yield* Effect.fromResult(requireStaffingEntity(context, staffing_entity_id))
  return {
    data: employeeFormFor(context.records, entity),
    warnings: unknownParameterWarnings(given, "staffing_entity_id")
  }
})

const listAssessmentPackages = Effect.fnUntraced(function*(state: SandboxState, integration: string) {
  const warnings = unknownParameterWarnings(yield* queryParameters)
  yield* state.advanceToNow
  return {
    data: { packages: state.world.writeContext(integration).liveRows("assessment.package").map(render) },
    warnings
  }
})

const isCategory = Schema.is(ToolCategory)

const listToolsOfCategory = Effect.fnUntraced(function*(state: SandboxState) {
  const { category } = yield* HttpRouter.params
  if (!isCategory(category)) return yield* invalidInput(`The category must be one of ${toolCategories.join(", ")}.`)
  const warnings = unknownParameterWarnings(yield* queryParameters)
  return { data: { tools: listTools(state.world.integrations, category, state.account) }, warnings }
})
