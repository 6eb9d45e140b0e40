import { assert, describe, it } from "@effect/vitest"
import { isBrokerStarting, toSinkError } from "../../../src/publish/kafka/KafkaErrors.ts"

/** As kafkajs throws it when it gave up: the broker's error is the cause. */
const wrapped = (inner: Record<string, unknown>) =>
  Object.assign(new Error("retries exceeded"), { name: "KafkaJSNumberOfRetriesExceeded", cause: inner })

const reasonOf = (error: unknown) => {
  const fault = toSinkError("publishing", error)
  return fault._tag === "BatchTooLarge" ? fault._tag : fault.reason._tag
}

describe("KafkaFault", () => {
  it("X15: a newer producer is told from all else, also by the code that kafkajs has no name for", () => {
    assert.strictEqual(reasonOf(wrapped({ type: "INVALID_PRODUCER_EPOCH" })), "Fenced")
    assert.strictEqual(reasonOf(wrapped({ type: "KAFKAJS_UNKNOWN_ERROR_CODE", code: 90 })), "Fenced")
  })

  it("missing permission, wrong credentials and impossible topics are refused, each with what to do", () => {
    for (
      const [error, hint] of [
        [wrapped({ type: "TOPIC_AUTHORIZATION_FAILED" }), "give this principal"],
        [wrapped({ name: "KafkaJSSASLAuthenticationError" }), "KAFKA_SASL_PASSWORD"],
        [{ name: "KafkaJSAggregateError", errors: [{ type: "INVALID_REPLICATION_FACTOR" }] }, "ROLLCALL_TOPIC"],
        [wrapped({ type: "UNSUPPORTED_VERSION" }), "ROLLCALL_KAFKA_TRANSACTIONS=off"]
      ] as const
    ) {
      const fault = toSinkError("opening", error)
      assert.isTrue(fault._tag === "SinkError" && fault.reason._tag === "Refused")
      assert.include(fault.message, hint)
    }
  })

  it("K1: a batch that is too large is no outage", () => {
    assert.strictEqual(reasonOf(wrapped({ type: "MESSAGE_TOO_LARGE" })), "BatchTooLarge")
  })

  it("X10: whatever else happens counts as away, circular causes and non-errors too", () => {
    const circular: Record<string, unknown> = { name: "KafkaJSError" }
    circular.cause = circular
    for (const error of [new Error("boom"), circular, "text", null, undefined]) {
      assert.strictEqual(reasonOf(error), "Unreachable")
    }
  })

  it("a broker that is still starting is told from one that is away", () => {
    assert.isTrue(isBrokerStarting(toSinkError("reading", wrapped({ type: "GROUP_LOAD_IN_PROGRESS" }))))
    assert.isFalse(isBrokerStarting(toSinkError("reading", new Error("connect ECONNREFUSED"))))
  })
})
