/**
 * What it means when a request got no usable answer: hides which network errors prove that the API saw nothing, and
 * what a failed try means for a write.
 *
 * Gotchas
 * - A connection that broke proves nothing, however early: what was sent may have arrived. Nor does a status: 409 may come
 *   from a gateway, after the API has done the write.
 */
import * as Duration from "effect/Duration"
import type * as HttpClientError from "effect/http/HttpClientError"
import { provesNoEffect } from "../api/ErrorClassification.ts"
import type { ResendPolicy } from "../api/Writes.ts"
import { CircuitOpen } from "./CircuitBreakers.ts"
import {
  ApplicationAlreadyExists,
  EmployeeAlreadyExists,
  JobClosed,
  NotSent,
  OutcomeUnknown,
  SlotWaitAborted,
  SourceError,
  StaffingEntityClosed,
  Transient,
  WriteError
} from "./Source.ts"

const connecting: ReadonlySet<unknown> = new Set(["connect", "getaddrinfo"])

/** Whether there was no connection yet, so that the API cannot have seen the request. */
const isBeforeConnection = ({ reason }: HttpClientError.HttpClientError): boolean => {
  if (reason._tag === "EncodeError" || reason._tag === "InvalidUrlError") return true
  const causes: ReadonlyArray<unknown> = reason.cause instanceof AggregateError ? reason.cause.errors : [reason.cause]
  return causes.every((cause) => cause instanceof Error && "syscall" in cause && connecting.has(cause.syscall))
}

export const fromConnectionError = (error: HttpClientError.HttpClientError): SourceError => {
  const cause = error.reason.cause
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : error.reason._tag
  const message = `the connection failed (${code})`
  return new SourceError({
    reason: new Transient({ code: null, message, ...(isBeforeConnection(error) && { notSent: true }) })
  })
}

export const timedOut = (timeout: Duration.Duration): SourceError =>
  new SourceError({
    reason: new Transient({ code: null, message: `no complete answer within ${Duration.format(timeout)}` })
  })

const fromOpenCircuit = ({ left, message }: CircuitOpen): SourceError =>
  new SourceError({
    reason: new Transient({ code: null, message, notSent: true, retryAfter: Duration.toMillis(left) })
  })

const fromAbortedWait = ({ message }: SlotWaitAborted): SourceError =>
  new SourceError({ reason: new Transient({ code: null, message, notSent: true }) })

/** What it means that a request did not leave; everything else means what it says. */
export const fromUnsent = <E>(error: E): Exclude<E, CircuitOpen | SlotWaitAborted> | SourceError =>
  error instanceof CircuitOpen
    ? fromOpenCircuit(error)
    : error instanceof SlotWaitAborted
    ? fromAbortedWait(error)
    : error as Exclude<E, CircuitOpen | SlotWaitAborted>

/** Whether it is certain that the API did nothing: the request did not reach it, or it answered with a code that says so. */
export const hasNoEffect = ({ reason }: SourceError): boolean => reason.notSent === true || provesNoEffect(reason.code)

/** A refusal by its status; where a second write does no harm, nothing more has to be certain. */
const isRefused = ({ reason }: SourceError): boolean => reason._tag !== "Transient" && reason._tag !== "Unreadable"

/** Refusals that a plugin may match on. */
const permanent = {
  "ATS.JOB_CLOSED": JobClosed,
  "ATS.APPLICATION_ALREADY_EXISTS": ApplicationAlreadyExists,
  "HRIS.EMPLOYEE_ALREADY_EXISTS": EmployeeAlreadyExists,
  "HRIS.STAFFING_ENTITY_CLOSED": StaffingEntityClosed
} as const
const isPermanent = (code: string | null): code is keyof typeof permanent =>
  code !== null && Object.hasOwn(permanent, code)

const writeReason = (error: SourceError, repeat: ResendPolicy): WriteError["reason"] => {
  const { reason } = error
  const { code, message } = reason
  if (!hasNoEffect(error) && !(repeat === "safe" && isRefused(error))) return new OutcomeUnknown({ code, message })
  if (reason._tag === "Transient") return new NotSent({ code, message, retryAfter: reason.retryAfter ?? null })
  return isPermanent(code) ? new permanent[code]({ code, message }) : reason
}

/** What a failed try of a write means. */
export const toWriteError = (repeat: ResendPolicy) => (error: SourceError): WriteError =>
  new WriteError({ reason: writeReason(error, repeat) })
