/**
 * The four reads besides the eleven lists: paths and permissions as data, and the schemas of the responses.
 *
 * Source: docs/contract.md, "Other reads".
 */
import * as Schema from "effect/Schema"
import { AssessmentPackageList } from "./Assessment.ts"
import { AttachmentList } from "./Attachments.ts"
import { EmployeeForm } from "./Forms.ts"
import { ToolCategory, ToolList } from "./Tools.ts"

export interface Read {
  /** Summary for the OpenAPI document. */
  readonly summary: string
  readonly path: `/${string}`
  /** Null if the read belongs to the account, not to an integration, and is sent without the integration header. */
  readonly category: ToolCategory | null
  /** Permission in the account's scope configuration; null if the specification does not mention one. */
  readonly permission: string | null
  /** The API forwards the request to the connected system: the concurrency limit applies, as for writes. */
  readonly forwarded: boolean
}

export const reads = {
  /** Returns the candidate's attachments if the third-party system stores attachments on candidates. */
  attachments: {
    summary: "List the attachments of an application",
    path: "/ats/applications/{application_id}/attachments",
    category: "ats",
    permission: "Read document attachments",
    forwarded: true
  },
  /** The form may depend on the staffing entity. */
  employeeForm: {
    summary: "Read the form for creating employees",
    path: "/hris/employees/form",
    category: "hris",
    permission: null,
    forwarded: true
  },
  assessmentPackages: {
    summary: "List all assessment packages",
    path: "/assessment/packages",
    category: "assessment",
    permission: null,
    forwarded: false
  },
  tools: {
    summary: "List the tools of a category",
    path: "/tools/{category}",
    category: null,
    permission: null,
    forwarded: false
  }
} as const satisfies Record<string, Read>
export type ReadName = keyof typeof reads
export const readNames = Object.keys(reads) as ReadonlyArray<ReadName>

/** Schema of each response's `data`. */
export const readSchemas = {
  attachments: AttachmentList,
  employeeForm: EmployeeForm,
  assessmentPackages: AssessmentPackageList,
  tools: ToolList
} as const satisfies Record<ReadName, Schema.Top>
