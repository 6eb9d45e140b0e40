import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { join } from "node:path"
import { Broker, layer as broker, missing as noBroker } from "../kafka/Broker.ts"
import * as Kcat from "../kafka/Kcat.ts"
import { inDirectory } from "./Program.ts"

const models = ["ats.application", "ats.candidate", "ats.tag"]

const missing = noBroker ?? Kcat.missing

describe.skipIf(missing !== null)(`start with Kafka${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  layer(broker, { excludeTestServices: true, timeout: "5 minutes" })((it) => {
    it.effect("--once ends after every event of the log is in Kafka exactly once", () =>
      Effect.gen(function*() {
        const { brokers } = yield* Broker
        const { code, events, stderr } = yield* Effect.promise(() =>
          inDirectory(async (directory, start, serve) => {
            const { integrations, key, url } = await serve({ integrations: 1, records: 20, speed: 60 })
            const { code, stderr } = await start(["start", "--once"], {
              ROLLCALL_API_URL: url,
              ROLLCALL_API_KEY: key,
              ROLLCALL_INTEGRATIONS: integrations.join(","),
              ROLLCALL_MODELS: models.join(","),
              ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
              ROLLCALL_TOPIC: "cli.{model}",
              KAFKA_BROKERS: brokers.join(",")
            }).ended
            const last = stderr.trim().split("\n").map((line) => JSON.parse(line)).find((line) => "events" in line)
            return { code, stderr, events: last?.events }
          })
        )
        assert.strictEqual(code, 0, stderr)
        const topics = yield* Effect.forEach(models, (model) => Kcat.read(brokers, `cli.${model}`))
        topics.forEach((messages, index) => {
          assert.isAbove(messages.length, 0)
          assert.isTrue(messages.every(({ key }) => key?.includes(`/${models[index]}/`)))
        })
        const messages = topics.flat()
        assert.strictEqual(messages.length, events)
        assert.strictEqual(new Set(messages.map((message) => message.headers.ce_id)).size, events)
      }), 180_000)
  })
})
