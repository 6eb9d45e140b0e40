/** The suite of every sink on Kafka, with a driver and a format of the messages. */
import { describe, layer as suite } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { DriverName } from "../../src/publish/kafka/driver/Driver.ts"
import * as KafkaSink from "../../src/publish/kafka/KafkaSink.ts"
import { topicOf } from "../../src/publish/kafka/TopicNames.ts"
import * as Broker from "../integration/kafka/Broker.ts"
import * as Kcat from "../integration/kafka/Kcat.ts"
import { conformance } from "./Sink.ts"

const missing = Broker.missing ?? Kcat.missing

/** By format: the event's id, and whether the message is a stub; null for a message that is not an event. */
const readers = {
  cloudevents: ({ headers }: Kcat.Message) => ({
    eventId: headers["ce_id"] ?? "",
    stub: headers["ce_stub"] === "true"
  }),
  debezium: ({ payload }: Kcat.Message) => {
    if (payload === null) return null
    const { source } = JSON.parse(payload)
    return { eventId: String(source.event_id), stub: source.stub === true }
  }
}

export const kafkaSuite = (driver: DriverName, format: keyof typeof readers): void => {
  const read = readers[format]
  const template = (end: string) => `conformance-${driver}-${format}-${end}.{integration}.{model}`
  const name = `sink: Kafka, ${driver}, ${format}${missing === null ? "" : ` (skipped: ${missing})`}`
  describe.skipIf(missing !== null)(name, () => {
    suite(Broker.layer, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
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
