import { assert, describe, it } from "@effect/vitest"
import {
  MultipleErrors,
  NetworkError,
  ProtocolError,
  type protocolErrors,
  UnsupportedApiError
} from "@platformatic/kafka"
import { isBatchTooLarge, isBrokerStarting, toSinkError } from "./KafkaErrors.ts"

/** The error that kafkajs throws after its last retry: the broker's error is the cause. */
const wrapped = (inner: Record<string, unknown>) =>
  Object.assign(new Error("retries exceeded"), { name: "KafkaJSNumberOfRetriesExceeded", cause: inner })

/** An error of @platformatic/kafka: the broker's errors are in the list of a response's errors. */
const inResponse = (...ids: ReadonlyArray<keyof typeof protocolErrors>) =>
  new MultipleErrors("produce failed 1 times.", [
    new MultipleErrors("Received response with error", ids.map((id) => new ProtocolError(id)))
  ])

const reasonOf = (error: unknown) => toSinkError("publishing", error).reason._tag

describe("KafkaErrors", () => {
  it("an error caused by a newer producer means Fenced, even if kafkajs does not know the code's name (X15)", () => {
    assert.strictEqual(reasonOf(wrapped({ type: "INVALID_PRODUCER_EPOCH" })), "Fenced")
    assert.strictEqual(reasonOf(wrapped({ type: "KAFKAJS_UNKNOWN_ERROR_CODE", code: 90 })), "Fenced")
    assert.strictEqual(reasonOf(inResponse("INVALID_PRODUCER_EPOCH")), "Fenced")
    assert.strictEqual(reasonOf(inResponse("NOT_LEADER_OR_FOLLOWER", "PRODUCER_FENCED")), "Fenced")
  })

  it("missing permissions, wrong credentials and invalid topics mean Refused, with a hint for each", () => {
    for (
      const [error, hint] of [
        [wrapped({ type: "TOPIC_AUTHORIZATION_FAILED" }), "grant this principal"],
        [wrapped({ name: "KafkaJSSASLAuthenticationError" }), "KAFKA_SASL_PASSWORD"],
        [{ name: "KafkaJSAggregateError", errors: [{ type: "INVALID_TOPIC_EXCEPTION" }] }, "ROLLCALL_TOPIC"],
        [wrapped({ type: "INVALID_REPLICATION_FACTOR" }), "kafka.replicationFactor"],
        [wrapped({ type: "UNSUPPORTED_VERSION" }), "ROLLCALL_KAFKA_TRANSACTIONS=off"],
        [inResponse("TOPIC_AUTHORIZATION_FAILED"), "grant this principal"],
        [new NetworkError("failed", { cause: inResponse("SASL_AUTHENTICATION_FAILED") }), "KAFKA_SASL_PASSWORD"],
        [new UnsupportedApiError("Produce version 8"), "kafka.driver"]
      ] as const
    ) {
      const fault = toSinkError("opening", error)
      assert.strictEqual(fault.reason._tag, "Refused")
      assert.include(fault.message, hint)
    }
  })

  it("a batch that is too large is distinguished from a broker that is unavailable (K1)", () => {
    const isTooLarge = (error: unknown) => {
      const { reason } = toSinkError("publishing", error)
      return reason._tag === "Unreachable" && isBatchTooLarge(reason)
    }
    assert.isTrue(isTooLarge(wrapped({ type: "MESSAGE_TOO_LARGE" })))
    assert.isTrue(isTooLarge(wrapped({ type: "RECORD_LIST_TOO_LARGE" })))
    assert.isTrue(isTooLarge(inResponse("MESSAGE_TOO_LARGE")))
    assert.isFalse(isTooLarge(new Error("connect ECONNREFUSED")))
  })

  it("every other error means Unreachable, including circular causes and values that are not errors (X10)", () => {
    const circular: Record<string, unknown> = { name: "KafkaJSError" }
    circular.cause = circular
    for (const error of [new Error("boom"), circular, "text", null, undefined]) {
      assert.strictEqual(reasonOf(error), "Unreachable")
    }
  })

  it("a broker that is still starting is distinguished from one that is unavailable", () => {
    assert.isTrue(isBrokerStarting(toSinkError("reading", wrapped({ type: "GROUP_LOAD_IN_PROGRESS" }))))
    assert.isFalse(isBrokerStarting(toSinkError("reading", new Error("connect ECONNREFUSED"))))
  })
})
