/**
 * The tool catalog: the third-party systems, and how much of each one the API covers.
 *
 * Source: docs/contract.md, "HRIS" and "Other reads".
 *
 * Gotchas
 * - The catalog belongs to the account, not to an integration: it is requested without the integration header.
 */
import * as Schema from "effect/Schema"
import { list, listOf, object, oneOf, recordIds, text } from "./Fields.ts"

/** The four categories of third-party systems. */
export const toolCategories = ["hris", "ats", "assessment", "lms"] as const
export const ToolCategory = Schema.Literals(toolCategories)
export type ToolCategory = typeof ToolCategory.Type

/** The tool of an integration: `greenhouse` of `greenhouse:acme`. */
export const toolOf = (integration: string): string => integration.split(":", 1)[0] ?? integration

const labeled = {
  id: recordIds.id,
  label: text,
  coverage_status: oneOf("SUPPORTED", "UNSUPPORTED", "NOT_IMPLEMENTED", "UNKNOWN")
}
const covered = list(
  Schema.Struct({
    ...labeled,
    fields: listOf({ id: labeled.id, coverage_status: labeled.coverage_status })
  })
)

/** `id` is the part of an integration's id before the colon. */
export const Tool = Schema.Struct({
  id: recordIds.id,
  label: text,
  internal_label: text,
  assets: object({ logo_url: text, icon_url: text, icon_black_url: text }),
  paid_api_details_markdown: text,
  fast_track_details_markdown: text,
  partner_only_details_markdown: text,
  connection_guide_url: text,
  coverage: object({ read_models: covered, write_actions: covered, features: listOf(labeled) })
}).annotate({ identifier: "Tool" })
export type Tool = typeof Tool.Type

export const ToolList = Schema.Struct({ tools: Schema.Array(Tool) })
