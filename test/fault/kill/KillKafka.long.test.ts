import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { modelNames } from "../../../src/domain/BuiltInModels.ts"
import * as Broker from "../../integration/kafka/Broker.ts"
import * as Kcat from "../../integration/kafka/Kcat.ts"
import { seed } from "./Home.ts"
import * as Lives from "./Lives.ts"
import { keyOf } from "./Oracle.ts"
import { until } from "./Patience.ts"
import { ask } from "./Service.ts"

const kills = 10
const missing = Broker.missing ?? Kcat.missing

const positionIn = (metrics: string): number => Number(/^rollcall_relay_position (\S+)$/m.exec(metrics)?.[1] ?? 0)

/** Waits until the sink holds everything up to a position. */
const relayed = (url: string, newest: string): Effect.Effect<void> =>
  Effect.asVoid(
    until(
      `the relay to reach ${newest}`,
      Effect.map(ask(url, "/metrics"), positionIn),
      (position) => position >= Number(newest.split("-")[2])
    )
  )

describe.skipIf(missing !== null)(
  `SIGKILL at ${kills} random moments while publishing to Kafka (seed ${seed}${
    missing === null ? "" : `, skipped: ${missing}`
  })`,
  () => {
    layer(Broker.layer, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
      it.effect(
        "a read_committed reader sees every event of the log once, in order per record (X4)",
        () =>
          Effect.gen(function*() {
            const { brokers } = yield* Broker.Broker
            const topic = `kill-${randomUUID()}`
            const { events, findings, oracle, pending, world } = yield* Lives.run({
              kills,
              integrations: 1,
              // a relay needs a second to find its resume point
              lifetime: [500, 3000],
              settings: { KAFKA_BROKERS: brokers.join(), ROLLCALL_TOPIC: `${topic}.{model}` }
            }, relayed)
            assert.deepStrictEqual(oracle.breaches.slice(0, 5), [])
            assert.deepStrictEqual(oracle.differences(world, pending).slice(0, 5), [])
            assert.isBelow(findings.notStarted, kills)

            for (const model of modelNames) {
              const messages = yield* Kcat.read(brokers, `${topic}.${model}`)
              const logged = events.filter((event) => event.data.model === model)
              const inLog = new Map(logged.map((event) => [event.id, event]))
              const lastVersions = new Map<string, number>()
              for (const { headers, key, payload } of messages) {
                const event = inLog.get(headers["ce_id"] ?? "")
                assert.isDefined(event, `${key} ${headers["ce_position"]} is not in the log, or is a duplicate`)
                inLog.delete(event.id)
                assert.strictEqual(headers["ce_position"], event.position)
                assert.strictEqual(key, keyOf(event.data))
                assert.deepStrictEqual(JSON.parse(payload ?? "null"), event.data)
                assert.strictEqual(
                  event.data.version,
                  (lastVersions.get(key) ?? 0) + 1,
                  `${headers["ce_position"]} is out of order`
                )
                lastVersions.set(key, event.data.version)
              }
              assert.deepStrictEqual([...inLog.values()].map((event) => event.position), [])
            }
          })
      )
    })
  }
)
