import { describe, it, layer as suite } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type DriverName, drivers } from "../../src/publish/kafka/driver/Driver.ts"
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
      Effect.sync(() =>
        broker(end).events.flatMap((event, offset) =>
          event.key.startsWith(`${integration}/`) ? [{ ...event, partition: 0, offset }] : []
        )
      ),
    topic: () => MemorySink.topic,
    tooLarge: 1_100_000
  })
})

const missing = Broker.missing ?? Kcat.missing
interface Form {
  readonly driver: DriverName
  readonly format: "cloudevents" | "debezium"
  /** The event's id, and whether the message is a stub; null for a message that is not an event. */
  readonly read: (message: Kcat.Message) => { readonly eventId: string; readonly stub: boolean } | null
}
const forms: ReadonlyArray<Omit<Form, "driver">> = [
  {
    format: "cloudevents",
    read: ({ headers }) => ({ eventId: headers["ce_id"] ?? "", stub: headers["ce_stub"] === "true" })
  },
  {
    format: "debezium",
    read: ({ payload }) => {
      if (payload === null) return null
      const { source } = JSON.parse(payload)
      return { eventId: source.event_id, stub: source.stub === true }
    }
  }
]

for (const { driver, format, read } of drivers.flatMap((driver) => forms.map((form): Form => ({ ...form, driver })))) {
  const template = (end: string) => `conformance-${driver}-${format}-${end}.{integration}.{model}`
  const name = `sink: Kafka, ${driver}, ${format}${missing === null ? "" : ` (skipped: ${missing})`}`
  describe.skipIf(missing !== null)(name, () => {
    suite(Broker.layer, { excludeTestServices: true, timeout: "2 minutes" })((it) => {
      conformance(it, {
        sink: (end) =>
          Effect.map(
            Broker.Broker,
            ({ brokers }) =>
              KafkaSink.layer({ brokers, ssl: false, topic: template(end), format, driver, transactions: true })
          ),
        seen: (end, integration) =>
          Effect.gen(function*() {
            const { brokers } = yield* Broker.Broker
            const messages = yield* Kcat.read(brokers, topicOf(template(end), { integration, model: "ats.tag" }))
            return messages.flatMap((message) => {
              const event = read(message)
              const { key, offset, partition } = message
              return event === null ? [] : [{ key, partition, offset, ...event }]
            })
          }),
        topic: (end, integration) => topicOf(template(end), { integration, model: "ats.tag" }),
        tooLarge: 1_100_000
      })
    })
  })
}
