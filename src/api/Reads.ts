/**
 * The four reads beside the eleven lists: paths and permissions as data, with the schemas of what they answer.
 *
 * Source: docs/contract.md, "Other reads".
 */
import * as Schema from "effect/Schema"
import { AssessmentPackageList } from "./Assessment.ts"
import { AttachmentList } from "./Attachments.ts"
import { EmployeeForm } from "./Forms.ts"
import { ToolCategory, ToolList } from "./Tools.ts"

export interface Read {
  /** What it reads, for the document. */
  readonly summary: string
  readonly path: `/${string}`
  /** null: of the account, not of an integration, and asked without the integration header. */
  readonly category: ToolCategory | null
  /** What must be enabled in the account's scope configuration; null where the specification is silent. */
  readonly permission: string | null
  /** Passed on to the connected system while the caller waits: under the limit of concurrency, as writes are. */
  readonly live: boolean
}

export const reads = {
  /** Falls back to the candidate's attachments where the third-party system keeps them there. */
  attachments: {
    summary: "List the attachments of an application",
    path: "/ats/applications/{application_id}/attachments",
    category: "ats",
    permission: "Read document attachments",
    live: true
  },
  /** Changes with the staffing entity, if one is given. */
  employeeForm: {
    summary: "Read the form from which employees are created",
    path: "/hris/employees/form",
    category: "hris",
    permission: null,
    live: true
  },
  assessmentPackages: {
    summary: "List all assessment packages",
    path: "/assessment/packages",
    category: "assessment",
    permission: null,
    live: false
  },
  tools: {
    summary: "List the tools of a category",
    path: "/tools/{category}",
    category: null,
    permission: null,
    live: false
  }
} as const satisfies Record<string, Read>
export type ReadName = keyof typeof reads
export const readNames = Object.keys(reads) as ReadonlyArray<ReadName>

/** `data` of each answer. */
export const readSchemas = {
  attachments: AttachmentList,
  employeeForm: EmployeeForm,
  assessmentPackages: AssessmentPackageList,
  tools: ToolList
} as const satisfies Record<ReadName, Schema.Top>
