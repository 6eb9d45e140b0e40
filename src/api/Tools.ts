/**
 * The tool catalogue: which third-party systems there are, and how much of each the API covers.
 *
 * Source: docs/contract.md, "Tools".
 *
 * Gotchas
 * - It belongs to the account, not to an integration: no integration header is sent.
 */
import * as Schema from "effect/Schema"
import { list, listOf, object, oneOf, recordIds, text } from "./Fields.ts"

/** The four kinds of third-party systems; there are no others. */
export const toolCategories = ["hris", "ats", "assessment", "lms"] as const
export const ToolCategory = Schema.Literals(toolCategories)
export type ToolCategory = typeof ToolCategory.Type

const labelled = {
  id: recordIds.id,
  label: text,
  coverage_status: oneOf("SUPPORTED", "UNSUPPORTED", "NOT_IMPLEMENTED", "UNKNOWN")
}
const covered = list(
  Schema.Struct({
    ...labelled,
    fields: listOf({ id: labelled.id, coverage_status: labelled.coverage_status })
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
  coverage: object({ read_models: covered, write_actions: covered, features: listOf(labelled) })
}).annotate({ identifier: "Tool" })
export type Tool = typeof Tool.Type

export const ToolList = Schema.Struct({ tools: Schema.Array(Tool) })
