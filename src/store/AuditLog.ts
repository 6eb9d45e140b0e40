/** The audit log: the commands of operators, and summaries of requests that read records. */

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
