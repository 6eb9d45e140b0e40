/** The audit log: the commands of operators, and who read records in which hour. */
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

/** That a caller read records in an hour, for the audit log. Contains no id of a record. */
export interface AuditedRead {
  /** Start of the hour; our clock, in ms. */
  readonly period: number
  /** The route that shows records, such as `/v1/events`. */
  readonly route: string
  /** `<integration>/<model>`. A part is `*` if the request names none or several. */
  readonly target: string
  /** See `Actor.ts`. */
  readonly actor: string
  /** The address of the connection; `several` if there are too many to list. */
  readonly address: string
  /** The first such read that a process noted; our clock, in ms. */
  readonly firstAt: number
}

/** An action in the audit log. */
export interface AuditEntry extends OperatorAction {
  readonly id: number
  /** See `Actor.ts`. */
  readonly actor: string
  readonly address: string | null
}

export interface AuditLog {
  /** Adds an operator's action that changes nothing in the store to the audit log. */
  readonly recordAction: (action: OperatorAction) => Operation<void>
  /** Operators' actions, the newest first; `before`: only those with a smaller id. */
  readonly auditLog: (limit: number, before?: number) => Operation<ReadonlyArray<AuditEntry>>
  /** Adds a read to the audit log, unless it has one of the same hour, route, target, actor and address. Any process may call this. */
  readonly recordRead: (read: AuditedRead) => Operation<void>
  /** Reads of records, the newest first; `before`: only those with a smaller id. */
  readonly auditedReads: (
    limit: number,
    before?: number
  ) => Operation<ReadonlyArray<AuditedRead & { readonly id: number }>>
  /** Deletes reads whose hour started before `before` (our clock, in ms). */
  readonly pruneReads: (before: number) => Operation<void>
}
