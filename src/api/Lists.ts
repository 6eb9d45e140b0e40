/**
 * The eleven incremental lists of the unified API as data: path, extra filters and the propagation table of
 * `updated_after`. The contract, the sandbox and capture all read this table, so they always agree.
 *
 * Source: docs/contract.md, "Shared list contract" and "List endpoints".
 *
 * Gotchas
 * - `updated_after` reacts to the paths in this table, not to `changed_at`: a record can match although its own
 *   `changed_at` is older, and a change that the table marks as `never` does not match.
 */

/**
 * Which changes of a nested path make `updated_after` match. `entries`: an entry is added or removed; `linked`: a linked
 * record changes. `null` = not applicable.
 */
export interface Propagation {
  readonly entries: boolean | null
  readonly linked: boolean
}

export interface List {
  /** Path relative to the base URL. */
  readonly path: string
  /** Additional filters of this list. Each is a comma-separated list, or a time; an empty value means all. */
  readonly filters: ReadonlyArray<string>
  /** By path of nested content (`a.b`: b inside a): which of its changes make `updated_after` match. */
  readonly propagation: Readonly<Record<string, Propagation>>
}

const always: Propagation = { entries: true, linked: true }
const whenLinkedChanges: Propagation = { entries: null, linked: true }
const never: Propagation = { entries: false, linked: false }

/** Limits of the API's `page_size` parameter. Rollcall requests `max`. */
export const pageSizeLimits = { min: 1, max: 250, default: 100 } as const
/** Default name of the cursor parameter; an account can override it, because the specification does not show the name. */
export const cursorParameter = "cursor"
/** Accepted formats of `updated_after`; the documented one is `YYYY-MM-DDTHH:mm:ss.sssZ`. */
export const updatedAfterPattern = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(\.\d+)?)?Z?$/u

export const lists = {
  "ats.application": {
    path: "/ats/applications",
    filters: ["outcome", "outcomes", "job_ids", "job_remote_ids", "current_stage_ids", "remote_created_after"],
    propagation: {
      "candidate": whenLinkedChanges,
      "candidate.tags": never,
      "current_stage": never,
      "job": never,
      "interviews": always,
      "offers": always
    }
  },
  "ats.scorecard": {
    path: "/ats/scorecards",
    filters: ["candidate_ids", "application_ids"],
    propagation: { "author": never, "application": never, "candidate": never, "interview": never }
  },
  "ats.offer": {
    path: "/ats/offers",
    filters: [],
    propagation: {
      "application": whenLinkedChanges,
      "application.candidate": never,
      "application.job": never
    }
  },
  "ats.tag": { path: "/ats/tags", filters: [], propagation: {} },
  "hris.payslip": {
    path: "/hris/payslips",
    filters: ["employee_ids", "payrun_ids", "legal_entity_ids"],
    propagation: { "employee": never, "pay_run": never, "line_items": always, "line_items.salary_type": never }
  },
  "hris.performance_review": {
    path: "/hris/performance-reviews",
    filters: ["types", "review_cycle_ids", "reviewee_ids"],
    propagation: { "review_cycle": whenLinkedChanges, "reviewee": whenLinkedChanges, "reviewer": whenLinkedChanges }
  },
  "hris.performance_review_cycle": { path: "/hris/performance-review-cycles", filters: [], propagation: {} },
  "hris.staffing_entity": {
    path: "/hris/staffing-entities",
    filters: ["model_types", "statuses"],
    propagation: { "locations": always, "legal_entities": always, "groups": always, "skills": always }
  },
  "hris.legal_entity": { path: "/hris/legal-entities", filters: ["name_contains"], propagation: {} },
  "hris.skill": { path: "/hris/skills", filters: [], propagation: { "proficiency_scale": whenLinkedChanges } },
  "hris.absence_type": { path: "/hris/absence-types", filters: [], propagation: {} }
} as const satisfies Record<string, List>

const outcomes = ["PENDING", "HIRED", "DECLINED"]
/** Allowed values per filter; a filter that is not listed accepts any value. */
export const filterValues: Readonly<Record<string, ReadonlyArray<string>>> = {
  outcome: outcomes,
  outcomes,
  types: ["MANAGER", "DIRECT_REPORT", "PEER", "SELF"],
  model_types: ["JOB", "POSITION", "REQUISITION"],
  statuses: ["OPEN_LIMITED", "OPEN_UNLIMITED", "PENDING", "FROZEN", "FILLED", "CLOSED"]
}

/** Filters whose value is a time, in the format of `updated_after`; it must not be empty. */
export const timeFilters: ReadonlyArray<string> = ["remote_created_after"]

/** Parameters of every list, in addition to the cursor and the list's own filters. */
export const sharedParameters = [
  "page_size",
  "updated_after",
  "include_deleted",
  "ignore_unsupported_filters",
  "ids",
  "remote_ids"
] as const

/** Whether this is a valid name for the cursor parameter: no other parameter of a list may have it. */
export const isCursorParameter = (name: string): boolean =>
  /^[A-Za-z][\w.-]*$/.test(name) && !reservedParameters.has(name)

const reservedParameters: ReadonlySet<string> = new Set([
  ...sharedParameters,
  ...Object.values(lists).flatMap(({ filters }): ReadonlyArray<string> => filters)
])

/** The models read with `updated_after`. */
export type IncrementalModel = keyof typeof lists
export const incrementalModels = Object.keys(lists) as ReadonlyArray<IncrementalModel>
