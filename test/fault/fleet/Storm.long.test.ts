import { assert, describe, layer } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { modelNames } from "../../../src/domain/BuiltInModels.ts"
import * as Broker from "../../integration/kafka/Broker.ts"
import * as Kcat from "../../integration/kafka/Kcat.ts"
import { ownMissing } from "../../integration/postgres/Server.ts"
import { seed } from "../kill/Home.ts"
import { until } from "../kill/Patience.ts"
import * as Storm from "./Storm.ts"

const small: Omit<Storm.Options, "processes"> = {
  integrations: 24,
  models: ["ats.application", "ats.tag", "hris.absence_type"],
  records: 30,
  speed: 600,
  troubles: { kill: 6, stop: 2, freeze: 3, cut: 3, restart: 1 },
  patience: { limit: Duration.minutes(5), every: Duration.millis(200) }
}

/** About an hour: `FLEET=large npx vitest run --project long test/fault/fleet`. */
const large: typeof small = {
  integrations: 300,
  records: 20,
  speed: 60,
  troubles: { kill: 100, stop: 20, freeze: 30, cut: 20, restart: 5 },
  settings: {
    ROLLCALL_INTERVAL: "2 minutes",
    ROLLCALL_SWEEP_INTERVAL: "6 minutes",
    ROLLCALL_CONFIRM_INTERVAL: "5 seconds"
  },
  patience: { limit: Duration.minutes(30), every: Duration.seconds(1) }
}
const size = process.env["FLEET"] === "large" ? large : small
const missing = ownMissing ?? Broker.missing ?? Kcat.missing

describe.skipIf(missing !== null)(
  `three processes that are killed, stopped and frozen, and lose their connections and their database (seed ${seed}${
    missing === null ? "" : `, skipped: ${missing}`
  })`,
  () => {
    layer(Broker.layer, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
      it.effect(
        "lose nothing, publish everything once and in order, and share the work again (X1, X4, X9, X10, X15, I8)",
        () =>
          Effect.gen(function*() {
            const { brokers } = yield* Broker.Broker
            const topic = `fleet-${randomUUID()}`
            const published = Effect.gen(function*() {
              const there = yield* Kcat.topics(brokers)
              const topics = modelNames.map((model) => `${topic}.${model}`).filter((name) => there.has(name))
              return (yield* Effect.forEach(topics, (name) => Kcat.read(brokers, name))).flat()
            })
            const { exitCodes, judged, takeovers } = yield* Storm.run({
              ...size,
              processes: 3,
              settings: { ...size.settings, KAFKA_BROKERS: brokers.join(), ROLLCALL_TOPIC: `${topic}.{model}` }
            }, (events) =>
              Effect.asVoid(
                until("everything to be published", published, (messages) => messages.length >= events.length, {
                  limit: Duration.minutes(2),
                  every: Duration.seconds(1)
                })
              ))
            const { differences, events, oracle } = judged
            assert.deepStrictEqual([differences.slice(0, 5), oracle.breaches.slice(0, 5)], [[], []])
            assert.isAbove(events.length, 500)
            assert.deepStrictEqual(new Set(exitCodes), new Set([0]))
            const messages = yield* published
            const versions = new Map<string, number>()
            for (const { key, payload } of messages) {
              const { version }: { readonly version: number } = JSON.parse(payload ?? "null")
              assert.strictEqual(version, (versions.get(key) ?? 0) + 1, `${key} is out of order, or published twice`)
              versions.set(key, version)
            }
            assert.deepStrictEqual(
              messages.map(({ headers }) => headers["ce_id"]).sort(),
              events.map(({ id }) => id).sort()
            )
            process.stderr.write(`${Storm.describe(takeovers)}\n`)
          }),
        7_200_000
      )
    })
  }
)
