/** The audit log: the commands of operators, and summaries of requests that read records. */
import type { Operation } from "./StoreError.ts"

/** One command of an operator, for the audit log. */
export interface OperatorAction {
  /** Our clock, in ms. */
  readonly at: number
  readonly command: string
  /** The stream, hold, plugin … that the command was applied to. */
  readonly target: string
  /** Text without secrets and personal data. */
  readonly detail: string
}

/** Requests of one caller within one hour, for the audit log. Contains no id of a record. */
export interface ReadSummary {
  /** Start of the hour; our clock, in ms. */
  readonly period: number
  /** The route that shows records, such as `/v1/events`; `*`: all requests of the caller. */
  readonly route: string
  /** `<integration>/<model>`. A part is `*` if the request names none or several. */
  readonly target: string
  /** See `Actor.ts`. */
  readonly actor: string
  /** The address of the connection; `several` if there are too many to list. */
  readonly address: string
  readonly firstAt: number
  readonly lastAt: number
  readonly requests: number
}

/** An action in the audit log. */
export interface AuditEntry extends OperatorAction {
  readonly id: number
  /** See `Actor.ts`; null in entries of earlier versions. */
  readonly actor: string | null
  readonly address: string | null
}

export interface AuditLog {
  /** Adds an operator's action that changes nothing in the store to the audit log. */
  readonly recordAction: (action: OperatorAction) => Operation<void>
  /** Operators' actions, the newest first; `before`: only those with a smaller id. */
  readonly auditLog: (limit: number, before?: number) => Operation<ReadonlyArray<AuditEntry>>
  /**
   * Adds requests to the audit log. `requests` is added to the summary of the same hour, route, target, actor and address, if there
   * is one. Any process may call this.
   */
  readonly recordReads: (reads: ReadonlyArray<ReadSummary>) => Operation<void>
  /** Summaries of requests, the newest first; `before`: only those with a smaller id. */
  readonly auditedReads: (
    limit: number,
    before?: number
  ) => Operation<ReadonlyArray<ReadSummary & { readonly id: number }>>
  /** Deletes summaries of requests whose hour started before `before` (our clock, in ms). */
  readonly pruneReads: (before: number) => Operation<void>
}
