/** SIGKILL during a backfill whose list moves before the next process continues: checks the completeness that the service then claims. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Home from "./Home.ts"
import { contentsOf, wholeLog } from "./Lives.ts"
import { keyOf } from "./Oracle.ts"
import { until } from "./Patience.ts"
import { launch, streams } from "./Service.ts"

const stream = (integration: string) => `${integration}/ats.application`

describe(`SIGKILL during a backfill (seed ${Home.seed})`, () => {
  it.live("live and complete_to wait for a pass that no restart interrupted (P9)", () =>
    Effect.gen(function*() {
      const { sandbox, settings } = yield* Home.make({ records: 1_500 })
      const integration = sandbox.integrations[0] ?? ""
      // The list is ordered by `changed_at` and paged by offset: a record that changes or is flagged as deleted moves to its end.
      const read = { ...settings, ROLLCALL_MODELS: "ats.application", ROLLCALL_SWEEP_INTERVAL: "1 hour" }
      const expected = new Set(
        [...contentsOf(sandbox, ["ats.application"])].flatMap(([key]) => key.startsWith(`${integration}/`) ? [key] : [])
      )
      assert.isAbove(expected.size, 1_000)
      const viewOf = (url: string) =>
        Effect.map(streams(url), (views) => views.find((view) => view.stream === stream(integration)))

      yield* sandbox.setFaults({ faults: [{ kind: "delay", probability: 1, delay: 300 }] })
      const first = yield* launch(read)
      const url = yield* first.url
      yield* Effect.repeat(viewOf(url), {
        until: (view) => (view?.progress?.pages ?? 0) >= 2,
        schedule: Schedule.spaced("10 millis"),
        times: 2_000
      })
      yield* first.end("SIGKILL")
      const before = [...sandbox.world.truth(integration, "ats.application").keys()].slice(0, 200)
      for (const id of before.slice(0, 60)) {
        yield* sandbox.mutate({ op: "delete", integration, model: "ats.application", id, flag: true })
        expected.delete(keyOf({ integration, model: "ats.application", id }))
      }
      yield* sandbox.setFaults({})

      const second = yield* launch(read)
      const secondUrl = yield* second.url
      yield* until(
        "the stream to be live",
        viewOf(secondUrl),
        (view) => view?.phase === "live" || view?.complete_to != null
      )
      const known = new Set((yield* wholeLog(secondUrl)).events.map(({ data }) => keyOf(data)))
      assert.deepStrictEqual([...expected].filter((key) => !known.has(key)).length, 0)
      assert.strictEqual(yield* second.end("SIGTERM"), 0)
    }))
})
