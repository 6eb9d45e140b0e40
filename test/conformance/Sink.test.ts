/** Every sink; `KafkaSink.long.test.ts` has the other pairs of a driver and a format. */
import { describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as MemorySink from "../support/publish/MemorySink.ts"
import { kafkaSuite } from "./KafkaSink.ts"
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

kafkaSuite("kafkajs", "cloudevents")
kafkaSuite("platformatic", "debezium")
