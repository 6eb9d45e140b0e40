import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { classifyError, type ErrorClass, ErrorEnvelope } from "./ErrorClassification.ts"

const byCode: ReadonlyArray<readonly [code: string, status: number, expected: ErrorClass]> = [
  ["PLATFORM.RATE_LIMIT_EXCEEDED", 429, "RateLimited"],
  ["PLATFORM.CONCURRENCY_LIMIT_EXCEEDED", 429, "RateLimited"],
  ["REMOTE.RATE_LIMIT_EXCEEDED", 429, "RateLimited"],
  ["REMOTE.SERVICE_UNAVAILABLE", 503, "Transient"],
  ["PLATFORM.TASK_TIMED_OUT", 500, "Transient"],
  ["PLATFORM.UNKNOWN_ERROR", 500, "Transient"],
  ["PLATFORM.AUTHENTICATION_INVALID", 401, "Unauthorized"],
  ["PLATFORM.IP_NOT_WHITELISTED", 403, "Unauthorized"],
  ["INTEGRATION.PERMISSION_MISSING", 403, "Forbidden"],
  ["INTEGRATION.MODEL_NOT_AVAILABLE", 400, "Unsupported"],
  ["INTEGRATION.MODEL_DISABLED", 403, "Unsupported"],
  ["INTEGRATION.ACTION_NOT_AVAILABLE", 501, "Unsupported"],
  ["INTEGRATION.ACTION_DISABLED", 403, "Unsupported"],
  ["INTEGRATION.SETUP_SYNC_PENDING", 409, "NotReady"],
  ["INTEGRATION.SETUP_SYNC_PENDING", 503, "NotReady"],
  ["INTEGRATION.SETUP_INCOMPLETE", 409, "NotReady"],
  ["INTEGRATION.QA_FAILED", 409, "NotReady"],
  ["INTEGRATION.INACTIVE", 400, "Inactive"],
  ["INTEGRATION.AUTHENTICATION_INVALID", 401, "Inactive"],
  ["PLATFORM.INTEGRATION_NOT_FOUND", 404, "Inactive"],
  ["PLATFORM.INPUT_INVALID", 400, "Rejected"],
  ["REMOTE.INPUT_INVALID", 400, "Rejected"],
  ["ATS.JOB_CLOSED", 400, "Rejected"],
  ["ATS.APPLICATION_ALREADY_EXISTS", 400, "Rejected"],
  ["HRIS.EMPLOYEE_ALREADY_EXISTS", 400, "Rejected"],
  ["HRIS.STAFFING_ENTITY_CLOSED", 400, "Rejected"]
]

const byStatus: ReadonlyArray<readonly [status: number, expected: ErrorClass]> = [
  [400, "Rejected"],
  [401, "Unauthorized"],
  [403, "Forbidden"],
  [404, "Unsupported"],
  [405, "Unsupported"],
  [408, "Transient"],
  [409, "NotReady"],
  [410, "Rejected"],
  [413, "Rejected"],
  [422, "Rejected"],
  [425, "Transient"],
  [429, "RateLimited"],
  [500, "Transient"],
  [501, "Unsupported"],
  [502, "Transient"],
  [503, "Transient"],
  [504, "Transient"],
  [599, "Transient"]
]

describe("classifyError", () => {
  it.each(byCode)("code %s with status %i means %s (C1–C5)", (code, status, expected) => {
    assert.strictEqual(classifyError({ status, code }), expected)
  })

  it.each(byStatus)("without a known code, status %i means %s", (status, expected) => {
    assert.strictEqual(classifyError({ status, code: null }), expected)
    assert.strictEqual(classifyError({ status, code: "PLATFORM.SOMETHING_NEW" }), expected)
    assert.strictEqual(classifyError({ status, code: "toString" }), expected)
  })

  it("a known code beats the status", () => {
    assert.strictEqual(classifyError({ status: 500, code: "PLATFORM.RATE_LIMIT_EXCEEDED" }), "RateLimited")
  })
})

describe("the error envelope", () => {
  it("has four keys, and all except `message` may be null (U26)", () => {
    const fits = (error: unknown) =>
      Schema.decodeUnknownOption(ErrorEnvelope)({ status: "error", error })._tag === "Some"
    assert.isTrue(fits({ code: null, title: null, message: "no", log_url: null }))
    assert.isFalse(fits({ code: null, title: null, message: null, log_url: null }))
    assert.isFalse(fits({ code: null, title: null, message: "no" }))
  })
})
