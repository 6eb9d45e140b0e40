/**
 * The four reads beside the lists over HTTP: attachments, employee form, assessment packages and tools.
 *
 * Source: docs/contract.md, "Other reads".
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Schema from "effect/Schema"
import { StaffingEntityId } from "../api/Forms.ts"
import { toolCategories, ToolCategory } from "../api/Tools.ts"
import { toolsOf } from "./Catalogue.ts"
import { formOf } from "./EmployeeForms.ts"
import { endpointOf } from "./Endpoints.ts"
import { attachmentsOf } from "./Files.ts"
import * as Gate from "./Gate.ts"
import { staffingEntityOf } from "./PeopleWrites.ts"
import { invalid } from "./Refusal.ts"
import { attachmentOf, render } from "./Rendering.ts"
import { texts } from "./Request.ts"
import type { Stage } from "./Stage.ts"

export const layer = (stage: Stage) =>
  HttpRouter.addAll([
    Gate.route(stage, endpointOf("attachments"), (integration) => attachments(stage, integration)),
    Gate.route(stage, endpointOf("employeeForm"), (integration) => employeeForm(stage, integration)),
    Gate.route(stage, endpointOf("assessmentPackages"), (integration) => assessmentPackages(stage, integration)),
    Gate.route(stage, endpointOf("tools"), () => tools(stage))
  ])

const ignored = (given: Readonly<Record<string, string>>, ...known: ReadonlyArray<string>): ReadonlyArray<string> =>
  Object.keys(given).filter((name) => !known.includes(name)).map((name) =>
    `The parameter "${name}" means nothing here and was ignored.`
  )

const attachments = Effect.fnUntraced(function*(stage: Stage, integration: string) {
  const { application_id = "" } = yield* HttpRouter.params
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  const warnings = ignored(yield* texts)
  yield* stage.catchUp
  const site = stage.world.site(integration)
  const application = yield* Effect.fromResult(site.addressed("ats.application", application_id))
  const address = `http://${headers["host"]}/_sandbox/files/${integration}`
  const results = attachmentsOf(site.records, application).map((row) => attachmentOf(row, `${address}/${row.id}`))
  return { data: { results }, warnings }
})

const isStaffingEntityId = Schema.is(StaffingEntityId)

const employeeForm = Effect.fnUntraced(function*(stage: Stage, integration: string) {
  const given = yield* texts
  const { staffing_entity_id } = given
  if (staffing_entity_id !== undefined && !isStaffingEntityId(staffing_entity_id)) {
    return yield* invalid("staffing_entity_id must be 24 characters of base58.")
  }
  yield* stage.catchUp
  const site = stage.world.site(integration)
  const entity = yield* Effect.fromResult(staffingEntityOf(site, staffing_entity_id))
  return { data: formOf(site.records, entity), warnings: ignored(given, "staffing_entity_id") }
})

const assessmentPackages = Effect.fnUntraced(function*(stage: Stage, integration: string) {
  const warnings = ignored(yield* texts)
  yield* stage.catchUp
  return { data: { packages: stage.world.site(integration).rows("assessment.package").map(render) }, warnings }
})

const isCategory = Schema.is(ToolCategory)

const tools = Effect.fnUntraced(function*(stage: Stage) {
  const { category } = yield* HttpRouter.params
  if (!isCategory(category)) return yield* invalid(`The category must be one of ${toolCategories.join(", ")}.`)
  const warnings = ignored(yield* texts)
  return { data: { tools: toolsOf(stage.world.integrations, category, stage.account) }, warnings }
})
