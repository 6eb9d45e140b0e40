import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import { Permanent } from "../../plugin/Failure.ts"
import { failureOf } from "./AttemptFailure.ts"

const email: string = "jane@example.com"
const missing: any = undefined
const job: any = { name: "Jane" }
const withoutNew: any = Permanent

const throwing = {
  get: () => {
    throw new Error(email)
  }
}

const revokedProxy = (): unknown => {
  const { proxy, revoke } = Proxy.revocable(new Error("x"), {})
  revoke()
  return proxy
}

/** The message that is stored for an attempt whose handler ran this code. */
const messageOf = (code: () => unknown): string => {
  try {
    code()
  } catch (error) {
    return failureOf(Cause.die(error), Duration.seconds(30), 0).message
  }
  throw new Error("the code threw nothing")
}

describe("the message of a thrown error", () => {
  for (
    const [message, code] of [
      ["TypeError: job.map is not a function", () => job.map()],
      ["TypeError: job[email] is not a function", () => job[email]()],
      ["TypeError: job is not iterable", () => [...job]],
      ["TypeError: Cannot read properties of undefined", () => missing.manager],
      ["TypeError: Cannot set properties of undefined", () => (missing.manager = job)],
      ["TypeError: Cannot convert undefined or null to object", () => Object.keys(missing)],
      ["TypeError: Class constructor Permanent cannot be invoked without 'new'", () => withoutNew("no")],
      ["ReferenceError: applicant is not defined", () => new Function("return applicant")()]
    ] as const
  ) {
    it(`shows the expression of the code: ${message}`, () => {
      assert.match(messageOf(code), new RegExp(`^${message.replace(/[[\].]/g, "\\$&")} at \\S+:\\d+:\\d+$`))
    })
  }

  for (
    const [name, code] of Object.entries<() => unknown>({
      "the name of a property that is read": () => missing[email],
      "the name of a property that is set": () => (missing[email] = 1),
      "the name of a new property of a string": () => (job.name[email] = 1),
      "an argument that is not a function": () => Object.groupBy([job], job.name),
      "an argument that is not a constructor": () => Reflect.construct(job.name, []),
      "the operands of in": () => email in job.name,
      "an argument of a function of Node.js": () => Buffer.alloc(email as never),
      "the name of a property that is defined": () => Object.defineProperty(Object.freeze({}), email, { value: 1 }),
      "an address that is not a URL": () => new Request(email),
      "the message of another error": () => {
        throw new Error(`${email} is not a function`)
      },
      "a message of its own": () => {
        throw new TypeError(`no manager for ${email}`)
      },
      "a message that ends like a place in the code": () => {
        throw new Error(`no room for ${email} at\n    at ${email}:10:30`)
      }
    })
  ) {
    it(`does not show values, such as ${name} (I11)`, () => {
      const message = messageOf(code)
      assert.notInclude(message, "Jane")
      assert.notInclude(message, "jane")
      assert.match(message, /^\w*Error.* at \S+:\d+:\d+$/)
    })
  }

  it("does not show a time of the message as the place in the code (I11)", () => {
    const error = new Error("the interview cannot start at 2026-03-01T10:20:30")
    assert.match(
      failureOf(Cause.die(error), Duration.seconds(30), 0).message,
      /^Error at AttemptFailure\.test\.ts:\d+:\d+$/
    )
  })

  for (
    const [name, shown] of [
      ["Jane", "Error"],
      ["jane@example.com", "Error"],
      ["AxiosError", "AxiosError"],
      ["TimeoutException", "TimeoutException"]
    ] as const
  ) {
    it(`has the name ${shown} if code gave the error the name ${name} (I11)`, () => {
      const error = Object.assign(new Error("x"), { name })
      assert.match(
        failureOf(Cause.die(error), Duration.seconds(30), 0).message,
        new RegExp(`^${shown} at \\S+:\\d+:\\d+$`)
      )
    })
  }

  it("has the name of the error's class", () => {
    class Missing extends Error {
      override readonly name = "Missing"
    }
    assert.match(failureOf(Cause.die(new Missing()), Duration.seconds(30), 0).message, /^Missing at /)
  })

  it("has no place if the stack is not a text", () => {
    const error = Object.assign(new Error("x"), { stack: null })
    assert.strictEqual(failureOf(Cause.die(error), Duration.seconds(30), 0).message, "Error")
  })

  for (
    const [what, thrown] of Object.entries<unknown>({
      "whose message cannot become a text": Object.assign(new Error("x"), { message: Object.create(null) }),
      "whose message is a symbol": Object.assign(new Error("x"), { message: Symbol("jane") }),
      "whose message throws": Object.defineProperty(new Error("x"), "message", throwing),
      "whose stack throws": Object.defineProperty(new Error("x"), "stack", throwing),
      "whose name throws": Object.defineProperty(new Error("x"), "name", throwing),
      "that is a revoked proxy": revokedProxy()
    })
  ) {
    it(`exists for an error ${what}`, () => {
      const { message, reason } = failureOf(Cause.die(thrown), Duration.seconds(30), 0)
      assert.strictEqual(reason, "Defect")
      assert.strictEqual(message, "the handler threw an error that cannot be read")
    })
  }
})
