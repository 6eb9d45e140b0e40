import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import { noHooks } from "../../test/support/source/Doubles.ts"
import { finished, limited, refusal, type Reply, success, withReplies } from "../../test/support/source/Replies.ts"
import { requests, to } from "../../test/support/source/Requests.ts"
import { largestBodyBytes } from "../api/Attachments.ts"
import type { EmployeeForm } from "../api/Forms.ts"
import { type WriteName, writeNames, writes } from "../api/Writes.ts"
import { type Invalid, Source, type WriteError, type WriteRequest } from "./Source.ts"

const write = <W extends WriteName>(request: WriteRequest<W>) =>
  Effect.gen(function*() {
    const source = yield* Source
    return yield* finished(yield* Effect.forkChild(source.write(request, noHooks)))
  })

const errorOf = (exit: Exit.Exit<unknown, WriteError | Invalid>): WriteError | Invalid => {
  const error = Exit.findErrorOption(exit)
  return error._tag === "Some" ? error.value : assert.fail("the write did not fail")
}
const reasonOf = (exit: Exit.Exit<unknown, WriteError | Invalid>) => {
  const error = errorOf(exit)
  return error._tag === "WriteError" ? error.reason : assert.fail(error.message)
}
const faultsOf = (exit: Exit.Exit<unknown, WriteError | Invalid>) => {
  const error = errorOf(exit)
  return error._tag === "Invalid" ? error.faults : assert.fail(error.message)
}

const failure = (code: string, syscall?: string) =>
  Object.assign(new Error(code), { code, ...(syscall && { syscall }) })
const refusedConnection = failure("ECONNREFUSED", "connect")

const tag = requests.addTag
const done: Reply = { body: { status: "success", data: {}, warnings: [] } }

