import { assert, describe } from "@effect/vitest"
import addFormats from "ajv-formats"
import { Ajv2020 } from "ajv/dist/2020.js"
import { modelNames } from "../../../src/domain/BuiltInModels.ts"
import * as Running from "./Running.ts"

const { ask, stream, served, write } = Running

describe("the schemas over HTTP", () => {
  served(
    "the dataschema of an event leads to the schema of its data, and the model to that of its records",
    function*() {
      yield* stream()
      yield* write("a", `{"id":"a","name":"Remote","colour":3}`)
      const { body: { events: [event] } } = yield* ask("/v1/events")
      const [, name, version] = /^urn:rollcall:schema:(.+):(\d+)$/.exec(event.dataschema) ?? []
      const ajv = new Ajv2020({ strict: false })
      addFormats.default(ajv)
      for (
        const [path, id, value] of [
          [`/schemas/${name}/${version}`, event.dataschema, event.data],
          ["/schemas/ats.tag/1", "urn:rollcall:schema:ats.tag:1", event.data.after]
        ]
      ) {
        const { body, status, type } = yield* ask(path)
        assert.deepStrictEqual([status, type, body.$id], [200, "application/schema+json", id])
        const valid = ajv.compile(body)
        assert.isTrue(valid(value), JSON.stringify(valid.errors))
        assert.isFalse(valid({ ...value, id: 1 }))
      }
    }
  )

  served("every listed schema is at its path, two for each model and one for progress", function*() {
    const { body: { items } } = yield* ask("/schemas")
    assert.strictEqual(items.length, 2 * modelNames.length + 1)
    for (const { id, path } of items) assert.strictEqual((yield* ask(path)).body.$id, id)
  })

  served("an unknown name and a later version are 404 problems, a version that is not a number a 400", function*() {
    for (
      const [path, expected, message] of [
        ["/schemas/ats.tags/1", 404, /GET \/schemas/],
        ["/schemas/ats.tag/2", 404, /only up to version 1:/],
        ["/schemas/ats.tag/one", 400, /version/],
        ["/schemas/ats.tag/0", 400, /version/]
      ] as const
    ) {
      const { body, status, type } = yield* ask(path)
      assert.deepStrictEqual([status, type], [expected, "application/problem+json"], path)
      assert.match(body.detail, message)
    }
  })
})
