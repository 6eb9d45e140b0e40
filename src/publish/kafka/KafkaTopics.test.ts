import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type kafkajs from "kafkajs"
import type { KafkaClient } from "./KafkaClient.ts"
import { isBrokerStarting, toSinkError } from "./KafkaErrors.ts"
import { ensureTopics, inspectTopics } from "./KafkaTopics.ts"

/** A cluster of one broker that takes no copies of new topics. */
const refusesCopies = {
  listTopics: async () => [],
  describeCluster: async () => ({ brokers: [{ nodeId: 1, host: "broker", port: 9092 }], controller: 1, clusterId: "" }),
  createTopics: async () => {
    throw Object.assign(new Error("Topic creation errors"), { errors: [{ type: "INVALID_REPLICATION_FACTOR" }] })
  }
} satisfies Partial<kafkajs.Admin>

const client: Pick<KafkaClient, "admin"> = {
  admin: (doing, use) =>
    Effect.tryPromise({
      try: () => use(refusesCopies as Partial<kafkajs.Admin> as kafkajs.Admin),
      catch: (error) => toSinkError(doing, error)
    })
}

describe("a cluster that refuses the copies of a new topic", () => {
  for (
    const [name, replicationFactor, reason, hint] of [
      [
        "is unavailable if it has as many brokers: one of them stops or starts",
        1,
        "Unreachable",
        "stopping or starting"
      ],
      [
        "is unavailable if Rollcall chose the number of copies",
        undefined,
        "Unreachable",
        "set kafka.replicationFactor"
      ],
      ["asks for an operator if it has fewer brokers", 3, "Refused", "lower kafka.replicationFactor"]
    ] as const
  ) {
    it.effect(`${name} (K2, X10)`, () =>
      Effect.gen(function*() {
        const topics = [{ name: "rollcall.ats.tag", keeps: "log", partitions: 6, replicationFactor }] as const
        for (
          const attempt of [Effect.asVoid(ensureTopics(client, topics)), Effect.asVoid(inspectTopics(client, topics))]
        ) {
          const error = yield* Effect.flip(attempt)
          assert.strictEqual(error.reason._tag, reason)
          assert.include(error.message, hint)
          assert.strictEqual(isBrokerStarting(error), reason === "Unreachable")
        }
      }))
  }
})
