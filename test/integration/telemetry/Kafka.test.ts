/** The trace of a change in Kafka: the span of the relay, and the headers of the messages, read with kcat. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import * as Events from "../../../src/events/Events.ts"
import { Broker, layer as broker, missing as noBroker } from "../kafka/Broker.ts"
import * as Kcat from "../kafka/Kcat.ts"
import { named, traced } from "./Traced.ts"

const missing = noBroker ?? Kcat.missing

/** Runs a service until the tag that the test created is published; returns the message and the spans. */
const published = Effect.fnUntraced(function*(topic: string) {
  const { brokers } = yield* Broker
  const kafka = { KAFKA_BROKERS: brokers.join(","), ROLLCALL_TOPIC: topic }
  const { spans, tag } = yield* Effect.promise(() =>
    traced(async ({ collector, createTag, service }) => {
      const running = service(kafka)
      await running.says(/backfill complete/, "stderr")
      const tag = await createTag()
      await running.says(/written/)
      // the relay publishes on its own time
      await collector.until(({ spans }) =>
        named(spans, "commit").some(({ attributes, spanId }) =>
          attributes["rollcall.events"] === 1 &&
          named(spans, "relay").some(({ parentSpanId }) => parentSpanId === spanId)
        )
      )
      await running.stop()
      return { spans: collector.spans, tag }
    })
  )
  const messages = yield* Kcat.read(brokers, topic)
  const message = messages.find(({ key }) => key.endsWith(`/${tag}`))
  assert.isDefined(message)
  return { message: message!, messages, spans }
})

describe.skipIf(missing !== null)(`traces in Kafka${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  layer(broker, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
    it.effect(
      "a message names the span that stored its event, and the relay's span continues that trace",
      () =>
        Effect.gen(function*() {
          const { message, messages, spans } = yield* published(`traced-${randomUUID()}`)
          const commit = named(spans, "commit").find(({ attributes }) => attributes["rollcall.events"] === 1)
          const traceparent = `00-${commit?.traceId}-${commit?.spanId}-01`
          assert.deepInclude(message.headers, { ce_traceparent: traceparent, traceparent })
          const relay = named(spans, "relay").find(({ traceId }) => traceId === commit?.traceId)
          assert.strictEqual(relay?.parentSpanId, commit?.spanId)
          assert.strictEqual(relay?.kind, 4)
          assert.strictEqual(relay?.attributes["rollcall.events"], 1)
          const write = named(spans, "write")[0]
          assert.strictEqual(write?.traceId, commit?.traceId)
          // official libraries read it
          assert.strictEqual(Kcat.cloudEvent(message)["traceparent"], traceparent)
          assert.strictEqual(Events.fromKafka({ ...message, value: message.payload }).traceparent, traceparent)
          // the records of one page have one trace
          const backfilled = messages.filter(({ payload }) => payload?.includes(`"origin":"backfill"`))
          assert.strictEqual(new Set(backfilled.map(({ headers }) => headers["traceparent"])).size, 1)
        })
    )
  })
})
