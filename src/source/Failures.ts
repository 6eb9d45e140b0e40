/**
 * Classifies requests that got no usable response. `RetryPolicy.ts` uses that to decide about the same request, `CircuitBreakers.ts` about
 * later requests of the integration, and `Outages.ts` to log.
 *
 * Gotchas
 * - The failure of an open connection does not prove that a write had no effect: the request may have arrived. A status does not prove
 *   it either: a gateway may respond with 409 after the API has performed the write.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Exit from "effect/Exit"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as Option from "effect/Option"
import { provesNoEffect, refusesEveryRequest } from "../api/ErrorClassification.ts"
import type { ResolutionPolicy } from "../api/Writes.ts"
import type { ListEntry } from "../domain/Model.ts"
import {
  ApplicationAlreadyExists,
  EmployeeAlreadyExists,
  Inactive,
  JobClosed,
  NotSent,
  OutcomeUnknown,
  SourceError,
  StaffingEntityClosed,
  Transient,
  Unauthorized,
  Unsupported,
  WriteError
} from "./Source.ts"

const connecting: ReadonlySet<unknown> = new Set(["connect", "getaddrinfo"])
/** Node's code if a proxy did not connect to the API. */
const refusedByProxy = "ERR_PROXY_TUNNEL"

/** Whether the error occurred before a connection existed, so the API cannot have seen the request. */
const isBeforeConnection = ({ reason }: HttpClientError.HttpClientError): boolean => {
  if (reason._tag === "EncodeError" || reason._tag === "InvalidUrlError") return true
  const causes: ReadonlyArray<unknown> = reason.cause instanceof AggregateError ? reason.cause.errors : [reason.cause]
  return causes.every((cause) =>
    cause instanceof Error &&
    (("syscall" in cause && connecting.has(cause.syscall)) || ("code" in cause && cause.code === refusedByProxy))
  )
}

/** Node's codes for a certificate that it refuses. */
const certificateErrors = /CERT|UNABLE_TO_|HOSTNAME_MISMATCH/

/**
 * The error of a request without a response. A check that failed before the request was sent has an error of its own. `connection`: what
 * failed, such as `the connection through the proxy http://proxy:3128`.
 */
export const fromConnectionError = (error: HttpClientError.HttpClientError, connection: string): SourceError => {
  const { cause } = error.reason
  if (cause instanceof SourceError) return cause
  const status = cause instanceof Error && "statusCode" in cause ? Number(cause.statusCode) : null
  const code = cause instanceof Error && "code" in cause
    ? ` (${String(cause.code)}${status === null ? "" : `, status ${status}`})`
    : ""
  const message = certificateErrors.test(code)
    ? `the API's certificate is not valid${code}: it must name the host of the URL, and be signed by an authority that ` +
      "Node.js trusts or that is in the file that NODE_EXTRA_CA_CERTS names"
    : `the API does not answer: ${connection} failed${code}`
  return new SourceError({
    reason: new Transient({
      code: null,
      message,
      ...(isBeforeConnection(error) && { notSent: true }),
      // a proxy that refuses the tunnel refuses every request
      ...(status !== null && refusesEveryRequest(status) && { status, intercepted: true })
    })
  })
}

export const timedOut = (timeout: Duration.Duration): SourceError =>
  new SourceError({
    reason: new Transient({
      code: null,
      message: `the API does not answer: no complete response within ${Duration.format(timeout)}`
    })
  })

/** The error of a request that was not sent. */
export const notSent = (
  Reason: typeof Transient | typeof Unauthorized | typeof Inactive,
  message: string
): SourceError => new SourceError({ reason: new Reason({ code: null, message, notSent: true }) })

/** The error of a request for a page. An API without the list refuses every request for it, so that repeating one does not help. */
export const ofList = ({ model, path }: ListEntry, error: SourceError): SourceError => {
  const { reason } = error
  if (reason._tag !== "Rejected" || reason.status !== 404) return error
  const { code, logUrl, message } = reason
  return new SourceError({
    reason: new Unsupported({
      code,
      message: `${message}: the API has no list ${path}, which is the path of ${model}`,
      ...logUrl !== undefined && { logUrl }
    })
  })
}

/** How a request ended: "ok", the reason of its error, or "interrupted", which includes a defect and a failed hook. */
export const outcomeOf = (
  exit: Exit.Exit<unknown, unknown>
): SourceError["reason"] | { readonly _tag: "ok" | "interrupted" } => {
  if (Exit.isSuccess(exit)) return { _tag: "ok" }
  const error = Option.getOrNull(Cause.findErrorOption(exit.cause))
  return error instanceof SourceError ? error.reason : { _tag: "interrupted" }
}

/** Whether it is certain that the API did nothing: the request did not reach it, or the error code proves it. */
export const hasNoEffect = ({ reason }: SourceError): boolean => reason.notSent === true || provesNoEffect(reason.code)

/** Whether the API rejected the request. This is enough for a write that may be repeated safely. */
const isRejected = ({ reason }: SourceError): boolean => reason._tag !== "Transient" && reason._tag !== "Unreadable"

/** Error codes for which plugins can match a specific reason. */
const reasonsByCode = {
  "ATS.JOB_CLOSED": JobClosed,
  "ATS.APPLICATION_ALREADY_EXISTS": ApplicationAlreadyExists,
  "HRIS.EMPLOYEE_ALREADY_EXISTS": EmployeeAlreadyExists,
  "HRIS.STAFFING_ENTITY_CLOSED": StaffingEntityClosed
} as const
const hasOwnReason = (code: string | null): code is keyof typeof reasonsByCode =>
  code !== null && Object.hasOwn(reasonsByCode, code)

type Answer = Pick<Transient, "status" | "intercepted">

/** The part of the error that describes an answer of something between Rollcall and the API; empty for other errors. */
export const answerOf = ({ intercepted, status }: Answer): Answer =>
  intercepted === true && status !== undefined ? { intercepted, status } : {}

const writeReason = (error: SourceError, resolutionPolicy: ResolutionPolicy): WriteError["reason"] => {
  const { reason } = error
  const { code, logUrl, message } = reason
  const detail = { code, message, ...(logUrl !== undefined && { logUrl }) }
  const answer = reason._tag === "Transient" ? answerOf(reason) : {}
  if (!hasNoEffect(error) && !(resolutionPolicy === "safe" && isRejected(error))) {
    return new OutcomeUnknown({ ...detail, ...answer })
  }
  if (reason._tag === "Transient") {
    return new NotSent({ ...detail, ...answer, retryAfter: reason.retryAfter ?? null })
  }
  return hasOwnReason(code) ? new reasonsByCode[code](detail) : reason
}

/** The error of a failed write attempt. */
export const toWriteError = (resolutionPolicy: ResolutionPolicy) => (error: SourceError): WriteError =>
  new WriteError({ reason: writeReason(error, resolutionPolicy) })
