import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ownMissing } from "../../integration/postgres/Server.ts"
import { seed } from "../kill/Home.ts"
import * as Storm from "./Storm.ts"

const troubles = { kill: 8, stop: 3, freeze: 3, cut: 3, restart: 1 }
const missing = ownMissing

describe.skipIf(missing !== null)(
  `three processes that are killed, stopped and frozen, lose their connections and their server (seed ${seed})`,
  () => {
    it.live(
      "lose nothing, publish nothing twice, keep the order, and share the shards again (X1, X9, X10, I8)",
      () =>
        Effect.gen(function*() {
          const { exitCodes, judged, takeovers } = yield* Storm.run({
            processes: 3,
            integrations: 24,
            models: ["ats.application", "ats.tag", "hris.absence_type"],
            troubles,
            speed: 600
          })
          assert.deepStrictEqual([judged.differences.slice(0, 5), judged.oracle.breaches.slice(0, 5)], [[], []])
          assert.isAbove(judged.events.length, 500)
          assert.deepStrictEqual(new Set(exitCodes), new Set([0]))
          process.stderr.write(`${JSON.stringify(takeovers)}\n`)
        }),
      600_000
    )
  }
)
