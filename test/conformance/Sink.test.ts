import { describe, it, layer as suite } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { topicOf } from "../../src/publish/kafka/KafkaMessage.ts"
import * as KafkaSink from "../../src/publish/kafka/KafkaSink.ts"
import * as Broker from "../integration/kafka/Broker.ts"
import * as Kcat from "../integration/kafka/Kcat.ts"
import * as MemorySink from "../support/publish/MemorySink.ts"
import { conformance } from "./Sink.ts"

describe("sink: memory", () => {
  const brokers = new Map<string, MemorySink.MemoryBroker>()
  const broker = (end: string) => {
    const known = brokers.get(end) ?? new MemorySink.MemoryBroker()
    brokers.set(end, known)
    return known
  }
  conformance(it, {
    sink: (end) => Effect.sync(() => MemorySink.layer(broker(end))),
    seen: (end, integration) =>
      Effect.sync(() => broker(end).events.filter((event) => event.key.startsWith(`${integration}/`))),
    tooLarge: 1_100_000
  })
})

const missing = Broker.missing ?? Kcat.missing
const template = (end: string) => `conformance-${end}.{integration}.{model}`

describe.skipIf(missing !== null)(`sink: Kafka${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  suite(Broker.layer, { excludeTestServices: true, timeout: "2 minutes" })((it) => {
    conformance(it, {
      sink: (end) =>
        Effect.map(
          Broker.Broker,
          ({ brokers }) => KafkaSink.layer({ brokers, ssl: false, topic: template(end), transactions: true })
        ),
      seen: (end, integration) =>
        Effect.gen(function*() {
          const { brokers } = yield* Broker.Broker
          const messages = yield* Kcat.read(brokers, topicOf(template(end), { integration, model: "ats.tag" }))
          return messages.map((message) => ({
            key: message.key,
            eventId: message.headers.ce_id ?? "",
            stub: message.headers.ce_stub === "true"
          }))
        }),
      tooLarge: 1_100_000
    })
  })
})
