/** Which responses prove that a write had no effect: every status and every code, for each of the twelve writes. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import { noHooks } from "../../test/support/source/Doubles.ts"
import { finished, refusal, type Reply, withKey, withReplies } from "../../test/support/source/Replies.ts"
import { requests } from "../../test/support/source/Requests.ts"
import { errorCodes } from "../api/ErrorClassification.ts"
import { writeNames, writes } from "../api/Writes.ts"
import { Source } from "./Source.ts"

const clientErrors = [400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 412, 413, 414, 415, 417, 418, 421, 422]
const rareErrors = [423, 424, 425, 426, 428, 429, 431, 451, 460, 499]
const serverErrors = [500, 501, 502, 503, 504, 505, 507, 508, 520, 521, 522, 523, 524, 598]
const statuses = clientErrors.concat(rareErrors, serverErrors)

/** Responses with a status and different bodies, none of them with a documented code. */
const withoutProof = (status: number): ReadonlyArray<Reply & { readonly bodyKind: string }> => [
  { bodyKind: "an HTML page", status, headers: { "content-type": "text/html" }, body: "<html>conflict</html>" },
  { bodyKind: "an empty body", status, body: "" },
  { bodyKind: "half an envelope", status, body: '{"status":"error","error":{"code":"PLATFORM.INPUT_INV' },
  { bodyKind: "an envelope without a code", ...refusal(status, null) },
  { bodyKind: "an envelope with an undocumented code", ...refusal(status, "ATS.SOMETHING_NEW") },
  { bodyKind: "a code in another format", ...refusal(status, "conflict") }
]

/** The reason, how many requests were sent, and whether the write succeeded in the end. */
const outcome = Effect.fnUntraced(function*(
  name: (typeof writeNames)[number],
  reply: Reply,
  next: Reply = { body: { status: "success", data: { id: "1" } } }
) {
  const { layer, sent } = withReplies(reply, next)
  return yield* Effect.gen(function*() {
    const source = yield* Source
    const exit = yield* finished(yield* Effect.forkChild(source.write(requests[name], noHooks)))
    const error = Exit.findErrorOption(exit)
    const reason = error._tag === "None" ? "Done" : error.value._tag === "Invalid" ? "Invalid" : error.value.reason._tag
    return { reason, sent: sent.length }
  }).pipe(Effect.provide(layer))
})

const unsafe = writeNames.filter((name) => writes[name].resolutionPolicy !== "safe")

describe("a response to a write that must not be repeated", () => {
  it.effect.each(statuses)(
    "does not prove that nothing was done without a documented code: status %i (L5)",
    (status) =>
      Effect.gen(function*() {
        for (const reply of withoutProof(status)) {
          for (const name of unsafe) {
            assert.deepStrictEqual(
              yield* outcome(name, reply),
              { reason: "OutcomeUnknown", sent: 1 },
              `${name}, ${reply.bodyKind}`
            )
          }
        }
      })
  )

  it.effect.each(Object.entries(errorCodes).map(([code, [errorClass]]) => [code, errorClass] as const))(
    "with code %s proves that nothing was done unless the code is transient, whatever the status: class %s",
    ([code, errorClass]) =>
      Effect.gen(function*() {
        for (const status of [200, 400, 409, 429, 500, 503]) {
          for (const name of unsafe) {
            const { reason, sent } = yield* outcome(name, refusal(status, code))
            if (errorClass === "Transient") {
              assert.deepStrictEqual([reason, sent], ["OutcomeUnknown", 1], `${name}, status ${status}`)
            } else {
              assert.notStrictEqual(reason, "OutcomeUnknown", `${name}, status ${status}`)
              assert.strictEqual(sent, errorClass === "RateLimited" ? 2 : 1, `${name}, status ${status}`)
            }
          }
        }
      })
  )

  it.effect("that rejects the key without a documented code does not cause another attempt with a new key (L5)", () =>
    Effect.gen(function*() {
      let keyReads = 0
      const key = Effect.sync(() => Redacted.make(`key-${++keyReads}`))
      for (
        const [reply, sends] of [[{ status: 401, body: "<html>" }, 1], [
          refusal(401, "PLATFORM.AUTHENTICATION_INVALID"),
          2
        ]] as const
      ) {
        const { layer, sent } = withKey(key, reply)
        yield* Effect.gen(function*() {
          const source = yield* Source
          yield* finished(yield* Effect.forkChild(source.write(requests.createEmployee, noHooks)))
        }).pipe(Effect.provide(layer))
        assert.strictEqual(sent.length, sends)
      }
    }))
})

describe("an answer that is given only in front of the API", () => {
  it.effect.each<Reply>([
    { status: 405, headers: { "x-amzn-waf-action": "captcha" }, body: "" },
    { status: 403, headers: { "cf-mitigated": "challenge" }, body: "<html>" },
    { status: 407, body: "" },
    { status: 511, body: "<html>" }
  ])(
    "proves that nothing was done, so that the write is sent again: status $status",
    (reply) =>
      Effect.gen(function*() {
        for (const name of writeNames) {
          assert.deepStrictEqual(yield* outcome(name, reply), { reason: "Done", sent: 2 }, name)
          const { reason } = yield* outcome(name, reply, reply)
          assert.strictEqual(reason, "NotSent", name)
        }
      })
  )
})

describe("a response to a write that may be repeated", () => {
  it.effect.each(statuses)("is classified by its status: %i", (status) =>
    Effect.gen(function*() {
      for (const name of writeNames.filter((name) => writes[name].resolutionPolicy === "safe")) {
        const { reason } = yield* outcome(name, { status, body: "<html>" })
        assert.notStrictEqual(reason, "OutcomeUnknown", name)
      }
    }))
})