describe("a write whose outcome is known", () => {
  it.effect.each<{ replies: ReadonlyArray<Reply>; why: string }>([
    { why: "a refused connection", replies: [{ failure: refusedConnection }, { failure: refusedConnection }, done] },
    { why: "an unknown host", replies: [{ failure: failure("ENOTFOUND", "getaddrinfo") }, done] },
    {
      why: "a refused connection at each of several addresses",
      replies: [
        {
          failure: Object.assign(new AggregateError([refusedConnection, refusedConnection]), { code: "ECONNREFUSED" })
        },
        done
      ]
    },
    { why: "a rate-limit response", replies: [limited({ "retry-after": "7" }), done] },
    { why: "a concurrency-limit response", replies: [refusal(429, "PLATFORM.CONCURRENCY_LIMIT_EXCEEDED"), done] }
  ])("is sent again after $why (R1)", ({ replies }) => {
    const { layer, sent } = withReplies(...replies)
    return Effect.gen(function*() {
      assert.deepStrictEqual(yield* yield* write(tag), {})
      assert.strictEqual(sent.length, replies.length)
    }).pipe(Effect.provide(layer))
  })

  it.effect.each([
    { code: "ATS.JOB_CLOSED", expected: "JobClosed" },
    { code: "ATS.APPLICATION_ALREADY_EXISTS", expected: "ApplicationAlreadyExists" },
    { code: "HRIS.EMPLOYEE_ALREADY_EXISTS", expected: "EmployeeAlreadyExists" },
    { code: "HRIS.STAFFING_ENTITY_CLOSED", expected: "StaffingEntityClosed" },
    { code: "PLATFORM.INPUT_INVALID", expected: "Rejected" },
    { code: "INTEGRATION.PERMISSION_MISSING", expected: "Forbidden" },
    { code: "INTEGRATION.ACTION_NOT_AVAILABLE", expected: "Unsupported" },
    { code: "INTEGRATION.SETUP_SYNC_PENDING", expected: "NotReady" },
    { code: "INTEGRATION.INACTIVE", expected: "Inactive" },
    { code: "PLATFORM.AUTHENTICATION_INVALID", expected: "Unauthorized" }
  ])("fails with $expected for $code, and is not sent again", ({ code, expected }) => {
    const { layer, sent } = withReplies(refusal(400, code))
    return Effect.gen(function*() {
      const reason = reasonOf(yield* write(tag))
      assert.strictEqual(reason._tag, expected)
      assert.strictEqual(reason.code, code)
      assert.notInclude(reason.message, "Ada")
      assert.strictEqual(sent.length, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("fails with NotSent when every connection is refused", () => {
    const { layer, sent } = withReplies({ failure: refusedConnection })
    return Effect.gen(function*() {
      assert.strictEqual(reasonOf(yield* write(tag))._tag, "NotSent")
      assert.strictEqual(sent.length, 6)
    }).pipe(Effect.provide(layer))
  })

  it.effect("fails with NotSent and sends no request while the circuit is open (R3)", () => {
    const { layer, sent } = withReplies({ failure: refusedConnection })
    return Effect.gen(function*() {
      const source = yield* Source
      yield* finished(
        yield* Effect.forkChild(Effect.all([source.write(tag, noHooks), source.write(tag, noHooks)], {
          concurrency: 2,
          mode: "result"
        }))
      )
      const before = sent.length
      const reason = reasonOf(yield* write(tag))
      assert.strictEqual(sent.length, before)
      assert.deepInclude(reason, { _tag: "NotSent" })
      assert.include(reason.message, "circuit open after")
      assert.include(reason.message, "ECONNREFUSED")
    }).pipe(Effect.provide(layer))
  })
})

const uncertain: ReadonlyArray<Reply & { readonly why: string }> = [
  { why: "an unknown error", ...refusal(500, "PLATFORM.UNKNOWN_ERROR") },
  { why: "a task that timed out", ...refusal(504, "PLATFORM.TASK_TIMED_OUT") },
  { why: "a service that does not respond", ...refusal(503, "REMOTE.SERVICE_UNAVAILABLE") },
  { why: "a gateway's page", status: 502, body: "<html>" },
  { why: "a time-out", silent: true },
  { why: "a connection that broke", failure: failure("ECONNRESET", "read") },
  { why: "an error without a cause", failure: new Error("odd") },
  { why: "an incomplete response", body: '{"status":"succ' },
  { why: "a response of another server", body: "<!doctype html>" },
  { why: "a redirect", status: 302, headers: { location: "/login" } },
  { why: "a path that the API does not have", status: 404, body: "<html>" }
]

describe("a write that may have taken effect", () => {
  it.effect.each(uncertain)("fails with OutcomeUnknown after $why, and is not sent again", (reply) => {
    const { layer, sent } = withReplies(reply)
    return Effect.gen(function*() {
      for (const name of writeNames.filter((name) => writes[name].resolutionPolicy !== "safe")) {
        const before = sent.length
        assert.strictEqual(reasonOf(yield* write(requests[name]))._tag, "OutcomeUnknown", name)
        assert.strictEqual(sent.length, before + 1, name)
      }
    }).pipe(Effect.provide(layer))
  })

  it.effect.each(uncertain)("is sent again after $why if its resolution policy is safe", (reply) => {
    const { layer, sent } = withReplies(reply, { body: { status: "success", data: { id: "1" } } })
    return Effect.gen(function*() {
      for (const name of writeNames.filter((name) => writes[name].resolutionPolicy === "safe")) {
        sent.length = 0
        assert.isTrue(Exit.isSuccess(yield* write(requests[name])), name)
        assert.strictEqual(sent.length, 2, name)
      }
    }).pipe(Effect.provide(layer))
  })
})

describe("a response to a write", () => {
  it.effect.each([{}, { data: null }, { data: {} }, { data: { new_field: 1 } }])(
    "may contain any data if the write has no result: case %#",
    (answer) => {
      const { layer } = withReplies({ body: { status: "success", ...answer } })
      return Effect.gen(function*() {
        assert.deepStrictEqual(yield* yield* write(tag), {})
      }).pipe(Effect.provide(layer))
    }
  )
})

describe("an invalid request is not sent", () => {
  /** Sends the request; returns the violations after checking that nothing was sent. */
  const rejected = <W extends WriteName>(request: WriteRequest<W>) => {
    const { layer, sent } = withReplies(done)
    return Effect.gen(function*() {
      const faults = faultsOf(yield* write(request))
      assert.strictEqual(sent.length, 0)
      return faults
    }).pipe(Effect.provide(layer))
  }
  const pathsAndRules = (faults: Invalid["faults"]) => faults.map(({ path, rule }) => `${path} ${rule}`)
  const rating = (proficiency: number): WriteRequest<"rateSkill"> => ({
    ...requests.rateSkill,
    body: { employee_id: "e", skill_id: "s", rating: { rating_source: "EXTERNAL", proficiency } },
    scale: { type: "NUMERIC", min: 0, max: 5, step: 0.5 }
  })

  it.effect("every violation in a body is reported with its path and without a value (U17, I11)", () =>
    Effect.gen(function*() {
      const body = JSON.parse(
        '{"candidate":{"first_name":4711,"last_name":"Lovelace","availability_date":"tomorrow"},"stage_id":["x"]}'
      )
      const faults = yield* rejected({ ...requests.createApplication, body })
      assert.deepStrictEqual(pathsAndRules(faults), [
        "/body/stage_id shape",
        "/body/candidate/first_name shape",
        "/body/candidate/email_address shape",
        "/body/candidate/availability_date shape"
      ])
      for (const secret of ["4711", "Lovelace", "tomorrow"]) assert.notInclude(JSON.stringify(faults), secret)
    }))

  it.effect.each(["", ".", "..", "\ud800"])(
    "a parameter that would change the path: %j",
    (candidate_id) =>
      Effect.gen(function*() {
        const faults = yield* rejected({ ...tag, params: { candidate_id } })
        assert.deepStrictEqual(pathsAndRules(faults), ["/params/candidate_id shape"])
      })
  )

  it.effect("answers are checked against the form, and each violation has its path (U20)", () =>
    Effect.gen(function*() {
      const properties = { ...requests.createEmployee.body.properties, start_date: "soon", not_in_form: 1 }
      const faults = yield* rejected({ ...requests.createEmployee, body: { properties } })
      assert.deepStrictEqual(pathsAndRules(faults), [
        "/body/properties/start_date type",
        "/body/properties/not_in_form unknown"
      ])
      assert.notInclude(JSON.stringify(faults), "soon")
    }))

  it.effect("a proficiency is checked against the scale if the caller knows the scale (U22)", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(pathsAndRules(yield* rejected(rating(3.2))), ["/body/rating/proficiency scale"])
      const expected: WriteRequest<"expectSkill"> = {
        ...requests.expectSkill,
        body: { skill_id: "s", expected_proficiency: "gold" },
        scale: { type: "SINGLE_SELECT", ordered_options: [{ id: "silver" }] }
      }
      assert.deepStrictEqual(pathsAndRules(yield* rejected(expected)), ["/body/expected_proficiency scale"])
    }))

  it.effect("a proficiency that matches the scale, or is missing, is sent (U22, U25)", () => {
    const { layer, sent } = withReplies({ body: { status: "success", data: { id: "1" } } })
    return Effect.gen(function*() {
      yield* yield* write(rating(3.5))
      const { scale } = rating(1)
      yield* yield* write({ ...requests.expectSkill, body: { skill_id: "s" }, ...(scale && { scale }) })
      assert.strictEqual(sent.length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a body over 32 MiB, even if each of its files is smaller (U23)", () =>
    Effect.gen(function*() {
      const { body, ...request } = requests.createApplication
      const half = { name: "a", content_type: "text/plain", type: "CV", data: "A".repeat(largestBodyBytes / 2) }
      const faults = yield* rejected({ ...request, body: { ...body, attachments: [half, half] } })
      assert.deepStrictEqual(pathsAndRules(faults), ["/body size"])
    }))

  it.effect("a body that is nested too deeply or contains itself", () =>
    Effect.gen(function*() {
      const cycle: Record<string, never> = {}
      Object.assign(cycle, { cycle })
      const faults = yield* rejected({ ...requests.createEmployee, body: { properties: cycle } })
      assert.deepStrictEqual(pathsAndRules(faults), ["/body size"])
    }))

  it.effect("a value whose pattern cannot be matched in linear time is counted and sent unchecked (U21)", () => {
    const { layer, sent } = withReplies({ body: { status: "success", data: { id: "1" } } })
    const lookahead: EmployeeForm = { properties: { name: { type: "text", reg_exp: "(?=A)Ada" } } }
    return Effect.gen(function*() {
      yield* yield* write({ ...requests.createEmployee, form: lookahead, body: { properties: { name: "Bo" } } })
      assert.strictEqual(sent.length, 1)
      const counted = (yield* Metric.snapshot).find(({ id }) => id === "rollcall_form_patterns_unchecked_total")
      assert.propertyVal(counted?.state, "count", 1)
    }).pipe(Effect.provide(layer), Effect.provideService(Metric.MetricRegistry, new Map()))
  })
})

describe("the other reads", () => {
  const readForm = (staffing_entity_id?: string) =>
    Effect.gen(function*() {
      const source = yield* Source
      const reading = source.read({
        ...to,
        read: "employeeForm",
        params: staffing_entity_id === undefined ? {} : { staffing_entity_id },
        priority: "write"
      })
      return yield* finished(yield* Effect.forkChild(reading))
    })

  it.effect("a staffing entity id is checked before it is sent (U14)", () => {
    const { layer, sent } = withReplies(success)
    return Effect.gen(function*() {
      const error = Exit.findErrorOption(yield* readForm("too-short"))
      assert.deepInclude(error, { _tag: "Some" })
      assert.strictEqual(error._tag === "Some" ? error.value._tag : null, "Invalid")
      assert.strictEqual(sent.length, 0)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a form that is too large or nested too deeply is not decoded (U19)", () => {
    const deep = Array.from({ length: 200 }).reduce((inner: object) => ({ type: "array", item_type: inner }), {
      type: "text"
    })
    const large = { type: "text", label: "x".repeat(5_000_000) }
    return Effect.gen(function*() {
      for (const [field, says] of [[deep, "nested deeper than 100"], [large, "larger than the limit"]] as const) {
        const { layer } = withReplies({ body: { status: "success", data: { properties: { field } } } })
        const error = Exit.findErrorOption(yield* readForm().pipe(Effect.provide(layer)))
        assert.include(error._tag === "Some" ? error.value.message : "", says)
      }
    })
  })

  it.effect("is retried like every read, and an unexpected response names the schema", () => {
    const { layer, sent } = withReplies(refusal(502, null), { body: { status: "success", data: { properties: 7 } } })
    return Effect.gen(function*() {
      const error = Exit.findErrorOption(yield* readForm())
      assert.include(
        error._tag === "Some" ? error.value.message : "",
        "the data does not match the schema of employeeForm"
      )
      assert.strictEqual(sent.length, 3)
    }).pipe(Effect.provide(layer))
  })
})

it.effect("the number of writes of one integration is limited by its response headers", () => {
  const { layer, sent } = withReplies({
    ...done,
    headers: { "concurrency-limit": "30", "concurrency-remaining": "0" }
  }, { silent: true })
  return Effect.gen(function*() {
    const source = yield* Source
    yield* write(tag)
    const fibers = yield* Effect.forEach(
      [1, 2, 3],
      () => Effect.forkChild(source.write(tag, noHooks), { startImmediately: true })
    )
    yield* Effect.yieldNow
    assert.strictEqual(sent.length, 2)
    yield* Fiber.interruptAll(fibers)
  }).pipe(Effect.provide(layer))
})
