import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/testing/TestClock"
import { login, testRegistry } from "../../../test/integration/kafka/TestRegistry.ts"
import * as SchemaRegistry from "./SchemaRegistry.ts"

const topicOf = (topic: string): SchemaRegistry.TopicSchema => ({
  topic,
  schema: () => ({ title: topic, properties: { a: { $ref: "#/$defs/A" } }, $defs: { A: { type: "string" } } })
})
const topics = [topicOf("tags"), topicOf("offers")]

/** A registry, its client, and what the client logs. */
const registered = Effect.gen(function*() {
  const lines: Array<string> = []
  const logger = Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
  const registry = yield* testRegistry
  const client = SchemaRegistry.fromOptions({
    url: registry.url,
    login: { username: login.username, password: Redacted.make(login.password) }
  })
  const register = Effect.provide(client.register(topics), logger)
  yield* register
  const ids = () => topics.map(({ topic }) => client.frame(topic, "").readInt32BE(1))
  return { registry, register, ids, lines }
})

describe("a schema registry", () => {
  it.effect("gets schemas of draft 7, which every registry can compare", () =>
    Effect.gen(function*() {
      const { registry } = yield* registered
      assert.deepStrictEqual(JSON.parse(registry.schemas.get(1)!.schema), {
        $schema: "http://json-schema.org/draft-07/schema#",
        title: "tags",
        properties: { a: { $ref: "#/definitions/A" } },
        definitions: { A: { type: "string" } }
      })
    }))

  it.effect("that lost its schemas is noticed after an hour: later messages have the new ids", () =>
    Effect.gen(function*() {
      const { ids, lines, register, registry } = yield* registered
      assert.deepStrictEqual(ids(), [1, 2])
      registry.schemas.clear()
      registry.schemas.set(1, { schema: "another program's", subjects: new Set(["other-value"]) })
      yield* TestClock.adjust("59 minutes")
      yield* register
      assert.deepStrictEqual(ids(), [1, 2])
      yield* TestClock.adjust("1 minute")
      yield* register
      assert.deepStrictEqual(ids(), [2, 3])
      assert.match(lines.join("\n"), /tags-value the id 2, and 1 before.*\n.*offers-value the id 3, and 2 before/)
    }))

  it.effect("that does not respond after an hour is asked once, and again an hour later", () =>
    Effect.gen(function*() {
      const { ids, lines, register, registry } = yield* registered
      yield* registry.stop
      yield* TestClock.adjust("1 hour")
      yield* register
      yield* register
      assert.deepStrictEqual(ids(), [1, 2])
      assert.lengthOf(lines, 1)
      assert.include(lines[0], "did not respond")
      registry.schemas.clear()
      registry.schemas.set(1, { schema: "another program's", subjects: new Set(["other-value"]) })
      yield* registry.start
      yield* TestClock.adjust("1 hour")
      yield* register
      assert.deepStrictEqual(ids(), [2, 3])
    }))
})
