/**
 * The 27 endpoints over HTTP: the lists, the other reads and the writes.
 *
 * Source: docs/contract.md, "List endpoints", "Other reads", "Writes".
 *
 * Gotchas
 * - The body of a write is read before the world advances to the current time, so a slow upload is dated when it is complete.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Schema from "effect/Schema"
import { StaffingEntityId } from "../../../api/Forms.ts"
import { type IncrementalModel, incrementalModels } from "../../../api/Lists.ts"
import { toolCategories, ToolCategory } from "../../../api/Tools.ts"
import { type WriteName, writeNames } from "../../../api/Writes.ts"
import { invalidInput } from "../../world/ApiError.ts"
import { attachmentsOf } from "../../world/Attachments.ts"
import { employeeFormFor } from "../../world/EmployeeForms.ts"
import { requireStaffingEntity } from "../../world/PeopleWrites.ts"
import type { Row } from "../../world/Records.ts"
import { renderAttachment } from "../../world/Rendering.ts"
import { render } from "../../world/Rendering.ts"
import { endpointOf, furtherEndpoints, type FurtherList } from "../Endpoints.ts"
import * as Middleware from "../Middleware.ts"
import type { SandboxState } from "../SandboxState.ts"
import { parseListRequest, queryParameters, unknownParameterWarning } from "./ListRequest.ts"
import * as RequestBody from "./RequestBody.ts"
import { listTools } from "./ToolCatalog.ts"

export const layer = (state: SandboxState) =>
  HttpRouter.addAll([
    ...incrementalModels.map((model) =>
      Middleware.route(state, endpointOf(model), (integration) => handleList(state, model, integration))
    ),
    ...furtherEndpoints.map((endpoint) =>
      Middleware.route(state, endpoint, (integration) => handleList(state, endpoint.name, integration))
    ),
    Middleware.route(state, endpointOf("attachments"), (integration) => listAttachments(state, integration)),
    Middleware.route(state, endpointOf("employeeForm"), (integration) => readEmployeeForm(state, integration)),
    Middleware.route(state, endpointOf("assessmentPackages"), (integration) => listPackages(state, integration)),
    Middleware.route(state, endpointOf("tools"), () => listToolsOfCategory(state)),
    ...writeNames.map((name) =>
      Middleware.route(state, endpointOf(name), (integration) => handleWrite(state, name, integration))
    )
  ])

// ---- lists --------------------------------------------------------------------------------------------------------

const handleList = Effect.fnUntraced(function*(
  state: SandboxState,
  model: IncrementalModel | FurtherList,
  integration: string
) {
  const unsupported = state.account.unsupportedFilters(integration)
  const { cursor, ignoredParameters, matchesNothing, pageSize, query } = yield* Effect.fromResult(
    parseListRequest(model, yield* queryParameters, unsupported, state.cursorParameter)
  )
  yield* state.advanceToNow
  const page = state.world.page(integration, model, query, pageSize, cursor)
  if (page === "bad cursor") return yield* invalidInput(`${state.cursorParameter} was not issued by this list.`)
  return {
    data: matchesNothing ? { next: null, results: [] } : { next: page.next, results: page.results },
    warnings: ignoredParameters.map((name) =>
      matchesNothing && unsupported.includes(name)
        ? `The integration does not support the filter "${name}", so the list is empty.`
        : unknownParameterWarning(name)
    )
  }
})

// ---- other reads --------------------------------------------------------------------------------------------------

/** The query parameters, and a warning for each one that is not known. */
const knownParameters = (...known: ReadonlyArray<string>) =>
  Effect.map(queryParameters, (query) => ({
    query,
    warnings: Object.keys(query).filter((name) => !known.includes(name)).map(unknownParameterWarning)
  }))

/** The integration's records now. */
const contextNow = (state: SandboxState, integration: string) =>
  Effect.map(state.advanceToNow, () => state.world.writeContext(integration))

const listAttachments = Effect.fnUntraced(function*(state: SandboxState, integration: string) {
  const { application_id = "" } = yield* HttpRouter.params
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  const { warnings } = yield* knownParameters()
  const context = yield* contextNow(state, integration)
  const application = yield* Effect.fromResult(context.requireFromPath("ats.application", application_id))
  const address = `http://${headers["host"]}/_sandbox/files/${integration}`
  const attachments = attachmentsOf(context.records, application)
  const urlOf = ({ fields, id }: Row): string =>
    typeof fields["data_url"] === "string" ? fields["data_url"] : `${address}/${id}`
  return { data: { results: attachments.map((row) => renderAttachment(row, urlOf(row))) }, warnings }
})

const isStaffingEntityId = Schema.is(StaffingEntityId)

const readEmployeeForm = Effect.fnUntraced(function*(state: SandboxState, integration: string) {
  const { query: { staffing_entity_id }, warnings } = yield* knownParameters("staffing_entity_id")
  if (staffing_entity_id !== undefined && !isStaffingEntityId(staffing_entity_id)) {
    return yield* invalidInput("staffing_entity_id must be 24 characters of base58.")
  }
  const context = yield* contextNow(state, integration)
  const entity = yield* Effect.fromResult(requireStaffingEntity(context, staffing_entity_id))
  return { data: employeeFormFor(context.records, entity), warnings }
})

const listPackages = Effect.fnUntraced(function*(state: SandboxState, integration: string) {
  const { warnings } = yield* knownParameters()
  const context = yield* contextNow(state, integration)
  return { data: { packages: context.liveRows("assessment.package").map(render) }, warnings }
})

const isCategory = Schema.is(ToolCategory)

const listToolsOfCategory = Effect.fnUntraced(function*(state: SandboxState) {
  const { category } = yield* HttpRouter.params
  if (!isCategory(category)) return yield* invalidInput(`The category must be one of ${toolCategories.join(", ")}.`)
  const { warnings } = yield* knownParameters()
  return { data: { tools: listTools(state.world.integrations, category, state.account) }, warnings }
})

// ---- writes -------------------------------------------------------------------------------------------------------

/** The specification shows the responses of these writes without `warnings`. */
const withoutWarnings: ReadonlyArray<WriteName> = ["updateInterview"]

const handleWrite = Effect.fnUntraced(function*(state: SandboxState, name: WriteName, integration: string) {
  const body = yield* RequestBody.readJson
  const params = yield* HttpRouter.params
  yield* state.advanceToNow
  const { data, warnings } = yield* Effect.fromResult(state.world.write(integration, name, params, body))
  return { data, warnings: withoutWarnings.includes(name) ? null : warnings ?? [] }
})
