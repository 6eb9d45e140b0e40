import { assert, describe, layer as withLayer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Broker, controllable, layer } from "./Broker.ts"

describe.skipIf(!controllable)("broker harness", () => {
  withLayer(layer, { excludeTestServices: true, timeout: "2 minutes" })((it) => {
    it.effect("a broker restarts on the same port", () =>
      Effect.gen(function*() {
        const broker = yield* Broker
        yield* broker.stop()
        yield* broker.start
        assert.strictEqual(broker.brokers.length, 1)
      }))
  })
})
