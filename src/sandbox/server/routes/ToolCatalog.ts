/**
 * The tool catalog: the tools of the account's integrations, and the endpoints that each tool offers.
 *
 * Invariants
 * 1. An endpoint is SUPPORTED if and only if the sandbox serves it to the tool's integrations.
 *
 * Gotchas
 * - A tool is listed in every category it belongs to, with the coverage of that category only.
 * - The coverage id of a read is its path without parameters (`ats_scorecards`); the coverage id of a write is its name (`add_tag`).
 */
import * as Record from "effect/Record"
import type * as Schema from "effect/Schema"
import { fieldsOf } from "../../../api/Fields.ts"
import { modelSchemas } from "../../../api/ModelSchemas.ts"
import { type Tool, type ToolCategory, toolOf } from "../../../api/Tools.ts"
import { writeSchemas } from "../../../api/Writes.ts"
import { toLabel } from "../../world/SampleData.ts"
import type { World } from "../../world/World.ts"
import type { Account } from "../Account.ts"
import { type Endpoint, endpoints } from "../Endpoints.ts"

const toSnakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** For `/v1/ats/applications/:application_id/attachments`: `ats_applications_attachments`. */
const coverageId = ({ kind, name, path }: Endpoint): string =>
  kind === "write"
    ? toSnakeCase(name)
    : path.split("/").slice(2).filter((part) => !part.startsWith(":")).join("_").replaceAll("-", "_")

/** By the name of an endpoint: a list has the name of its model, a write has its own. */
const schemas: Readonly<Record<string, Schema.Top>> = {
  ...modelSchemas,
  ...Record.map(writeSchemas, ({ body }) => body)
}

const coverageEntry = (endpoint: Endpoint, supported: boolean) => {
  const id = coverageId(endpoint)
  const coverage_status = supported ? "SUPPORTED" : "UNSUPPORTED"
  return {
    id,
    label: toLabel(id),
    coverage_status,
    fields: [...fieldsOf(schemas[endpoint.name]?.ast)?.keys() ?? []].map((id) => ({ id, coverage_status }))
  }
}

const renderTool = (id: string, category: ToolCategory, account: Account): Tool => {
  const covered = (write: boolean) =>
    endpoints
      .filter((endpoint) => endpoint.category === category && (endpoint.kind === "write") === write)
      .map((endpoint) => coverageEntry(endpoint, account.hasEndpoint(id, endpoint)))
  const asset = (kind: string) => `https://tools.example/${id}/${kind}.svg`
  return {
    id,
    label: toLabel(id),
    internal_label: null,
    assets: { logo_url: asset("logo"), icon_url: asset("icon"), icon_black_url: asset("icon-black") },
    paid_api_details_markdown: null,
    fast_track_details_markdown: null,
    partner_only_details_markdown: null,
    connection_guide_url: `https://tools.example/${id}/connect`,
    coverage: {
      read_models: covered(false),
      write_actions: covered(true),
      features: [{ id: "webhooks", label: "Webhooks", coverage_status: "UNSUPPORTED" }]
    }
  }
}

/** The tools of a category, each once. */
export const listTools = (
  integrations: World["integrations"],
  category: ToolCategory,
  account: Account
): ReadonlyArray<Tool> => {
  const ids = integrations.filter(({ categories }) => categories.includes(category)).map(({ id }) => toolOf(id))
  return [...new Set(ids)].map((id) => renderTool(id, category, account))
}
